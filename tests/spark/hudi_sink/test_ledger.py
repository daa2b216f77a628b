"""Every way to lose or repeat rows silently is refused before anything is written."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hudi import HudiTableBuilder
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from running import folder

from hudi_sink.checkpoints import CheckpointFiles
from hudi_sink.commits import Commits
from hudi_sink.service_schedule import service_options
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError, TableError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation, locate
from hudilab_lessons.timeline import data_files, instants
from hudilab_spark.streams import drain

SPEC = readings_table()
SIZES = {"sensors": 2, "seed": 1}
SOURCE = {"rows": 40, "batches": 2, **SIZES}


def stream(spark: SparkSession, sink: ExactlyOnceSink, location: TableLocation) -> StreamingQuery:
    readings = sensor_stream(spark, rows_per_batch=20, rows=40, **SIZES)
    writer = readings.writeStream.foreachBatch(sink.write_batch)
    return writer.option("checkpointLocation", location.checkpoint).start()


def run(spark: SparkSession, location: TableLocation, batches: int = 2) -> ExactlyOnceSink:
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)
    drain(stream(spark, sink, location), batches=batches, deadline=120)
    return sink


def rows(spark: SparkSession, location: TableLocation) -> int:
    return spark.read.format("hudi").load(location.table).count()


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("written")
    location = locate("warehouse", "lab", "readings", is_local=True, home=home)
    run(spark, location)
    assert rows(spark, location) == 40
    return home


_copies = itertools.count()


@pytest.fixture
def location(written: Path) -> TableLocation:
    """A copy of a finished run: table and checkpoint."""
    home = written.with_name(f"copy{next(_copies)}")
    shutil.copytree(written, home)
    return locate("warehouse", "lab", "readings", is_local=True, home=home)


def refusal(spark: SparkSession, location: TableLocation, **changes: Any) -> str:
    arguments: dict[str, Any] = {"spec": SPEC, "source": SOURCE, "batches": 2} | changes
    with pytest.raises((StreamError, TableError)) as caught:
        ExactlyOnceSink(spark, location=location, **arguments)
    return str(caught.value)


def test_a_stopped_stream_does_not_interrupt_its_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Or a task that reads the log of a MERGE_ON_READ table would end the JVM, now and then."""
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)
    readings = sensor_stream(spark, rows_per_batch=20, rows=40, **SIZES)

    @F.udf("boolean")
    def runs_on() -> bool:  # Spark sets the property to true for each batch
        task = TaskContext.get()
        return bool(task and task.getLocalProperty("spark.job.interruptOnCancel") == "false")

    writer = readings.where(runs_on()).writeStream.foreachBatch(sink.write_batch)
    query = writer.option("checkpointLocation", location.checkpoint).start()
    drain(query, batches=2, deadline=120)
    assert rows(spark, location) == 40


def test_a_stop_waits_for_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    """Its interrupt would come between creating a file and filling it, now and then."""
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    jvm: Any = spark._jvm
    started, stopping, interrupts = threading.Event(), threading.Event(), []

    def source() -> dict[str, Any]:  # asked in the stream's thread, before the batch is written
        if "stream execution" in str(jvm.java.lang.Thread.currentThread().getName()):
            started.set()
            stopping.wait(60)
            time.sleep(1)
            interrupts.append(jvm.java.lang.Thread.interrupted())
        return SOURCE

    sink = ExactlyOnceSink(spark, SPEC, location, source, 2)
    readings = sensor_stream(spark, rows_per_batch=20, rows=40, **SIZES)
    writer = readings.writeStream.foreachBatch(sink.write_batch)
    query = writer.option("checkpointLocation", location.checkpoint).start()
    assert started.wait(60)
    stopping.set()
    query.stop()
    assert interrupts
    assert not any(interrupts)
    assert query.exception() is None
    assert rows(spark, location) == 20
    run(spark, location)
    assert rows(spark, location) == 40


def test_a_second_start_writes_nothing_again(spark: SparkSession, location: TableLocation) -> None:
    run(spark, location)
    assert rows(spark, location) == 40


def test_a_batch_that_spark_does_not_know_to_be_done_is_not_written_again(
    spark: SparkSession, location: TableLocation
) -> None:
    crash_before_last_note(location)
    run(spark, location)
    assert rows(spark, location) == 40


def test_a_stop_in_the_middle_of_anything_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    run(spark, location, batches=1)
    run(spark, location)
    expected = sensor_readings(spark, 40, **SIZES)
    table = spark.read.format("hudi").load(location.table).select(expected.columns)
    assert expected.exceptAll(table).count() == table.exceptAll(expected).count() == 0


def test_signs_in_the_path_that_urls_and_sql_know(spark: SparkSession, tmp_path: Path) -> None:
    location = locate("o'ware house%20", "lab", "readings", is_local=True, home=tmp_path)
    run(spark, location)
    run(spark, location)
    assert rows(spark, location) == 40
    assert (tmp_path / "o'ware house%20" / "lab" / "readings" / ".hoodie").is_dir()
    assert len(instants(spark, location.table)) == 2
    assert set(data_files(spark, location.table).partition) == {"sensor_id=10", "sensor_id=11"}


def test_no_checkpoint_location(spark: SparkSession, tmp_path: Path) -> None:
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)
    readings = sensor_stream(spark, rows_per_batch=20, rows=40, **SIZES)
    with pytest.raises(StreamError) as caught:
        drain(readings.writeStream.foreachBatch(sink.write_batch).start(), batches=2, deadline=60)
    assert str(caught.value) == (
        "the stream ended after 0 of 2 batches: the stream does not "
        f"use the checkpoint {location.checkpoint}, so a restart would write everything again; add "
        '.option("checkpointLocation", location.checkpoint) to writeStream; '
        "fix the cause and start again: the stream resumes from its checkpoint"
    )
    assert not folder(location.table).exists()


def test_checkpoint_lost(spark: SparkSession, location: TableLocation) -> None:
    shutil.rmtree(folder(location.checkpoint))
    assert refusal(spark, location) == (
        f"the table {location.table} was written by a stream whose checkpoint is not at "
        f"{location.checkpoint}, so this run would write its rows again; restore that "
        "checkpoint, or "
        "delete the table and the checkpoint together, or use another run_id; if both streams "
        "write to the table, pass shared=True to the ExactlyOnceSink of both"
    )


def test_table_lost(spark: SparkSession, location: TableLocation) -> None:
    shutil.rmtree(folder(location.table))
    assert refusal(spark, location) == (
        f"the checkpoint {location.checkpoint} belongs to another table or run: {location.table} "
        "has "
        "none of its 2 batches; use the checkpoint's own table, or delete the table and the "
        "checkpoint together, or use another run_id"
    )


def test_checkpoint_of_another_table(
    spark: SparkSession, location: TableLocation, tmp_path: Path
) -> None:
    other = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    run(spark, other)
    shutil.rmtree(folder(location.checkpoint))
    shutil.copytree(folder(other.checkpoint), folder(location.checkpoint))
    assert "belongs to another table or run" in refusal(spark, location)
    assert rows(spark, location) == 40


def test_checkpoint_of_another_source(spark: SparkSession, location: TableLocation) -> None:
    assert refusal(spark, location, source=SOURCE | {"seed": 2}) == (
        f"the checkpoint {location.checkpoint} belongs to a run with "
        '{"batches": 2, "rows": 40, "seed": 1, "sensors": 2}, but this run has '
        '{"batches": 2, "rows": 40, "seed": 2, "sensors": 2}; use the same source and '
        "parameters, or delete the table and the checkpoint together, or use another run_id"
    )


def test_another_number_of_buckets(spark: SparkSession, location: TableLocation) -> None:
    buckets = replace(SPEC, operation="upsert", buckets=2)
    text = refusal(spark, location, spec=buckets)
    assert (
        '{"batches": 2, "buckets": 2, "rows": 40, "seed": 1, "sensors": 2}; use the same source'
        in text
    )


def test_a_start_after_a_merge_of_files_finds_the_last_batch(
    spark: SparkSession, location: TableLocation
) -> None:
    again = sensor_readings(spark, 0, **SIZES)  # no rows: only what belongs to a tidy batch is done
    options = SPEC.write_options() | service_options(SPEC, 0, every=1)
    again.write.format("hudi").options(**options).mode("append").save(location.table)
    history = instants(spark, location.table)
    assert "replacecommit" in set(history.action)
    run(spark, location)
    assert rows(spark, location) == 40
    first = f"{history.completed.iloc[0]:%Y%m%d%H%M%S%f}"[:17]
    past = spark.read.format("hudi").option("as.of.instant", first).load(location.table)
    assert past.count() == 20
    elsewhere = HudiTableBuilder.from_base_uri(str(folder(location.table))).build().read()
    assert sum(batch.num_rows for batch in elsewhere) == 40


def test_checkpoint_set_back(spark: SparkSession, location: TableLocation) -> None:
    shutil.rmtree(folder(location.checkpoint) / "commits")
    assert refusal(spark, location) == (
        f"the checkpoint was restored to an earlier state: {location.table} has batches up to 1, "
        f"{location.checkpoint} up to -1; restore both from the same point in time, or delete the "
        "table and the checkpoint together, or use another run_id"
    )


def test_table_set_back(spark: SparkSession, location: TableLocation) -> None:
    timeline = folder(location.table) / ".hoodie" / "timeline"
    newest = max(file.name[:17] for file in timeline.glob("*.commit"))
    for file in timeline.iterdir():
        if newest in file.name:
            file.unlink()
    assert refusal(spark, location) == (
        f"the table was restored to an earlier state: {location.table} has batches up to 0, "
        f"{location.checkpoint} up to 1; restore both from the same point in time, pass batches=1 "
        "again if an earlier run had that, or delete the table and the checkpoint together, or "
        "use another run_id"
    )


def test_a_ledger_used_again_after_its_checkpoint_was_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    sink = run(spark, location)
    shutil.rmtree(folder(location.checkpoint))
    with pytest.raises(StreamError, match="was written by a stream whose checkpoint is not at"):
        drain(stream(spark, sink, location), batches=2, deadline=120)
    assert rows(spark, location) == 40


def test_a_checkpoint_of_another_query_that_has_done_nothing(
    spark: SparkSession, location: TableLocation
) -> None:
    checkpoint = folder(location.checkpoint)
    shutil.rmtree(checkpoint)
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"11111111-2222-3333-4444-555555555555"}')
    assert "was written by a stream whose checkpoint is not at" in refusal(spark, location)


def test_a_checkpoint_set_back_by_one_batch_that_plans_another_one(
    spark: SparkSession, location: TableLocation
) -> None:
    crash_before_last_note(location)
    offsets = folder(location.checkpoint) / "offsets" / "1"
    offsets.with_name(".1.crc").unlink()
    offsets.write_text(offsets.read_text().replace(":40,", ":60,"))
    assert refusal(spark, location) == (
        f"batch 1 in {location.table} has other source offsets than batch 1 of the checkpoint "
        f"{location.checkpoint}: the checkpoint was restored to an earlier state or copied; "
        "restore "
        "both from the same point in time, or delete the table and the checkpoint together, or "
        "use another run_id"
    )


def test_a_checkpoint_set_back_by_one_batch_that_is_planned_anew(
    spark: SparkSession, location: TableLocation
) -> None:
    crash_before_last_note(location, planned=0)
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)  # nobody knows yet what it will plan
    readings = sensor_stream(spark, rows_per_batch=30, rows=40, **SIZES)
    other = readings.writeStream.foreachBatch(sink.write_batch)
    query = other.option("checkpointLocation", location.checkpoint).start()
    with pytest.raises(StreamError, match=r"batch 1 in .* has other source offsets than"):
        drain(query, batches=2, deadline=120)
    assert rows(spark, location) == 40
    assert len(instants(spark, location.table)) == 2


def crash_before_last_note(location: TableLocation, planned: int = 1) -> None:
    """Leave the checkpoint as a crash after batch 1's commit does: not done, but planned.

    planned: the last batch that is.
    """
    for log, last in (("commits", 0), ("offsets", planned)):
        for note in (folder(location.checkpoint) / log).iterdir():
            name = note.name.strip(".").removesuffix(".crc")
            if name.isdecimal() and int(name) > last:
                note.unlink()


def test_a_bounded_stream_that_lost_its_last_batch(
    spark: SparkSession, location: TableLocation
) -> None:
    crash_before_last_note(location, planned=99)  # Spark has planned empty batches behind the last
    offsets = folder(location.checkpoint) / "offsets"
    shutil.copy(offsets / "1", offsets / "2")
    (offsets / ".2.crc").unlink(missing_ok=True)
    timeline = folder(location.table) / ".hoodie" / "timeline"
    newest = max(file.name[:17] for file in timeline.glob("*.commit"))
    for file in timeline.iterdir():
        if newest in file.name:
            file.unlink()
    with pytest.raises(StreamError, match=r"has batches up to 0, but batch \d+ is next"):
        run(spark, location)


def test_a_source_that_changes_between_two_runs(spark: SparkSession, tmp_path: Path) -> None:
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    topic = {"topic": "prices", "topic_id": "one"}
    sink = ExactlyOnceSink(spark, SPEC, location, lambda: dict(topic), 2)
    drain(stream(spark, sink, location), batches=1, deadline=120)
    before = rows(spark, location)
    topic["topic_id"] = "two"
    with pytest.raises(StreamError) as caught:
        drain(stream(spark, sink, location), batches=2, deadline=120)
    assert (
        '{"topic": "prices", "topic_id": "one"}, but this run has '
        '{"topic": "prices", "topic_id": "two"}; use the same source'
    ) in str(caught.value)
    assert rows(spark, location) == before


def test_a_table_with_rows_of_others(spark: SparkSession, location: TableLocation) -> None:
    shutil.rmtree(folder(location.checkpoint))
    shutil.rmtree(folder(location.table))
    batch = sensor_readings(spark, 10, **SIZES)
    batch.write.format("hudi").options(**SPEC.write_options()).mode("append").save(location.table)
    assert refusal(spark, location) == (
        f"the table {location.table} contains rows that no stream wrote, and "
        f"{location.checkpoint} is a "
        "new checkpoint; use another table, or pass shared=True to ExactlyOnceSink to add to these "
        "rows"
    )
    ExactlyOnceSink(spark, SPEC, location, SOURCE, 2, shared=True)


def test_a_table_that_vanishes_while_the_stream_runs(spark: SparkSession, tmp_path: Path) -> None:
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            shutil.rmtree(folder(location.table))
        sink.write_batch(batch, batch_id)

    readings = sensor_stream(spark, rows_per_batch=20, rows=40, **SIZES)
    query = readings.writeStream.foreachBatch(write_batch)
    with pytest.raises(StreamError) as caught:
        drain(
            query.option("checkpointLocation", location.checkpoint).start(), batches=2, deadline=99
        )
    assert (
        "the table was restored to an earlier state while the stream was running: "
        f"{location.table} "
        "has batches up to -1, but batch 1 is next; restore the table, or delete the table and "
        "the checkpoint together"
    ) in str(caught.value)
    assert not folder(location.table).exists()


@pytest.mark.parametrize("left", [[], [".hoodie/hoodie.properties"]])
def test_a_table_whose_creation_was_cut_off(
    spark: SparkSession, tmp_path: Path, left: list[str]
) -> None:
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    (folder(location.table) / ".hoodie" / "timeline" / "history").mkdir(parents=True)
    for name in left:
        (folder(location.table) / name).touch()
    run(spark, location)
    assert rows(spark, location) == 40


def test_a_table_that_has_lost_its_properties(spark: SparkSession, location: TableLocation) -> None:
    shutil.rmtree(folder(location.checkpoint))
    properties = folder(location.table) / ".hoodie" / "hoodie.properties"
    properties.unlink()
    with pytest.raises(StreamError) as caught:
        run(spark, location)
    assert (
        f"the table {location.table} has files, but its .hoodie/hoodie.properties is missing or "
        "empty; restore that file from a backup, or delete the table and the checkpoint together"
    ) in str(caught.value)


def empty_last_commit(location: TableLocation) -> Path:
    timeline = folder(location.table) / ".hoodie" / "timeline"
    newest = max(timeline.glob("*_*.commit"))
    (timeline / f".{newest.name}.crc").unlink(missing_ok=True)
    newest.write_bytes(b"")
    return newest


def test_a_commit_whose_file_a_power_cut_left_empty(
    spark: SparkSession, location: TableLocation
) -> None:
    crash_before_last_note(location)
    newest = empty_last_commit(location)
    assert refusal(spark, location) == (
        f"the commit {newest.name[:17]} of {location.table} is damaged: its file is empty or "
        "truncated, as after a power failure, so what it wrote is unknown; look at "
        f"{location.table}/.hoodie/timeline/{newest.name}, then restore it from a backup, or "
        "delete "
        "it, and Hudi rolls the commit back, and start the stream again"
    )
    newest.unlink()
    run(spark, location)
    assert rows(spark, location) == 40
    assert Commits(spark, location.table).count() == 2


def test_the_first_commit_whose_file_a_power_cut_left_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its markers are gone: Hudi would leave its files, and take them for committed ones."""
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    readings = sensor_stream(spark, rows_per_batch=20, rows=40, **SIZES)
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)
    writer = readings.writeStream.foreachBatch(sink.write_batch).trigger(availableNow=True)
    drain(writer.option("checkpointLocation", location.checkpoint).start(), deadline=120)
    assert rows(spark, location) == 20
    (folder(location.checkpoint) / "commits" / "0").unlink()
    empty_last_commit(location).unlink()
    run(spark, location)
    assert rows(spark, location) == 40


def test_a_commit_whose_file_is_cut_off(spark: SparkSession, location: TableLocation) -> None:
    crash_before_last_note(location)
    newest = empty_last_commit(location)
    newest.write_bytes(b"Obj\x01\x04\x16avro.codec")
    assert "is damaged: its file is empty or truncated" in refusal(spark, location)


def test_an_older_commit_and_one_that_only_cannot_be_read_are_not_to_be_deleted(
    spark: SparkSession, location: TableLocation
) -> None:
    """Without an older commit's file Hudi refuses every later write."""
    newest = max(folder(location.table).glob(".hoodie/timeline/*_*.commit"))
    whole = newest.read_bytes()
    crash_before_last_note(location)
    empty_last_commit(location).write_bytes(whole.replace(b"avro.schema", b"avro.schemb"))
    message = refusal(spark, location)
    assert f"the commit {newest.name[:17]} of {location.table} cannot be read: " in message
    assert (
        f"; do not delete {location.table}/.hoodie/timeline/{newest.name}; restore it from"
        in message
    )
    newest.write_bytes(whole)
    older = min(newest.parent.glob("*_*.commit"))
    (newest.parent / f".{older.name}.crc").unlink(missing_ok=True)
    older.write_bytes(b"")
    with pytest.raises(StreamError) as caught:
        Commits(spark, location.table).unseen(frozenset())
    message = str(caught.value)
    assert (
        f"the commit {older.name[:17]} of {location.table} is damaged: its file is empty" in message
    )
    assert (
        f"; do not delete {location.table}/.hoodie/timeline/{older.name}; restore it from"
        in message
    )


def test_a_stream_that_is_stopped_while_it_reads_a_commit_calls_it_not_damaged(
    spark: SparkSession, tmp_path: Path
) -> None:
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    run(spark, location)
    commits = Commits(spark, location.table)
    timeline = commits.meta().getActiveTimeline().filterCompletedInstants()
    jvm: Any = spark._jvm
    jvm.java.lang.Thread.currentThread().interrupt()  # what query.stop() does to the stream
    try:
        with pytest.raises(Py4JJavaError, match="ClosedByInterruptException"):
            next(commits._read(timeline))
    finally:
        jvm.java.lang.Thread.interrupted()
    assert next(commits._read(timeline)).metadata is not None


def test_checkpoint_damaged(spark: SparkSession, location: TableLocation) -> None:
    metadata = folder(location.checkpoint) / "metadata"
    (metadata.parent / ".metadata.crc").unlink()
    metadata.write_text("{}", encoding="utf-8")
    assert refusal(spark, location) == (
        f"the checkpoint file {location.checkpoint}/metadata is damaged; restore it from a "
        "backup, or "
        "delete the table and the checkpoint together and start again"
    )


@pytest.mark.parametrize("text", ["", "garbage", "v1", 'v1\n{"batchWatermarkMs":0'])
def test_a_batch_whose_plan_is_damaged(
    spark: SparkSession, location: TableLocation, text: str
) -> None:
    plan = folder(location.checkpoint) / "offsets" / "1"
    plan.with_name(".1.crc").unlink()
    plan.write_text(text, encoding="utf-8")
    assert refusal(spark, location) == (
        f"the checkpoint file {location.checkpoint}/offsets/1 is damaged; delete the files "
        "numbered 1 "
        f"and higher in {location.checkpoint}/commits and {location.checkpoint}/offsets, and start "
        "again: Spark plans these batches again, and the sink skips those that the table contains"
    )
    checkpoint = CheckpointFiles(spark, location.checkpoint)
    checkpoint.remove(checkpoint.later(0))
    run(spark, location)
    assert rows(spark, location) == 40


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        (
            {"record_key": ("sensor_id",)},
            "record key: the table has sensor_id,reading_id, the spec has sensor_id",
        ),
        (
            {"table_type": "MERGE_ON_READ"},
            "type: the table has COPY_ON_WRITE, the spec has MERGE_ON_READ",
        ),
        ({"partition": ()}, "partition: the table has sensor_id, the spec has none"),
        (
            {"ordering": "reading_id"},
            "ordering: the table has measurement_time, the spec has reading_id",
        ),
    ],
)
def test_another_table_is_there(
    spark: SparkSession, location: TableLocation, changes: dict[str, Any], difference: str
) -> None:
    assert refusal(spark, location, spec=replace(SPEC, **changes)) == (
        f"the existing table {location.table} differs from its TableSpec: {difference}; use the "
        "table's own settings, or another table.name or run_id"
    )


def test_a_failing_batch_leaves_the_session_alive(
    spark: SparkSession, location: TableLocation
) -> None:
    other = replace(
        location, checkpoint=location.checkpoint + "_other", table=location.table + "_other"
    )

    def fails(batch: DataFrame, batch_id: int) -> None:
        wrong = replace(SPEC, record_key=("no_such_column",))
        batch.write.format("hudi").options(**wrong.write_options()).mode("append").save(other.table)

    readings = sensor_stream(spark, rows_per_batch=20, rows=40, **SIZES)
    stream = readings.writeStream.foreachBatch(fails)
    query = stream.option("checkpointLocation", other.checkpoint).start()
    with pytest.raises(StreamError) as caught:
        drain(query, batches=2, deadline=120)
    assert str(caught.value) == (
        "the stream ended after 0 of 2 batches: java.util.NoSuchElementException: None.get, in "
        "org.apache.hudi.exception.HoodieException: Failed to resolve nested field-paths; "
        "fix the cause and start again: the stream resumes from its checkpoint"
    )
    assert spark.range(3).count() == 3


def test_drain_says_when_the_deadline_has_passed(spark: SparkSession, tmp_path: Path) -> None:
    readings = sensor_stream(spark, rows_per_batch=20, **SIZES)
    stream = readings.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(StreamError) as caught:
        drain(stream.trigger(processingTime="1 hour").start(), batches=9, deadline=3)
    assert str(caught.value) == (
        "only 1 of 9 batches finished within 3 s; raise the deadline and start again: "
        "the stream resumes from its checkpoint"
    )
