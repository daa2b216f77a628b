"""List the instants and files of a Hudi table, parsed from file names."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from pyspark.sql import SparkSession

from hudi_inspect.slices import parse_file
from hudi_inspect.store import Entry
from hudi_inspect.timeline import Instant, instants_of
from hudi_sink.files import list_files


def parse_instants(names: Iterable[str]) -> list[Instant]:
    """Parse the file names of `.hoodie/timeline` (layout 2) into instants, oldest first."""
    instants = instants_of([Entry(name, 0, 0.0) for name in names], "", utc=True)
    # A metadata table has instants that are no times.
    return [instant for instant in instants if instant.requested]


def instants(spark: SparkSession, table: str) -> pd.DataFrame:
    """Return the active timeline, oldest first: action, state, requested, completed (UTC)."""
    names = (file.path for file in list_files(spark, f"{table}/.hoodie/timeline"))
    rows = [
        (instant.action, instant.state, instant.requested, instant.completed)
        for instant in parse_instants(names)
    ]
    return pd.DataFrame(rows, columns=["action", "state", "requested", "completed"])


def data_files(spark: SparkSession, table: str) -> pd.DataFrame:
    """Return all slices' files: partition, file_group, kind (base, log), instant, size in bytes."""
    rows = []
    for entry in list_files(spark, table):
        file = parse_file(entry.path)
        if file and not entry.path.endswith(".cdc"):
            kind = "base" if file.is_base else "log"
            rows.append((file.partition, file.group, kind, file.instant, entry.size))
    return pd.DataFrame(rows, columns=["partition", "file_group", "kind", "instant", "size"])
