"""Take a table and its streams' checkpoints back to a savepoint; see `hudilab rewind --help`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudilab.errors import PathError, TableError
from hudilab.paths import rewrite_scheme
from hudilab_jobs import DryRun, Table, as_command, run_on_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudi_sink.rewind import Rewind


@dataclass(frozen=True, kw_only=True)
class Options:
    """Take a table and its stream's checkpoint back to a savepoint, together."""

    table: Table
    to: Annotated[str, typer.Option(metavar="INSTANT", help="A commit with a savepoint.")]
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(metavar="URI", help="A stream's checkpoint, if not at the usual place."),
    ] = None
    dry_run: DryRun = False
    stopped: Annotated[
        bool, typer.Option("--stopped", help="No writer is running; needed if that cannot be seen.")
    ] = False


def run(options: Options) -> Iterator[str]:
    """Rewind the table; yield a line for it and one for each checkpoint.

    Raises:
        LabError: There is no table, no such savepoint, a checkpoint that is not the table's, or a
            writer that may be alive; raised before anything is written.
    """
    checkpoints = [_checkpoint(text) for text in options.checkpoint or ()]

    def rewind(spark: SparkSession, uri: str) -> Rewind:
        from hudi_sink.rewind import Rewind  # here: slow to load

        stopped = options.stopped
        return Rewind(spark, uri, options.to, checkpoints=checkpoints, stopped=stopped)

    return run_on_table("rewind", options.table, options.dry_run, rewind)


def _checkpoint(text: str) -> str:
    try:
        return rewrite_scheme(text, Path.cwd())
    except PathError:
        raise TableError(
            f"--checkpoint {text!r} is not the place of a checkpoint",
            "give a path, or a file:// or "
            "s3:// URI: hudilab rewind TABLE --to INSTANT --checkpoint URI",
        ) from None


command = as_command(Options, run)
