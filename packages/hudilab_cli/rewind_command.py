"""Restore a table and its streams' checkpoints to a savepoint; see `hudilab rewind --help`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hudilab.errors import PathError, TableError
from hudilab.paths import rewrite_scheme
from hudilab_jobs import (
    DryRun,
    TableOrName,
    TableRunId,
    safety,
    short_errors,
    table_session,
)


@short_errors()
def command(
    table: TableOrName,
    to: Annotated[str, typer.Option(metavar="SAVEPOINT", help="The savepoint's instant or name.")],
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(metavar="URI", help="A stream's checkpoint, if not at its default location."),
    ] = None,
    dry_run: DryRun = False,
    stopped: Annotated[
        bool,
        typer.Option(
            "--stopped", help="Confirm that no writer is running, if rewind can't detect it."
        ),
    ] = False,
    run_id: TableRunId = "",
) -> None:
    """Set a table and its stream's checkpoint back to a savepoint, together."""
    checkpoints = [_checkpoint(text) for text in checkpoint or ()]
    with table_session("rewind", table, run_id) as (spark, uri):
        from hudi_sink.rewind import Rewind  # here, because it loads slowly
        from hudi_sink.savepoints import Savepoints

        if not to.isdecimal():
            to = Savepoints(spark, uri).find(to).instant
        rewind = Rewind(spark, uri, to, checkpoints=checkpoints, stopped=stopped)
        for line in rewind.preview() if dry_run else rewind.run():
            print(line, flush=True)
        if dry_run:
            print(safety(rewind.check_safe), flush=True)


def _checkpoint(text: str) -> str:
    try:
        return rewrite_scheme(text, Path.cwd())
    except PathError:
        raise TableError(
            f"--checkpoint {text!r} is not the location of a checkpoint",
            "give a path, or a file:// or s3:// URI: hudilab rewind TABLE --to INSTANT "
            "--checkpoint URI",
        ) from None
