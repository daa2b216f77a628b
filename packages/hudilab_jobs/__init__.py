"""What spark-submit runs: the lessons' pipelines, and `hudilab stream` and `hudilab load`.

Start reading at `sensor_readings.command`; this module has what jobs and commands on a table share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from hudilab.errors import LabError, TableError, is_full, root_cause, show_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hudilab.settings import Settings

# Each job is a module with a function `command`, whose parameters are its options.
JOBS = ("load", "sensor_readings", "stock_prices", "stream", "tidy")  # those that write to a table
PROGRAMS = sorted((*JOBS, "stock_producer"))  # what hudilab submit starts
PIPELINE_JOBS = ("load", "stream")  # whose argument is the name or the file of a pipeline

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
        failure = LabError(str(error), "make room on that disk and start again")
    except Exception as error:
        # By their names: a command's first line must not wait until Spark is loaded.
        if not any(kind.__module__.startswith(("py4j.", "pyspark.")) for kind in type(error).mro()):
            raise
        cause = root_cause(str(error))
        remedy = "make room on that disk" if is_full(cause) else "fix the cause"
        failure = LabError(cause, f"{remedy} and start again (see the log for details)")
    else:
        return
    print(f"hudilab: {failure}", file=sys.stderr)
    sys.exit(1)


@contextmanager
def table_session(command: str, table: str, run_id: str = "") -> Iterator[tuple[SparkSession, str]]:
    """Open a session for a command on one table, yield it with the table's URI, and close it.

    Raises:
        LabError: The table is not in a warehouse of these settings, or there is no session.
    """
    # Imported here: slow to load, and not needed to show the help.
    from hudilab_jobs.settings import find_table

    settings, place = find_table(table, command, run_id)
    from hudilab_spark.warehouse import table_uri

    uri = table_uri(place, settings, command)
    with command_session(settings, command) as spark:
        yield spark, uri


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
    """Return the last line of a dry run: whether `check` would refuse the command now."""
    try:
        check()
    except TableError as error:
        return f"refused now: {error}"
    return "safe now"
