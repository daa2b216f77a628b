"""`hudilab tidy`: what each table service does, when it is refused, and beside a running stream."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from kills import Killed, record, rows_once
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from running import assert_rows, finish, folder, kill, start_program, start_stream
from spark.programs.tidier import LOCK

from hudi_sink.commits import Commits
from hudi_sink.jvm import CLUSTERINGS, COMPACTIONS, pending, schedule
from hudi_sink.services import TableServices
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import TableError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_spark.streams import drain

APPENDS = readings_table()
UPSERTS = replace(APPENDS, operation="upsert")
LOGS = replace(UPSERTS, table_type="MERGE_ON_READ", buckets=1)
SIZES = {"sensors": 3, "seed": 5}
KEYS = 40
TIDIER = str(Path(__file__).parents[1] / "programs" / "tidier.py")


def write(
    spark: SparkSession, spec: TableSpec, location: TableLocation, first: int, last: int
) -> None:
    """Write readings; an even number of them is one commit."""
    rows = sensor_readings(spark, last, first=first, **SIZES)
    manual = {"hoodie.compact.inline": "false"} if spec.table_type == "MERGE_ON_READ" else {}
    writer = rows.write.format("hudi").options(**spec.write_options(manual))
    writer.mode("append").save(location.table)


def folded(rows: DataFrame) -> DataFrame:
    """The same readings as corrections of 40 numbers."""
    return rows.withColumn("reading_id", F.col("reading_id") % KEYS)


def newest(rows: DataFrame) -> DataFrame:
    """The last reading of each key."""
    last = F.max_by(F.struct(*rows.columns), "measurement_time").alias("last")
    return rows.groupBy("sensor_id", "reading_id").agg(last).select("last.*")


def start(
    spark: SparkSession, spec: TableSpec, location: TableLocation, batches: int, pause: float
) -> StreamingQuery:
    """A stream with pauses of some seconds: Hudi plans no compaction during a batch."""
    rows = sensor_stream(spark, rows_per_batch=20, rows=20 * batches, **SIZES)
    moved = folded(rows) if spec.operation == "upsert" else rows
    source = {"batches": batches, **SIZES}
    sink = ExactlyOnceSink(spark, spec, location, source, batches, shared=True, lock=LOCK)

    def write(batch: DataFrame, number: int) -> None:
        sink.write_batch(batch, number)
        time.sleep(pause)

    return start_stream(moved, write, location)


def assert_exact(
    spark: SparkSession, spec: TableSpec, location: TableLocation, batches: int
) -> None:
    rows = sensor_readings(spark, 20 * batches, **SIZES)
    wanted = newest(folded(rows)) if spec.operation == "upsert" else rows
    assert_rows(spark, location, wanted)


@contextmanager
def tidier(
    location: TableLocation, seconds: float, *services: str
) -> Iterator[subprocess.Popen[str]]:
    """A second process that runs services over and over."""
    home = str(folder(location.warehouse).parent)
    program = start_program(
        TIDIER, location.table, str(seconds), *services, env={"HUDILAB_HOME": home}
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "started\n", program.communicate()[1][-3000:]
        yield program
    finally:
        kill(program)


def refusal(call: Callable[[], object]) -> str:
    """What a service is refused with, remedies as typed in an activated environment."""
    with pytest.raises(TableError) as caught:
        call()
    return str(caught.value)


def files(location: TableLocation) -> list[str]:
    root = folder(location.table)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.deep
def test_each_service_of_a_merge_on_read_table(
    spark: SparkSession, location: TableLocation
) -> None:
    write(spark, LOGS, location, 0, 120)
    for first in (0, 40, 80):
        late = folded(sensor_readings(spark, 120, first=first, **SIZES))
        options = LOGS.write_options({"hoodie.compact.inline": "false"})
        late.write.format("hudi").options(**options).mode("append").save(location.table)
    tidy, before = TableServices(spark, location.table, stopped=True), files(location)
    shown = [tidy.preview(name, 1) for name in ("compact", "clean", "archive")]
    assert shown == [
        "compact: 3 file slices with logs, 0 plans open",
        "clean: 0 files older than the newest 1 commit",
        "archive: 4 instants active, down to 30 commits when there are more than 40",
    ]
    assert files(location) == before
    rows = spark.read.format("hudi").load(location.table).drop("_hoodie_file_name")
    assert tidy.compact() == "compact: 3 file slices merged, 1 plan"
    read_optimized = {"hoodie.datasource.query.type": "read_optimized"}
    only_base = spark.read.format("hudi").options(**read_optimized).load(location.table)
    assert only_base.drop("_hoodie_file_name").exceptAll(rows).isEmpty()
    keys = rows.count()
    assert only_base.count() == keys
    assert tidy.compact() == "compact: 0 file slices merged, 0 plans"
    # Cleaning keeps the slice before the newest commit, too: a query may be reading it.
    assert tidy.clean(1) == "clean: 0 files deleted, the newest 1 commit kept"
    write(spark, LOGS, location, 120, 140)
    assert tidy.preview("clean", 1) == "clean: 12 files older than the newest 1 commit"
    assert tidy.clean(1) == "clean: 12 files deleted, the newest 1 commit kept"
    assert tidy.clean(1) == "clean: 0 files deleted, the newest 1 commit kept"
    assert refusal(tidy.cluster) == (
        f"{location.table} has a bucket index: clustering gives files names that belong to no "
        "bucket, "
        "and every later upsert fails; its number of files is fixed; to merge its logs, "
        f"compact it: hudilab tidy {location.table}"
    )
    write(spark, LOGS, location, 140, 160)
    assert spark.read.format("hudi").load(location.table).count() == keys + 40


def test_each_service_of_appends(spark: SparkSession, location: TableLocation) -> None:
    for first in range(0, 120, 20):
        write(spark, APPENDS, location, first, first + 20)
    tidy = TableServices(spark, location.table, stopped=True)
    rows = (
        spark.read.format("hudi").load(location.table).select("sensor_id", "reading_id").collect()
    )
    count = len(Commits(spark, location.table).slices())
    assert tidy.preview("cluster", 1) == f"cluster: {count} small files in 3 partitions"
    assert tidy.cluster() == f"cluster: 3 files written, 1 plan, file groups {count} -> 3"
    assert tidy.cluster() == "cluster: 0 files written, 0 plans, file groups 3 -> 3"
    write(spark, APPENDS, location, 120, 140)
    assert tidy.clean(1) == f"clean: {count} files deleted, the newest 1 commit kept"
    assert tidy.archive() == "archive: 0 instants archived"
    after = spark.read.format("hudi").load(location.table).where("reading_id < 120")
    assert sorted(after.select("sensor_id", "reading_id").collect()) == sorted(rows)
    assert refusal(tidy.compact) == (
        f"{location.table} is COPY_ON_WRITE: it has no logs to compact; omit --compact, or "
        "merge "
        f"small files: hudilab tidy {location.table} --cluster"
    )


def test_a_writer_without_a_lock_is_left_alone(
    spark: SparkSession, location: TableLocation
) -> None:
    write(spark, LOGS, location, 0, 40)
    tidy, before = TableServices(spark, location.table), files(location)
    calls = {"compact": tidy.compact, "clean": lambda: tidy.clean(1), "archive": tidy.archive}
    for name, service in calls.items():
        assert refusal(service) == (
            f"the newest write to {location.table} took no lock, so its writer may be running; "
            "stop "
            "it and add --stopped, or write with ExactlyOnceSink(..., shared=True): hudilab tidy "
            f"{location.table} --{name} --stopped"
        )
    assert files(location) == before
    # An unfinished write is never taken for a stopped one.
    newest = max((folder(location.table) / ".hoodie/timeline").glob("*_*.deltacommit"))
    newest.unlink()
    instant = newest.name.partition("_")[0]
    stopped = TableServices(spark, location.table, stopped=True)
    assert refusal(stopped.compact) == (
        f"{location.table} has an unfinished write without a lock, {instant}: its writer is "
        "running "
        "or has died; wait for it, or start it again, which rolls that write back, then: hudilab "
        f"tidy {location.table} --compact"
    )


def test_a_shared_table_without_a_lock_file_needs_the_lock_of_its_writers(
    spark: SparkSession, location: TableLocation
) -> None:
    drain(start(spark, APPENDS, location, 1, 0.0), batches=1, deadline=300)
    tidy = TableServices(spark, location.table)
    tidy._locks = {}  # as on an object store
    assert refusal(lambda: tidy.check_safe("clean")) == (
        f"{location.table} is on an object store and shared, so services need the writers' lock; "
        "give "
        f"the options of its provider: hudilab tidy {location.table} --clean --lock NAME=VALUE"
    )


def test_a_plan_that_another_program_executes_is_left_to_it(
    spark: SparkSession, location: TableLocation
) -> None:
    write(spark, LOGS, location, 0, 40)
    write(spark, LOGS, location, 0, 40)
    tidy = TableServices(spark, location.table, stopped=True, lock=LOCK)
    with tidy._client({"hoodie.compact.inline.max.delta.commits": "1"}) as client:
        schedule(spark, client, COMPACTIONS)
    (instant,) = pending(tidy._commits.meta(), COMPACTIONS)
    beats = folder(location.table) / ".hoodie" / ".heartbeat"
    beats.mkdir(exist_ok=True)
    (beats / instant).touch()
    assert refusal(tidy.compact) == (
        f"another program is executing the plan {instant} of {location.table}, or was killed "
        f"meanwhile; wait a minute, then: hudilab tidy {location.table}"
    )
    (beats / instant).unlink()
    assert tidy.compact().endswith(", 1 plan")


def test_small_files_are_not_merged_beside_a_stream_of_updates(
    spark: SparkSession, location: TableLocation
) -> None:
    drain(start(spark, UPSERTS, location, 1, 0.0), batches=1, deadline=300)
    tidy = TableServices(spark, location.table)
    assert refusal(tidy.cluster) == (
        f"the newest write to {location.table} is an upsert, and a batch that changes a file fails "
        f"while clustering merges it; stop the writer, then: hudilab tidy {location.table} "
        "--cluster "
        "--stopped"
    )
    assert tidy.clean(1) == "clean: 0 files deleted, the newest 1 commit kept"


BESIDE = [
    pytest.param(LOGS, ("compact", "clean", "archive"), id="logs"),
    pytest.param(APPENDS, ("cluster", "clean", "archive"), id="appends"),
]


# Notebook 06 tidies beside a stream each time.
@pytest.mark.deep
@pytest.mark.parametrize(("spec", "services"), BESIDE)
def test_services_in_a_second_process_beside_a_stream(
    spark: SparkSession, location: TableLocation, spec: TableSpec, services: tuple[str, ...]
) -> None:
    batches = 16
    drain(start(spark, spec, location, batches, 0.0), batches=2, deadline=300)
    with tidier(location, 20.0, *services) as program:
        drain(start(spark, spec, location, batches, 1.5), batches=batches, deadline=300)
        out = finish(program, 120)
    assert_exact(spark, spec, location, batches)
    lines = [line for line in out.splitlines() if line.startswith(services[0])]
    assert sum("0 plans" not in line for line in lines) >= 2, out
    stamps = [
        commit.metadata
        for commit in Commits(spark, location.table).newest_first()
        if commit.metadata
    ]
    assert len({stamp.batch for stamp in stamps}) == batches


def kill_beside(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    service: str,
    kills: int,
    seed: int,
) -> int:
    """Kill a tidying process `kills` times in the middle of a service; return the batches."""
    chance, batches = random.Random(seed), 24 * kills
    drain(start(spark, spec, location, batches, 0.0), batches=2, deadline=300)
    stream = start(spark, spec, location, batches, 0.5)
    open_ = "compaction" if service == "compact" else "clustering"
    timeline = folder(location.table) / ".hoodie" / "timeline"
    for _ in range(kills):
        with tidier(location, 60.0, service) as program:
            known = {path.name for path in timeline.glob(f"*.{open_}.inflight")}
            ends = time.monotonic() + 90
            while {path.name for path in timeline.glob(f"*.{open_}.inflight")} <= known:
                assert time.monotonic() < ends
                assert program.poll() is None
                time.sleep(0.01)
            time.sleep(chance.uniform(0.0, 0.4))
            os.killpg(program.pid, signal.SIGKILL)
            rows_once(folder(location.table))
    drain(stream, batches=batches, deadline=600)
    return batches


@pytest.mark.deep
@pytest.mark.kills
@pytest.mark.parametrize(("spec", "services"), BESIDE)
def test_a_service_is_killed_beside_a_stream(
    spark: SparkSession, location: TableLocation, spec: TableSpec, services: tuple[str, ...]
) -> None:
    kills = 5
    batches = kill_beside(spark, spec, location, services[0], kills, seed=kills)
    assert_exact(spark, spec, location, batches)
    # What a killed run left, the next one completes, once the killed one's heartbeat has ended.
    tidy = TableServices(spark, location.table, stopped=True, lock=LOCK)
    ends = time.monotonic() + 60
    while time.monotonic() < ends:
        try:
            getattr(tidy, services[0])()
            break
        except TableError:
            time.sleep(2)
    writing = f"{services[0]} beside {spec.operation}, {spec.table_type}"
    record(Killed("service in a second process", writing, "disk", kills, kills, 0, 0))
    meta = Commits(spark, location.table).meta()
    for kind in (COMPACTIONS, CLUSTERINGS):
        assert pending(meta, kind) == []
    assert_exact(spark, spec, location, batches)
