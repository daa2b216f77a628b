"""Tables of streams are found by name, by a program that knows only a metastore of Hive."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import DataFrame, SparkSession
from refusals import refused
from running import end_jvm, start_program
from unit.hudilab.settings_files import group, own_pipeline, write

from hudi_sink.hive_sync import Catalog
from hudi_sink.metastore import trouble
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import SessionError, show_log
from hudilab.paths import TableLocation
from hudilab.settings import Settings
from hudilab.table import TABLE_TYPES, TableSpec
from hudilab_cli.servers.metastore import Metastore, find_metastore, start_metastore
from hudilab_cli.servers.metastore import stop_metastore as stop
from hudilab_jobs.settings import load_settings
from hudilab_spark.conf import METASTORE_GROUP
from hudilab_spark.hive_group import Hive
from hudilab_spark.metastore import catalog_of
from hudilab_spark.session import open_session
from hudilab_spark.waiting import wait_for
from hudilab_spark.warehouse import prepare

COLUMNS = "id BIGINT, city STRING, seen TIMESTAMP"
NAMES = ("a:b", "é", "two words", "x=y/z", "50%")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A home with a metastore that the settings name."""
    bare = replace(load_settings(env={}), home=tmp_path_factory.mktemp("metastore"))
    server = start_metastore(bare)
    yield replace(bare, groups={METASTORE_GROUP: Hive.model_validate({"uri": server.address})})
    stop(bare)


@pytest.fixture(scope="module")
def spark(settings: Settings) -> Iterator[SparkSession]:
    show_log()
    session = open_session(settings, app="metastore", names=False)
    yield session
    end_jvm(session)


Ask = Callable[[str], Any]


@pytest.fixture(scope="module")
def ask(settings: Settings) -> Iterator[Ask]:
    """What another program answers to an SQL query."""
    jars = os.pathsep.join(map(str, sorted((settings.project / "jars" / "core").glob("*.jar"))))
    home = settings.home / "stranger"
    home.mkdir()
    program = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("stranger.py"), jars, uri(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=(home / "log").open("w"),
        text=True,
        cwd=home,
        env={**os.environ, "PYTHONPATH": "", "SPARK_LOCAL_IP": "127.0.0.1"},
    )
    assert program.stdin is not None
    assert program.stdout is not None
    answers = program.stdout
    assert answers.readline() == "ready\n", (home / "log").read_text()[-3000:]

    def ask(query: str) -> Any:
        print(query, file=program.stdin, flush=True)
        # Its libraries print lines of their own.
        line = next(line for line in answers if line.startswith("answer: "))
        return json.loads(line.removeprefix("answer: "))

    yield ask
    program.stdin.close()
    program.wait(30)


class Feed:
    """A folder of files, the stream that writes them to a table, and the table's catalog."""

    def __init__(self, spark: SparkSession, settings: Settings, name: str, **fields: Any) -> None:
        self.spark, self.settings, self.columns = spark, settings, COLUMNS
        self.location: TableLocation = prepare(settings, table=name)
        known = {"record_key": ("id",), "partition": ("city",), "ordering": "seen"}
        self.spec = TableSpec(name=name, **{**known, "operation": "upsert", **fields})
        self.folder = settings.home / "feeds" / name
        self.folder.mkdir(parents=True)
        self.catalog: Catalog = catalog_of(spark, settings, self.spec, self.location)
        self.waits: list[float] = []  # seconds that each batch took after its commit

    def put(self, *rows: tuple[int, str], **more: object) -> None:
        day = "2026-01-01T00:00:00Z"
        lines = (json.dumps({"id": id, "city": city, "seen": day, **more}) for id, city in rows)
        half = self.folder / f".{len(list(self.folder.iterdir())):03}"
        half.write_text("\n".join(lines))
        half.rename(half.with_name(half.name[1:] + ".json"))

    def start(self, **trigger: Any) -> Any:
        sink = ExactlyOnceSink(self.spark, self.spec, self.location, {"source": self.spec.name})
        written = 0.0

        def commit(batch: DataFrame, batch_id: int) -> None:
            nonlocal written
            sink.write_batch(batch, batch_id)
            written = time.monotonic()

        write = self.catalog.after(commit)

        def timed(batch: DataFrame, batch_id: int) -> None:
            write(batch, batch_id)
            self.waits.append(time.monotonic() - written)

        reader = self.spark.readStream.schema(self.columns).option("maxFilesPerTrigger", 1)
        stream = reader.json(str(self.folder)).writeStream.foreachBatch(timed)
        stream = stream.option("checkpointLocation", self.location.checkpoint)
        return stream.trigger(**(trigger or {"availableNow": True})).start()

    def run(self) -> None:
        query = self.start()
        query.awaitTermination(120)
        assert query.exception() is None

    def ids(self) -> list[int]:
        rows = self.spark.read.format("hudi").load(self.location.table)
        return sorted(row.id for row in rows.collect())


def uri(settings: Settings) -> str:
    hive = settings.group(METASTORE_GROUP, Hive)
    assert hive is not None
    return hive.uri


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return lines_of(capsys.readouterr().err)


def lines_of(err: str) -> list[str]:
    """What the lab says on stderr, where a progress bar may stand before it."""
    return re.findall("hudilab: .*", err)


@pytest.mark.deep
@pytest.mark.parametrize("table_type", TABLE_TYPES)
def test_another_program_finds_it_by_name(
    spark: SparkSession, settings: Settings, ask: Ask, table_type: str
) -> None:
    name = f"named_{table_type[0].lower()}"
    feed = Feed(spark, settings, name, table_type=table_type)
    feed.put((1, "oslo"), (2, "rome"))
    feed.run()
    assert ask(f"SELECT count(*) FROM {name}") == [[2]]
    feed.put((3, "paris"), (1, "oslo"))
    feed.run()
    feed.columns += ", note STRING"
    feed.put((4, "oslo"), note="new")
    feed.run()
    views = [name] if table_type == "COPY_ON_WRITE" else [name, f"{name}_rt"]
    for view in views:
        assert ask(f"SELECT id, city, note FROM {view} ORDER BY id") == [
            [1, "oslo", None],
            [2, "rome", None],
            [3, "paris", None],
            [4, "oslo", "new"],
        ]
    assert ask(f"SELECT id FROM {name} WHERE city = 'paris'") == [[3]]
    (shown,) = ask(f"SELECT typeof(seen), string(seen) FROM {name} WHERE id = 3")
    assert shown == ["timestamp", "2026-01-01 00:00:00"]
    if table_type == "MERGE_ON_READ":
        assert ask(f"SELECT count(*) FROM {name}_ro")[0][0] <= 4


@pytest.mark.deep
def test_values_of_partitions_are_right_by_name(
    spark: SparkSession, settings: Settings, ask: Ask
) -> None:
    feed = Feed(spark, settings, "real_life")
    feed.put(*enumerate(NAMES))
    feed.run()
    assert ask("SELECT id, city FROM real_life ORDER BY id") == [
        list(pair) for pair in enumerate(NAMES)
    ]
    for id, city in enumerate(NAMES):
        assert ask(f"SELECT id FROM real_life WHERE city = '{city}'") == [[id]]
    # A limit of Hudi 1.2: the metastore itself has the values as they stand in paths.
    assert ["city=a%3Ab"] in ask("SHOW PARTITIONS real_life")
    both = Feed(spark, settings, "two_columns", partition=("city", "day"))
    both.columns += ", day DATE"
    both.put((1, "oslo"), (2, "a:b"), day="2026-01-01")
    both.run()
    assert ask("SELECT id, city, string(day) FROM two_columns ORDER BY id") == [
        [1, "oslo", "2026-01-01"],
        [2, "a:b", "2026-01-01"],
    ]
    assert ask("SELECT id FROM two_columns WHERE day = DATE '2026-01-01' AND city = 'a:b'") == [[2]]
    none = Feed(spark, settings, "no_columns", partition=())
    none.put((1, "oslo"), (2, "rome"))
    none.run()
    assert ask("SELECT count(*) FROM no_columns") == [[2]]


@pytest.mark.deep
def test_a_name_that_another_table_has_is_left_to_it(
    spark: SparkSession, settings: Settings, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Feed(spark, settings, "claimed")
    first.put((1, "oslo"))
    first.run()
    other = replace(settings, home=settings.home / "other")
    second = Feed(spark, other, "claimed")
    second.put((7, "rome"), (8, "rome"))
    second.run()
    (line,) = printed(capsys)
    location = first.location.table.replace("///", "/")
    assert line == (
        f"hudilab: {second.location.table} was not registered with the metastore {uri(settings)}: "
        f"default.claimed is another table, at {location}; use another table.name or "
        "another database.name of the metastore; the stream continues, and the next attempt "
        "that succeeds registers everything"
    )
    assert second.ids() == [7, 8]
    assert ask("SELECT id FROM claimed") == [[1]]


def pause(server: Metastore) -> Callable[[], object]:
    os.kill(server.pid, signal.SIGSTOP)
    return lambda: os.kill(server.pid, signal.SIGCONT)


def kill(server: Metastore) -> Callable[[], object]:
    process = psutil.Process(server.pid)
    process.kill()
    process.wait(10)
    return lambda: None


@pytest.mark.deep
@pytest.mark.parametrize("outage", [kill, pause])
def test_a_metastore_that_fails_in_the_middle_of_a_stream(
    spark: SparkSession,
    settings: Settings,
    ask: Ask,
    capsys: pytest.CaptureFixture[str],
    outage: Callable[[Metastore], Callable[[], object]],
) -> None:
    feed = Feed(spark, settings, f"during_{outage.__name__}", table_type="MERGE_ON_READ")
    feed.columns += ", note STRING"
    feed.put((0, "oslo"))
    query = feed.start(processingTime="0 seconds")
    try:
        wait_for(lambda: len(feed.waits) == 1, 60, "the first batch")
        server = find_metastore(settings)
        assert server is not None
        undo = outage(server)
        for number in range(1, 5):  # partitions that come in the meantime, and a column
            feed.put((number, f"city {number}"), note="new")
            wait_for(lambda: len(feed.waits) > number, 60, f"batch {number}")  # noqa: B023
        undo()
        back = start_metastore(settings)
        assert back.address == server.address
        feed.put((5, "oslo"))
        wait_for(lambda: len(feed.waits) == 6, 60, "the last batch")
    finally:
        query.stop()
    assert feed.catalog.register()
    assert query.exception() is None
    assert feed.ids() == [0, 1, 2, 3, 4, 5]
    # One batch waits until it is known that nothing answers, the later ones do not.
    first, *later = feed.waits[1:]
    assert first < 6
    assert max(later) < 1
    lines = printed(capsys)
    assert len(lines) == 2, lines
    assert "was not registered" in lines[0]
    assert lines[1].endswith(" again")
    rows = ask(f"SELECT id, city, note FROM {feed.spec.name} ORDER BY id")
    assert [row[:2] for row in rows[1:5]] == [[n, f"city {n}"] for n in range(1, 5)]
    assert [row[2] for row in rows] == [None, "new", "new", "new", "new", None]


@pytest.mark.deep
def test_a_job_registers_its_table_when_it_is_started_again(
    settings: Settings, ask: Ask, tmp_path: Path
) -> None:
    """Its last batch did not reach the metastore, and no other one comes."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "a.csv").write_text("id,city,seen\n1,oslo,2026-01-01 00:00:00\n")
    pipeline = {
        "source.format": "csv",
        "source.path": str(data),
        "source.schema": COLUMNS,
        "table.name": "of_a_job",
        "record.key": "id",
        "partition": "city",
        "ordering": "seen",
    }
    home = tmp_path / "home"
    env = own_pipeline(home, pipeline)

    def run(uri: str) -> tuple[str, str]:
        hive = group("metastore", {"uri": uri, "database.name": "own"})
        write(home / "conf", [group(), group("pipeline.own", pipeline), hive])
        command = ("-m", "hudilab_jobs.stream", "own", "--available-now")
        program = start_program(*command, env=env, cwd="/")
        out, err = program.communicate(timeout=120)
        assert program.returncode == 0, err
        return out, err

    with socket.create_server(("127.0.0.1", 0)) as taken:
        dead = f"thrift://127.0.0.1:{taken.getsockname()[1]}"
    out, err = run(dead)
    table = f"file://{home}/warehouse/lab/of_a_job"
    done = f"hudilab: rows=1 commits=1 table={table}\n"
    assert out.splitlines(True)[-1] == done
    reads, line = lines_of(err)
    assert reads.startswith("hudilab: own reads csv files in ")
    assert line.startswith(f"hudilab: {table} was not registered with the metastore {dead}: it can")
    out, err = run(uri(settings))
    assert out == done
    assert "not registered" not in err
    assert ask("SELECT id, city FROM own.of_a_job") == [[1, "oslo"]]


@pytest.mark.deep
def test_a_session_sees_the_names_and_is_refused_without_their_server(
    settings: Settings, spark: SparkSession
) -> None:
    feed = Feed(spark, settings, "in_a_session")
    feed.put((1, "oslo"))
    feed.run()
    code = (
        "from hudilab import load_settings\n"
        "from hudilab_spark import open_session\n"
        "from hudilab_spark.hive_group import Hive\n"
        "from dataclasses import replace\n"
        "import sys\n"
        "hive = Hive.model_validate({'uri': sys.argv[1]})\n"
        "spark = open_session(replace(load_settings(), groups={'metastore': hive}))\n"
        "print(spark.table('in_a_session').count())\n"
    )
    env = {"HUDILAB_HOME": str(settings.home)}
    program = start_program("-c", code, uri(settings), env=env)
    out, err = program.communicate(timeout=120)
    assert out == "1\n", err
    nowhere = replace(
        settings, groups={METASTORE_GROUP: Hive.model_validate({"uri": "thrift://127.0.0.1:1"})}
    )
    with refused(
        SessionError,
        "thrift://127.0.0.1:1",
        "group 'metastore'",
        "Connection refused",
        remedy="; start it (on this machine: hudilab services start metastore), or remove the "
        "group",
    ):
        open_session(nowhere)


def test_a_dropped_table_takes_no_folder_outside_the_warehouse_along(
    spark: SparkSession, settings: Settings, tmp_path: Path
) -> None:
    """A managed table may name any folder, and Hive would delete that as the server's account."""
    jvm: Any = spark._jvm
    hive = jvm.org.apache.hadoop.hive
    conf = hive.conf.HiveConf()
    conf.set("hive.metastore.uris", uri(settings))
    client = hive.metastore.HiveMetaStoreClient(conf)
    warehouse = settings.home / "services" / "metastore" / "warehouse"
    (warehouse / "link").parent.mkdir(exist_ok=True)
    (warehouse / "link").symlink_to(tmp_path)
    outside = [tmp_path / "kept", warehouse / ".." / "beside", warehouse / "link" / "linked"]
    inside = warehouse / "gone"
    for folder in (*outside, inside):
        folder.mkdir(parents=True)
        table = hive.metastore.api.Table()
        table.setDbName("default")
        table.setTableName(folder.name)
        table.setTableType("MANAGED_TABLE")
        place = hive.metastore.api.StorageDescriptor()
        place.setCols(jvm.java.util.ArrayList())
        place.setLocation(f"file://{folder}")
        place.setSerdeInfo(hive.metastore.api.SerDeInfo())
        table.setSd(place)
        client.createTable(table)
        client.dropTable("default", folder.name, True, True)
    client.close()
    assert all(folder.is_dir() for folder in outside)
    assert not inside.exists()


def test_it_is_small_and_keeps_everything_in_its_folder(settings: Settings) -> None:
    server = start_metastore(settings)
    assert trouble(server.address) == ""
    assert psutil.Process(server.pid).memory_info().rss < 350e6
    folder = settings.home / "services" / "metastore"
    assert {"data", "derby.log", "metastore.log"} <= {path.name for path in folder.iterdir()}
