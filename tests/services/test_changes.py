"""Changes of the lab's database in Kafka: all of them, whichever of the servers is killed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil
import pytest
from cases import read_cases
from confluent_kafka import Consumer, KafkaException, TopicPartition
from refusals import assert_refusal, refused
from running import running_server

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.servers import connect, database, kafka, process
from hudilab_cli.servers.connect import Connect, start_connect, stop_connect
from hudilab_cli.servers.connectors import connector_problem, register
from hudilab_cli.servers.database import Database, start_database, stop_database
from hudilab_cli.servers.kafka import Broker
from hudilab_jobs.settings import load_settings
from hudilab_spark.waiting import wait_for

pytestmark = [pytest.mark.deep, pytest.mark.kills]

Message = tuple[dict[str, Any], dict[str, Any] | None]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    yield (here := replace(load_settings(env={}), home=tmp_path_factory.mktemp("it") / "o'x, jü"))
    stop_database(here)


@pytest.fixture(scope="module")
def broker(settings: Settings) -> Iterator[Broker]:
    with running_server(kafka.SERVICE, settings) as running:
        yield running
        stop_connect(settings)


@pytest.fixture
def db(settings: Settings) -> Database:
    return start_database(settings)


@pytest.fixture
def worker(settings: Settings, broker: Broker) -> Connect:
    return start_connect(settings)


def run(db: Database, *statements: str) -> None:
    with db.connect() as connection:
        for statement in statements:
            connection.execute(statement)


def insert(db: Database, table: str, first: int, rows: int) -> None:
    last = first + rows - 1
    run(db, f"INSERT INTO {table} SELECT g, g * 1.25, now() FROM generate_series({first},{last}) g")


def make(db: Database, table: str, rows: int) -> None:
    columns = "id int PRIMARY KEY, amount numeric(10, 2), at timestamptz"
    run(db, f"CREATE TABLE {table} ({columns})")
    insert(db, table, 1, rows)


@contextmanager
def changed(**options: str) -> Iterator[None]:
    """A database that starts in the block has other options."""
    render = process.render
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process, "render", lambda *given, **v: render(*given, **v) | options)
        yield


def messages(broker: Broker, topic: str) -> list[Message]:
    options = {"group.id": "reader", "log_level": 0}
    consumer = Consumer(broker.access().client_options() | options)
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        consumer.assign([TopicPartition(topic, 0, 0)])
        read: list[Message] = []
        # A tombstone has no length, and counts as false.
        while len(read) < end and (message := consumer.poll(10)) is not None:
            value = message.value()
            read.append((json.loads(message.key()), value and json.loads(value)))
        return read
    except KafkaException:  # the topic does not exist yet
        return []
    finally:
        consumer.close()


def wait_for_ids(broker: Broker, topic: str, ids: set[int]) -> list[Message]:
    def arrived() -> bool:
        return ids <= {key["id"] for key, _ in messages(broker, topic)}

    wait_for(arrived, 120, f"{len(ids)} rows in {topic}")
    return messages(broker, topic)


def source(db: Database, name: str) -> dict[str, str]:
    """Return the settings with which a connector reads a database of this server."""
    return {
        "database.hostname": "127.0.0.1",
        "database.port": str(db.port),
        "database.user": "hudilab",
        "database.password": str(db.about["password"]),
        "database.dbname": name,
    }


def test_nothing_is_lost_when_the_database_is_killed(
    settings: Settings, broker: Broker, db: Database, worker: Connect
) -> None:
    make(db, "crashed", 10)
    (topic,) = register(settings, {"name": "crashed", "table.include.list": "public.crashed"})
    wait_for_ids(broker, topic, set(range(1, 11)))
    insert(db, "crashed", 11, 500)
    psutil.Process(db.pid).kill()
    wait_for(lambda: database.find_database(settings) is None, 10, "its end")
    again = start_database(settings)
    assert again.address == db.address
    insert(again, "crashed", 511, 90)
    # The connector connects again by itself.
    wait_for_ids(broker, topic, set(range(1, 601)))
    assert connector_problem(worker, "crashed") is None
    with pytest.raises(ServiceError, match="no connector 'nope'; register it, or use one of: "):
        connector_problem(worker, "nope")


def test_the_password_is_in_no_topic_and_no_answer(
    settings: Settings, broker: Broker, db: Database, worker: Connect
) -> None:
    make(db, "hidden", 1)
    register(settings, {"name": "hidden", "table.include.list": "public.hidden"})
    secret = str(db.about["password"])
    assert worker.request("GET", "/connectors/hidden/config")["database.password"].startswith("${")
    assert secret not in json.dumps(worker.request("GET", "/connectors?expand=info&expand=status"))
    assert secret not in worker.log.read_text()
    for file in (broker.folder / "data").rglob("*.log"):
        assert secret.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("case", read_cases(__file__), ids=lambda case: case["case"])
def test_a_connector_that_cannot_work_is_refused(
    settings: Settings, worker: Connect, db: Database, case: dict[str, Any]
) -> None:
    with db.connect() as connection:
        rows = connection.execute("SELECT FROM pg_database WHERE datname = 'bad'").fetchall()
    if not rows:
        run(db, "CREATE DATABASE bad")
    with db.connect("bad") as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS keyless (a int)")
    with refused(ServiceError, *case["failed"], remedy=case["remedy"]):
        register(settings, source(db, "bad") | case["connector"])


def test_a_database_that_cannot_decode_is_refused(
    settings: Settings, worker: Connect, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = replace(settings, home=tmp_path_factory.mktemp("other"))
    with changed(wal_level="replica"):
        db = start_database(other)
    try:
        run(db, "CREATE TABLE t (a int PRIMARY KEY)")
        remedy = "set wal_level = logical in its postgresql.conf, and restart it"
        with refused(ServiceError, f"127.0.0.1:{db.port}", "'replica'", remedy=remedy):
            register(settings, source(db, "lab") | {"table.include.list": "public.t"})
    finally:
        stop_database(other)


def test_connect_without_a_broker_or_a_database_is_refused(
    settings: Settings, worker: Connect, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = replace(settings, home=tmp_path_factory.mktemp("empty"))
    start = "hudilab services start"
    with refused(
        ServiceError,
        "Kafka, which stores",
        "is not running",
        remedy=f"start it with: {start} kafka",
    ):
        start_connect(other)
    with refused(ServiceError, "Connect is not running", remedy=f"start it with: {start} connect"):
        register(other, {"table.include.list": "public.orders"})
    stop_database(settings)
    remedy = f"start it with: {start} database"
    with refused(ServiceError, "the lab's database is not running", remedy=remedy):
        register(settings, {"table.include.list": "public.orders"})


def test_a_quiet_table_does_not_hold_back_the_log(
    settings: Settings, broker: Broker, db: Database, worker: Connect
) -> None:
    make(db, "quiet", 1)
    (topic,) = register(settings, {"name": "quiet", "table.include.list": "public.quiet"})
    run(db, "CREATE TABLE busy AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
    with db.connect() as connection:

        def advanced() -> bool:
            behind = "pg_current_wal_lsn() - confirmed_flush_lsn < 1000000"
            query = f"SELECT {behind} FROM pg_replication_slots WHERE slot_name = 'quiet'"
            return connection.execute(query).fetchone() == (True,)

        wait_for(advanced, 40, "the slot")
    # Wherever the slot is by now, a kill must not cost a change, nor end the connector.
    psutil.Process(worker.pid).kill()
    wait_for(lambda: connect.find_connect(settings) is None, 10, "its end")
    insert(db, "quiet", 2, 50)
    start_connect(settings)
    wait_for_ids(broker, topic, set(range(1, 52)))


def test_a_slot_that_was_given_up_is_named(
    settings: Settings, broker: Broker, db: Database, worker: Connect
) -> None:
    """The last test: the slots of the others are invalidated, too."""
    make(db, "behind", 10)
    own = {"name": "behind", "table.include.list": "public.behind"}
    (topic,) = register(settings, own)
    wait_for_ids(broker, topic, set(range(1, 11)))
    worker.request("PUT", "/connectors/behind/stop")
    stop_database(settings)
    remedy = "with another name, which begins with a new snapshot of its tables"
    with changed(max_slot_wal_keep_size="1MB", max_wal_size="32MB"):
        db = start_database(settings)
    fill = "INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 20000)"
    run(db, "CREATE TABLE filler (text text)")
    for _ in range(3):
        run(db, fill, "SELECT pg_switch_wal()", "CHECKPOINT")
    worker.request("PUT", "/connectors/behind/resume")
    problem = connector_problem(worker, "behind")
    assert_refusal(str(problem), "'behind'", "invalidated its replication slot", remedy=remedy)
    with refused(ServiceError, "invalidated its replication slot", remedy=remedy):
        register(settings, own)
    # It goes on trying, so that nothing else shows.
    status = worker.status("behind")
    assert status is not None
    assert status["connector"]["state"] == "RUNNING"
    run(db, "ALTER ROLE hudilab PASSWORD 'another'")
    problem = connector_problem(worker, "crashed")
    remedy = "correct database.password"
    assert_refusal(str(problem), "'crashed'", "'hudilab'", remedy=remedy)
