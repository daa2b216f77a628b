"""A clock that was ahead and is set right: nothing is written whose rows readers would miss."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from clocks import Clock, instants, set_ahead, set_newest_ahead
from kills import read_batches
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from refusals import assert_refusal
from running import (
    folder,
    kill,
    readings_at,
    start_program,
    start_stream,
    wait_while_running,
)

from hudi_inspect import inspect
from hudi_sink import commits
from hudi_sink.async_services import StreamServices
from hudi_sink.commits import Commits
from hudi_sink.repairs import rewrite_table
from hudi_sink.rewind import Rewind
from hudi_sink.savepoints import Savepoints
from hudi_sink.services import TableServices
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError, TableError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_lessons.faults import compare
from hudilab_spark.streams import drain

SIZES = {"sensors": 2, "seed": 1}
PER_BATCH, BATCHES, WRITTEN = 20, 4, 2
ROWS = BATCHES * PER_BATCH
SPECS = {
    kind: readings_table(operation="upsert", table_type=kind, buckets=1, tuned=True)
    for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
}
HOUR = 3600.0
APART = str(Path(__file__).parents[1] / "programs" / "apart.py")
Write = Callable[[DataFrame, int], None]


def sink_of(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    *,
    shared: bool = False,
    load: bool = False,
) -> ExactlyOnceSink:
    source = {"rows": ROWS, **SIZES}
    return ExactlyOnceSink(spark, spec, location, source, BATCHES, shared=shared, initial_load=load)


def start(
    spark: SparkSession, location: TableLocation, write: Write, *, once: bool = False
) -> StreamingQuery:
    """The stream; `once`: this source then delivers one batch and ends."""
    readings = sensor_stream(spark, rows_per_batch=PER_BATCH, rows=ROWS, **SIZES)
    return start_stream(readings, write, location, once=once)


def finish(spark: SparkSession, spec: TableSpec, location: TableLocation) -> None:
    """Write the rest, and look for each row."""
    write = sink_of(spark, spec, location).write_batch
    drain(start(spark, location, write), batches=BATCHES, deadline=120)
    exact = {"rows": ROWS, "lost": 0, "unexpected": 0}
    assert compare(sensor_readings(spark, ROWS, **SIZES), location.table) == exact


def files(home: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(home)): file.read_bytes() for file in home.rglob("*") if file.is_file()
    }


def assert_behind(text: str, table: str) -> None:
    assert_refusal(
        text.partition("; fix the cause")[0],
        f"the clock is behind the table {table}",
        remedy=f"start again after {shown(max(instants(table)))}",
    )


def shown(instant: str) -> str:
    return datetime.strptime(instant, "%Y%m%d%H%M%S%f").isoformat(" ", "milliseconds")


@pytest.fixture(scope="module", params=SPECS)
def written(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[TableSpec, Path]:
    """Two of four batches, and a savepoint at the first."""
    spec, home = SPECS[request.param], tmp_path_factory.mktemp("written")
    location = readings_at(home)
    for _ in range(WRITTEN):
        write = sink_of(spark, spec, location).write_batch
        drain(start(spark, location, write, once=True), deadline=120)
    first = min(instants(location.table))
    where = f"path => '{location.table}', commit_time => '{first}'"
    spark.sql(f"CALL create_savepoint({where})").collect()
    return spec, home


@pytest.fixture
def location(written: tuple[TableSpec, Path], tmp_path: Path) -> TableLocation:
    """A copy of what is written."""
    shutil.copytree(written[1], tmp_path, dirs_exist_ok=True)
    return readings_at(tmp_path)


def test_every_write_is_refused_before_it_changes_anything(
    spark: SparkSession, spec: TableSpec, location: TableLocation, tmp_path: Path
) -> None:
    set_ahead(location.table, HOUR)
    before, first = files(tmp_path), min(instants(location.table))
    tidy = TableServices(spark, location.table, stopped=True)
    rewind = Rewind(spark, location.table, first, stopped=True)
    savepoints = Savepoints(spark, location.table)
    services = StreamServices(
        *(spark, spec, location.table), every=None, async_services=True, is_mine=lambda: True
    )
    writes: dict[str, Callable[[], object]] = {
        "stream": lambda: sink_of(spark, spec, location),
        "shared stream": lambda: sink_of(spark, spec, location, shared=True),
        "load": lambda: sink_of(spark, spec, location, load=True),
        "clean": lambda: tidy.clean(1),
        "archive": tidy.archive,
        "tidy --dry-run": lambda: tidy.check_safe("clean"),
        "rewind": rewind.run,
        "restore": rewind.restore_table,
        "savepoint": lambda: savepoints.create("late"),
        "savepoint --delete": lambda: savepoints.delete(first),
        "rewrite": lambda: rewrite_table(spark, spec, location),
        "plans of a dead driver": lambda: services.take_over(spec.write_options()),
    }
    if spec.logs():
        writes["compact"] = tidy.compact
    for name, write in writes.items():
        with pytest.raises(TableError) as caught:
            write()
        assert_behind(str(caught.value), location.table)
        assert files(tmp_path) == before, name
    planned = {"hoodie.compact.inline": "false", "hoodie.compact.schedule.inline": "true"}
    services.start(planned, spec.write_options())
    with pytest.raises(
        StreamError, match=r"services of the stream .* failed .*the clock is behind"
    ):
        services.close()
    assert files(tmp_path) == before
    set_ahead(location.table, -HOUR)
    finish(spark, spec, location)


def test_the_clock_is_set_back_while_a_stream_runs(
    spark: SparkSession, spec: TableSpec, location: TableLocation
) -> None:
    sink = sink_of(spark, spec, location)

    def write(batch: DataFrame, batch_id: int) -> None:
        if batch_id == WRITTEN + 1:
            set_ahead(location.table, HOUR)
        sink.write_batch(batch, batch_id)

    with pytest.raises(StreamError) as caught:
        drain(start(spark, location, write), batches=BATCHES, deadline=120)
    assert f"the clock is behind the table {location.table}: the newest" in str(caught.value)
    assert Commits(spark, location.table).count() == WRITTEN + 1
    set_ahead(location.table, -HOUR)
    finish(spark, spec, location)


def test_rows_that_no_reader_sees_are_found(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As an older version of the lab wrote them, or a writer without a check."""
    rows = sensor_readings(spark, (WRITTEN + 1) * PER_BATCH, **SIZES)
    set_ahead(location.table, HOUR)
    with monkeypatch.context() as patch:
        patch.setattr(Commits, "await_clock", Commits.meta)
        write = sink_of(spark, spec, location).write_batch
        drain(start(spark, location, write, once=True), deadline=120)
    lost = {"rows": WRITTEN * PER_BATCH, "lost": PER_BATCH, "unexpected": 0}
    assert compare(rows, location.table) == lost
    set_ahead(location.table, -HOUR)  # an hour later
    assert compare(rows, location.table) == lost
    check = next(check for check in inspect(location.table).health if not check.ok)
    assert check.check == "clock"
    assert re.findall(r"batch (\d) \(\d+\)", check.detail) == [str(WRITTEN)]


def test_a_load_that_died_while_the_clock_was_ahead(spark: SparkSession, tmp_path: Path) -> None:
    """Its instant is only requested and in flight; in the end, the stream waits for the clock."""
    spec, location = SPECS["MERGE_ON_READ"], readings_at(tmp_path)
    write = sink_of(spark, spec, location, load=True).write_batch

    def write_badly(batch: DataFrame, batch_id: int) -> None:
        fails = F.when(F.col("reading_id") == 7, F.raise_error(F.lit("no power")))
        write(batch.withColumn("temperature", fails.otherwise(F.col("temperature"))), batch_id)

    with pytest.raises(StreamError, match="no power"):
        drain(start(spark, location, write_badly, once=True), deadline=120)
    set_ahead(location.table, HOUR)
    assert Commits(spark, location.table).unfinished()
    before = files(tmp_path)
    with pytest.raises(TableError) as caught:
        sink_of(spark, spec, location, load=True)
    assert_behind(str(caught.value), location.table)
    assert files(tmp_path) == before
    set_newest_ahead(location.table, 2)
    finish(spark, spec, location)


def test_a_write_waits_for_seconds(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(commits, "NOTICE", 0.0)
    set_newest_ahead(location.table, 4)
    newest = max(instants(location.table))
    write = sink_of(spark, spec, location).write_batch
    assert re.search(
        r"^hudilab: the clock is [1-5]\.\d s behind the newest instant of "
        rf"{re.escape(location.table)}; waiting until it has passed that$",
        capsys.readouterr().err,
        re.MULTILINE,
    )
    drain(start(spark, location, write, once=True), deadline=120)
    assert len({instant for instant in instants(location.table) if instant > newest}) == 2
    finish(spark, spec, location)


def test_instants_in_local_time(spark: SparkSession, tmp_path: Path) -> None:
    """Tokyo is nine hours ahead: only a table whose instants are local has later ones."""
    zones, places = spark._jvm.java.util.TimeZone, {}  # type: ignore[union-attr]
    home = zones.getDefault()
    for zone in ("UTC", "LOCAL"):
        places[zone] = readings_at(tmp_path / zone)
        rows = sensor_readings(spark, PER_BATCH, **SIZES)
        options = SPECS["COPY_ON_WRITE"].write_options() | {"hoodie.table.timeline.timezone": zone}
        rows.write.format("hudi").options(**options).mode("append").save(places[zone].table)
    tables = {zone: Commits(spark, location.table) for zone, location in places.items()}
    zones.setDefault(zones.getTimeZone("Asia/Tokyo"))
    try:
        assert all(table.await_clock() for table in tables.values())
        set_ahead(places["LOCAL"].table, 9 * HOUR)
        assert all(table.await_clock() for table in tables.values())
        set_ahead(places["LOCAL"].table, HOUR)
        with pytest.raises(TableError, match=r"\(LOCAL time\)"):
            tables["LOCAL"].await_clock()
        set_ahead(places["LOCAL"].table, -HOUR)
    finally:
        zones.setDefault(home)
    assert tables["UTC"].await_clock()
    with pytest.raises(TableError, match=r"\(LOCAL time\)"):
        tables["LOCAL"].await_clock()


def reading_ids(table: str) -> list[int]:
    batches = read_batches(folder(table))
    return sorted(n for batch in batches for n in batch.column("reading_id").to_pylist())


@pytest.mark.deep
@pytest.mark.parametrize("ahead", [0.2, 30])
def test_two_writers_whose_clocks_differ(tmp_path: Path, ahead: float) -> None:
    """Within Hudi's limit, both write everything; the one far ahead would roll back the other."""
    clock, env = Clock(tmp_path / "clock"), {"HUDILAB_HOME": str(tmp_path / "home")}
    clock.set(ahead)
    firsts = {0: env, 1000: env | clock.env}
    writers = [
        start_program(APART, str(tmp_path), str(first), env=own) for first, own in firsts.items()
    ]
    try:
        for first, writer in zip(firsts, writers, strict=True):
            wait_while_running(writer, (tmp_path / f"ready{first}").exists, 180, "a session")
        for name in ("go", "on"):
            (tmp_path / name).touch()
        slow, fast = (json.loads(writer.communicate(timeout=400)[0]) for writer in writers)
    finally:
        for writer in writers:
            kill(writer)
    whole = {"table": slow["table"], "batches": 6, "problem": ""}
    ahead_rows, behind_rows = range(1000, 1000 + 6 * PER_BATCH), range(6 * PER_BATCH)
    assert slow == whole
    if ahead == 30:
        assert "the clock is 30 s ahead of the clock of the storage" in fast["problem"]
        assert reading_ids(slow["table"]) == [*behind_rows]
    else:
        assert fast == whole
        assert reading_ids(slow["table"]) == [*behind_rows, *ahead_rows]


@pytest.mark.deep
def test_the_clock_of_a_living_program_is_set_back(tmp_path: Path) -> None:
    """Its JVM has made instants with the clock that was ahead."""
    clock = Clock(tmp_path / "clock")
    clock.set(HOUR)
    env = clock.env | {"HUDILAB_HOME": str(tmp_path / "home")}
    writer = start_program(APART, str(tmp_path), "0", "alone", env=env)
    try:
        wait_while_running(writer, (tmp_path / "ready0").exists, 180, "a session")
        (tmp_path / "go").touch()
        done = tmp_path / "warehouse" / "_checkpoints" / "lab" / "readings_0" / "commits" / "1"
        wait_while_running(writer, done.exists, 180, "two batches")
        clock.set(0)
        (tmp_path / "on").touch()
        ended = json.loads(writer.communicate(timeout=300)[0])
    finally:
        kill(writer)
    assert f"the clock is behind the table {ended['table']}" in ended["problem"]
    assert ended["batches"] == 2
    assert reading_ids(ended["table"]) == [*range(2 * PER_BATCH)]
