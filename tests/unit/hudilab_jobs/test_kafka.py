"""Who connects to Kafka how: the options that follow, and the text of each refusal."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path

import pytest
from confluent_kafka import KafkaError as Code
from confluent_kafka import KafkaException

import hudilab_jobs.kafka.topics as kafka
from hudilab.errors import KafkaError
from hudilab_jobs.groups import Consumer
from hudilab_jobs.kafka.connection import Access, access, password

SECRET = 'pa"ss\\word'
GROUP = {
    "table.name": "stocks_in",
    "topic.name": "stocks-in",
    "bootstrap.servers": "broker:9092",
    "startup.mode": "earliest-offset",
}


def group(**changes: str) -> Consumer:
    return Consumer.model_validate(
        {**GROUP, **{k.replace("_", "."): v for k, v in changes.items()}}
    )


def refusal(group: Consumer | None, env: dict[str, str]) -> str:
    with pytest.raises(KafkaError) as caught:
        access(group, env=env)
    assert SECRET not in str(caught.value)
    return str(caught.value)


def test_a_plain_client_has_its_servers_and_nothing_else() -> None:
    client = access(group(), env={})
    assert client.spark_options() == {"kafka.bootstrap.servers": "broker:9092"}
    assert client.client_options() == {"bootstrap.servers": "broker:9092"}


def test_a_reader_leaves_out_what_transactions_abort() -> None:
    client = access(group(), env={})
    committed = {"kafka.isolation.level": "read_committed"}
    assert client.read_options() == client.spark_options() | committed


def test_tls_with_a_certificate() -> None:
    client = access(group(security_protocol="SSL", ssl_ca_location="/ca.pem"), env={})
    assert client.spark_options() == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.security.protocol": "SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
    }
    assert client.client_options() == {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SSL",
        "ssl.ca.location": "/ca.pem",
    }


def test_a_password_is_quoted_for_jaas_and_in_no_representation() -> None:
    client = access(
        group(security_protocol="SASL_SSL", sasl_username="lab"), env={"KAFKA_PASSWORD": SECRET}
    )
    assert client.spark_options()["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert client.spark_options()["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="lab" password="pa\\"ss\\\\word";'
    )
    assert client.client_options()["sasl.password"] == SECRET
    assert "ss" not in repr(client).replace("Access", "").replace("SASL_SSL", "")


@pytest.mark.parametrize("servers", ["b-1.x:9098", "b-1.x:9098,b-2.x:9098"])
def test_servers_with_port_9098_ask_for_iam(servers: str) -> None:
    client = access(group(bootstrap_servers=servers), env={})
    assert client.spark_options() == {
        "kafka.bootstrap.servers": servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "kafka.sasl.client.callback.handler.class": (
            "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        ),
    }
    with pytest.raises(KafkaError) as caught:
        client.client_options()
    assert str(caught.value) == (
        f"{servers} requires IAM, which the Python client does not support; use Spark's Kafka "
        "source and sink, or the cluster's SASL/SCRAM servers"
    )


@pytest.mark.parametrize(
    "servers",
    ["b-1.x:9096", "b-9098.x:9092", "b:19098", "b:29098", "b-1.x:9092,b-2.x:9098"],
)
def test_other_servers_do_not_ask_for_iam(servers: str) -> None:
    assert not Access(servers).iam


def test_what_is_missing_is_named() -> None:
    assert refusal(None, {}) == (
        "application_properties.json has no Kafka groups; "
        "add consumer.config.0 and producer.config.0"
    )
    assert refusal(group(security_protocol="SASL_SSL"), {}) == (
        "security.protocol is SASL_SSL, but sasl.username is not set; set sasl.username"
    )
    assert refusal(group(security_protocol="SASL_SSL", sasl_username="lab"), {}) == (
        "security.protocol is SASL_SSL, but no password is set; set KAFKA_PASSWORD, or set "
        "KAFKA_PASSWORD_FILE to a file of mode 0600"
    )


def password_file(tmp_path: Path, text: bytes, mode: int) -> dict[str, str]:
    file = tmp_path / "password"
    file.write_bytes(text)
    file.chmod(mode)
    return {"KAFKA_PASSWORD_FILE": str(file)}


def test_a_password_file_of_mode_0600_is_read(tmp_path: Path) -> None:
    assert password(password_file(tmp_path, SECRET.encode() + b"\n", 0o600)) == SECRET
    env = password_file(tmp_path, b"other", 0o400)
    assert password(env | {"KAFKA_PASSWORD": SECRET}) == SECRET


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        (SECRET.encode(), 0o640, " is readable by others (mode 0640); restrict it with chmod 600"),
        (SECRET.encode(), 0o604, " is readable by others (mode 0604); restrict it with chmod 600"),
        (b"\n", 0o600, " is empty; write the password into it"),
        (b"\xff", 0o600, " cannot be read (not UTF-8 text); set it to a readable file"),
    ],
)
def test_a_password_file_that_cannot_be_used(
    tmp_path: Path, text: bytes, mode: int, message: str
) -> None:
    env = password_file(tmp_path, text, mode)
    with pytest.raises(KafkaError) as caught:
        password(env)
    assert str(caught.value) == f"KAFKA_PASSWORD_FILE={env['KAFKA_PASSWORD_FILE']}{message}"


def test_a_password_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(KafkaError) as caught:
        password({"KAFKA_PASSWORD_FILE": f"{tmp_path}/none"})
    assert str(caught.value) == (
        f"KAFKA_PASSWORD_FILE={tmp_path}/none cannot be read (No such file or directory); set it "
        "to a readable file"
    )


def test_settings_that_the_client_rejects(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    client = Access("127.0.0.1:1", "SSL", ca=str(tmp_path / "ca.pem"))
    with pytest.raises(KafkaError) as caught:
        kafka.check_topics(client)
    assert str(caught.value).startswith("the Kafka client rejected its settings (")
    assert str(caught.value).endswith("); fix them")


def test_a_request_that_fails_or_times_out() -> None:
    refused: Future[None] = Future()
    refused.set_exception(KafkaException(Code(Code.INVALID_REPLICATION_FACTOR)))
    with pytest.raises(KafkaError) as caught:
        kafka._done({"t": refused})
    assert str(caught.value) == (
        "topic 't': Broker: Invalid replication factor; fix the cause, then start again"
    )
    late: Future[None] = Future()
    late.set_exception(TimeoutError())
    with pytest.raises(KafkaError) as caught:
        kafka._done({"t": late})
    assert str(caught.value) == (
        "topic 't': the request timed out; check that the broker is running (hudilab services "
        "status kafka), then try again"
    )


def test_deleted_topics_are_waited_for() -> None:
    answers = iter([{"old": 1, "other": 2}, {"other": 2}])
    assert kafka._without(["old"], lambda: next(answers), 6) == {"other": 2}
    with pytest.raises(KafkaError, match=r"^topics old are still being deleted; try again$"):
        kafka._without(["old"], lambda: {"old": 1}, 0.1)
