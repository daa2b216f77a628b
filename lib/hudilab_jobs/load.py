"""Write everything in a pipeline's source as one sorted commit; `hudilab stream` continues from it.

Run `hudilab load NAME`, `python -m hudilab_jobs.load NAME`, or the same file with spark-submit;
NAME is that of a group `pipeline.NAME` in `application_properties.json`. The load is batch 0 of the
stream: if it is killed, either of them writes it again, and the table holds no row twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import typer

from hudilab_jobs import RunId, as_command
from hudilab_jobs.stream import AsJson, Name


@dataclass(frozen=True, kw_only=True)
class Options:
    """Write everything in a source as one sorted commit; `hudilab stream` continues from it."""

    name: Name
    as_json: AsJson = False
    run_id: RunId = ""


def run(options: Options) -> Iterator[str]:
    """Check the pipeline, then write batch 0 of its stream; yield lines about the table.

    Raises:
        LabError: The group, the source, the query or the checkpoint is wrong, or keys are not
            unique (checked before anything is written), or the load failed.
    """
    # Imported here: slow to load, and not needed to show the help.
    from hudilab_jobs.pipelines.running import opened

    with opened(options.name, options.run_id) as pipeline:
        yield from pipeline.write(None, options.as_json, first_load=True)


command = as_command(Options, run)

if __name__ == "__main__":
    typer.run(command)
