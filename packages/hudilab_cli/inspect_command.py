"""Inspect a table or a pipeline's table without a JVM; see `hudilab inspect --help`."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Annotated

import typer

from hudi_inspect.cli import HELP, LIMIT, STUCK_AFTER, show
from hudilab.errors import ConfigError
from hudilab_jobs import TableRunId


def command(  # noqa: PLR0913 - the options of hudi-inspect
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A pipeline's name or file, NAME_quarantine, a path, or a file://, s3:// or "
            "s3a:// URI.",
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help=HELP["json"])] = False,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help=HELP["html"])] = None,
    check: Annotated[bool, typer.Option("--check", help=HELP["check"])] = False,
    instant: Annotated[str, typer.Option(metavar="T", help=HELP["instant"])] = "",
    partition: Annotated[str, typer.Option(metavar="PATH", help=HELP["partition"])] = "",
    since: Annotated[str, typer.Option(metavar="T", help=HELP["since"])] = "",
    archived: Annotated[bool, typer.Option("--archived", help=HELP["archived"])] = False,
    count: Annotated[bool, typer.Option("--count", help=HELP["count"])] = False,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help=HELP["limit"], show_default=False)
    ] = LIMIT,
    stuck_after: Annotated[
        int, typer.Option(min=0, metavar="MINUTES", help=HELP["stuck-after"], show_default=False)
    ] = STUCK_AFTER,
    run_id: TableRunId = "",
) -> None:
    """Inspect a table like `hudi-inspect`, and exit with its code."""
    options = Namespace(
        table=table,
        json=as_json,
        html=html,
        check=check,
        instant=instant,
        partition=partition,
        since=since,
        archived=archived,
        count=count,
        limit=limit,
        stuck_after=stuck_after,
    )
    options.table = _place(table, run_id)
    raise typer.Exit(show(options, "hudilab inspect"))


def _place(table: str, run_id: str) -> str:
    """Return the location of a table; load the settings only for a pipeline's name or file."""
    of_pipeline = bool(run_id) or (table.endswith(".json") and Path(table).is_file())
    is_path = "/" in table or ":" in table or Path(table, ".hoodie").is_dir()
    if is_path and not of_pipeline:
        return table
    try:
        from hudilab.settings import project_root
        from hudilab_jobs.settings import find_table
    except ModuleNotFoundError:  # the extra `inspect` alone has no pipelines
        return table
    if not of_pipeline:
        try:
            project_root()
        except ConfigError:  # without a checkout there are no pipelines either
            return table
    return find_table(table, "inspect", run_id)[1]
