"""The lessons' pipelines as standalone programs, for a terminal and for spark-submit.

May import the ground, the writer, the runtime and the lessons.
Start reading at `sensor_readings.run`; below is what the jobs and the commands on a table share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any, Protocol, TypeVar, get_type_hints

import typer

from hudilab.errors import LabError, TableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


JOBS = ("load", "sensor_readings", "stock_prices", "stream", "tidy")  # those that write to a table
PIPELINE_JOBS = ("load", "stream")  # whose argument is the name of a group `pipeline.NAME`
# The jobs that run until they are stopped, unless one of these options is given.
ENDLESS_WITHOUT = {"stock_prices": ("available_now",), "stream": ("available_now", "check")}

# Options that several commands have.
RunId = Annotated[str, typer.Option(help="Put the tables in run-RUN_ID of the warehouse.")]
TableType = Annotated[str, typer.Option(help="COPY_ON_WRITE or MERGE_ON_READ.")]
AsyncServices = Annotated[
    bool,
    typer.Option(
        "--async-services/--inline-services",
        help="Run table services beside the stream's batches, or in them.",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")
]
Table = Annotated[str, typer.Argument(help="A path, or a file://, s3:// or s3a:// URI.")]

Options = TypeVar("Options")


def as_command(
    options: type[Options], run: Callable[[Options], Iterable[str] | None]
) -> Callable[..., None]:
    """Return the Typer command that makes the options, runs the job and prints each of its lines.

    Args:
        options: A dataclass. Its fields are the command's options, its docstring is the help.
    """

    def command(**values: Any) -> None:
        with one_line():
            for line in run(options(**values)) or ():
                print(line, flush=True)

    # What Typer reads of a function.
    command.__doc__ = options.__doc__
    command.__annotations__ = get_type_hints(options)
    command.__signature__ = signature(options, eval_str=True)  # type: ignore[attr-defined]
    return command


@contextmanager
def one_line() -> Iterator[None]:
    """Turn errors of the lab, Spark and Java into one line on stderr and exit code 1."""
    # Imported here: slow to load, and not needed to name a job.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hudilab.errors import is_full, root_cause

    try:
        yield
    except LabError as error:
        text = str(error)
    except (Py4JError, PySparkException) as error:
        cause = root_cause(str(error))
        remedy = "make room on that disk" if is_full(cause) else "fix the cause"
        text = f"{cause}; {remedy} and start again (see the log for details)"
    except OSError as error:
        if not is_full(str(error)):
            raise
        text = f"{error}; make room on that disk and start again"
    else:
        return
    print(f"hudilab: {text}", file=sys.stderr)
    sys.exit(1)


class TableTask(Protocol):
    """What a command does to one table; each line describes one change."""

    def preview(self) -> Iterable[str]:
        """Return the changes that `run` would make; write nothing."""

    def check_safe(self) -> None:
        """Raise TableError while a writer is alive, or may be."""

    def run(self) -> Iterable[str]:
        """Check that it is safe, then make the changes."""


def run_on_table(
    command: str, table: str, dry_run: bool, task: Callable[[SparkSession, str], TableTask]
) -> Iterator[str]:
    """Open a session, run a task on the table at a path or URI, or preview it; yield its lines.

    Raises:
        LabError: The table is not usable, or the task refuses; raised before anything is written.
    """
    # Imported here: slow to load, and not needed to show the help.
    from hudilab.settings import load_settings
    from hudilab_spark.session import close_session, open_session
    from hudilab_spark.warehouse import table_uri

    settings = load_settings()
    uri = table_uri(table, settings, command)
    spark = open_session(settings, app=command, names=False)
    try:
        work = task(spark, uri)
        if not dry_run:
            yield from work.run()
            return
        yield from work.preview()
        try:
            work.check_safe()
        except TableError as error:
            yield f"refused now: {error}"
        else:
            yield "safe now"
    finally:
        close_session(spark)
