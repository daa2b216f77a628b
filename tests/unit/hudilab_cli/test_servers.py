"""Records and errors of servers, with a program that only sleeps as the server."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from cases import read_cases

from hudilab.errors import ServiceError
from hudilab.files import read_properties
from hudilab.settings import Settings
from hudilab_cli import applications
from hudilab_cli.servers import Name, cluster, history, kafka, metastore, process, s3
from hudilab_cli.servers.metastore import find_metastore
from hudilab_cli.servers.s3 import find_s3
from hudilab_jobs.kafka.connection import Access, broker_access
from hudilab_jobs.settings import load_settings
from hudilab_spark.cluster import Master
from hudilab_spark.server_records import read_record

NOWHERE = "127.0.0.1:1"


LOG = Path("/home/services/kafka/kafka.log")


def refusal(call: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(ServiceError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings(env={}), home=tmp_path)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[process.Launched]:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    server = process.launch(command, tmp_path / "it.log")
    yield server
    if server.process.is_running():
        server.process.kill()
    server.process.wait()


# --- records


def test_a_record_is_private_and_names_the_process(
    settings: Settings, sleeper: process.Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    with process.starting(settings, "metastore"):
        process.record(settings, "metastore", sleeper, "thrift://127.0.0.1:9083")
    file = settings.home / "services" / "metastore.json"
    assert file.stat().st_mode & 0o777 == 0o600
    server = find_metastore(settings)
    assert server is not None
    assert (server.address, server.pid) == ("thrift://127.0.0.1:9083", sleeper.process.pid)
    assert server.folder == sleeper.log.parent
    # After a step of the clock, every process seems to have started at another time.
    created, booted = psutil.Process.create_time, psutil.boot_time
    with monkeypatch.context() as step:
        step.setattr(psutil.Process, "create_time", lambda self: created(self) + 3600)
        step.setattr(psutil, "boot_time", lambda: booted() + 3600)
        assert find_metastore(settings) == server
    assert process.stop(settings, "metastore") == server.pid
    assert (find_metastore(settings), process.stop(settings, "metastore")) == (None, None)


@pytest.mark.parametrize(
    "change", [{"created": 1.0}, {"created": "noon"}, {"pid": 2**22 + 1}, {"pid": None}]
)
def test_a_record_of_another_process_is_not_believed(
    settings: Settings, sleeper: process.Launched, change: dict[str, Any]
) -> None:
    with process.starting(settings, "s3"):
        process.record(settings, "s3", sleeper, "http://127.0.0.1:9000")
    assert find_s3(settings) is not None
    file = settings.home / "services" / "s3.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    assert (find_s3(settings), process.stop(settings, "s3")) == (None, None)
    assert sleeper.process.is_running()
    for text in ("", "[]", "{"):
        file.write_text(text)
        assert find_s3(settings) is None


# --- errors


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        (kafka.Broker, "Kafka"),
        (s3.S3Server, "S3Proxy"),
        (history.History, "the history server"),
        (metastore.Metastore, "the metastore"),
    ],
)
def test_a_server_that_does_not_answer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, kind: type[process.Server], title: str
) -> None:
    """Its process is ended, and its record is there for the next start's port."""
    monkeypatch.setattr(process, "START_TIMEOUT", 0.1)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    plan = process.Launch(command, NOWHERE, lambda: False)
    log = settings.home / "services" / kind.name / f"{kind.name}.log"
    assert refusal(process.start, settings, kind, 0, lambda _: plan) == (
        f"{title} did not answer at {NOWHERE} within 0 s; see {log}, then start again"
    )
    record = read_record(settings.home, kind.name)
    assert record["address"] == NOWHERE
    assert not psutil.pid_exists(record["pid"])


def test_what_asks_a_server_that_is_not_there() -> None:
    assert not kafka._answers(Access(NOWHERE))()
    assert not s3._answers(f"http://{NOWHERE}", "a", "b")()
    assert not history._has_looked(f"http://{NOWHERE}")


@pytest.mark.parametrize(("name", "output", "text"), read_cases(__file__))
def test_a_server_that_ends_at_once(name: Name, output: str, text: str) -> None:
    error = process.why_ended(name, output, 1, LOG)
    assert str(error) == text.format(log=LOG, folder=LOG.parent)
    assert isinstance(error, process.PortTaken) == ("another program" in text)


def test_a_server_that_ends_when_it_has_answered(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    none: Callable[..., None] = lambda *_, **__: None  # noqa: E731
    services = settings.home / "services"
    plan = process.Launch([sys.executable, "-c", ""], NOWHERE, lambda: True)
    monkeypatch.setattr(process, "find", none)
    assert refusal(process.start, settings, kafka.Broker, 0, lambda _: plan) == (
        f"kafka exited as soon as it answered; see the log in {services}/kafka, then start it "
        "again with: hudilab services start kafka"
    )
    for name in ("_start_master", "_start_workers", "find_cluster"):
        monkeypatch.setattr(cluster, name, none)
    assert refusal(cluster.start_cluster, settings) == (
        f"the master exited as soon as it was ready; see {services}/cluster/master.log, "
        "then start it again with: hudilab services start cluster"
    )


def test_a_folder_that_is_a_file(tmp_path: Path, settings: Settings) -> None:
    (tmp_path / "file").touch()
    start = replace(settings, home=tmp_path / "file")
    with pytest.raises(ServiceError) as caught, process.starting(start, "kafka"):
        pass
    assert str(caught.value) == (
        f"cannot use {tmp_path}/file/services/kafka for a server (File exists); set "
        "HUDILAB_HOME to a writable folder"
    )


def test_a_starter_that_hangs_is_named(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TURN", 0.1)
    with (
        process.starting(settings, "s3") as folder,
        pytest.raises(ServiceError) as caught,
        process.starting(settings, "s3"),
    ):
        pass
    assert str(caught.value) == (
        f"another program has been starting s3 in {folder} for 0 s; stop that program, "
        "then start again"
    )
    with process.starting(settings, "s3"):  # the right was given back
        pass


def test_the_templates_are_filled_in(settings: Settings) -> None:
    """With TLS, the lab's own listener stays, and the users' one comes before it."""
    folder = settings.home / "kafka"
    folder.mkdir()
    kafka._write_settings(settings, folder, "127.0.0.1:1", "127.0.0.1:2", "hush", users=True)
    lines = read_properties((folder / "server.properties").read_text("ascii"))
    listeners = lines["listeners"].rpartition(":")[0]
    assert listeners == "USERS://127.0.0.1:1,LAB://127.0.0.1:2,CONTROLLER://127.0.0.1"
    assert lines["advertised.listeners"] == "USERS://127.0.0.1:1,LAB://127.0.0.1:2"
    login = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="hudilab" password="hush" user_hudilab="hush";'
    )
    assert lines["listener.name.lab.plain.sasl.jaas.config"] == login
    assert lines["listener.name.controller.plain.sasl.jaas.config"] == login
    assert "$" not in "".join(lines.values())
    client = read_properties((folder / "client.properties").read_text("ascii"))
    access = broker_access({"lab": "127.0.0.1:2", "password": "hush"})
    assert {f"kafka.{key}": value for key, value in client.items()} == access.spark_options()


def test_a_user_that_the_broker_does_not_add(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_TIMEOUT", 0.1)
    assert refusal(kafka._add_user, Access(NOWHERE), "ada", "secret") == (
        "Kafka did not add user 'ada' (no answer); start it again with the same --user"
    )


def test_a_master_that_kills_nothing() -> None:
    master = Master(f"spark://{NOWHERE}", f"http://{NOWHERE}")
    remedy = f"see {master.ui}, and check that spark.ui.killEnabled is not false there"
    message = refusal(applications._ask_to_end, master, "app-1", remedy)
    assert message.startswith(f"{master.url} did not kill app-1 (")
    assert message.endswith(
        f"); see http://{NOWHERE}, and check that spark.ui.killEnabled is not false there"
    )
