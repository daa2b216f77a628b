"""The broker as a service: ready when it answers, its data kept, its faults named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from hudilab.errors import JarError, ServiceError
from hudilab.generate import price_messages
from hudilab.settings import Settings
from hudilab_cli.servers import kafka as kafka_service
from hudilab_cli.servers import process
from hudilab_cli.servers.kafka import find_broker, running_broker, start_broker, stop_broker
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import _offsets, check_topics, create_topics, topic_rows


@pytest.mark.deep
def test_a_restart_keeps_data_and_address(alone: Settings) -> None:
    first = start_broker(alone)
    assert start_broker(alone) == first  # one that runs is returned
    client = first.access()
    create_topics(client, {"kept": 2})
    produce(client, "kept", price_messages(1000, seed=1))
    assert stop_broker(alone) == first.pid
    assert find_broker(alone) is None
    assert not psutil.pid_exists(first.pid)
    assert stop_broker(alone) is None
    again = start_broker(alone)
    assert (again.bootstrap, again.pid != first.pid) == (first.bootstrap, True)
    assert topic_rows(client, ["kept"])["end"].sum() == 1000


@pytest.mark.deep
def test_a_with_block_stops_what_it_started(alone: Settings) -> None:
    with running_broker(alone) as outer:
        with running_broker(alone) as inner:
            assert inner == outer
        assert find_broker(alone) == outer
    assert find_broker(alone) is None


def test_all_messages_survive_a_kill(alone: Settings) -> None:
    first = start_broker(alone)
    client = first.access()
    create_topics(client, {"kept": 1})
    produce(client, "kept", price_messages(1000, seed=1))
    psutil.Process(first.pid).kill()
    psutil.Process(first.pid).wait(10)
    assert find_broker(alone) is None
    start_broker(alone)
    assert topic_rows(client, ["kept"])["end"].sum() == 1000


def test_a_full_disk_is_named(alone: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(ServiceError) as caught:
        start_broker(alone)
    folder = alone.home / "services" / "kafka"
    assert str(caught.value) == (
        f"only 5 MB are free for Kafka's data in {folder}, but 100 MB are needed; "
        "free space, or set HUDILAB_HOME"
    )


def test_a_missing_jar_is_named(alone: Settings, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "jars").mkdir(parents=True)
    shutil.copy(alone.project / "jars" / "jars.lock", project / "jars")
    with pytest.raises(JarError, match=r"; run: hudilab jars broker$"):
        start_broker(replace(alone, project=project))


@pytest.mark.deep
def test_a_broker_that_ends_says_why(alone: Settings) -> None:
    start_broker(alone)
    stop_broker(alone)
    meta = alone.home / "services" / "kafka" / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(ServiceError) as caught:
        start_broker(alone)
    assert str(caught.value).startswith("Kafka exited with code 1: ")
    assert "node" in str(caught.value)
    assert str(caught.value).endswith(f"; see {alone.home}/services/kafka/kafka.log")
    assert find_broker(alone) is None


def test_a_format_that_is_refused_says_why(
    alone: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_service, "_new_id", lambda: "-bcdefghijklmnopqrstuw")
    with pytest.raises(ServiceError) as caught:
        start_broker(alone)
    log = alone.home / "services" / "kafka" / "kafka.log"
    assert str(caught.value) == (
        "Kafka exited with code 1: kafka-storage: error: argument --cluster-id/-t: "
        f"expected one argument; see {log}"
    )
    assert "usage: kafka-storage format" in log.read_text()


def hudilab(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "hudilab"), *arguments],
        env=os.environ | {"HUDILAB_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.deep
def test_the_command_starts_shows_and_stops_it(alone: Settings) -> None:
    alone.home.mkdir()
    down = hudilab(alone.home, "services", "status")
    assert (down.returncode, down.stdout) == (
        1,
        "kafka is not running\ns3 is not running\ncluster is not running\nhistory is not running\n"
        "metastore is not running\n",
    )
    port = process.free_port()
    up = hudilab(alone.home, "services", "start", "kafka", "--port", str(port))
    assert up.returncode == 0, up.stderr
    broker = find_broker(alone)
    assert broker is not None
    address = f"127.0.0.1:{port}"
    assert up.stdout == (
        f"{broker.describe()}\n"
        f"topics: stocks-in, stocks-out, stocks-dead; export BOOTSTRAP_SERVERS={address}\n"
        f"Kafka's own tools: --bootstrap-server {address} --command-config '{broker.client_file}'\n"
    )
    assert check_topics(broker.access()) == {"stocks-dead": 3, "stocks-in": 3, "stocks-out": 3}
    shown = hudilab(alone.home, "services", "status", "kafka")
    assert (shown.returncode, shown.stdout) == (0, f"{broker.describe()}\n")
    stopped = hudilab(alone.home, "services", "stop", "kafka")
    assert stopped.stdout == f"kafka stopped, process {broker.pid}\n"
    again = hudilab(alone.home, "services", "stop", "kafka")
    assert (again.returncode, again.stdout) == (0, "kafka was not running\n")


def test_offsets_are_waited_for_while_a_topic_is_being_made(kafka: Access) -> None:
    part = TopicPartition("young", 0)
    maker = threading.Timer(1, create_topics, (kafka, {"young": 1}))
    maker.start()
    found = _offsets(AdminClient(kafka.client_options()), {part: OffsetSpec.latest()})
    maker.join()
    assert found == {part: 0}


@pytest.mark.deep
def test_twenty_first_starts_in_a_row(alone: Settings) -> None:
    """Each makes an id, a password and ports of its own."""
    for number in range(20):
        fresh = replace(alone, home=alone.home / str(number))
        with running_broker(fresh) as broker:
            create_topics(broker.access(), {"first": 1})
