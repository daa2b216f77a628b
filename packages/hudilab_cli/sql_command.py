"""Query the warehouse's tables by name: at a prompt, or from the command line or a file."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hudilab.errors import ParameterError, TableError
from hudilab_cli.row_text import csv_lines, json_lines, print_lines
from hudilab_jobs import short_errors
from hudilab_jobs.pipelines.status import Status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudilab.settings import Settings

SHOWN = 1_000  # rows of a result as a table
# A text or a name in quotes, a comment, the end of a statement, or anything else.
_PARTS = re.compile(
    r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|`[^`]*`|--[^\n]*|/\*.*?\*/|;|[^'"`;/-]+|.""", re.DOTALL
)
# Hudi's procedures that only read are called show_.
_READS = re.compile(
    r"(?i)(select|with|from|values|table|show|desc|describe|explain|set|reset|use|refresh|cache"
    r"|uncache|clear|\(|create\s+(or\s+replace\s+)?(global\s+)?temp(orary)?\s+view"
    r"|call\s+(\w+\.)*show_)"
)
_WRITES = re.compile("InsertIntoStatement|DeleteFromTable|UpdateTable|MergeIntoTable")


@short_errors()
def command(
    sql: Annotated[
        str,
        typer.Argument(metavar="SQL", help="Run these statements, and exit.", show_default=False),
    ] = "",
    execute: Annotated[
        str, typer.Option("-e", "--execute", metavar="SQL", help="The same as SQL.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Run the statements of a file, and exit.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all rows as CSV.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object per row.")] = False,
    run_id: Annotated[str, typer.Option(help="Read the tables in run-RUN_ID.")] = "",
) -> None:
    """Query the warehouse's tables by name; without statements, at a prompt."""
    from hudilab_jobs.settings import load_settings

    text = _text([text for text in (sql, execute) if text], file)
    settings = load_settings()
    settings.locate(run_id=run_id)  # refuses a wrong run_id before Spark starts
    show = _show_csv if as_csv else _show_json if as_json else _show_table
    from hudilab_spark.session import close_session, open_session

    with Status() as status:
        status.show("starting Spark")
        spark = open_session(settings, app="sql", names=False)
    try:
        tables = Tables(spark, settings, run_id)
        if text is None:
            _prompt(tables, show)
        else:
            statements, rest = split(text)
            for statement in [*statements, rest]:
                _run(tables, statement, show)
    finally:
        close_session(spark)


def split(text: str) -> tuple[list[str], str]:
    """Return the statements that end in a semicolon, and the text after the last of them."""
    statements, parts = [], [""]
    for part in _PARTS.findall(text):
        if part == ";":
            statements.append("".join(parts).strip())
            parts = [""]
        elif not part.startswith(("--", "/*")) or part.startswith("/*+"):  # a hint for Spark
            parts.append(part)
    return [statement for statement in statements if statement], "".join(parts).strip()


class Tables:
    """The warehouse's tables, each registered in SQL when a statement contains its name."""

    def __init__(self, spark: SparkSession, settings: Settings, run_id: str) -> None:
        from hudi_sink.files import file_system

        self.spark, self._created = spark, set[str]()
        root = settings.locate(run_id=run_id).table.rsplit("/", 2)[0]
        fs, path = file_system(spark, f"{root}/*/*/.hoodie")
        folders = [str(each.getPath().getParent().toString()) for each in fs.globStatus(path) or ()]
        places = [f"{root}/{'/'.join(uri.rsplit('/', 2)[1:])}" for uri in folders]
        self.places = {".".join(uri.rsplit("/", 2)[1:]): uri for uri in sorted(places)}
        for database in {settings.database_name, *(name.split(".")[0] for name in self.places)}:
            spark.sql(f"CREATE DATABASE IF NOT EXISTS `{database}`")
        spark.sql(f"USE `{settings.database_name}`")

    def rows(self, statement: str) -> DataFrame:
        """Return the result of a statement that writes nothing.

        Raises:
            ParameterError: It may write, or it is wrong.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from hudilab.errors import root_cause

        session: Any = self.spark._jsparkSession
        try:
            plan = str(session.sessionState().sqlParser().parsePlan(statement).toString())
            # The plan shows what comes after WITH or FROM.
            if not _READS.match(statement) or _WRITES.search(plan):
                raise _writes(statement)
            self._name(statement)
            return self.spark.sql(statement)
        except (Py4JError, PySparkException) as error:
            cause = root_cause(str(error))
            if "TABLE_OR_VIEW_NOT_FOUND" in cause:
                cause = cause.split(". ")[0]
                raise ParameterError(cause, f"use one of: {', '.join(self.places)}") from None
            raise ParameterError(cause, "fix the statement") from None

    def _name(self, statement: str) -> None:
        """Give the tables of a statement their names, and look at their files again."""
        from hudilab_spark.warehouse import sql_path

        every = re.match(r"(?i)show\s+tables", statement)
        for name, uri in self.places.items():
            if not every and not re.search(rf"(?i)\b{name.split('.')[1]}\b", statement):
                continue
            if name in self._created:
                self.spark.catalog.refreshTable(name)
                continue
            try:
                place = sql_path(self.spark, uri)
                quoted = name.replace(".", "`.`")
                self.spark.sql(f"CREATE TABLE `{quoted}` USING hudi LOCATION '{place}'")
                self._created.add(name)
            except TableError as error:
                print(f"hudilab: {error}", file=sys.stderr)
            except Exception as error:  # noqa: BLE001 - a table that Hudi cannot read
                print(f"hudilab: {name} has no name in SQL: {error}"[:300], file=sys.stderr)


def _writes(statement: str) -> ParameterError:
    return ParameterError(
        f"{' '.join(statement.split())[:60]!r} is not a query, and only a table's stream "
        "writes to it",
        "change rows in the stream's source, and the table with: hudilab tidy, hudilab "
        "rewind or hudilab savepoint",
    )


def _text(given: list[str], file: Path | None) -> str | None:
    """Return the statements to run; None for those of a prompt."""
    if len(given) + (file is not None) > 1:
        raise ParameterError(
            "the argument SQL, -e and -f exclude each other", 'give one of them: hudilab sql "SQL"'
        )
    if file is None:
        return given[0] if given else (None if sys.stdin.isatty() else sys.stdin.read())
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"cannot read {file} ({error})", "give a file with SQL") from None


def _run(tables: Tables, statement: str, show: Callable[[DataFrame], None]) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from hudilab.errors import root_cause

    if not statement:
        return
    rows = tables.rows(statement)
    try:
        if rows.columns:
            show(rows)
    except (Py4JError, PySparkException) as error:
        raise ParameterError(root_cause(str(error)), "fix the statement or the table") from None


def _prompt(tables: Tables, show: Callable[[DataFrame], None]) -> None:
    """Read statements until the end of input; an error or Ctrl-C ends only its statement."""
    import readline  # noqa: F401 - gives `input` its history and editing

    names = ", ".join(tables.places) or "none"
    print(f"Tables: {names}. A statement ends with a semicolon, Ctrl-D ends the prompt.")
    for statement in _typed():
        try:
            _run(tables, statement, show)
        except ParameterError as error:
            print(f"hudilab: {error}", file=sys.stderr)
        except KeyboardInterrupt:
            print("cancelled", file=sys.stderr)


def _typed() -> Iterator[str]:
    rest = ""
    while True:
        try:
            rest += input("...> " if rest else "sql> ") + "\n"
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print()
            rest = ""
            continue
        statements, rest = split(rest)
        if rest.lower() in ("quit", "exit"):
            return
        rest += "\n" if rest else ""
        yield from statements


def _show_table(rows: DataFrame) -> None:
    print(rows._jdf.showString(SHOWN, 0, False).rstrip("\n"), flush=True)


def _show_csv(rows: DataFrame) -> None:
    print_lines(csv_lines(rows))


def _show_json(rows: DataFrame) -> None:
    print_lines(json_lines(rows))
