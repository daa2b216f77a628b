"""Create, list and delete the savepoints of a table; see `hudilab savepoint --help`."""

from __future__ import annotations

from shlex import quote
from typing import Annotated

import typer

from hudilab.errors import ParameterError, as_typed
from hudilab_jobs import TableOrName, TableRunId, short_errors, table_session


@short_errors()
def command(
    table: TableOrName,
    name: Annotated[str, typer.Option(metavar="TEXT", help="A name for the savepoint.")] = "",
    show: Annotated[bool, typer.Option("--list", help="List the savepoints.")] = False,
    delete: Annotated[
        str, typer.Option(metavar="NAME", help="Delete the savepoint of this name or instant.")
    ] = "",
    run_id: TableRunId = "",
) -> None:
    """Keep the newest commit's files, so that `hudilab rewind` can return to it."""
    if (name != "") + show + (delete != "") > 1:
        raise ParameterError(
            "--name, --list and --delete exclude each other",
            "give one of them: hudilab savepoint TABLE --list",
        )
    with table_session("savepoint", table, run_id) as (spark, uri):
        from hudi_sink.savepoints import Savepoints  # here, because it loads slowly

        savepoints = Savepoints(spark, uri)
        if show:
            print("\n".join(map(str, savepoints.all())) or f"{uri} has no savepoint")
        elif delete:
            print(f"deleted: {savepoints.delete(delete)}")
        else:
            made = savepoints.create(name)
            print(f"savepoint: {made}")
            again = f"{quote(table)} --to {made.instant}" + (
                f" --run-id {run_id}" if run_id else ""
            )
            print(as_typed(f"to return to it: hudilab rewind {again}"))
