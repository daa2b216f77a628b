"""Run a pipeline as a command, with a first line, a lock, and a handler for Ctrl-C.

This module doesn't import Spark, which takes seconds to load.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hudilab.errors import ConfigError
from hudilab_jobs.pipelines.lock import stream_lock
from hudilab_jobs.pipelines.status import Status
from hudilab_jobs.settings import checkpoint_of, find_groups, load_pipeline, together
from hudilab_spark.signals import stop_on_signal

if TYPE_CHECKING:
    from hudilab_jobs.groups import Pipeline


def check(name: str, run_id: str, *, accept_select: bool = False) -> None:
    """Print a preview of the rows that a pipeline would store."""
    settings, own = load_pipeline(name)
    sources = _sources(find_groups(settings, own))
    with Status() as status:
        status.print(f"{own} reads {sources}", to_stderr=True)
        status.show("starting Spark")
        from hudilab_jobs.pipelines.runner import opened, preview

        with opened(settings, own, run_id) as pipeline:
            status.show("reading a sample")
            for table in pipeline.tables:
                for line in preview(table, accept_select=accept_select):
                    status.print(line)


def write(
    name: str,
    run_id: str,
    *,
    as_json: bool,
    trigger: Mapping[str, Any] | None = None,
    initial_load: bool = False,
    accept_select: bool = False,
) -> None:
    """Run a pipeline until its end or a signal; print a line for each batch, and a summary.

    `trigger`, `initial_load` and `accept_select` are arguments of `Running.write`.

    Raises:
        LabError: The pipeline is refused or fails, or another process runs it.
    """
    settings, own = load_pipeline(name)
    groups = find_groups(settings, own)
    tables = [settings.locate(group.table_name, run_id=run_id) for group in groups.values()]
    checkpoint = checkpoint_of(settings, own, run_id)
    if own in together(settings) and initial_load:
        raise ConfigError(
            f"{own} runs several pipelines in one query, which an initial load does not support",
            f"run: hudilab stream {own}",
        )
    signals: list[int] = []
    try:
        with (
            stop_on_signal(signals, at_once=True),
            stream_lock(replace(tables[0], checkpoint=checkpoint)),
            Status(is_shown=not as_json) as status,
        ):
            status.print(
                f"{own} reads {_sources(groups)}, writes {', '.join(t.table for t in tables)}, "
                f"and its checkpoint is {checkpoint}",
                to_stderr=True,
            )
            status.show("starting Spark")
            from hudilab_jobs.pipelines.runner import opened

            with opened(settings, own, run_id, with_metrics=True, signals=signals) as pipeline:
                for line in pipeline.write(
                    trigger,
                    as_json,
                    initial_load=initial_load,
                    accept_select=accept_select,
                    signals=signals,
                    show=status.show,
                ):
                    status.print(line)
                status.show("stopping Spark")
    except KeyboardInterrupt:
        print("hudilab: stopped; the stream resumes from its checkpoint", file=sys.stderr)
        sys.exit(128 + (signals or [2])[0])


def _sources(groups: Mapping[str, Pipeline]) -> str:
    return ", ".join(dict.fromkeys(group.source for group in groups.values()))
