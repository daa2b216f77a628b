"""Run table services on a Hudi table: compact, cluster, clean, archive; see `hudilab tidy --help`.

Run `hudilab tidy TABLE`, `hudilab submit tidy TABLE`, or `python -m hudilab_jobs.tidy TABLE`. It
can run at the same time as the table's stream, if that has `shared=True`. If you kill a run, the
next run completes its plans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from hudilab.errors import ParameterError
from hudilab_jobs import (
    DryRun,
    TableOrName,
    TableRunId,
    safety,
    short_errors,
    table_session,
)


@short_errors()
def command(  # noqa: PLR0913 - Typer makes an option of each
    table: TableOrName,
    compact: Annotated[
        bool | None,
        typer.Option(
            "--compact/--no-compact",
            help="Merge logs into base files; the default for MERGE_ON_READ.",
        ),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Merge small files; not for bucketed tables.")
    ] = False,
    clean: Annotated[
        bool, typer.Option("--clean", help="Delete files that only old commits need.")
    ] = False,
    archive: Annotated[
        bool, typer.Option("--archive", help="Move old instants to the archived timeline.")
    ] = False,
    dry_run: DryRun = False,
    stopped: Annotated[
        bool,
        typer.Option(
            "--stopped", help="Confirm that no writer is running; needed if writers use no locks."
        ),
    ] = False,
    # By default, Hudi's own number of commits.
    retain: Annotated[int, typer.Option(help="Commits that --clean keeps for time travel.")] = 10,
    lock: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Option of the streams' lock provider, on S3."),
    ] = None,
    run_id: TableRunId = "",
) -> None:
    """Run table services on a Hudi table: compact, cluster, clean, archive."""
    if retain < 1:
        raise ParameterError(
            f"--retain {retain} is less than 1: the newest commit cannot be cleaned",
            "give at least 1: hudilab tidy TABLE --clean --retain 1",
        )
    lock_options = dict(_pair(text) for text in lock or ())
    with table_session("tidy", table, run_id) as (spark, uri):
        from hudi_sink.services import TableServices  # here, because it loads slowly

        services = TableServices(spark, uri, stopped=stopped, lock=lock_options or None)
        if compact is None:
            compact = services.table_type == "MERGE_ON_READ"
        wanted = {"compact": compact, "cluster": cluster, "clean": clean, "archive": archive}
        names = _chosen(wanted, uri, services.table_type)
        services.check(compact=compact, cluster=cluster)
        if dry_run:
            for name in names:
                print(services.preview(name, retain), flush=True)
            print(safety(lambda: services.check_safe(*names)), flush=True)
            return
        services.check_safe(*names)
        runs: dict[str, Callable[[], str]] = {
            "compact": services.compact,
            "cluster": services.cluster,
            "clean": lambda: services.clean(retain),
            "archive": services.archive,
        }
        for name in names:
            print(runs[name](), flush=True)


def _chosen(wanted: Mapping[str, bool], uri: str, table_type: str) -> list[str]:
    """Return the names of the requested services."""
    if names := [name for name, is_wanted in wanted.items() if is_wanted]:
        return names
    raise ParameterError(
        f"nothing to do for {uri}, which is {table_type}",
        f"choose services: hudilab tidy {uri} --cluster --clean --archive",
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise ParameterError(
            f"--lock {text!r} is not NAME=VALUE",
            "write an option of Hudi's lock provider: hudilab tidy TABLE --lock "
            "hoodie.write.lock.provider=CLASS",
        )
    return name, value


if __name__ == "__main__":
    typer.run(command)
