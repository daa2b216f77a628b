"""Write everything in a pipeline's source as one sorted commit; `hudilab stream` continues from it.

Run `hudilab load NAME`, `python -m hudilab_jobs.load NAME`, or the same file with spark-submit;
NAME is that of a group `pipeline.NAME` in `application_properties.json`. The load is batch 0 of the
stream: if it is killed, either of them writes it again, and the table holds no row twice.
"""

from __future__ import annotations

import typer

from hudilab_jobs import AsJson, PipelineName, RunId, short_errors


@short_errors()
def command(name: PipelineName, as_json: AsJson = False, run_id: RunId = "") -> None:
    """Write everything in a source as one sorted commit; `hudilab stream` continues from it."""
    # Imported here: slow to load, and not needed to show the help.
    from hudilab_jobs.pipelines.runner import opened

    with opened(name, run_id) as pipeline:
        for line in pipeline.write(None, as_json, initial_load=True):
            print(line, flush=True)


if __name__ == "__main__":
    typer.run(command)
