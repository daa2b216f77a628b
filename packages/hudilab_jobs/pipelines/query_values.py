"""Evaluate a pipeline's query in Spark's ANSI mode, which raises an error for inexact values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

ANSI = "spark.sql.ansi.enabled"
SHOWN = 300  # characters of a problem
# Spark's errors about a value, by the class at the beginning of the message.
_FAILED = re.compile(
    r"Spark(?:Arithmetic|ArrayIndexOutOfBounds|DateTime|NumberFormat)Exception: "
    r"|java\.(?:lang\.Arithmetic|time\.DateTime)Exception: "
    r"|(?=\[(?:CAST_|NUMERIC_VALUE_|DIVIDE_BY_|ARITHMETIC_|INVALID_ARRAY_INDEX|CANNOT_PARSE_"
    r"|INVALID_FORMAT|MALFORMED_RECORD_IN_PARSING))"
    r"|\A(?=[^\n]*spark\.sql\.ansi\.enabled)"
)
# The start of Spark's own advice, or of a stack trace.
_END = re.compile(
    r"\s(?:Correct the value as|Use [`']try_|If necessary set |To return NULL instead|Parse Mode:)"
    r"|\n== SQL|\n\t?at |\n\n|\tat |$"
)
_WHERE = re.compile(r"== SQL\(line \d+, position \d+\) ==\n(.*)\n( *)(\^+)")


@contextmanager
def ansi_rules(session: SparkSession) -> Iterator[None]:
    """Analyze queries in ANSI mode, which their expressions keep during evaluation."""
    before = session.conf.get(ANSI)
    session.conf.set(ANSI, "true")
    try:
        yield
    finally:
        session.conf.set(ANSI, str(before))


def value_problem(error: str) -> str:
    """Return a line about the value that a query cannot compute; empty for other errors."""
    if not (failed := _FAILED.search(error)):
        return ""
    message = error[failed.end() :]
    message = re.sub(r"^\[[A-Z_.]+\] ", "", message[: _END.search(message).start()])  # type: ignore[union-attr]
    problem = " ".join(message.split())
    if len(problem) > SHOWN:
        problem = f"{problem[: SHOWN // 2]} ... {problem[-SHOWN // 2 :]}"
    problem = problem.rstrip(".")
    where = _WHERE.search(error)
    expression = where[1][len(where[2]) :][: len(where[3])] if where else ""
    # For some functions, Spark's error contains only the whole query.
    is_named = expression and not expression.upper().startswith("SELECT")
    return f"{expression}: {problem}" if is_named and len(expression) <= SHOWN else problem
