"""What is said of a server that does not start, with a program that only sleeps as the server."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hudilab.errors import ServiceError
from hudilab.settings import load_settings
from hudilab_cli import applications
from hudilab_cli.servers import cluster, history, kafka, metastore, process, s3, spark
from hudilab_cli.servers.folder import starting
from hudilab_jobs import server_locks
from hudilab_jobs.kafka.connection import Access
from hudilab_spark.cluster import Master

NOWHERE = "127.0.0.1:1"


def refusal(call: Callable[..., object], *arguments: Any) -> str:
    with pytest.raises(ServiceError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[process.Launched]:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    server = process.launch(tmp_path, command, tmp_path / "it.log")
    yield server
    server.process.kill()
    server.process.wait()


def test_a_server_that_does_not_answer(
    tmp_path: Path, sleeper: process.Launched, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = f" within 0 s; see {tmp_path}/it.log, then start again"
    (tmp_path / "client.properties").touch()
    monkeypatch.setattr(s3, "_keys", lambda folder: ("a", "b"))
    url = f"http://{NOWHERE}"
    assert refusal(kafka._wait, sleeper, Access(NOWHERE), 0.1) == (
        f"Kafka did not answer at {NOWHERE}{rest}"
    )
    assert (
        refusal(s3._wait, sleeper, url, tmp_path, 0.1) == f"S3Proxy did not answer at {url}{rest}"
    )
    assert refusal(history._wait, sleeper, url, 0.1) == (
        f"the history server did not answer at {url}{rest}"
    )
    assert refusal(metastore._wait, sleeper, 1, 0.1) == (
        f"the metastore did not answer at thrift://{NOWHERE}{rest}"
    )


LOG = Path("/home/services/kafka/kafka.log")


@pytest.mark.parametrize(
    ("why", "output", "text"),
    [
        (
            kafka._why,
            "java.io.IOException: No space left on device",
            f"the disk of {LOG.parent} is full; free space, or set HUDILAB_HOME (log: {LOG})",
        ),
        (
            kafka._why,
            "BindException: Address already in use",
            f"another program took one of Kafka's ports; start again (log: {LOG})",
        ),
        (
            spark.why,
            "BindException: Address already in use",
            f"another program took one of Spark's ports; start again (log: {LOG})",
        ),
        (
            s3._why,
            "IOException: Failed to bind to /127.0.0.1:9000",
            f"another program took the S3 server's port; start again (log: {LOG})",
        ),
        (s3._why, "", f"S3Proxy exited with code 1: no output; see {LOG}"),
        (
            metastore._why,
            "Caused by: java.sql.SQLException: No space left on device",
            f"the disk of {LOG.parent} is full; free space, or set HUDILAB_HOME (log: {LOG})",
        ),
        (
            metastore._why,
            "Caused by: java.net.BindException: Address already in use",
            f"another program took the metastore's port; start again (log: {LOG})",
        ),
        (
            metastore._why,
            "java.lang.IllegalStateException: no",
            f"the metastore exited with code 1: java.lang.IllegalStateException: no; see {LOG}",
        ),
    ],
)
def test_a_server_that_ends_at_once(
    why: Callable[[str, int, Path], str], output: str, text: str
) -> None:
    assert why(output, 1, LOG) == text


def test_a_server_that_ends_when_it_has_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kafka"
    none: Callable[..., None] = lambda *_, **__: None  # noqa: E731
    assert refusal(process.start, folder, 0, none, none, none) == (
        f"kafka exited as soon as it answered; see the log in {folder}, then start it again with: "
        "hudilab services start kafka"
    )
    settings = replace(load_settings(env={}), home=tmp_path)
    for name in ("_start_master", "_start_workers", "find_cluster"):
        monkeypatch.setattr(cluster, name, none)
    assert refusal(cluster.start_cluster, settings) == (
        f"the master exited as soon as it was ready; see {tmp_path}/services/cluster/master.log, "
        "then start it again with: hudilab services start cluster"
    )


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServiceError) as caught, starting(tmp_path / "file" / "kafka"):
        pass
    assert str(caught.value) == (
        f"cannot use {tmp_path}/file/kafka for a server (File exists); set HUDILAB_HOME to a "
        "writable folder"
    )


def test_a_broker_whose_port_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_locks, "find", lambda folder: SimpleNamespace(pid=1))
    folder = tmp_path / "services" / "kafka"
    folder.mkdir(parents=True)
    (folder / "server.properties").touch()
    assert refusal(kafka.find_broker, replace(load_settings(env={}), home=tmp_path)) == (
        f"Kafka is running, but {folder}/server.properties does not name its port; stop it with: "
        "hudilab services stop kafka"
    )


def test_a_user_that_the_broker_does_not_add() -> None:
    assert refusal(kafka._add_user, Access(NOWHERE), "ada", "secret", 0.1) == (
        "Kafka did not add user 'ada' (no answer); start it again with the same --user"
    )


def test_a_master_that_kills_nothing() -> None:
    master = Master(f"spark://{NOWHERE}", f"http://{NOWHERE}")
    remedy = f"see {master.ui}, and check that spark.ui.killEnabled is not false there"
    said = refusal(applications._ask_to_end, master, "app-1", remedy)
    assert said.startswith(f"{master.url} did not kill app-1 (")
    assert said.endswith(
        f"); see http://{NOWHERE}, and check that spark.ui.killEnabled is not false there"
    )
