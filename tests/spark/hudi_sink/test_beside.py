"""Table services beside a stream: exact, one plan at a time, and none of a replaced driver's."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from kills import rows_once
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from refusals import assert_refusal
from running import (
    assert_rows,
    finish,
    folder,
    kill,
    start_program,
    start_stream,
    wait_while_running,
)

from hudi_sink import async_services as beside
from hudi_sink import service_schedule as policy
from hudi_sink.async_services import StreamServices
from hudi_sink.commits import SERVICES, Commits
from hudi_sink.jvm import CLUSTERINGS, COMPACTIONS, pending, write_client
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_spark.streams import drain

APPENDS = readings_table(operation="bulk_insert")
LOGS = readings_table(table_type="MERGE_ON_READ", operation="upsert", buckets=1)
SPECS = {"appends": APPENDS, "upserts": LOGS}
SIZES = {"sensors": 3, "seed": 5}
ROWS, KEYS, EVERY = 40, 60, 3
QUIET = {"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}
PROGRAM = str(Path(__file__).parents[1] / "programs" / "beside.py")


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compact what few rows have logged; in the same batches of each run, as `stream` says."""
    monkeypatch.setattr(policy, "COMPACT_EVERY", EVERY)
    monkeypatch.setattr(policy, "SMALL_LOG", 0)
    monkeypatch.setattr(beside, "LATEST", 0)


def stream(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    last: int,
    batches: int,
    every: int = EVERY,
) -> None:
    """Write batches until the last one, then wait for the services."""
    policy.COMPACT_EVERY = every
    rows = sensor_stream(spark, rows_per_batch=ROWS, rows=ROWS * batches, **SIZES)
    if spec.operation == "upsert":
        rows = rows.withColumn("reading_id", F.col("reading_id") % KEYS)
    sink = ExactlyOnceSink(
        *(spark, spec, location, SIZES, batches), services_every=every, async_services=True
    )
    drain(start_stream(rows, sink.write_batch, location), batches=last, deadline=300)
    sink.close()


def expected(spark: SparkSession, spec: TableSpec, batches: int) -> DataFrame:
    rows = sensor_readings(spark, ROWS * batches, **SIZES)
    if spec.operation != "upsert":
        return rows
    rows = rows.withColumn("reading_id", F.col("reading_id") % KEYS)
    last = F.max_by(F.struct(*rows.columns), "measurement_time").alias("last")
    return rows.groupBy("sensor_id", "reading_id").agg(last).select("last.*")


def assert_exact(
    spark: SparkSession, spec: TableSpec, location: TableLocation, batches: int
) -> None:
    wanted = expected(spark, spec, batches)
    assert_rows(spark, location, wanted)
    assert rows_once(folder(location.table)) == wanted.count()
    assert Commits(spark, location.table).count() == batches


def plans(spark: SparkSession, location: TableLocation) -> list[str]:
    meta = Commits(spark, location.table).meta()
    return [instant for kind in (COMPACTIONS, CLUSTERINGS) for instant in pending(meta, kind)]


def services_of(spark: SparkSession, location: TableLocation) -> int:
    return sum(
        commit.operation in SERVICES for commit in Commits(spark, location.table).newest_first()
    )


def parts(spark: SparkSession, kind: str) -> int:
    """The compactions of one plan: each leaves the stream a core."""
    cores = max(1, spark.sparkContext.defaultParallelism - 1)
    return -(-SIZES["sensors"] // cores) if kind == "upserts" else 1


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["upserts", "appends"])
def test_plans_are_executed_beside_the_batches(
    spark: SparkSession, location: TableLocation, kind: str
) -> None:
    stream(spark, SPECS[kind], location, 10, 10)
    assert_exact(spark, SPECS[kind], location, 10)
    assert services_of(spark, location) == 3 * parts(spark, kind)
    assert plans(spark, location) == []


def plan(spark: SparkSession, spec: TableSpec, location: TableLocation) -> None:
    """Leave a plan, as a driver does that dies before it is executed."""
    options = spec.write_options() | {
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.async.max.commits": "1",
    }
    jvm: Any = spark._jvm
    with write_client(spark, location.table, options) as client:
        nothing = jvm.org.apache.hudi.common.util.Option.empty()
        if spec.operation == "upsert":
            client.scheduleCompaction(nothing)
        else:
            client.scheduleClustering(nothing)
    assert len(plans(spark, location)) == 1
    policy.COMPACT_EVERY = EVERY


@pytest.mark.parametrize("kind", ["appends", pytest.param("upserts", marks=pytest.mark.deep)])
def test_a_driver_removes_the_plan_of_the_one_before(
    spark: SparkSession, location: TableLocation, kind: str
) -> None:
    stream(spark, SPECS[kind], location, 2, 9, every=100)
    plan(spark, SPECS[kind], location)
    (left,) = plans(spark, location)
    stream(spark, SPECS[kind], location, 9, 9)
    assert_exact(spark, SPECS[kind], location, 9)
    assert plans(spark, location) == []
    done = {commit.instant for commit in Commits(spark, location.table).newest_first()}
    assert left not in done
    assert services_of(spark, location) > 0


def test_a_service_that_fails_stops_the_stream(
    spark: SparkSession, location: TableLocation
) -> None:
    stream(spark, LOGS, location, 2, 9, every=100)
    plan(spark, LOGS, location)
    for log in folder(location.table).rglob(".*.log.*"):
        log.unlink()
    services = StreamServices(
        *(spark, LOGS, location.table), every=EVERY, async_services=True, is_mine=lambda: True
    )
    services.start(services.options(EVERY - 1), LOGS.write_options())
    with pytest.raises(StreamError) as caught:
        services.close()
    what = f"the table services of the stream into {location.table} failed"
    remedy = "no batch is lost; fix the cause and start the stream again"
    assert_refusal(str(caught.value), what, "FileNotFoundException", remedy=remedy)
    services.close()  # it is said once


def planned(spark: SparkSession, location: TableLocation) -> tuple[StreamServices, dict[str, str]]:
    """Services of a table that has a plan, and what a batch is told that plans one more."""
    stream(spark, LOGS, location, 2, 9, every=100)
    plan(spark, LOGS, location)
    services = StreamServices(
        *(spark, LOGS, location.table), every=EVERY, async_services=True, is_mine=lambda: True
    )
    options = services.options(EVERY - 1)
    assert options["hoodie.compact.schedule.inline"] == "true"
    assert options["hoodie.compact.inline"] == options["hoodie.clean.automatic"] == "false"
    return services, options


def test_the_last_batch_that_may_plan_waits_for_the_plan_before(
    spark: SparkSession, location: TableLocation, capsys: pytest.CaptureFixture[str]
) -> None:
    services, options = planned(spark, location)
    assert services.options(EVERY) == QUIET
    services.start(options, LOGS.write_options())
    assert services.options(2 * EVERY - 1) == options
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert last_line == (
        f"hudilab: batch {2 * EVERY - 1} waits for the table services that an earlier batch has "
        "planned"
    )
    assert plans(spark, location) == []


def test_what_is_due_while_the_thread_is_busy_is_planned_after_it(
    spark: SparkSession,
    location: TableLocation,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services, options = planned(spark, location)
    monkeypatch.setattr(beside, "LATEST", 40)
    everything, grown = 199, 200  # of policy.COMPACT_ALL_EVERY, and of EVERY
    monkeypatch.setattr(policy, "SMALL_LOG", 1)
    services.start(options, LOGS.write_options())
    assert services.options(everything) == QUIET
    assert list(services.count_bytes(Commits(spark, location.table).newest_first()))
    assert services.options(grown) == QUIET
    services.close()
    late = services.options(grown + 1)
    assert late["hoodie.compact.schedule.inline"] == "true"
    assert late["hoodie.compaction.logfile.size.threshold"] == "0"  # it compacts all slices
    assert services.options(grown + 2) == QUIET
    assert "waits" not in capsys.readouterr().err


@pytest.mark.deep
@pytest.mark.kills
def test_a_replaced_driver_cannot_complete_its_compaction(
    spark: SparkSession, location: TableLocation
) -> None:
    """It hangs in the middle, is replaced, and goes on when the other has compacted the table."""
    env = {"HUDILAB_HOME": str(folder(location.warehouse).parent)}
    old = start_program(PROGRAM, location.warehouse, env=env)
    timeline = folder(location.table) / ".hoodie" / "timeline"
    try:
        wait_while_running(
            old, lambda: any(timeline.glob("*.compaction.inflight")), 300, "no compaction"
        )
        os.killpg(old.pid, signal.SIGSTOP)
        hung = plans(spark, location)
        assert hung
        finish(start_program(PROGRAM, location.warehouse, env=env), 600)
        rows = rows_once(folder(location.table))
        os.killpg(old.pid, signal.SIGCONT)
        output = old.communicate(timeout=300)[1]
        assert old.returncode != 0
        assert "another driver has taken over the checkpoint" in output
        done = {commit.instant for commit in Commits(spark, location.table).newest_first()}
        assert not done.intersection(hung)
        assert rows_once(folder(location.table)) == rows
    finally:
        kill(old)
