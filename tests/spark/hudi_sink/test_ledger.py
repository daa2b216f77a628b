"""Every way to lose or repeat rows silently is refused before anything is written."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hudi import HudiTableBuilder
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from running import folder, readings_at, start_stream

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
REFUSALS = json.loads(Path(__file__).with_name("refusals.json").read_text("utf-8"))


def readings(spark: SparkSession, per_batch: int = 20) -> DataFrame:
    return sensor_stream(spark, rows_per_batch=per_batch, rows=40, **SIZES)


def run(spark: SparkSession, location: TableLocation, batches: int = 2) -> ExactlyOnceSink:
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)
    query = start_stream(readings(spark), sink.write_batch, location)
    drain(query, batches=batches, deadline=120)
    return sink


def rows(spark: SparkSession, location: TableLocation) -> int:
    return spark.read.format("hudi").load(location.table).count()


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("written")
    run(spark, readings_at(home))
    assert rows(spark, readings_at(home)) == 40
    return home


@pytest.fixture
def finished(written: Path, tmp_path: Path) -> TableLocation:
    """A copy of a finished run: table and checkpoint."""
    shutil.copytree(written, tmp_path / "copy")
    return readings_at(tmp_path / "copy")


def refusal(spark: SparkSession, location: TableLocation, **changes: Any) -> str:
    arguments: dict[str, Any] = {"spec": SPEC, "source": SOURCE, "batches": 2} | changes
    with pytest.raises((StreamError, TableError)) as caught:
        ExactlyOnceSink(spark, location=location, **arguments)
    return str(caught.value)


def newest_commit(location: TableLocation) -> Path:
    return max((folder(location.table) / ".hoodie" / "timeline").glob("*_*.commit"))


def lose_newest_commit(location: TableLocation) -> None:
    newest = newest_commit(location)
    for file in newest.parent.iterdir():
        if newest.name[:17] in file.name:
            file.unlink()


def crash_before_last_note(location: TableLocation, planned: int = 1) -> None:
    """Leave the checkpoint as a crash after batch 1's commit does: not done, but planned.

    planned: the last batch that is.
    """
    for log, last in (("commits", 0), ("offsets", planned)):
        for note in (folder(location.checkpoint) / log).iterdir():
            name = note.name.strip(".").removesuffix(".crc")
            if name.isdecimal() and int(name) > last:
                note.unlink()


def overwrite(file: Path, content: bytes) -> Path:
    """Change a file that Spark or Hudi wrote."""
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_bytes(content)
    return file


def plan_another_batch(location: TableLocation) -> None:
    crash_before_last_note(location)
    offsets = folder(location.checkpoint) / "offsets" / "1"
    overwrite(offsets, offsets.read_bytes().replace(b":40,", b":60,"))


def take_another_query(location: TableLocation) -> None:
    checkpoint = folder(location.checkpoint)
    shutil.rmtree(checkpoint)
    checkpoint.mkdir()
    (checkpoint / "metadata").write_text('{"id":"11111111-2222-3333-4444-555555555555"}')


DAMAGES: dict[str, Callable[[TableLocation], object]] = {
    "the checkpoint is lost": lambda at: shutil.rmtree(folder(at.checkpoint)),
    "the checkpoint is of another query that has done nothing": take_another_query,
    "the checkpoint is set back": lambda at: shutil.rmtree(folder(at.checkpoint) / "commits"),
    "the checkpoint is set back and plans another batch": plan_another_batch,
    "the checkpoint is damaged": lambda at: overwrite(folder(at.checkpoint) / "metadata", b"{}"),
    "the table is lost": lambda at: shutil.rmtree(folder(at.table)),
    "the table is set back": lose_newest_commit,
}
CHANGES: dict[str, dict[str, Any]] = {
    "another source": {"source": SOURCE | {"seed": 2}},
    "another number of buckets": {"spec": replace(SPEC, operation="upsert", buckets=2)},
    "another record key": {"spec": replace(SPEC, record_key=("sensor_id",))},
    "another table type": {"spec": replace(SPEC, table_type="MERGE_ON_READ")},
    "another partition": {"spec": replace(SPEC, partition=())},
    "another ordering": {"spec": replace(SPEC, ordering="reading_id")},
}


@pytest.mark.parametrize("what", [*DAMAGES, *CHANGES])
def test_a_start_is_refused(spark: SparkSession, finished: TableLocation, what: str) -> None:
    if what in DAMAGES:
        DAMAGES[what](finished)
    text = REFUSALS[what].format(table=finished.table, checkpoint=finished.checkpoint)
    assert refusal(spark, finished, **CHANGES.get(what, {})) == text


def test_a_stopped_stream_does_not_interrupt_its_tasks(
    spark: SparkSession, location: TableLocation
) -> None:
    """Or a task that reads the log of a MERGE_ON_READ table would end the JVM, now and then."""
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)

    @F.udf("boolean")
    def runs_on() -> bool:  # Spark sets the property to true for each batch
        task = TaskContext.get()
        return bool(task and task.getLocalProperty("spark.job.interruptOnCancel") == "false")

    query = start_stream(readings(spark).where(runs_on()), sink.write_batch, location)
    drain(query, batches=2, deadline=120)
    assert rows(spark, location) == 40


def test_a_stop_waits_for_the_batch(spark: SparkSession, location: TableLocation) -> None:
    """Its interrupt would come between creating a file and filling it, now and then."""
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
    query = start_stream(readings(spark), sink.write_batch, location)
    assert started.wait(60)
    stopping.set()
    query.stop()
    assert interrupts
    assert not any(interrupts)
    assert query.exception() is None
    assert rows(spark, location) == 20
    run(spark, location)
    assert rows(spark, location) == 40


def test_signs_in_the_path_that_urls_and_sql_know(spark: SparkSession, tmp_path: Path) -> None:
    location = locate("o'ware house%20", "lab", "readings", is_local=True, home=tmp_path)
    run(spark, location)
    run(spark, location)
    assert rows(spark, location) == 40
    assert (tmp_path / "o'ware house%20" / "lab" / "readings" / ".hoodie").is_dir()
    assert len(instants(spark, location.table)) == 2
    assert set(data_files(spark, location.table).partition) == {"sensor_id=10", "sensor_id=11"}


def test_no_checkpoint_location(spark: SparkSession, location: TableLocation) -> None:
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)
    query = readings(spark).writeStream.foreachBatch(sink.write_batch).start()
    with pytest.raises(StreamError) as caught:
        drain(query, batches=2, deadline=60)
    assert str(caught.value) == (
        "the stream ended after 0 of 2 batches: the stream does not "
        f"use the checkpoint {location.checkpoint}, so a restart would write everything again; add "
        '.option("checkpointLocation", location.checkpoint) to writeStream; '
        "fix the cause and start again: the stream resumes from its checkpoint"
    )
    assert not folder(location.table).exists()


def test_checkpoint_of_another_table(
    spark: SparkSession, location: TableLocation, finished: TableLocation
) -> None:
    run(spark, location)
    shutil.rmtree(folder(finished.checkpoint))
    shutil.copytree(folder(location.checkpoint), folder(finished.checkpoint))
    assert "belongs to another table or run" in refusal(spark, finished)
    assert rows(spark, finished) == 40


def test_a_start_after_a_merge_of_files_finds_the_last_batch(
    spark: SparkSession, finished: TableLocation
) -> None:
    again = sensor_readings(spark, 0, **SIZES)  # no rows: only what belongs to a tidy batch is done
    options = SPEC.write_options() | service_options(SPEC, finished.table, 0, every=1)
    again.write.format("hudi").options(**options).mode("append").save(finished.table)
    history = instants(spark, finished.table)
    assert "replacecommit" in set(history.action)
    run(spark, finished)
    assert rows(spark, finished) == 40
    first = f"{history.completed.iloc[0]:%Y%m%d%H%M%S%f}"[:17]
    past = spark.read.format("hudi").option("as.of.instant", first).load(finished.table)
    assert past.count() == 20
    elsewhere = HudiTableBuilder.from_base_uri(str(folder(finished.table))).build().read()
    assert sum(batch.num_rows for batch in elsewhere) == 40


def test_a_ledger_used_again_after_its_checkpoint_was_deleted(
    spark: SparkSession, location: TableLocation
) -> None:
    sink = run(spark, location)
    shutil.rmtree(folder(location.checkpoint))
    with pytest.raises(StreamError, match="was written by a stream whose checkpoint is not at"):
        drain(start_stream(readings(spark), sink.write_batch, location), batches=2, deadline=120)
    assert rows(spark, location) == 40


@pytest.mark.parametrize("left", [None, b""])
def test_properties_that_a_dead_driver_was_replacing_are_restored(
    spark: SparkSession,
    finished: TableLocation,
    monkeypatch: pytest.MonkeyPatch,
    left: bytes | None,
) -> None:
    properties = folder(finished.table) / ".hoodie" / "hoodie.properties"
    backup, whole = properties.with_name(f"{properties.name}.backup"), properties.read_bytes()
    properties.rename(backup)
    if left is not None:
        properties.write_bytes(left)
    monkeypatch.setattr("hudi_sink.commits.LONGEST", 0)
    run(spark, finished)
    assert (properties.read_bytes(), backup.exists()) == (whole, False)
    assert rows(spark, finished) == 40


def test_a_checkpoint_set_back_by_one_batch_that_is_planned_anew(
    spark: SparkSession, finished: TableLocation
) -> None:
    crash_before_last_note(finished, planned=0)
    sink = ExactlyOnceSink(spark, SPEC, finished, SOURCE, 2)  # nobody knows yet what it will plan
    query = start_stream(readings(spark, per_batch=30), sink.write_batch, finished)
    with pytest.raises(StreamError, match=r"batch 1 in .* has other source offsets than"):
        drain(query, batches=2, deadline=120)
    assert rows(spark, finished) == 40
    assert len(instants(spark, finished.table)) == 2


def test_a_source_that_changes_between_two_runs(
    spark: SparkSession, location: TableLocation
) -> None:
    topic = {"topic": "prices", "topic_id": "one"}
    sink = ExactlyOnceSink(spark, SPEC, location, lambda: dict(topic), 2)
    drain(start_stream(readings(spark), sink.write_batch, location), batches=1, deadline=120)
    before = rows(spark, location)
    topic["topic_id"] = "two"
    with pytest.raises(StreamError) as caught:
        drain(start_stream(readings(spark), sink.write_batch, location), batches=2, deadline=120)
    assert (
        '{"topic": "prices", "topic_id": "one"}, but this run has '
        '{"topic": "prices", "topic_id": "two"}; use the same source'
    ) in str(caught.value)
    assert rows(spark, location) == before


def test_a_table_with_rows_of_others(spark: SparkSession, finished: TableLocation) -> None:
    shutil.rmtree(folder(finished.checkpoint))
    shutil.rmtree(folder(finished.table))
    batch = sensor_readings(spark, 10, **SIZES)
    batch.write.format("hudi").options(**SPEC.write_options()).mode("append").save(finished.table)
    assert refusal(spark, finished) == (
        f"the table {finished.table} contains rows that no stream wrote, and "
        f"{finished.checkpoint} is a "
        "new checkpoint; use another table, or pass shared=True to ExactlyOnceSink to add to these "
        "rows"
    )
    ExactlyOnceSink(spark, SPEC, finished, SOURCE, 2, shared=True)


def test_a_table_that_vanishes_while_the_stream_runs(
    spark: SparkSession, location: TableLocation
) -> None:
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            shutil.rmtree(folder(location.table))
        sink.write_batch(batch, batch_id)

    query = start_stream(readings(spark), write_batch, location)
    with pytest.raises(StreamError) as caught:
        drain(query, batches=2, deadline=120)
    assert (
        "the table was restored to an earlier state while the stream was running: "
        f"{location.table} "
        "has batches up to -1, but batch 1 is next; restore the table, or delete the table and "
        "the checkpoint together"
    ) in str(caught.value)
    assert not folder(location.table).exists()


@pytest.mark.parametrize("left", [[], [".hoodie/hoodie.properties"]])
def test_a_table_whose_creation_was_cut_off(
    spark: SparkSession, location: TableLocation, left: list[str]
) -> None:
    (folder(location.table) / ".hoodie" / "timeline" / "history").mkdir(parents=True)
    for name in left:
        (folder(location.table) / name).touch()
    run(spark, location)
    assert rows(spark, location) == 40


def test_a_table_that_has_lost_its_properties(spark: SparkSession, finished: TableLocation) -> None:
    shutil.rmtree(folder(finished.checkpoint))
    properties = folder(finished.table) / ".hoodie" / "hoodie.properties"
    properties.unlink()
    with pytest.raises(StreamError) as caught:
        run(spark, finished)
    assert (
        f"the table {finished.table} has files, but its .hoodie/hoodie.properties is missing or "
        "empty; restore that file from a backup, or delete the table and the checkpoint together"
    ) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"Obj\x01\x04\x16avro.codec"])
def test_a_commit_whose_file_a_power_cut_left_empty_or_cut_off(
    spark: SparkSession, finished: TableLocation, content: bytes
) -> None:
    crash_before_last_note(finished)
    newest = overwrite(newest_commit(finished), content)
    assert refusal(spark, finished) == (
        f"the commit {newest.name[:17]} of {finished.table} is damaged: its file is empty or "
        "truncated, as after a power failure, so what it wrote is unknown; look at "
        f"{finished.table}/.hoodie/timeline/{newest.name}, then restore it from a backup, or "
        "delete "
        "it, and Hudi rolls the commit back, and start the stream again"
    )
    newest.unlink()
    run(spark, finished)
    assert rows(spark, finished) == 40
    assert Commits(spark, finished.table).count() == 2


def test_the_first_commit_whose_file_a_power_cut_left_empty(
    spark: SparkSession, location: TableLocation
) -> None:
    """Its markers are gone: Hudi would leave its files, and take them for committed ones."""
    sink = ExactlyOnceSink(spark, SPEC, location, SOURCE, 2)
    drain(start_stream(readings(spark), sink.write_batch, location, once=True), deadline=120)
    assert rows(spark, location) == 20
    (folder(location.checkpoint) / "commits" / "0").unlink()
    overwrite(newest_commit(location), b"").unlink()
    run(spark, location)
    assert rows(spark, location) == 40


def test_an_older_commit_and_one_that_only_cannot_be_read_are_not_to_be_deleted(
    spark: SparkSession, finished: TableLocation
) -> None:
    """Without an older commit's file Hudi refuses every later write."""
    newest = newest_commit(finished)
    whole = newest.read_bytes()
    crash_before_last_note(finished)
    overwrite(newest, whole.replace(b"avro.schema", b"avro.schemb"))
    message = refusal(spark, finished)
    assert f"the commit {newest.name[:17]} of {finished.table} cannot be read: " in message
    assert (
        f"; do not delete {finished.table}/.hoodie/timeline/{newest.name}; restore it from"
        in message
    )
    newest.write_bytes(whole)
    older = overwrite(min(newest.parent.glob("*_*.commit")), b"")
    with pytest.raises(StreamError) as caught:
        Commits(spark, finished.table).unseen(frozenset())
    message = str(caught.value)
    assert (
        f"the commit {older.name[:17]} of {finished.table} is damaged: its file is empty" in message
    )
    assert (
        f"; do not delete {finished.table}/.hoodie/timeline/{older.name}; restore it from"
        in message
    )


def test_a_stream_that_is_stopped_while_it_reads_a_commit_calls_it_not_damaged(
    spark: SparkSession, finished: TableLocation
) -> None:
    commits = Commits(spark, finished.table)
    timeline = commits.meta().getActiveTimeline().filterCompletedInstants()
    jvm: Any = spark._jvm
    jvm.java.lang.Thread.currentThread().interrupt()  # what query.stop() does to the stream
    try:
        with pytest.raises(Py4JJavaError, match="ClosedByInterruptException"):
            next(commits._read(timeline))
    finally:
        jvm.java.lang.Thread.interrupted()
    assert next(commits._read(timeline)).metadata is not None


@pytest.mark.parametrize("text", ["", "garbage", "v1", 'v1\n{"batchWatermarkMs":0'])
def test_a_batch_whose_plan_is_damaged(
    spark: SparkSession, finished: TableLocation, text: str
) -> None:
    overwrite(folder(finished.checkpoint) / "offsets" / "1", text.encode())
    assert refusal(spark, finished) == (
        f"the checkpoint file {finished.checkpoint}/offsets/1 is damaged; delete the files "
        "numbered 1 "
        f"and higher in {finished.checkpoint}/commits and {finished.checkpoint}/offsets, and start "
        "again: Spark plans these batches again, and the sink skips those that the table contains"
    )
    checkpoint = CheckpointFiles(spark, finished.checkpoint)
    checkpoint.remove(checkpoint.later(0))
    run(spark, finished)
    assert rows(spark, finished) == 40
