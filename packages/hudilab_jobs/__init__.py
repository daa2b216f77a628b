"""The jobs that spark-submit runs: the lessons' pipelines, `hudilab stream` and `hudilab load`.

This module contains the code that jobs and commands share. Start reading at
`sensor_readings.command`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hudilab.errors import LabError, PathError, TableError, is_full, root_cause, show_log
from hudilab.paths import local_path, rewrite_scheme

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudilab.settings import Settings

# Each job is a module with a function `command`, whose parameters are its options.
JOBS = ("load", "sensor_readings", "stock_prices", "stream", "tidy")  # write to a table
PROGRAMS = sorted((*JOBS, "stock_producer"))  # of hudilab submit
PIPELINE_JOBS = ("load", "stream")  # their argument is the name or the file of a pipeline

# Options that several commands have.
RunId = Annotated[str, typer.Option(help="Put the tables in run-RUN_ID of the warehouse.")]
TableType = Annotated[str, typer.Option(help="COPY_ON_WRITE or MERGE_ON_READ.")]
AsyncServices = Annotated[
    bool,
    typer.Option(
        "--async-services/--inline-services",
        help="Run table services in parallel with batches, or inside them.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
]
TableOrName = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A pipeline's name or file, a path, or a file://, s3:// or s3a:// URI.",
    ),
]
TableRunId = Annotated[
    str, typer.Option(help="For a pipeline: its table in run-RUN_ID of the warehouse.")
]
PipelineName = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The name of a file conf/pipelines/NAME.json or a group pipeline.NAME, or the path "
        "of such a file.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object per batch.")]


@contextmanager
def short_errors() -> Iterator[None]:
    """Turn errors of the lab, Spark and Java into one line on stderr and exit code 1."""
    show_log()
    try:
        yield
    except LabError as error:
        failure = error
    except OSError as error:
        if not is_full(str(error)):
            raise
        failure = LabError(str(error), "free space on that disk and start again")
    except Exception as error:
        # Compared by name, because a command's first line must not wait until Spark is loaded.
        if not any(kind.__module__.startswith(("py4j.", "pyspark.")) for kind in type(error).mro()):
            raise
        cause = root_cause(str(error))
        remedy = "free space on that disk" if is_full(cause) else "fix the cause"
        failure = LabError(cause, f"{remedy} and start again (see the log for details)")
    else:
        return
    print(f"hudilab: {failure}", file=sys.stderr)
    sys.exit(1)


@contextmanager
def table_session(command: str, table: str, run_id: str = "") -> Iterator[tuple[SparkSession, str]]:
    """Open a session for a command on one table, yield it with the table's URI, and close it.

    Raises:
        LabError: The table is outside the settings' warehouse, or Spark doesn't start.
    """
    # Imported here, because it loads slowly and the help doesn't need it.
    from hudilab_jobs.settings import find_table

    settings, path = find_table(table, command, run_id)
    uri = _table_uri(path, settings, command)
    with command_session(settings, command) as spark:
        yield spark, uri


def _table_uri(table: str, settings: Settings, command: str) -> str:
    """Return the URI of a command's table, given as a path or URI.

    Raises:
        TableError: `table` is no path or URI, or it is on S3 with settings for a disk.
        S3Error: The warehouse on S3 is not writable.
    """
    try:
        uri = rewrite_scheme(table, Path.cwd())
    except PathError:
        raise TableError(
            f"{table!r} is not the location of a table",
            f"give a path, or a file:// or s3:// URI: hudilab {command} TABLE",
        ) from None
    if local_path(uri) is None:
        if settings.is_local:
            raise TableError(
                f"{uri} is on S3, but IS_LOCAL is true",
                f"use the settings of that warehouse: IS_LOCAL=false hudilab {command} {uri}",
            )
        from hudilab_spark.s3 import check_warehouse

        check_warehouse(uri.rpartition("/")[0], settings)  # not in the table itself
    return uri


@contextmanager
def command_session(settings: Settings, command: str) -> Iterator[SparkSession]:
    """Open a session without a metastore for a command, and close it."""
    from hudilab_jobs.pipelines.status import Status
    from hudilab_spark.session import close_session, open_session

    with Status() as status:
        status.show("starting Spark")
        spark = open_session(settings, app=command, names=False)
    try:
        yield spark
    finally:
        close_session(spark)


def safety(check: Callable[[], None]) -> str:
    """Return the last line of a dry run: the error that `check` raises now, or "safe now"."""
    try:
        check()
    except TableError as error:
        return f"refused now: {error}"
    return "safe now"
