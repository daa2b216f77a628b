"""Getting in: what a client is told when it does not, in seconds."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest
from services.programs import SECRET, USER

from hudilab.config import Settings
from hudilab.errors import KafkaError, ServiceError
from hudilab.kafka import Access, check_topics, create_topics, produce, topic_rows
from hudilab.prices import Message, messages
from hudilab.services import process
from hudilab.services.kafka import Broker, start_broker

PATIENCE = 15  # seconds, for every refusal


@pytest.fixture(scope="module")
def client(secure: Broker) -> Access:
    return Access(secure.bootstrap, "SASL_SSL", USER, SECRET, str(secure.ca))


def refusal(client: Access, *topics: str) -> str:
    started = time.monotonic()
    with pytest.raises(KafkaError) as caught:
        check_topics(client, topics)
    assert time.monotonic() - started < PATIENCE
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_the_right_user_gets_in(client: Access) -> None:
    create_topics(client, {"secret": 1})
    assert produce(client, "secret", messages(500, seed=3)).acknowledged == 500
    assert topic_rows(client, ["secret"])["end"].sum() == 500


def test_a_wrong_password(client: Access) -> None:
    text = refusal(replace(client, password="wrong horse"))
    assert text.startswith(f"{client.servers} refuses user 'lab' (SASL authentication error: ")
    assert text.endswith("; correct sasl.username, or the password in KAFKA_PASSWORD")
    assert "wrong horse" not in text


def test_a_certificate_that_is_not_trusted(client: Access) -> None:
    text = refusal(replace(client, ca=None))
    assert text.startswith(f"the certificate of {client.servers} is not trusted (SSL handshake")
    assert text.endswith("; set ssl.ca.location to the PEM file of the authority that signed it")


def test_a_plain_client_on_the_tls_port(client: Access) -> None:
    assert refusal(Access(client.servers)) == (
        f"{client.servers} speaks TLS only; set security.protocol to SASL_SSL, or to SSL"
    )


def test_a_tls_client_on_the_plain_port(kafka: Access) -> None:
    assert refusal(Access(kafka.servers, "SSL")) == (
        f"{kafka.servers} speaks no TLS; set security.protocol to PLAINTEXT"
    )


def test_a_certificate_file_that_is_not_there(client: Access) -> None:
    assert refusal(replace(client, ca="/no/such/ca.pem")) == (
        "ssl.ca.location /no/such/ca.pem is not a file; correct the name"
    )


def test_nobody_listens() -> None:
    address = f"127.0.0.1:{process.free_port()}"
    text = refusal(Access(address))
    assert text.startswith(f"no broker answers at {address} (Connect to ")
    assert "Connection refused" in text
    assert text.endswith("; start one with: hudilab services start kafka, or set BOOTSTRAP_SERVERS")


def test_nobody_listens_for_iam_either() -> None:
    assert refusal(Access("127.0.0.1:9098")) == (
        "no broker answers (127.0.0.1:9098: Connection refused); correct bootstrap.servers, "
        "or open the way to it: network, security group"
    )


def test_an_unknown_topic(kafka: Access) -> None:
    create_topics(kafka, {"known": 1})
    text = refusal(kafka, "known", "unknown", "missing")
    assert text.startswith(f"no topic 'unknown', 'missing' at {kafka.servers}; topics there: ")
    assert "known" in text.partition("topics there: ")[2]
    assert text.endswith("; create it, or correct topic.name")


def test_a_topic_with_other_partitions_is_refused(kafka: Access) -> None:
    create_topics(kafka, {"two": 2})
    create_topics(kafka, {"two": 2})
    with pytest.raises(KafkaError) as caught:
        create_topics(kafka, {"two": 3})
    assert str(caught.value) == (
        "topic 'two' has 2 partitions and 3 are asked for; delete it, or use another name"
    )


def test_afresh_empties_a_topic(kafka: Access) -> None:
    create_topics(kafka, {"again": 1})
    produce(kafka, "again", messages(10, seed=1))
    create_topics(kafka, {"again": 1}, afresh=True)
    assert topic_rows(kafka, ["again"])["end"].sum() == 0


def test_a_message_that_the_broker_refuses_is_counted(kafka: Access) -> None:
    create_topics(kafka, {"sizes": 1})
    with pytest.raises(KafkaError) as caught:
        produce(kafka, "sizes", [*messages(3, seed=1), Message(b"k", b"x" * 2_000_000)])
    assert str(caught.value).startswith(
        "3 of 4 messages were acknowledged by topic 'sizes': Unable to produce message: "
        "Broker: Message size too large; "
    )
    assert topic_rows(kafka, ["sizes"])["end"].sum() == 3


def test_a_running_broker_does_not_become_secure(settings: Settings, broker: Broker) -> None:
    with pytest.raises(ServiceError, match="other settings are asked for"):
        start_broker(settings, users={USER: SECRET})


def test_no_process_shows_the_password(secure: Broker) -> None:
    for folder in os.listdir("/proc"):  # noqa: PTH208 - names only
        if folder.isdecimal():
            try:
                with open(f"/proc/{folder}/cmdline") as line:  # noqa: PTH123
                    assert SECRET not in line.read()
            except OSError:
                continue
    assert SECRET not in secure.log.read_text()
