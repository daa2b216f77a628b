"""`hudilab rewind`: table and checkpoint go back together and the stream refills, or it refuses."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kills import Killed, record, rows_once
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from running import folder, readings_at, start_program, start_stream

from hudi_sink.checkpoints import CheckpointFiles, Owner
from hudi_sink.commits import Commits
from hudi_sink.rewind import Rewind
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError, TableError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation, locate
from hudilab.table import TableSpec
from hudilab_lessons.faults import compare
from hudilab_spark.streams import drain

APPENDS = readings_table()
LOGS = readings_table(operation="upsert", table_type="MERGE_ON_READ", buckets=1)
SIZES = {"sensors": 2, "seed": 1}
PER_BATCH, BATCHES, WRITTEN = 20, 6, 4
NONE = "20260101000000000"


def start(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    *,
    shared: bool = False,
    once: bool = False,
) -> StreamingQuery:
    """The stream; `once`: this source then delivers one batch and ends."""
    rows = BATCHES * PER_BATCH
    sink = ExactlyOnceSink(spark, spec, location, {"rows": rows, **SIZES}, BATCHES, shared=shared)
    readings = sensor_stream(spark, rows_per_batch=PER_BATCH, rows=rows, **SIZES)
    return start_stream(readings, sink.write_batch, location, once=once)


def write(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    batches: int,
    *,
    shared: bool = False,
) -> None:
    """The stream's next batches, and not one more."""
    for _ in range(batches):
        drain(start(spark, spec, location, shared=shared, once=True), deadline=120)


def commits(spark: SparkSession, location: TableLocation) -> list[str]:
    """The instants of the table's commits, oldest first."""
    return sorted(commit.instant for commit in Commits(spark, location.table).newest_first())


def keep(spark: SparkSession, location: TableLocation, instant: str) -> str:
    """Make a savepoint."""
    where = f"path => '{location.table}', commit_time => '{instant}'"
    spark.sql(f"CALL create_savepoint({where})").collect()
    return instant


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(LOGS, id="logs"),
        pytest.param(APPENDS, id="appends", marks=pytest.mark.deep),
    ],
)
def written(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TableSpec, Path]:
    """Four of six batches, and a savepoint at the second."""
    home = tmp_path_factory.mktemp("written")
    location = readings_at(home)
    write(spark, request.param, location, WRITTEN)
    keep(spark, location, commits(spark, location)[1])
    return request.param, home


@pytest.fixture
def location(written: tuple[TableSpec, Path], tmp_path: Path) -> TableLocation:
    """A copy of what is written."""
    shutil.copytree(written[1], tmp_path, dirs_exist_ok=True)
    return readings_at(tmp_path)


@pytest.fixture
def to(spark: SparkSession, location: TableLocation) -> str:
    return commits(spark, location)[1]


def files(location: TableLocation) -> dict[str, int]:
    root = folder(location.warehouse)
    return {str(path): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(TableError) as caught:
        call()
    return str(caught.value)


def assert_refills(spark: SparkSession, spec: TableSpec, location: TableLocation) -> None:
    """The stream resumes, writes each batch once more, and the table is the generator's."""
    drain(start(spark, spec, location), batches=BATCHES, deadline=120)
    wanted = sensor_readings(spark, BATCHES * PER_BATCH, **SIZES)
    assert compare(wanted, location.table) == {
        "rows": BATCHES * PER_BATCH,
        "lost": 0,
        "unexpected": 0,
    }
    stamps = [
        commit.metadata.batch
        for commit in Commits(spark, location.table).newest_first()
        if commit.metadata
    ]
    assert stamps == [*range(BATCHES)][::-1]


def test_table_and_checkpoint_go_back_and_the_stream_refills(
    spark: SparkSession, spec: TableSpec, location: TableLocation, to: str
) -> None:
    before = files(location)
    assert Rewind(spark, location.table, to).preview() == [
        f"table: 2 commits after {to}, with batches 2 to 3",
        f"checkpoint {location.checkpoint}: 4 files of later batches; the next batch is 2",
    ]
    assert files(location) == before
    assert Rewind(spark, location.table, to).run() == [
        f"table: restored to {to}, 2 commits rolled back",
        f"checkpoint {location.checkpoint}: 4 files removed; the next batch is 2",
    ]
    assert spark.read.format("hudi").load(location.table).count() == 2 * PER_BATCH
    again = Rewind(spark, location.table, to)
    assert again.preview() == [
        f"table: 0 commits after {to}, with no batch",
        f"checkpoint {location.checkpoint}: 0 files of later batches; the next batch is 2",
    ]
    assert_refills(spark, spec, location)


@pytest.mark.deep
def test_one_that_died_between_table_and_checkpoint_is_completed_by_the_next(
    spark: SparkSession, spec: TableSpec, location: TableLocation, to: str
) -> None:
    Rewind(spark, location.table, to).restore_table()
    with pytest.raises(StreamError, match="the table was restored to an earlier state"):
        start(spark, spec, location)
    # And in the middle of the checkpoint's files.
    checkpoint = CheckpointFiles(spark, location.checkpoint)
    assert checkpoint.later(1) == ["commits/3", "offsets/3", "commits/2", "offsets/2"]
    checkpoint.remove(["commits/3"])
    with pytest.raises(StreamError, match="the table was restored to an earlier state"):
        start(spark, spec, location)
    assert Rewind(spark, location.table, to).run() == [
        f"table: restored to {to}, 0 commits rolled back",
        f"checkpoint {location.checkpoint}: 3 files removed; the next batch is 2",
    ]
    assert_refills(spark, spec, location)


@pytest.mark.deep
def test_a_write_that_a_dead_driver_left_is_taken_back_too(
    spark: SparkSession, spec: TableSpec, location: TableLocation, to: str
) -> None:
    timeline = folder(location.table) / ".hoodie" / "timeline"
    newest = max(path for path in timeline.glob("*_*commit"))
    newest.unlink()
    line, _ = Rewind(spark, location.table, to).run()
    assert line == f"table: restored to {to}, 1 commit rolled back"
    assert Commits(spark, location.table).unfinished() == set()
    assert_refills(spark, spec, location)


def test_what_cannot_be_returned_to(
    spark: SparkSession, location: TableLocation, to: str, tmp_path: Path
) -> None:
    assert refused(lambda: Rewind(spark, location.table, NONE)) == (
        f"{location.table} has no commit {NONE!r} to rewind to (its "
        f"savepoints are {to}); choose a savepoint, or look at the timeline: hudilab inspect "
        f"{location.table}"
    )
    other = commits(spark, location)[2]
    message = refused(lambda: Rewind(spark, location.table, other))
    assert message == (
        f"the commit {other} of {location.table} has no savepoint, so cleaning may have deleted "
        "its "
        f"files (its savepoints are {to}); create the savepoint before a clean deletes them: CALL "
        f"create_savepoint(path => '{location.table}', commit_time => '{other}')"
    )
    spark.sql(
        message.rpartition("; create the savepoint before a clean deletes them: ")[2]
    ).collect()
    assert "1 commit after" in Rewind(spark, location.table, other).preview()[0]
    assert refused(lambda: Rewind(spark, f"file://{tmp_path}/none", to)) == (
        f"no Hudi table at file://{tmp_path}/none: .hoodie/hoodie.properties is missing or empty; "
        "give the folder that contains .hoodie: hudilab rewind TABLE"
    )


def test_checkpoints_that_are_not_the_tables(
    spark: SparkSession, spec: TableSpec, location: TableLocation, to: str, tmp_path: Path
) -> None:
    give = f"pass the checkpoint of the table's stream: hudilab rewind {location.table} --to {to}"
    elsewhere = f"file://{tmp_path}/elsewhere"
    none = [elsewhere]
    assert refused(lambda: Rewind(spark, location.table, to, checkpoints=none)) == (
        f"no checkpoint exists at {elsewhere}; {give} --checkpoint URI"
    )
    stranger = locate("other", "lab", "readings", is_local=True, home=tmp_path)
    write(spark, spec, stranger, 1)
    others = [stranger.checkpoint]
    message = refused(lambda: Rewind(spark, location.table, to, checkpoints=others))
    query = CheckpointFiles(spark, stranger.checkpoint).query()
    assert message == (
        f"the checkpoint {stranger.checkpoint} belongs to another table: {location.table} has no "
        f"commit of its stream {query}; {give} --checkpoint URI"
    )
    for name in ("metadata", ".metadata.crc"):
        shutil.copy(folder(stranger.checkpoint) / name, folder(location.checkpoint) / name)
    assert "belongs to another table" in refused(lambda: Rewind(spark, location.table, to))


def test_a_checkpoint_and_its_copy(spark: SparkSession, location: TableLocation, to: str) -> None:
    """Only one of them would be set back."""
    copy, query = f"{location.checkpoint}_copy", CheckpointFiles(spark, location.checkpoint).query()
    shutil.copytree(folder(location.checkpoint), folder(copy))
    both = [location.checkpoint, copy]
    assert refused(lambda: Rewind(spark, location.table, to, checkpoints=both)) == (
        f"the checkpoints {location.checkpoint} and {copy} belong to the same query {query}, so "
        "one of them is a copy; pass the checkpoint that the stream uses: "
        f"hudilab rewind {location.table} --to {to} --checkpoint URI"
    )
    Rewind(spark, location.table, to, checkpoints=[location.checkpoint] * 2)


@pytest.mark.deep
def test_all_streams_of_a_shared_table_go_back(spark: SparkSession, tmp_path: Path) -> None:
    location = readings_at(tmp_path)
    second = TableLocation(**{**vars(location), "checkpoint": location.checkpoint_of("second")})
    write(spark, APPENDS, location, 1, shared=True)
    to = keep(spark, location, commits(spark, location)[0])
    write(spark, APPENDS, second, 1, shared=True)
    write(spark, APPENDS, location, 1, shared=True)
    query = CheckpointFiles(spark, second.checkpoint).query()
    assert refused(lambda: Rewind(spark, location.table, to)) == (
        f"1 commit after {to} comes from the stream {query}, whose checkpoint is not "
        f"{location.checkpoint}; pass the checkpoints of all streams: hudilab rewind "
        f"{location.table} "
        f"--to {to} --checkpoint URI"
    )
    both = [location.checkpoint, second.checkpoint]
    assert Rewind(spark, location.table, to, checkpoints=both).run() == [
        f"table: restored to {to}, 2 commits rolled back",
        f"checkpoint {location.checkpoint}: 2 files removed; the next batch is 1",
        f"checkpoint {second.checkpoint}: 2 files removed; the next batch is 0",
    ]
    # No commit of the second stream is left; the note of the rewind still knows its checkpoint.
    assert "0 files removed" in Rewind(spark, location.table, to, checkpoints=both).run()[2]
    write(spark, APPENDS, second, 2, shared=True)
    assert spark.read.format("hudi").load(location.table).count() == 3 * PER_BATCH


def test_a_batch_that_spark_has_forgotten(
    spark: SparkSession, location: TableLocation, to: str
) -> None:
    for number in (0, 1):
        (folder(location.checkpoint) / "offsets" / str(number)).unlink()
    assert refused(lambda: Rewind(spark, location.table, to)) == (
        f"the checkpoint {location.checkpoint} no longer contains batch 1, the newest at {to}: "
        "Spark "
        "keeps the last 100 (spark.sql.streaming.minBatchesToRetain), of which 2 is the oldest; "
        f"choose a later savepoint: hudilab inspect {location.table}"
    )


def test_a_writer_is_alive(
    spark: SparkSession, spec: TableSpec, location: TableLocation, to: str
) -> None:
    again = f"hudilab rewind {location.table} --to {to}"
    query = start(spark, spec, location)
    try:
        assert refused(Rewind(spark, location.table, to, stopped=True).check_safe) == (
            f"the stream of {location.checkpoint} is running in this session; stop it, then: "
            f"{again}"
        )
    finally:
        query.stop()
    checkpoint = CheckpointFiles(spark, location.checkpoint)
    rewind = Rewind(spark, location.table, to)
    rewind.check_safe()  # this process has written, and its stream has stopped
    alive = os.getppid()
    checkpoint.take(Owner("run", alive, socket.gethostname()))
    assert refused(rewind.check_safe) == (
        f"process {alive} on this machine has written with {location.checkpoint} and is still "
        f"running; end it or stop its stream, then add --stopped: {again} --stopped"
    )
    maybe = f"make sure that it has ended, then add --stopped: {again} --stopped"
    checkpoint.take(Owner("run", 1, "elsewhere"))
    problem = f"the stream of {location.checkpoint} may be running on elsewhere; {maybe}"
    assert refused(rewind.check_safe) == problem
    folder(checkpoint.owner_file()).unlink()
    assert (
        refused(rewind.check_safe) == f"the stream of {location.checkpoint} may be running; {maybe}"
    )
    Rewind(spark, location.table, to, stopped=True).check_safe()


def test_a_writer_with_a_heartbeat(spark: SparkSession, location: TableLocation, to: str) -> None:
    hoodie = folder(location.table) / ".hoodie"
    newest = max(path for path in (hoodie / "timeline").glob("*_*commit"))
    newest.unlink()
    instant = newest.name.partition("_")[0]
    (hoodie / ".heartbeat").mkdir(exist_ok=True)
    (hoodie / ".heartbeat" / instant).touch()
    rewind = Rewind(spark, location.table, to, stopped=True)
    assert refused(rewind.check_safe) == (
        f"a writer is still running: its write {instant} to {location.table} had a heartbeat less "
        "than 60 s ago; stop it, wait for a minute, then: "
        f"hudilab rewind {location.table} --to {to}"
    )
    os.utime(hoodie / ".heartbeat" / instant, (time.time() - 61,) * 2)
    rewind.check_safe()


def test_a_stream_that_is_still_running_cannot_commit_any_more(
    spark: SparkSession, spec: TableSpec, location: TableLocation, to: str
) -> None:
    """As on another machine, where the rewind cannot see it."""
    rewind = Rewind(spark, location.table, to, stopped=True)
    query = start(spark, spec, location)
    while not query.recentProgress:
        time.sleep(0.02)
    rewind.restore_table()
    with pytest.raises(StreamError, match="another driver has taken over the checkpoint"):
        drain(query, batches=BATCHES + 9, deadline=60)
    Rewind(spark, location.table, to, stopped=True).run()
    assert spark.read.format("hudi").load(location.table).count() == 2 * PER_BATCH


def test_a_rewind_to_another_savepoint_was_cut_off(
    spark: SparkSession, location: TableLocation, to: str
) -> None:
    later = keep(spark, location, commits(spark, location)[2])
    Rewind(spark, location.table, later).restore_table()
    timeline = folder(location.table) / ".hoodie" / "timeline"
    (done,) = timeline.glob("*_*.restore")
    done.unlink()
    assert refused(lambda: Rewind(spark, location.table, to)) == (
        f"a rewind of {location.table} to {later} was interrupted; complete it first: hudilab "
        f"rewind {location.table} --to {later} --stopped"
    )


def hudilab(*arguments: str, home: Path) -> tuple[int, str]:
    """What the command prints, and its exit code."""
    program = "from hudilab_cli.cli import main; main()"
    done = start_program("-c", program, "rewind", *arguments, env={"HUDILAB_HOME": str(home)})
    out, err = done.communicate(timeout=120)
    return done.returncode, out + err


@pytest.mark.deep
def test_the_command(spark: SparkSession, location: TableLocation, to: str, tmp_path: Path) -> None:
    shown = hudilab(str(folder(location.table)), "--to", to, "--dry-run", home=tmp_path)
    assert shown[0] == 0
    assert re.sub(r"process \d+", "process N", shown[1]) == (
        f"table: 2 commits after {to}, with batches 2 to 3\n"
        f"checkpoint {location.checkpoint}: 4 files of later batches; the next batch is 2\n"
        f"refused now: process N on this machine has written with {location.checkpoint} and is "
        f"still running; end it or stop its stream, then add --stopped: "
        f"hudilab rewind {location.table} --to {to} --stopped\n"
    )
    where = (location.table, "--to", to, "--checkpoint", location.checkpoint, "--stopped")
    assert hudilab(*where, home=tmp_path) == (
        0,
        f"table: restored to {to}, 2 commits rolled back\n"
        f"checkpoint {location.checkpoint}: 4 files removed; the next batch is 2\n",
    )


@pytest.mark.deep
@pytest.mark.kills
def test_ten_rewinds_that_are_killed_leave_nothing_that_the_next_does_not_complete(
    spark: SparkSession, spec: TableSpec, location: TableLocation, to: str, tmp_path: Path
) -> None:
    chance, met = random.Random(7), 0
    program = "from hudilab_cli.cli import main; main()"
    timeline, note = folder(location.table) / ".hoodie" / "timeline", ".restore.requested"
    for _ in range(10):
        known = {path.name for path in timeline.glob(f"*{note}")}
        command = ("-c", program, "rewind", location.table, "--to", to, "--stopped")
        killed = start_program(*command, env={"HUDILAB_HOME": str(tmp_path)})
        while killed.poll() is None:
            if {path.name for path in timeline.glob(f"*{note}")} - known:
                time.sleep(chance.uniform(0.0, 0.3))
                met += killed.poll() is None
                os.killpg(killed.pid, signal.SIGKILL)
                killed.wait()
            time.sleep(0.002)
        killed.communicate()
        rows_once(folder(location.table))
        Rewind(spark, location.table, to, stopped=True).run()
        write(spark, spec, location, 2)
    print(f"{met} of 10 were killed after their restore had begun")
    assert met >= 5
    Rewind(spark, location.table, to, stopped=True).run()
    assert_refills(spark, spec, location)
    writing = f"rewind, {spec.operation}, {spec.table_type}"
    record(Killed("rewind in a second process", writing, "disk", met, 10, 0, 0))
