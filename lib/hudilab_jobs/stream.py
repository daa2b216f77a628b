"""Stream your own files, topic or table into a Hudi table, as a group of the settings says.

Run `hudilab stream NAME`, `python -m hudilab_jobs.stream NAME`, or the same file with spark-submit;
NAME is that of a group `pipeline.NAME` in `application_properties.json`. With `--check` the job
reads a sample, shows what it would store, and writes nothing. It deletes nothing: started again, it
resumes from its checkpoint. The table holds each row of the source once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from hudilab_jobs import RunId, as_command

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object a batch.")]
Name = Annotated[str, typer.Argument(help="Of the group pipeline.NAME in the settings.")]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Stream files, a topic or a table into a Hudi table, as a group of the settings says."""

    name: Name
    check: Annotated[
        bool, typer.Option("--check", help="Show what would be stored, and write nothing.")
    ] = False
    available_now: Annotated[bool, typer.Option(help="Write what is there, then exit.")] = False
    trigger_seconds: Annotated[float, typer.Option(help="Seconds between micro-batches.")] = 10.0
    as_json: AsJson = False
    run_id: RunId = ""


def run(options: Options) -> Iterator[str]:
    """Check the pipeline, then run its stream to its end; yield lines about the table.

    Raises:
        LabError: The group, the source, the query or the checkpoint is wrong (checked before
            anything is written), or the stream failed.
    """
    # Imported here: slow to load, and not needed to show the help.
    from hudilab_jobs.pipelines.preview import preview
    from hudilab_jobs.pipelines.running import opened

    trigger = {"processingTime": f"{options.trigger_seconds} seconds"}
    with opened(options.name, options.run_id) as pipeline:
        if options.check:
            yield from preview(pipeline)
        else:
            yield from pipeline.write(None if options.available_now else trigger, options.as_json)


command = as_command(Options, run)

if __name__ == "__main__":
    typer.run(command)
