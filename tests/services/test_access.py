"""Getting in: what a client is told when it does not, in seconds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cases import read_cases
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from refusals import assert_refusal, refused
from services.programs import SECRET, USER

from hudilab.errors import KafkaError, ServiceError
from hudilab.settings import Settings
from hudilab_cli.servers import kafka as kafka_service
from hudilab_cli.servers import process
from hudilab_cli.servers.kafka import Broker, start_broker
from hudilab_jobs.generated_prices import Message, price_messages
from hudilab_jobs.kafka import topics
from hudilab_jobs.kafka.connection import Access, access
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import _done, _offsets, check_topics, create_topics, topic_rows
from hudilab_jobs.settings import load_settings
from hudilab_jobs.settings import topics as topics_of
from hudilab_spark.jars import verify
from hudilab_spark.java import find_java

PATIENCE = 15  # seconds, for every refusal


@pytest.fixture(scope="module")
def client(secure: Broker) -> Access:
    return Access(secure.address, "SASL_SSL", USER, SECRET, str(secure.ca))


def refusal(client: Access, *topics: str) -> str:
    started = time.monotonic()
    with pytest.raises(KafkaError) as caught:
        check_topics(client, topics)
    assert time.monotonic() - started < PATIENCE
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("case", read_cases(__file__), ids=lambda case: case["case"])
def test_a_client_that_does_not_get_in(secure: Broker, kafka: Access, case: dict[str, Any]) -> None:
    known = {"secure": secure.address, "plain": kafka.servers, "ca": secure.ca, "secret": SECRET}
    known["free"] = f"127.0.0.1:{process.free_port()}"
    given = {name: value and value.format(**known) for name, value in case["access"].items()}
    failed = [name.format(**known) for name in case["failed"]]
    text = refusal(Access(**given))
    assert_refusal(text, *failed, remedy=case["remedy"])
    assert text.startswith(failed[0])
    assert "wrong horse" not in text


def test_the_broker_of_the_own_home_needs_no_settings(
    settings: Settings, broker: Broker, kafka: Access, tmp_path: Path
) -> None:
    """The group names its servers only, by either name of this machine."""
    consumer, _ = topics_of(settings)
    port = broker.address.rpartition(":")[2]
    for servers in (broker.address, f"localhost:{port}"):
        named = consumer.model_copy(update={"bootstrap_servers": servers})
        client_of_group = access(named, settings.home, {})
        assert client_of_group == replace(kafka, servers=servers)
        check_topics(client_of_group)
    other = consumer.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    assert access(other, settings.home, {}) == Access("127.0.0.1:1")
    # Of the broker of another home it knows nothing.
    named_by_env = load_settings(env={"BOOTSTRAP_SERVERS": broker.address})
    assert access(topics_of(named_by_env)[0], settings.home, {}) == kafka
    assert access(topics_of(named_by_env)[0], tmp_path, {}) == Access(broker.address)


@pytest.mark.parametrize(
    "change", [{"pid": os.getpid(), "created": 1.0}, {"lab": "127.0.0.1:1"}, {"lab": None}]
)
def test_a_record_of_another_broker_is_not_believed(
    settings: Settings, broker: Broker, tmp_path: Path, change: dict[str, Any]
) -> None:
    """Another broker may have taken the port that a stopped one left."""
    consumer, _ = topics_of(settings)
    named = consumer.model_copy(update={"bootstrap_servers": broker.address})
    (tmp_path / "services").mkdir()
    record = tmp_path / "services" / "kafka.json"
    record.write_text(json.dumps(dict(broker.about)))
    assert access(named, tmp_path, {}) == broker.access()
    record.write_text(json.dumps({**broker.about, **change}))
    assert access(named, tmp_path, {}) == Access(broker.address)


def test_a_second_user_is_added_to_a_running_broker(secure: Broker, client: Access) -> None:
    home = replace(load_settings(env={}), home=secure.log.parents[2])
    assert start_broker(home, users={"second": "another secret"}) == secure
    for user, password in ((USER, SECRET), ("second", "another secret")):
        check_topics(replace(client, username=user, password=password))
    # A new password for a user that is known stands from now on.
    start_broker(home, users={"second": "new secret"})
    check_topics(replace(client, username="second", password="new secret"))
    text = refusal(replace(client, username="second", password="another secret"))
    assert text.startswith(f"{client.servers} rejected user 'second' (")


def test_the_lab_gets_into_a_broker_of_users_by_a_listener_of_its_own(secure: Broker) -> None:
    own = secure.access()
    assert own.servers != secure.address
    assert (own.protocol, own.mechanism) == ("SASL_PLAINTEXT", "PLAIN")
    check_topics(own)
    assert refusal(Access(own.servers)).startswith(
        f"{own.servers} is not a Kafka broker, or requires "
    )
    # And users do not get in there.
    mixed = replace(own, username=USER, password=SECRET)
    assert refusal(mixed).startswith(f"{own.servers} rejected user 'lab' (")


@pytest.mark.deep
def test_kafkas_own_tools_get_in(settings: Settings, broker: Broker) -> None:
    jars = map(str, verify(settings.project / "jars", ["broker"]))
    java = (str(find_java().home / "bin" / "java"), "-cp", os.pathsep.join(jars))
    tool = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.address)
    arguments = ("--describe", "--entity-type", "brokers", "--all")
    done = subprocess.run(
        [*java, *tool, "--command-config", str(broker.client_file), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "auto.create.topics.enable=false" in done.stdout, done.stderr


def test_a_broker_that_hangs_is_said(
    broker: Broker, kafka: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topics(kafka, {"hangs": 1})
    again = "check that the broker is running (hudilab services status kafka), then try again"
    admin = AdminClient(kafka.client_options())
    part = {TopicPartition("hangs", 0): OffsetSpec.latest()}
    _offsets(admin, part)
    os.kill(broker.pid, signal.SIGSTOP)
    monkeypatch.setattr(topics, "REQUEST_SECONDS", 0.5)
    try:
        with refused(KafkaError, "topic 'late': the request timed out", remedy=again):
            _done(admin.create_topics([NewTopic("late", 1, 1)]))
        with refused(KafkaError, "offsets of 'hangs': the request timed out", remedy=again):
            _offsets(admin, part)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
        monkeypatch.undo()
    create_topics(kafka, {"hangs": 1})


def test_an_unknown_topic(kafka: Access) -> None:
    create_topics(kafka, {"known": 1})
    text = refusal(kafka, "known", "unknown", "missing")
    assert text.startswith(f"no topic 'unknown', 'missing' at {kafka.servers}; available topics: ")
    assert "known" in text.partition("available topics: ")[2]
    assert text.endswith("; create it, or fix topic.name")


def test_a_topic_with_other_partitions_is_refused(kafka: Access) -> None:
    create_topics(kafka, {"two": 2})
    create_topics(kafka, {"two": 2})
    problem = "topic 'two' has 2 partitions, expected 3"
    with refused(KafkaError, problem, remedy="; delete it, or use another name"):
        create_topics(kafka, {"two": 3})


def test_afresh_empties_a_topic(kafka: Access) -> None:
    create_topics(kafka, {"again": 1})
    produce(kafka, "again", price_messages(10, seed=1))
    create_topics(kafka, {"again": 1}, afresh=True)
    assert topic_rows(kafka, ["again"])["end"].sum() == 0


def test_a_message_that_the_broker_refuses_is_counted(kafka: Access) -> None:
    create_topics(kafka, {"sizes": 1})
    with pytest.raises(KafkaError) as caught:
        produce(kafka, "sizes", [*price_messages(3, seed=1), Message(b"k", b"x" * 2_000_000)])
    assert str(caught.value).startswith(
        "only 3 of 4 messages were acknowledged by topic 'sizes': Unable to produce message: "
        "Broker: Message size too large; "
    )
    assert topic_rows(kafka, ["sizes"])["end"].sum() == 3


def test_offsets_are_waited_for_while_a_topic_is_being_made(kafka: Access) -> None:
    part = TopicPartition("young", 0)
    maker = threading.Timer(1, create_topics, (kafka, {"young": 1}))
    maker.start()
    offsets = _offsets(AdminClient(kafka.client_options()), {part: OffsetSpec.latest()})
    maker.join()
    assert offsets == {part: 0}


def test_a_format_that_is_refused_says_why(
    alone: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_service, "_new_id", lambda: "-bcdefghijklmnopqrstuw")
    log = alone.home / "services" / "kafka" / "kafka.log"
    problem = "Kafka exited with code 1: kafka-storage: error: argument --cluster-id/-t: expected "
    with refused(ServiceError, problem, remedy=f"; see {log}"):
        start_broker(alone)
    assert "usage: kafka-storage format" in log.read_text()
