"""Query the warehouse's tables by name with a statement, or at the prompt of `spark-sql`."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from hudilab.errors import ParameterError, root_cause
from hudilab_cli.row_text import csv_lines, json_lines, print_lines
from hudilab_jobs import command_session, short_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudilab.settings import Settings

SHOWN = 1_000  # rows of a result as a table


@short_errors()
def command(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="Run this statement, and exit.")] = "",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all rows as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per row.")] = False,
    run_id: Annotated[str, typer.Option(help="Read the tables in run-RUN_ID.")] = "",
) -> None:
    """Query the warehouse's tables by name; without a statement, at the prompt of spark-sql."""
    from hudilab_jobs.settings import load_settings

    settings = load_settings()
    names = statements(settings, run_id)
    if not sql and (as_csv or as_json):
        raise ParameterError("--csv and --json need a statement", 'add it: hudilab sql "SELECT 1"')
    if not sql:
        raise typer.Exit(prompt(settings, names))
    with command_session(settings, "sql") as spark:
        rows = run(spark, names, sql)
        if as_csv:
            print_lines(csv_lines(rows))
        elif as_json:
            print_lines(json_lines(rows))
        elif rows.columns:
            print_lines(rows._jdf.showString(SHOWN, 0, False).splitlines())


def statements(settings: Settings, run_id: str = "") -> list[str]:
    """Return the SQL statements that register each table of the warehouse.

    Raises:
        InspectError: The warehouse can't be read.
    """
    from hudi_inspect.store import open_store
    from hudilab.paths import local_path
    from hudilab_spark.warehouse import sql_path

    root = settings.locate(run_id=run_id).table.rsplit("/", 2)[0]
    folder = local_path(root)
    paths = [] if folder and not folder.exists() else open_store(root).tables_below(2)
    lines = []
    for path in paths:
        database, _, table = path.removeprefix(f"{folder or root}/").partition("/")
        if table:
            uri = sql_path(None, f"{root}/{database}/{table}")
            lines += [
                f"CREATE DATABASE IF NOT EXISTS `{database}`",
                f"CREATE TABLE IF NOT EXISTS `{database}`.`{table}` USING hudi LOCATION '{uri}'",
            ]
    database = settings.database_name
    return [*lines, f"CREATE DATABASE IF NOT EXISTS `{database}`", f"USE `{database}`"]


def run(spark: SparkSession, names: list[str], sql: str) -> DataFrame:
    """Register the tables, then run a statement and return its rows."""
    for statement in names:
        try:
            spark.sql(statement)
        except Exception as error:  # noqa: BLE001 - the table is empty or unreadable
            print(f"hudilab: {statement}: {root_cause(str(error))}", file=sys.stderr)
    return spark.sql(sql)


def prompt(settings: Settings, names: list[str]) -> int:
    """Run pyspark's `spark-sql` with the lab's settings until it ends; return its exit code."""
    from hudilab_cli.submit import driver_files
    from hudilab_spark.conf import managed_tables
    from hudilab_spark.environment import take_over
    from hudilab_spark.preflight import check_machine

    check_machine(settings)
    take_over(settings.runtime)
    extra = {
        "spark.sql.catalogImplementation": "in-memory",  # for this prompt only
        "spark.sql.warehouse.dir": str(managed_tables(settings.home, named=False)),
    }
    file, env = driver_files(settings, "sql", ["core"], extra)
    tables = file.with_suffix(".sql")
    tables.write_text(";\n".join([*names, ""]), "utf-8")
    # Ctrl-C ends a statement of the prompt.
    signal.signal(signal.SIGINT, lambda *_: None)
    print(f"hudilab: log {env['HUDILAB_LOG_FILE']}", file=sys.stderr)
    command = [f"{env['SPARK_HOME']}/bin/spark-sql", "--properties-file", str(file)]
    # An unregistered table, such as one without a commit, must not end the prompt.
    command += ["--hiveconf", "hive.cli.errors.ignore=true", "-i", str(tables)]
    return subprocess.run(command, env=env, check=False).returncode
