"""Several writers on one table: other streams, SQL and table services, each exact or refused."""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from running import assert_rows, finish, folder, readings_at, start_program, start_stream
from spark.programs.merge import merge

from hudi_sink import commits
from hudi_sink.commits import SERVICES, Commits
from hudi_sink.locks import lock_name
from hudi_sink.repairs import rewrite_table
from hudi_sink.services import TableServices
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError, TableError
from hudilab.files import read_properties
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_spark.streams import drain
from hudilab_spark.waiting import wait_for

APPENDS = readings_table()
UPSERTS = replace(APPENDS, operation="upsert", buckets=1)
LOGS = replace(UPSERTS, table_type="MERGE_ON_READ")
SIZES = {"sensors": 2, "seed": 5}
MERGE = Path(__file__).parents[1] / "programs" / "merge.py"
PER_BATCH = 20


def start(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    count: int,
    first: int = 0,
    turn: threading.Event | None = None,
    **more: Any,
) -> StreamingQuery:
    """Readings `first` and up in batches of 20, as a stream with the place's checkpoint.

    After its first batch the stream waits for its turn.
    """
    sizes = {"rows": count * PER_BATCH, **SIZES}
    rows = sensor_stream(spark, rows_per_batch=PER_BATCH, **sizes)
    moved = rows.withColumn("reading_id", F.col("reading_id") + first)
    source = sizes | {"first": first}
    sink = ExactlyOnceSink(spark, spec, location, source, **more)

    def write(batch: DataFrame, number: int) -> None:
        if turn is not None and number > 0:
            turn.wait(300)
        sink.write_batch(batch, number)

    return start_stream(moved, write, location)


def expected(spark: SparkSession, batches: int, first: int = 0) -> DataFrame:
    rows = sensor_readings(spark, batches * PER_BATCH, **SIZES)
    return rows.withColumn("reading_id", F.col("reading_id") + first)


def second(location: TableLocation) -> TableLocation:
    return replace(location, checkpoint=location.checkpoint + "_second")


@pytest.mark.parametrize(
    ("spec", "batches"),
    [
        pytest.param(APPENDS, 3, id="append"),
        pytest.param(UPSERTS, 5, id="upsert", marks=pytest.mark.deep),
        pytest.param(LOGS, 6, id="logs", marks=pytest.mark.deep),
    ],
)
def test_two_streams_share_a_table_when_both_say_so(
    spark: SparkSession, location: TableLocation, spec: TableSpec, batches: int
) -> None:
    # Both upsert into the same file groups: one of two overlapping commits loses. With six batches
    # each, both compact and clean, and roll back what has lost.
    stream = start(spark, spec, location, batches, shared=True, batches=batches)
    two = start(spark, spec, second(location), batches, first=1000, shared=True, batches=batches)
    drain(stream, batches=batches, deadline=300)
    drain(two, batches=batches, deadline=300)
    both = expected(spark, batches).union(expected(spark, batches, first=1000))
    assert_rows(spark, location, both)
    stamps = [
        commit.metadata
        for commit in Commits(spark, location.table).newest_first()
        if commit.metadata and commit.operation not in SERVICES
    ]
    assert len(stamps) == len({(stamp.query, stamp.batch) for stamp in stamps}) == 2 * batches


@pytest.mark.deep
@pytest.mark.parametrize("where", ["session", "process"])
def test_a_stream_shares_a_table_with_a_job_that_merges_its_files(
    spark: SparkSession, location: TableLocation, where: str
) -> None:
    """The job of the session runs in a thread; that of a process has a JVM of its own."""
    batches = 12 if where == "session" else 40
    ends: dict[str, Any] = {"shared": True, "batches": batches}
    drain(start(spark, APPENDS, location, batches, **ends), batches=2, deadline=300)
    stream = start(spark, APPENDS, location, batches, **ends)
    if where == "session":
        merged = merge(spark, location.table, times=3)
    else:
        home = {"HUDILAB_HOME": str(folder(location.warehouse).parent)}
        job = start_program(str(MERGE), location.table, "3", env=home)
        merged = int(finish(job, 300).split()[-1])
    drain(stream, batches=batches, deadline=300)
    assert_rows(spark, location, expected(spark, batches))
    commits = list(Commits(spark, location.table).newest_first())
    assert sum(commit.operation == "CLUSTER" for commit in commits) == merged > 0
    assert sum(commit.metadata is not None for commit in commits) == batches


def test_a_service_that_loses_to_another_writers_ends_no_stream(
    spark: SparkSession,
    location: TableLocation,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What fails after the batch's own commit is said, and the batch is not written again."""
    alone = readings_at(tmp_path / "alone")
    save = DataFrameWriter.save

    def fails_afterwards(self: DataFrameWriter, *args: Any, **options: Any) -> None:
        save(self, *args, **options)
        raise RuntimeError("java.io.IOException: Could not delete instant")

    monkeypatch.setattr(DataFrameWriter, "save", fails_afterwards)
    drain(start(spark, APPENDS, location, 2, shared=True, batches=2), batches=2, deadline=300)
    lines = [line for line in capsys.readouterr().err.splitlines() if "is committed" in line]
    assert [line.partition("hudilab: ")[2] for line in lines] == [
        f"batch {number} is committed, but its table services failed, probably because another "
        "writer runs them at the same time; the next batch runs them again: "
        "java.io.IOException: Could not delete instant"
        for number in (0, 1)
    ]
    assert_rows(spark, location, expected(spark, 2))
    # Where there is one writer it is an error.
    with pytest.raises(StreamError, match="Could not delete instant"):
        drain(start(spark, APPENDS, alone, 2, batches=2), batches=2, deadline=300)


def test_a_heartbeat_that_ends_while_hudi_looks_at_it_ends_no_stream(
    spark: SparkSession, location: TableLocation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text is Hudi's: it fails one write in twenty if a loop makes and removes a heartbeat."""
    alone = readings_at(tmp_path / "alone")
    save, met = DataFrameWriter.save, list[str]()

    def fails_once(self: DataFrameWriter, *args: Any, **options: Any) -> None:
        if not met:
            met.append("once")
            raise RuntimeError(
                "org.apache.hudi.exception.HoodieException: Failed to check heartbeat for instant "
                "[==>20260101000000000__commit__INFLIGHT]"
            )
        save(self, *args, **options)

    monkeypatch.setattr(DataFrameWriter, "save", fails_once)
    drain(start(spark, APPENDS, location, 2, shared=True, batches=2), batches=2, deadline=300)
    assert met
    assert_rows(spark, location, expected(spark, 2))
    met.clear()
    with pytest.raises(StreamError, match="Failed to check heartbeat"):
        drain(start(spark, APPENDS, alone, 2, batches=2), batches=2, deadline=300)


def test_a_shared_table_is_not_tidied_by_its_streams(
    spark: SparkSession, location: TableLocation
) -> None:
    """Two writers that merged at the same time have lost 280 of 480 rows."""
    with pytest.raises(TableError) as caught:
        ExactlyOnceSink(spark, APPENDS, location, {}, shared=True, services_every=5)
    assert str(caught.value) == (
        "services_every=5 is not allowed for a shared table: Hudi loses rows when two writers "
        "merge files at the same time; omit services_every, and merge files in a single separate "
        "job: CALL run_clustering"
    )


def test_a_second_stream_is_refused_unless_it_says_so(
    spark: SparkSession, location: TableLocation
) -> None:
    drain(start(spark, APPENDS, location, 1), batches=1, deadline=300)
    with pytest.raises(StreamError, match="if both streams write to the table, pass shared=True"):
        start(spark, APPENDS, second(location), 1, first=1000)
    drain(
        start(spark, APPENDS, second(location), 1, first=1000, shared=True), batches=1, deadline=300
    )
    with pytest.raises(StreamError) as caught:
        start(spark, APPENDS, location, 1)
    assert "another stream (" in str(caught.value)
    assert str(caught.value).endswith(
        "since this stream's last batch; stop one of them, or pass shared=True to the "
        "ExactlyOnceSink of both"
    )


def test_a_writer_that_does_not_end_keeps_a_stream_from_starting(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain(start(spark, APPENDS, location, 1, shared=True), batches=1, deadline=300)
    timeline = folder(location.table) / ".hoodie" / "timeline"
    begun = max(timeline.glob("*.commit.requested"))
    instant = str(int(begun.name.partition(".")[0]) + 1)
    (timeline / f"{instant}.commit.requested").touch()
    beats = timeline.parent / ".heartbeat"
    beats.mkdir(exist_ok=True)
    (beats / instant).touch()
    monkeypatch.setattr(commits, "WRITERS_SECONDS", 0.0)
    more = start(spark, APPENDS, second(location), 1, first=1000, shared=True)
    with pytest.raises(StreamError) as caught:
        drain(more, batches=1, deadline=300)
    assert (
        f"another writer has been writing to {location.table} for 0 s (instant {instant}); stop "
        "it, "
        "then restart this stream"
    ) in str(caught.value)


def test_a_table_on_an_object_store_is_shared_with_a_lock_of_the_callers_only(
    spark: SparkSession,
) -> None:
    location = TableLocation(
        "s3a://bucket/w", "s3a://bucket/w/lab/t", "s3a://bucket/w/c", "lab", "t"
    )
    with pytest.raises(TableError) as caught:
        ExactlyOnceSink(spark, APPENDS, location, {}, shared=True)
    assert str(caught.value).startswith(
        "s3a://bucket/w/lab/t is on an object store, where Hudi's lock file is not safe; "
        "pass the options of a lock provider as lock=, or in a pipeline as lock.options"
    )


LOCKS = "org.apache.hudi.client.transaction.lock."
IN_JVM = {"hoodie.write.lock.provider": f"{LOCKS}InProcessLockProvider"}
IMPATIENT = {
    "hoodie.write.lock.provider": f"{LOCKS}FileSystemBasedLockProvider",
    "hoodie.write.lock.wait_time_ms": "1000",
    "hoodie.write.lock.num_retries": "2",
    "hoodie.write.lock.client.num_retries": "2",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.max_wait_time_ms_between_retry": "200",
}


def different_locks(location: TableLocation, instant: str, theirs: str, own: str) -> str:
    return (
        f"two writers of {location.table} use different locks, so neither waits "
        f"for the other: commit {instant} used {theirs}, this stream uses {own}; use the same lock "
        "for both: omit lock= for a table on a disk, or name a provider that both processes can "
        "reach; "
    )


def test_a_running_stream_refuses_a_new_one_with_another_lock(
    spark: SparkSession, location: TableLocation
) -> None:
    """As two processes have them whose locks are in their own memory."""
    turn = threading.Event()
    stream = start(spark, APPENDS, location, 1000, turn=turn, shared=True, lock=IN_JVM)
    while not stream.recentProgress:
        time.sleep(0.02)
    other = start(spark, APPENDS, second(location), 1, first=10**6, shared=True, batches=1)
    drain(other, batches=1, deadline=300)
    turn.set()
    with pytest.raises(StreamError) as caught:
        drain(stream, batches=1000, deadline=300)
    newest = next(Commits(spark, location.table).newest_first())
    own_lock = lock_name(IN_JVM["hoodie.write.lock.provider"])
    assert newest.lock == "FileSystemBasedLockProvider"
    assert different_locks(location, newest.instant, newest.lock, own_lock) in str(caught.value)
    # What another process wrote before is no sign that it is running.
    start(spark, APPENDS, location, 1000, shared=True, lock=IN_JVM).stop()
    newest = next(Commits(spark, location.table).newest_first())
    tidy = TableServices(spark, location.table, lock=IN_JVM)
    with pytest.raises(TableError) as refused:
        (TableServices(spark, location.table) if newest.lock == own_lock else tidy).clean(1)
    theirs = {"FileSystemBasedLockProvider", own_lock} - {newest.lock}
    assert str(refused.value) == (
        f"the newest write to {location.table} used the lock {newest.lock}, but services would use "
        f"{theirs.pop()}; stop its writer, then: hudilab tidy {location.table} --clean --stopped"
    )


def test_a_new_stream_refuses_a_running_one_with_another_lock(
    spark: SparkSession, location: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The running one commits between the new one's first look and its first write."""
    turn = threading.Event()
    stream = start(spark, APPENDS, location, 1000, turn=turn, shared=True, lock=IN_JVM)
    while not stream.recentProgress:
        time.sleep(0.02)
    instants = Commits.instants

    def then_one_commits(self: Commits) -> set[str]:
        instants_now = instants(self)
        turn.set()
        wait_for(lambda: instants(self) != instants_now, 120, "a commit of the running stream")
        return instants_now

    monkeypatch.setattr(Commits, "instants", then_one_commits)
    other = start(spark, APPENDS, second(location), 1, first=10**6, shared=True, batches=1)
    with pytest.raises(StreamError) as caught:
        drain(other, batches=1, deadline=300)
    stream.stop()
    named = re.search(r"commit (\d+) used", str(caught.value))
    assert named is not None
    theirs = lock_name(IN_JVM["hoodie.write.lock.provider"])
    message = different_locks(location, named[1], theirs, "FileSystemBasedLockProvider")
    assert message in str(caught.value)
    locks = {commit.lock for commit in Commits(spark, location.table).newest_first()}
    assert locks == {theirs}


@pytest.mark.deep
def test_a_lock_file_that_nobody_releases(spark: SparkSession, location: TableLocation) -> None:
    ends: dict[str, Any] = {"shared": True, "batches": 6}
    drain(start(spark, APPENDS, location, 6, **ends), batches=1, deadline=300)
    lock = folder(location.table) / ".hoodie" / "lock"
    lock.touch()
    os.utime(lock, (time.time() - 600,) * 2)
    expire = {"hoodie.write.lock.filesystem.expire": "1000"}
    for more, until in (({}, "never expires"), (expire, "expires 1000 min after its creation")):
        query = start(spark, APPENDS, location, 6, lock=IMPATIENT | more, **ends)
        with pytest.raises(StreamError) as caught:
            drain(query, batches=6, deadline=300)
        assert (
            f"the lock file {lock} is 10 min old and {until}: its owner is writing, "
            "or has died; if no writer is running, delete it, then start again: rm "
            f"{lock}; "
        ) in str(caught.value)
    after_a_minute = IMPATIENT | {"hoodie.write.lock.filesystem.expire": "1"}
    drain(start(spark, APPENDS, location, 6, lock=after_a_minute, **ends), batches=6, deadline=300)
    assert_rows(spark, location, expected(spark, 6))


@pytest.mark.deep
def test_stamps_outlive_the_commits_of_others_and_archiving(
    spark: SparkSession, location: TableLocation
) -> None:
    drain(start(spark, APPENDS, location, 2), batches=2, deadline=300)
    few = {
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "4",
        "hoodie.clean.commits.retained": "2",
    }
    for number in range(8):
        other = expected(spark, 1, first=1000 + number * PER_BATCH)
        options = APPENDS.write_options(few)
        other.write.format("hudi").options(**options).mode("append").save(location.table)
    active = folder(location.table) / ".hoodie" / "timeline"
    assert len(list(active.glob("*_*.commit"))) < 8, "nothing was archived"
    drain(start(spark, APPENDS, location, 2), batches=2, deadline=300)
    table = spark.read.format("hudi").load(location.table)
    assert table.where("reading_id < 1000").count() == 2 * PER_BATCH
    with pytest.raises(StreamError, match="was written by a stream whose checkpoint is not at"):
        start(spark, APPENDS, second(location), 2)


def test_every_kind_of_commit_is_read(spark: SparkSession, location: TableLocation) -> None:
    """None of Hudi's own is taken for a damaged one, and the stream goes on behind them."""
    drain(start(spark, APPENDS, location, 1), batches=1, deadline=300)
    spark.sql(f"CREATE TABLE kinds USING hudi LOCATION '{location.table}'")
    try:
        for statement in (
            "DELETE FROM kinds WHERE reading_id = 3",
            "UPDATE kinds SET temperature = 1.5 WHERE reading_id = 4",
            "INSERT INTO kinds SELECT 900, 1.5, TIMESTAMP '2026-01-01', 10",
            "CALL run_clustering(table => 'kinds', order => 'reading_id')",
            "ALTER TABLE kinds DROP PARTITION (sensor_id = 11)",
        ):
            try:
                spark.sql(statement)
            except Exception as error:
                raise AssertionError(statement) from error
        operations = {c.operation for c in Commits(spark, location.table).newest_first()}
        assert {"BULK_INSERT", "CLUSTER", "DELETE_PARTITION"} <= operations
    finally:
        spark.sql("DROP TABLE kinds")
    start(spark, APPENDS, location, 1).stop()


@pytest.mark.deep
def test_a_write_keeps_the_metadata_table_and_its_indexes(
    spark: SparkSession, location: TableLocation
) -> None:
    metadata = "hoodie.metadata."
    first = {
        f"{metadata}enable": "true",
        f"{metadata}index.column.stats.enable": "true",
        f"{metadata}global.record.level.index.enable": "true",
        f"{metadata}index.bloom.filter.enable": "true",
    }
    drain(start(spark, APPENDS, location, 1, extra=first), batches=1, deadline=300)
    kept = has(location)
    assert {"files", "column_stats", "record_index", "bloom_filters"} <= set(kept)
    drain(start(spark, APPENDS, location, 1, extra=first), batches=1, deadline=300)
    sink = ExactlyOnceSink(spark, APPENDS, location, {"rows": 20, **SIZES, "first": 0})
    more = sensor_stream(spark, rows_per_batch=PER_BATCH, rows=40, **SIZES)
    drain(start_stream(more, sink.write_batch, location), batches=3, deadline=300)
    assert has(location) == kept


def has(location: TableLocation) -> list[str]:
    file = folder(location.table) / ".hoodie" / "hoodie.properties"
    properties = read_properties(file.read_text())
    return properties["hoodie.table.metadata.partitions"].split(",")


@pytest.mark.deep
def test_file_groups_that_are_not_the_tables_own_are_refused_and_rewritten(
    spark: SparkSession, location: TableLocation
) -> None:
    drain(start(spark, UPSERTS, location, 1), batches=1, deadline=300)
    sizes = {"rows": PER_BATCH, **SIZES}
    before = ExactlyOnceSink(spark, UPSERTS, location, sizes | {"first": 0})
    spark.sql(f"CREATE TABLE foreign_groups USING hudi LOCATION '{location.table}'")
    try:
        spark.sql(
            "MERGE INTO foreign_groups t USING (SELECT CAST(900 AS BIGINT) AS reading_id, 12 AS "
            "sensor_id, CAST(1.5 AS DECIMAL(6,2)) AS temperature, TIMESTAMP '2026-01-01' AS "
            "measurement_time) s ON t.reading_id = s.reading_id AND t.sensor_id = s.sensor_id "
            "WHEN NOT MATCHED THEN INSERT *"
        )
    finally:
        spark.sql("DROP TABLE foreign_groups")
    rows = sensor_stream(spark, rows_per_batch=PER_BATCH, **sizes)
    query = start_stream(rows, before.write_batch, location)
    with pytest.raises(StreamError, match="belong to no bucket"):
        drain(query, batches=2, deadline=300)
    with pytest.raises(TableError) as caught:
        start(spark, UPSERTS, location, 1)
    message = str(caught.value)
    assert re.fullmatch(
        rf"1 file groups of {re.escape(location.table)} \(\S+, \.\.\.\) belong to no bucket: SQL "
        r"or "
        r"clustering wrote them without the table's bucket index, and every later upsert would "
        r"fail; rewrite the table's files, then start again: from "
        r"hudi_sink\.repairs import .*",
        message,
    )
    remedy = message.rpartition("start again: ")[2]
    assert remedy == (
        "from hudi_sink.repairs import rewrite_table; rewrite_table(spark, spec, location)"
    )
    spec = UPSERTS
    exec(remedy, {"spark": spark, "spec": spec, "location": location})
    assert rewrite_table(spark, spec, location) == PER_BATCH + 1
    drain(start(spark, UPSERTS, location, 1), batches=1, deadline=300)
    table = spark.read.format("hudi").load(location.table)
    assert table.count() == PER_BATCH + 1
