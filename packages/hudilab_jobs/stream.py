"""Stream your own files, topic or table into a Hudi table, as a group of the settings describes.

Run `hudilab stream NAME`, `python -m hudilab_jobs.stream NAME`, or the same file with spark-submit.
NAME is the name of a file `conf/pipelines/NAME.json` or of a group `pipeline.NAME` in
`application_properties.json`, or the path of such a file. With `--check`, the job previews a sample
and writes nothing. It resumes from its checkpoint, and the table contains each row once.
"""

from __future__ import annotations

from typing import Annotated

import typer

from hudilab_jobs import AsJson, PipelineName, RunId, short_errors


@short_errors()
def command(  # noqa: PLR0913 - the options of a command
    name: PipelineName,
    check: Annotated[
        bool, typer.Option("--check", help="Show what the stream would store, and write nothing.")
    ] = False,
    available_now: Annotated[
        bool, typer.Option(help="Write everything that has arrived, and exit.")
    ] = False,
    trigger_seconds: Annotated[float, typer.Option(help="Seconds between micro-batches.")] = 10.0,
    accept_select: Annotated[
        bool,
        typer.Option("--accept-select", help="Accept a select that has changed."),
    ] = False,
    as_json: AsJson = False,
    run_id: RunId = "",
) -> None:
    """Stream files, a topic or a table into a Hudi table, as conf/pipelines/NAME.json describes."""
    # Imported here, because the help doesn't need it.
    from hudilab_jobs.pipelines import command as pipeline

    if check:
        pipeline.check(name, run_id, accept_select=accept_select)
        return
    trigger = None if available_now else {"processingTime": f"{trigger_seconds} seconds"}
    pipeline.write(name, run_id, as_json=as_json, trigger=trigger, accept_select=accept_select)


if __name__ == "__main__":
    typer.run(command)
