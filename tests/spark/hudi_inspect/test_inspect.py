"""`hudilab inspect` says of tables that Spark wrote what Spark says of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import DataFrame, Row, SparkSession
from spark.programs.foreign import TABLES, Steps

from hudi_inspect import TableSnapshot, inspect
from hudi_inspect.names import Instant
from hudi_inspect.units import iso
from hudi_sink import ExactlyOnceSink
from hudilab import TableLocation, sensor_stream
from hudilab.generate import readings_table
from hudilab_spark import drain

deep = pytest.mark.deep
UTC = {"hoodie.table.timeline.timezone": "UTC"}
CLEAN = {"hoodie.clean.max.commits": "1", "hoodie.clean.commits.retained": "2"}
ARCHIVE = {"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "6"} | CLEAN
ALL = "limit => 1000000"
DELTAS = "hoodie.compact.inline.max.delta.commits"


def _of(version: int) -> dict[str, str]:
    return {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}


def upserts(table: Steps, *firsts: int) -> None:
    """Write a batch of a hundred rows from each of the first numbers on."""
    for first in firsts:
        table.write("upsert", first, first + 100)


def read(table: Steps, **options: str) -> DataFrame:
    return table.spark.read.format("hudi").options(**options).load(str(table.path))


def last_commit(table: Steps) -> Path:
    """The file of the newest completed write."""
    timeline = table.path / ".hoodie" / "timeline"
    done = [file for file in timeline.glob("2*_*") if file.suffix in (".commit", ".deltacommit")]
    return max(done)


def failing(table: Steps, stuck_after: float = 1.0) -> list[str]:
    health = inspect(str(table.path), stuck_after=stuck_after).health
    return [check.check for check in health if not check.ok]


def raw(moment: str) -> str:
    """An instant of a time as the report has it."""
    return "".join(filter(str.isdigit, moment))


def same(table: Steps, *, planned: bool = False) -> TableSnapshot:
    """Assert that each figure is the engine's; return what was found.

    `planned`: a compaction is planned and was written past; only with what is in flight do Hudi's
    procedures then show the logs that its own queries read.
    """
    snapshot = inspect(str(table.path))
    timeline = table.call("show_timeline")
    instants = [(instant.time, instant.action, instant.state) for instant in snapshot.instants]
    # A savepoint has the time of the commit it keeps; which of them is first is chance.
    assert sorted(instants) == sorted((row.instant_time, row.action, row.state) for row in timeline)
    assert [time for time, *_ in instants] == [row.instant_time for row in timeline]
    assert sorted(_commit(instant) for instant in snapshot.instants if instant.commit) == sorted(
        _summary(row, row.action) for row in table.call("show_commits")
    )
    slices = table.call("show_fsview_latest", f"{ALL}, include_in_flight => {planned}")
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
    rows = read(table)
    assert table_of_snapshot.rows in (None, rows.count())
    # The logs of a COPY_ON_WRITE table hold images of changed rows: they count for nothing.
    logged = table_of_snapshot.type == "MERGE_ON_READ" and any(
        partition.log_bytes for partition in snapshot.partitions
    )
    assert (table_of_snapshot.rows is None) == logged
    assert inspect(str(table.path), count=True).table.rows == rows.count()
    assert table_of_snapshot.partitions == rows.select("_hoodie_partition_path").distinct().count()
    if snapshot.archive.folder:
        _same_archive(table, inspect(str(table.path), archived=True))
    assert len(snapshot.timeline) == len(timeline)
    return snapshot


def _same_archive(table: Steps, snapshot: TableSnapshot) -> None:
    both = [
        (row.instant_time, row.action, row.timeline_type == "ARCHIVED")
        for row in table.call("show_timeline", f"{ALL}, showArchived => true")
        if row.timeline_type == "ACTIVE" or row.state == "COMPLETED"
    ]
    assert sorted(
        (instant.time, instant.action, instant.archived) for instant in snapshot.instants
    ) == sorted(both)
    # Without a span, the procedures show the last ten days without the last one.
    span = f"start_ts => '20000101000000000', end_ts => '29991231235959999', {ALL}"
    files = table.call("show_archived_commits_metadata", span)
    actions = {row.commit_time: row.action for row in files}
    old = [instant for instant in snapshot.archived or () if instant.is_write]
    assert sorted(map(_commit, old)) == sorted(
        _summary(row, actions.get(row.commit_time, ""))
        for row in table.call("show_archived_commits", span)
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


@deep
def test_copy_on_write_in_an_odd_place_and_half_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Steps(spark, tmp_path / "Ware house 'ü' \"q\" %20", UTC)
    table.do(["upsert", 0, 150], ["upsert", 100, 250], ["delete", 0, 30], ["upsert", 230, 260])
    last_commit(table).unlink()  # a driver that died just before its commit
    snapshot = same(table)
    assert snapshot.table.rows == 220
    newest = snapshot.instants[1]
    assert (newest.operation, newest.rows_deleted) == ("DELETE", 30)
    assert [(instant.action, instant.state) for instant in snapshot.pending] == [
        ("commit", "INFLIGHT")
    ]
    assert failing(table, stuck_after=0.0) == ["dead writer"]
    upserts(table, 300)
    assert [instant.action for instant in same(table).instants[:2]] == ["commit", "rollback"]
    assert failing(table, stuck_after=0.0) == []


@deep
def test_merge_on_read_through_a_compaction_and_half_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = Steps(spark, tmp_path / "t", "MOR", "BUCKETS", UTC)
    upserts(table, 0, 50, 100)
    assert same(table).table.index == "BUCKET"
    every = f"options => '{DELTAS}=1'"
    table.call("run_compaction", f"op => 'schedule', {every}")
    upserts(table, 0)
    snapshot = same(table, planned=True)
    assert [instant.action for instant in snapshot.pending] == ["compaction"]
    assert failing(table, stuck_after=0.0) == ["services"]
    table.call("run_compaction", f"op => 'execute', {every}")
    assert same(table).pending == []
    upserts(table, 200)
    last_commit(table).unlink()
    assert len(same(table).pending) == 1
    upserts(table, 300)
    assert "rollback" in [instant.action for instant in same(table).instants]


def test_a_stream_of_the_lab_is_known_by_its_query(spark: SparkSession, tmp_path: Path) -> None:
    root = f"file://{tmp_path}"
    location = TableLocation(root, f"{root}/table", f"{root}/checkpoint", "d", "t", ())
    spec = readings_table()
    sink = ExactlyOnceSink(spark, spec, location, {"rows": 60}, 3)
    rows = sensor_stream(spark, rows_per_batch=20, sensors=3, seed=1, rows=60)
    stream = rows.writeStream.foreachBatch(sink.write_batch)
    drain(stream.option("checkpointLocation", location.checkpoint).start(), batches=3, deadline=60)
    query = json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"]
    snapshot = inspect(location.table)
    assert [(batch.query, batch.number) for batch in snapshot.writers] == [(query, 2)]
    assert snapshot.table.rows == 60
    assert snapshot.table.uri == location.table


@deep
def test_a_metadata_table_with_an_index(spark: SparkSession, tmp_path: Path) -> None:
    table = Steps(spark, tmp_path / "t", UTC, *TABLES["record index"]["options"])
    upserts(table, 0, 50)
    assert same(table).table.index == "RECORD_INDEX"
    # The table about the table is a Hudi table, too.
    assert inspect(str(table.path / ".hoodie" / "metadata")).table.type == "MERGE_ON_READ"


@deep
@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ("commits.retained=3", None),
        ("policy=KEEP_LATEST_FILE_VERSIONS,hoodie.clean.fileversions.retained=2", 0),
    ],
)
def test_reach_is_what_queries_reach(
    spark: SparkSession, tmp_path: Path, options: str, lost: int | None
) -> None:
    """At the oldest time travel all rows are there, and one commit earlier they are not."""
    table = Steps(spark, tmp_path / "t", UTC)
    upserts(table, *[0] * 8)
    table.call("run_clean", f"options => 'hoodie.clean.max.commits=1,hoodie.clean.{options}'")
    snapshot = same(table)
    oldest = raw(snapshot.window.oldest_time_travel or "")
    assert read(table, **{"as.of.instant": oldest}).count() == 100
    times = [instant.time for instant in snapshot.timeline if instant.action == "commit"]
    earlier = times[times.index(oldest) - 1]
    if lost is None:
        with pytest.raises(IllegalArgumentException, match="Cleaner cleaned up the timestamp"):
            read(table, **{"as.of.instant": earlier}).count()
    else:
        assert read(table, **{"as.of.instant": earlier}).count() == lost
    (end,) = (event.completion_time for event in snapshot.timeline if event.time == oldest)
    query = {
        "query.type": "incremental",
        "read.begin.instanttime": raw(snapshot.window.oldest_incremental or ""),
        "read.end.instanttime": str(end),
    }
    changed = read(table, **{f"hoodie.datasource.{name}": query[name] for name in query})
    assert {row["_hoodie_commit_time"] for row in changed.collect()} == {oldest}
    assert changed.count() == 100


@deep
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("mor", [False, True])
def test_an_archived_timeline(spark: SparkSession, tmp_path: Path, version: int, mor: bool) -> None:
    services = ("MOR", "BUCKETS", {"hoodie.compact.inline": "true", DELTAS: "3"}) if mor else ()
    table = Steps(spark, tmp_path / "t", UTC, ARCHIVE, _of(version), *services)
    table.do(["upsert", 0, 100], ["delete", 0, 30])
    if not mor:
        table.write("insert_overwrite", 0, 100)
    upserts(table, *[0] * 14)
    snapshot = same(table)
    assert snapshot.archive.folder
    archived = inspect(str(table.path), archived=True)
    assert len(archived.instants) > len(snapshot.instants) + 10
    done = {
        instant.operation: instant.rows_deleted for instant in archived.instants if instant.archived
    }
    assert done["DELETE"] == 30
    assert ("COMPACT" if mor else "INSERT_OVERWRITE") in done


@deep
def test_an_upgraded_table_has_one_archive(spark: SparkSession, tmp_path: Path) -> None:
    table = Steps(spark, tmp_path / "t", UTC, ARCHIVE, _of(6))
    upserts(table, *[0] * 9)
    snapshot = same(table)
    assert snapshot.unread in (".hoodie/archived", ".hoodie/history")
    assert len(snapshot.notes) == 1
    timeline = table.call("show_timeline", f"{ALL}, showArchived => true")
    before = {row.instant_time for row in timeline}
    assert len(before) > len(snapshot.instants)
    new = {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"}
    table.write("upsert", 0, 100, new)
    after = inspect(str(table.path), archived=True)
    assert after.table.version == 9
    assert before < {event.time for event in after.instants}
    same(table)
