"""Take a table and its streams' checkpoints back to a savepoint; see `hudilab rewind --help`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from hudilab.errors import PathError, TableError
from hudilab.jobs import one_line

__all__ = ["command", "run"]


def run(
    table: str,
    to: str,
    *,
    checkpoints: Sequence[str] = (),
    dry_run: bool = False,
    stopped: bool = False,
) -> Iterator[str]:
    """Rewind the table at a path or URI; yield a line for it and one for each checkpoint.

    Raises:
        LabError: There is no table, no such savepoint, a checkpoint that is not the table's, or a
            writer that may be alive; raised before anything is written.
    """
    # Imported here: slow to load, and not needed to show the help.
    from hudilab.runtime.places import table_uri
    from hudilab.runtime.session import open_session
    from hudilab.runtime.settings import load_settings
    from hudilab.writer.upkeep.rewind import Rewind

    settings = load_settings()
    uri = table_uri(table, settings, "rewind")
    places = [_checkpoint(one) for one in checkpoints]
    spark = open_session(settings, app="rewind")
    try:
        rewind = Rewind(spark, uri, to, checkpoints=places, stopped=stopped)
        if not dry_run:
            yield from rewind.run()
            return
        yield from rewind.preview()
        try:
            rewind.check_safe()
        except TableError as error:
            yield f"refused now: {error}"
        else:
            yield "safe now"
    finally:
        spark.stop()


def _checkpoint(text: str) -> str:
    from hudilab.paths import rewrite_scheme

    try:
        return rewrite_scheme(text, Path.cwd())
    except PathError:
        raise TableError(
            f"--checkpoint {text!r} is not the place of a checkpoint; give a path, or a file:// or "
            "s3:// URI: hudilab rewind TABLE --to INSTANT --checkpoint URI"
        ) from None


def command(
    table: Annotated[str, typer.Argument(help="A path, or a file://, s3:// or s3a:// URI.")],
    to: Annotated[str, typer.Option(metavar="INSTANT", help="A commit with a savepoint.")],
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(metavar="URI", help="A stream's checkpoint, if not at the usual place."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be taken away, and change nothing.")
    ] = False,
    stopped: Annotated[
        bool,
        typer.Option("--stopped", help="No writer is running; needed if that cannot be seen."),
    ] = False,
) -> None:
    """Take a table and its stream's checkpoint back to a savepoint, together."""
    with one_line():
        lines = run(table, to, checkpoints=checkpoint or (), dry_run=dry_run, stopped=stopped)
        for line in lines:
            print(line, flush=True)
