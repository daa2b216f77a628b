"""Write the existing rows of a pipeline's source as a single sorted commit.

Run `hudilab load NAME`, `python -m hudilab_jobs.load NAME`, or the same file with spark-submit;
NAME is the same as for `hudilab stream`. The load is batch 0 of that stream, so if it is killed,
either command writes it again, and the table contains each row once.
"""

from __future__ import annotations

import typer

from hudilab_jobs import AsJson, PipelineName, RunId, short_errors


@short_errors()
def command(name: PipelineName, as_json: AsJson = False, run_id: RunId = "") -> None:
    """Write a whole source as one sorted commit, from which `hudilab stream` continues."""
    # Imported here, because the help doesn't need it.
    from hudilab_jobs.pipelines import command as pipeline

    pipeline.write(name, run_id, as_json=as_json, initial_load=True)


if __name__ == "__main__":
    typer.run(command)
