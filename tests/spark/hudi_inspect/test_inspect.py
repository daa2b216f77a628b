"""`hudilab inspect` says of tables that Spark wrote what Spark says of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession
from spark.programs.looked_at import BUCKETS, DELTAS, OPERATION, Made, made, raw, same

from hudi_inspect import inspect
from hudi_sink import ExactlyOnceSink
from hudilab import TableLocation, sensor_stream
from hudilab.generate import readings_table
from hudilab_spark import drain

CLEAN = {"hoodie.clean.max.commits": "1", "hoodie.clean.commits.retained": "2"}
ARCHIVE = {"hoodie.keep.min.commits": "4", "hoodie.keep.max.commits": "6"} | CLEAN


def _of(version: int) -> dict[str, str]:
    return {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}


def failing(table: Made, stuck_after: float = 1.0) -> list[str]:
    health = inspect(str(table.path), stuck_after=stuck_after).health
    return [check.check for check in health if not check.ok]


@pytest.mark.deep
def test_copy_on_write_in_an_odd_place_and_half_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = made(spark, tmp_path / "Ware house 'ü' \"q\" %20")
    table.batches(0, 100, rows=150)
    table.write(0, 30, **{OPERATION: "delete"})
    table.write(230, 260)
    table.last_commit().unlink()  # a driver that died just before its commit
    snapshot = same(table)
    assert snapshot.table.rows == 220
    newest = snapshot.instants[1]
    assert (newest.operation, newest.rows_deleted) == ("DELETE", 30)
    assert [(instant.action, instant.state) for instant in snapshot.pending] == [
        ("commit", "INFLIGHT")
    ]
    assert failing(table, stuck_after=0.0) == ["dead writer"]
    table.write(300, 360)
    assert [instant.action for instant in same(table).instants[:2]] == ["commit", "rollback"]
    assert failing(table, stuck_after=0.0) == []


@pytest.mark.deep
def test_merge_on_read_before_and_after_a_compaction(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t", BUCKETS, mor=True)
    table.batches(0, 50, 100)
    assert same(table).table.index == "BUCKET"
    table.compact("schedule")
    table.write(0, 100)
    snapshot = same(table, planned=True)
    assert [instant.action for instant in snapshot.pending] == ["compaction"]
    assert failing(table, stuck_after=0.0) == ["services"]
    table.compact("execute")
    assert same(table).pending == []


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


# -- each of these takes seconds; together, minutes -------------------------------------------

deep = pytest.mark.deep


@deep
@pytest.mark.parametrize("mor", [False, True])
def test_without_partitions(spark: SparkSession, tmp_path: Path, mor: bool) -> None:
    table = made(spark, tmp_path / "t", mor=mor, flat=True)
    table.batches(0, 50, 100)
    table.write(0, 30, **{OPERATION: "delete"})
    assert same(table).table.partition == []


@deep
def test_clustering_and_cleaning(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t", operation="bulk_insert")
    table.batches(0, 60, 120, 180, rows=60)
    table.call("run_clustering", order="temperature")
    before = same(table)
    assert len(before.slices) > len(before.latest_slices) == 3
    assert len(before.slices) == len(table.call("show_fsview_all", limit=1_000_000))
    table.write(240, 300)
    table.call("run_clean", options="hoodie.clean.max.commits=1", retain_commits=1)
    after = same(table)
    assert len(after.slices) == len(after.latest_slices)


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
    table = made(spark, tmp_path / "t")
    table.batches(*[0] * 8)
    table.call("run_clean", options=f"hoodie.clean.max.commits=1,hoodie.clean.{options}")
    snapshot = same(table)
    oldest = raw(snapshot.window.oldest_time_travel or "")
    assert table.read(**{"as.of.instant": oldest}).count() == 100
    times = [instant.time for instant in snapshot.timeline if instant.action == "commit"]
    earlier = times[times.index(oldest) - 1]
    if lost is None:
        with pytest.raises(IllegalArgumentException, match="Cleaner cleaned up the timestamp"):
            table.read(**{"as.of.instant": earlier}).count()
    else:
        assert table.read(**{"as.of.instant": earlier}).count() == lost
    (end,) = (event.completion_time for event in snapshot.timeline if event.time == oldest)
    query = {
        "query.type": "incremental",
        "read.begin.instanttime": raw(snapshot.window.oldest_incremental or ""),
        "read.end.instanttime": str(end),
    }
    changed = table.read(**{f"hoodie.datasource.{name}": query[name] for name in query})
    assert {row["_hoodie_commit_time"] for row in changed.collect()} == {oldest}
    assert changed.count() == 100


@deep
@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("mor", [False, True])
def test_an_archived_timeline(spark: SparkSession, tmp_path: Path, version: int, mor: bool) -> None:
    services = {"hoodie.compact.inline": "true", DELTAS: "3"} | BUCKETS if mor else {}
    table = made(spark, tmp_path / "t", ARCHIVE | services | _of(version), mor=mor)
    table.write(0, 100)
    table.write(0, 30, **{OPERATION: "delete"})
    if not mor:
        table.write(0, 100, **{OPERATION: "insert_overwrite"})
    table.batches(*[0] * 14)
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
def test_savepoint_and_restore(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t")
    table.batches(0, 50, 100)
    second = sorted(row.commit_time for row in table.call("show_commits", limit=10))[1]
    table.call("create_savepoint", commit_time=second)
    assert "savepoint" in [instant.action for instant in same(table).instants]
    table.call("rollback_to_savepoint", instant_time=second)
    assert same(table).table.rows == 150
    table.write(500, 600)
    assert same(table).table.rows == 250


@deep
def test_a_half_written_delta_commit(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t", BUCKETS, mor=True)
    table.batches(0, 50, 100)
    table.last_commit().unlink()
    assert len(same(table).pending) == 1
    table.write(300, 360)
    assert "rollback" in [instant.action for instant in same(table).instants]


@deep
@pytest.mark.parametrize("mor", [False, True])
def test_a_metadata_table_with_an_index(spark: SparkSession, tmp_path: Path, mor: bool) -> None:
    metadata = "hoodie.metadata."
    options = {f"{metadata}enable": "true", f"{metadata}index.column.stats.enable": "true"}
    if not mor:
        options["hoodie.index.type"] = "GLOBAL_RECORD_LEVEL_INDEX"
        options[f"{metadata}global.record.level.index.enable"] = "true"
    table = made(spark, tmp_path / "t", options | (BUCKETS if mor else {}), mor=mor)
    table.batches(0, 50, 100)
    assert same(table).table.index == ("BUCKET" if mor else "RECORD_INDEX")
    # The table about the table is a Hudi table, too.
    inner = inspect(str(table.path / ".hoodie" / "metadata"))
    assert inner.table.type == "MERGE_ON_READ"


@deep
def test_overwritten_and_dropped_partitions(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t")
    table.batches(0, 0, rows=200)
    table.write(0, 30, **{OPERATION: "insert_overwrite"})
    same(table)
    drop = {"hoodie.datasource.write.partitions.to.delete": "sensor_id=11"}
    table.write(0, 1, **{OPERATION: "delete_partition"}, **drop)
    assert same(table).table.partitions == 2


@deep
def test_change_data_capture_and_log_compaction(spark: SparkSession, tmp_path: Path) -> None:
    captured = made(spark, tmp_path / "cdc", {"hoodie.table.cdc.enabled": "true"})
    captured.batches(0, 50, 100)
    assert same(captured).table.rows == 200
    log = "hoodie.log.compaction."
    options = {f"{log}inline": "true", f"{log}enable": "true", f"{log}blocks.threshold": "2"}
    logged = made(spark, tmp_path / "logs", BUCKETS | options, mor=True)
    logged.batches(*[0] * 6)
    same(logged)


@deep
@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("mor", [False, True])
def test_tables_of_older_versions(
    spark: SparkSession, tmp_path: Path, version: int, mor: bool
) -> None:
    table = made(spark, tmp_path / "t", _of(version) | (BUCKETS if mor else {}), mor=mor)
    table.batches(0, 50, 100, 150)
    assert same(table).table.version == version
    if mor:
        table.write(0, 50, **{"hoodie.compact.inline": "true", DELTAS: "1"})
        table.write(0, 50)
    else:
        table.call("run_clustering", order="temperature")
        for _ in range(3):
            table.write(0, 100, **CLEAN)
    same(table)


@deep
def test_an_upgraded_table_has_one_archive(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t", ARCHIVE | _of(6))
    table.batches(*[0] * 9)
    snapshot = same(table)
    assert snapshot.unread in (".hoodie/archived", ".hoodie/history")
    assert len(snapshot.notes) == 1
    timeline = table.call("show_timeline", limit=100_000, showArchived=True)
    before = {row.instant_time for row in timeline}
    assert len(before) > len(snapshot.instants)
    new = {"hoodie.write.table.version": "9", "hoodie.write.auto.upgrade": "true"}
    table.write(0, 100, **new)
    after = inspect(str(table.path), archived=True)
    assert after.table.version == 9
    assert before < {event.time for event in after.instants}
    same(table)


@deep
def test_two_hundred_commits_that_spark_wrote(spark: SparkSession, tmp_path: Path) -> None:
    table = made(spark, tmp_path / "t", operation="bulk_insert")
    for number in range(200):
        table.write(number * 4, number * 4 + 4)
    snapshot = same(table)
    assert snapshot.table.rows == 800
    assert snapshot.archive.folder
    assert len(inspect(str(table.path), archived=True).instants) >= 200
