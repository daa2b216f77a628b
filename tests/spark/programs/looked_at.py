"""Compare what `inspect` says about a table with what Spark and Hudi's procedures say."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from hudi_inspect import TableSnapshot, inspect
from hudi_inspect.names import Instant
from hudi_inspect.units import iso
from hudilab.generate import sensor_readings

WRITE = "hoodie.datasource.write."
OPERATION = f"{WRITE}operation"
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
DELTAS = "hoodie.compact.inline.max.delta.commits"
_names = count()


@dataclass
class Made:
    """A table made by Spark, and Hudi's procedures for it."""

    spark: SparkSession
    path: Path
    options: dict[str, str]

    def write(self, *rows: int, **options: str) -> None:
        """Write the readings from one number to another."""
        first, last = rows
        readings = sensor_readings(self.spark, last, sensors=3, seed=1, first=first)
        self.save(readings, options)

    def batches(self, *firsts: int, rows: int = 100) -> None:
        """Write a batch of this many readings from each of the first numbers on."""
        for first in firsts:
            self.write(first, first + rows)

    def save(self, rows: DataFrame, options: dict[str, str]) -> None:
        writer = rows.write.format("hudi").options(**self.options | options)
        writer.mode("append").save(str(self.path))

    def call(self, procedure: str, **arguments: Any) -> list[Row]:
        name = f"looked_at_{next(_names)}"
        # Hudi cannot give a table a name whose path has blanks: a copy of its files gets the name.
        location = self.path
        if " " in str(location):
            location = location.parent / name
            shutil.copytree(self.path, location)
        self.spark.catalog.createTable(name, path=str(location), source="hudi")
        given = {"table": f"'{name}'"} | {
            key: str(value).lower() if isinstance(value, bool) else repr(value)
            for key, value in arguments.items()
        }
        shown = ", ".join(f"{key} => {value}" for key, value in given.items())
        return list(self.spark.sql(f"CALL {procedure}({shown})").collect())

    def compact(self, op: str) -> None:
        self.call("run_compaction", op=op, options=f"{DELTAS}=1")

    def read(self, **options: str) -> DataFrame:
        return self.spark.read.format("hudi").options(**options).load(str(self.path))

    def last_commit(self) -> Path:
        """The file of the newest completed write."""
        timeline = self.path / ".hoodie" / "timeline"
        done = [
            file for file in timeline.glob("2*_*") if file.suffix in (".commit", ".deltacommit")
        ]
        return max(done)


def made(
    spark: SparkSession,
    path: Path,
    options: Mapping[str, str] | None = None,
    *,
    mor: bool = False,
    flat: bool = False,
    operation: str = "upsert",
) -> Made:
    """A new table of readings, written with Hudi's own names and not the lab's spec."""
    given = {
        "hoodie.table.name": "readings",
        f"{WRITE}table.type": "MERGE_ON_READ" if mor else "COPY_ON_WRITE",
        f"{WRITE}recordkey.field": "sensor_id,reading_id",
        f"{WRITE}partitionpath.field": "" if flat else "sensor_id",
        f"{WRITE}hive_style_partitioning": "true",
        "hoodie.table.ordering.fields": "measurement_time",
        OPERATION: operation,
        "hoodie.table.timeline.timezone": "UTC",
        "hoodie.compact.inline": "false",
    }
    if flat:
        given[f"{WRITE}keygenerator.class"] = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    return Made(spark, path, given | dict(options or {}))


def raw(moment: str) -> str:
    """An instant of a time as the report has it."""
    return "".join(filter(str.isdigit, moment))


def same(table: Made, location: str = "", *, planned: bool = False) -> TableSnapshot:
    """Assert that each figure is the engine's; return what was found.

    `planned`: a compaction is planned and was written past; only with what is in flight do Hudi's
    procedures then show the logs that its own queries read.
    """
    snapshot = inspect(location or str(table.path))
    timeline = table.call("show_timeline", limit=100_000)
    instants = [(instant.time, instant.action, instant.state) for instant in snapshot.instants]
    # A savepoint has the time of the commit it keeps; which of them is first is chance.
    assert sorted(instants) == sorted((row.instant_time, row.action, row.state) for row in timeline)
    assert [time for time, *_ in instants] == [row.instant_time for row in timeline]
    assert sorted(_commit(instant) for instant in snapshot.instants if instant.commit) == sorted(
        _summary(row, row.action) for row in table.call("show_commits", limit=100_000)
    )
    slices = table.call("show_fsview_latest", limit=1_000_000, include_in_flight=planned)
    assert sorted(
        (s.partition, s.group, s.instant, s.base_bytes, len(s.logs), s.log_bytes)
        for s in snapshot.latest_slices
    ) == sorted(
        (
            row.partition,
            row.file_id,
            row.base_instant,
            row.data_file_size,
            row.num_delta_files,
            row.total_delta_file_size,
        )
        for row in slices
    )
    table_of_snapshot = snapshot.table
    assert table_of_snapshot.file_groups == len(slices)
    assert table_of_snapshot.bytes == sum(
        row.data_file_size + row.total_delta_file_size for row in slices
    )
    rows = table.read()
    assert table_of_snapshot.rows in (None, rows.count())
    # The logs of a COPY_ON_WRITE table hold images of changed rows: they count for nothing.
    logged = table_of_snapshot.type == "MERGE_ON_READ" and any(
        partition.log_bytes for partition in snapshot.partitions
    )
    assert (table_of_snapshot.rows is None) == logged
    assert inspect(location or str(table.path), count=True).table.rows == rows.count()
    assert table_of_snapshot.partitions == rows.select("_hoodie_partition_path").distinct().count()
    if snapshot.archive.folder:
        _same_archive(table, inspect(location or str(table.path), archived=True))
    assert len(snapshot.timeline) == len(timeline)
    return snapshot


def _same_archive(table: Made, snapshot: TableSnapshot) -> None:
    both = [
        (row.instant_time, row.action, row.timeline_type == "ARCHIVED")
        for row in table.call("show_timeline", limit=100_000, showArchived=True)
        if row.timeline_type == "ACTIVE" or row.state == "COMPLETED"
    ]
    assert sorted(
        (instant.time, instant.action, instant.archived) for instant in snapshot.instants
    ) == sorted(both)
    # Without a span, the procedures show the last ten days without the last one.
    span = {"start_ts": "20000101000000000", "end_ts": "29991231235959999", "limit": 1_000_000}
    files = table.call("show_archived_commits_metadata", **span)
    actions = {row.commit_time: row.action for row in files}
    old = [instant for instant in snapshot.archived or () if instant.is_write]
    assert sorted(map(_commit, old)) == sorted(
        _summary(row, actions.get(row.commit_time, ""))
        for row in table.call("show_archived_commits", **span)
    )
    deleted: Counter[str] = Counter()
    for row in files:
        deleted[row.commit_time] += row.num_deletes
    assert {instant.time: instant.rows_deleted for instant in old} == deleted


def _summary(row: Row, action: str) -> tuple[Any, ...]:
    return (
        row.commit_time,
        row.state_transition_time,
        action,
        row.total_records_written,
        row.total_update_records_written,
        row.total_bytes_written,
        row.total_partitions_written,
    )


def _commit(instant: Instant) -> tuple[Any, ...]:
    assert instant.commit is not None
    return (
        instant.time,
        instant.completion_time or raw(iso(instant.completed) or ""),
        instant.action,
        instant.rows_written,
        instant.rows_updated,
        sum(stat.bytes for stat in instant.commit.stats),
        len({stat.partition for stat in instant.commit.stats}),
    )
