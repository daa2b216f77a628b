"""List the instants and files of a Hudi table, parsed from file names."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import pandas as pd
from pyspark.sql import SparkSession

from hudi_inspect.slices import parse_file as parse_path
from hudi_inspect.store import Entry
from hudi_inspect.timeline import events_of
from hudi_sink.files import list_files


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
    events = events_of([Entry(name, 0, 0.0) for name in names], "", utc=True)
    return [
        Instant(event.action, event.state, event.requested_at, event.completed_at)
        for event in events
        if event.requested_at  # a metadata table has instants that are no times
    ]


def parse_file(path: str, size: int) -> DataFile | None:
    """Parse a data file's path below the table; return None if it is not a data file."""
    file = parse_path(path)
    if file is None or path.endswith(".cdc"):
        return None
    kind = "base" if file.is_base else "log"
    return DataFile(file.partition, file.group, kind, file.instant, size)


def instants(spark: SparkSession, table: str) -> pd.DataFrame:
    """Return the active timeline, oldest first: action, state, requested, completed (UTC)."""
    files = list_files(spark, f"{table}/.hoodie/timeline")
    return pd.DataFrame(parse_instants([file.path for file in files]), columns=Instant._fields)


def data_files(spark: SparkSession, table: str) -> pd.DataFrame:
    """Return all slices' files: partition, file_group, kind (base, log), instant, size in bytes."""
    found = (parse_file(file.path, file.size) for file in list_files(spark, table))
    return pd.DataFrame([file for file in found if file], columns=DataFile._fields)
