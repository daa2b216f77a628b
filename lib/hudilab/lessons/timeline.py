"""List the instants and files of a Hudi table, parsed from file names."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pandas as pd
from pyspark.sql import SparkSession

from hudilab.writer.files import list_files

__all__ = ["DataFile", "Instant", "data_files", "instants", "parse_file", "parse_instants"]

_INSTANT = re.compile(
    r"^(?P<requested>20\d{15})(?:_(?P<completed>20\d{15}))?\.(?P<rest>[a-z]+(?:\.(?:requested|inflight))?)$"
)
_BASE = re.compile(r"^(?P<id>[^_]+)_(?P<token>[\d-]+)_(?P<instant>\d+)\.(?P<kind>parquet)$")
_LOG = re.compile(r"^\.(?P<id>.+)_(?P<instant>\d+)\.(?P<kind>log)\.(?P<version>\d+)_[\d-]+$")


class Instant(NamedTuple):
    """An action on the timeline; times are UTC, `completed` is None until it completes."""

    action: str
    state: str
    requested: datetime
    completed: datetime | None


class DataFile(NamedTuple):
    """A file of a file slice; `kind` is base or log, `size` is in bytes."""

    partition: str
    file_group: str
    kind: str
    instant: str
    size: int


def parse_instants(names: list[str]) -> list[Instant]:
    """Parse the file names of `.hoodie/timeline` (layout 2) into instants, oldest first."""
    latest: dict[tuple[str, bool], tuple[int, Instant]] = {}
    for name in names:
        match = _INSTANT.match(name)
        if match is None:
            continue
        requested, completed = match["requested"], match["completed"]
        action, _, step = match["rest"].partition(".")
        if action == "inflight":  # a COPY_ON_WRITE commit's second file has no action in its name
            action, step = "commit", "inflight"
        rank, state = {"requested": (0, "REQUESTED"), "inflight": (1, "INFLIGHT")}.get(
            step, (2, "COMPLETED")
        )
        key = requested, action == "savepoint"  # a savepoint has the time of the commit it keeps
        known = latest.get(key)
        if known is None or known[0] < rank:
            when = _moment(completed) if completed else None
            latest[key] = rank, Instant(action, state, _moment(requested), when)
    return [instant for _, (_, instant) in sorted(latest.items())]


def parse_file(path: str, size: int) -> DataFile | None:
    """Parse a data file's path below the table; return None if it is not a data file."""
    partition, _, name = path.rpartition("/")
    match = _BASE.match(name) or _LOG.match(name)
    if match is None or path.startswith(".hoodie/"):
        return None
    kind = "base" if match["kind"] == "parquet" else "log"
    return DataFile(partition, match["id"], kind, match["instant"], size)


def instants(spark: SparkSession, table: str) -> pd.DataFrame:
    """Return the active timeline, oldest first: action, state, requested, completed (UTC)."""
    files = list_files(spark, f"{table}/.hoodie/timeline")
    return pd.DataFrame(parse_instants([file.path for file in files]), columns=Instant._fields)


def data_files(spark: SparkSession, table: str) -> pd.DataFrame:
    """Return all slices' files: partition, file_group, kind (base, log), instant, size in bytes."""
    rows: list[Any] = [parse_file(file.path, file.size) for file in list_files(spark, table)]
    rows = [row for row in rows if row is not None]
    return pd.DataFrame(rows, columns=DataFile._fields)


def _moment(text: str) -> datetime:
    whole = datetime.strptime(text[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return whole + timedelta(milliseconds=int(text[14:]))
