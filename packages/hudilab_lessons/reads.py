"""Read a table's past, and refuse cleaned commits, for which Hudi 1.2 may return no rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import pandas as pd
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession

from hudi_inspect import inspect
from hudi_inspect.units import iso
from hudilab.errors import TableError
from hudilab_lessons.timeline import INSTANT, instants


def as_of(spark: SparkSession, table: str, instant: str) -> DataFrame:
    """Return the table as of an instant of the timeline: 17 digits, UTC.

    Raises:
        TableError: Cleaning has deleted files of that time; the remedy contains the oldest
            readable instant.
        InspectError: There is no table.
    """
    if first := _lost(table, instant, incremental=False):
        raise TableError(
            f"{table} cannot be read as of {instant}: cleaning has deleted files of that time",
            f"the oldest instant is {first}: as_of(spark, table, {first!r})",
        )
    return spark.read.format("hudi").option("as.of.instant", instant).load(table)


def changes(spark: SparkSession, table: str, begin: str, end: str = "") -> DataFrame:
    """Return the rows of commits completed after `begin`, and if `end` is given, not after `end`.

    Raises:
        TableError: Cleaning has deleted files of commits after `begin`; the remedy contains the
            earliest start that returns complete results.
        InspectError: There is no table.
    """
    if first := _lost(table, begin, incremental=True):
        raise TableError(
            f"the changes of {table} since {begin} are incomplete: cleaning has deleted files of "
            "later commits",
            f"read the snapshot, then go on: changes(spark, table, {first!r})",
        )
    return spark.read.format("hudi").options(**_incremental(begin, end)).load(table)


def answers(spark: SparkSession, table: str) -> pd.DataFrame:
    """Compare the reads of a table's past for its active commits, numbered from 1.

    The columns are time travel to a commit and the changes of that commit, with Hudi's options and
    with `as_of` and `changes`. The values are numbers of rows as text, "error" or "refused".
    """
    written = [
        row for row in cast(Any, instants(spark, table).itertuples()) if "commit" in str(row.action)
    ]
    ends = [f"{row.completed:%Y%m%d%H%M%S%f}"[:-3] for row in written]
    rows = [
        {
            "time travel": _outcome(_plain, spark, table, {"as.of.instant": end}),
            "as_of()": _outcome(as_of, spark, table, end),
            "incremental": _outcome(_plain, spark, table, _incremental(begin, end)),
            "changes()": _outcome(changes, spark, table, begin, end),
        }
        for begin, end in zip(["20000101000000000", *ends], ends, strict=False)
    ]
    return pd.DataFrame(rows, index=pd.RangeIndex(1, len(rows) + 1, name="commit"))


def _plain(spark: SparkSession, table: str, options: Mapping[str, str]) -> DataFrame:
    return spark.read.format("hudi").options(**options).load(table)


def _outcome(read: Callable[..., DataFrame], *arguments: Any) -> str:
    try:
        return str(read(*arguments).count())
    except TableError:
        return "refused"
    except IllegalArgumentException:
        return "error"


def _incremental(begin: str, end: str = "") -> dict[str, str]:
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": begin,
    }
    return options | ({"hoodie.datasource.read.end.instanttime": end} if end else {})


def _lost(table: str, instant: str, *, incremental: bool) -> str:
    """Return the oldest readable instant if `instant` isn't readable any more, else ""."""
    if not INSTANT.fullmatch(instant):
        raise TableError(
            f"{instant!r} is not an instant: 17 digits, yyyyMMddHHmmssSSS in UTC",
            f"take one from the timeline: hudilab inspect {table}",
        )
    snapshot = inspect(table)
    window, timeline = snapshot.window, snapshot.timeline
    oldest = _digits(window.oldest_incremental if incremental else window.oldest_time_travel)
    if instant >= oldest or not (snapshot.clean_begin or snapshot.cleaned):
        return ""
    if incremental and instant >= min((entry.time for entry in timeline), default=""):
        # Complete if no write was completed between the two.
        ends = [_digits(iso(entry.completed)) for entry in timeline if entry.is_write]
        if not any(instant < end <= oldest for end in ends):
            return ""
    return oldest


def _digits(moment: str | None) -> str:
    return re.sub(r"\D", "", moment or "")
