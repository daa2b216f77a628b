"""Kafka clients: connect and authenticate, create and check topics, produce, measure lag."""

from __future__ import annotations

import os
import re
import socket
import ssl
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import KafkaError as Code
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka import Producer as Client
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from py4j.protocol import Py4JError

from hudilab.errors import KafkaError
from hudilab.runtime.locks import find
from hudilab.runtime.settings import Consumer, Producer
from hudilab.writer.causes import root_cause

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

__all__ = [
    "Access",
    "Sender",
    "Sent",
    "TopicIdentity",
    "access",
    "check_topics",
    "create_topics",
    "jaas",
    "password",
    "present",
    "produce",
    "read_access",
    "topic_rows",
]

Group = TypeVar("Group")

IAM_PORT = "9098"  # Amazon MSK: TLS, and IAM instead of a password
CLIENT = "client.properties"  # in the folder of the lab's broker: servers and login
PATIENCE = 6.0
DELIVERY_MS = 30_000
SCRAM, PLAIN = "SCRAM-SHA-512", "PLAIN"
_LOGIN = "org.apache.kafka.common.security"
_MODULES = {SCRAM: f"{_LOGIN}.scram.ScramLoginModule", PLAIN: f"{_LOGIN}.plain.PlainLoginModule"}
AGAIN = "check that the broker is running (hudilab services status kafka), then try again"
_IAM = "software.amazon.msk.auth.iam.IAM"


@dataclass(frozen=True)
class Access:
    """How a client connects: servers, `security.protocol`, and the credentials that it needs.

    The password never appears in the repr.
    """

    servers: str
    protocol: str = "PLAINTEXT"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    mechanism: str = SCRAM

    @property
    def iam(self) -> bool:
        """Whether these are the IAM servers of an Amazon MSK cluster: every port is 9098."""
        ports = {server.rpartition(":")[2] for server in self.servers.split(",")}
        return ports == {IAM_PORT}

    def spark_options(self) -> dict[str, str]:
        """Return options for Spark's Kafka source and sink: the client's own, prefixed `kafka.`."""
        options = {"bootstrap.servers": self.servers}
        if self.iam:
            options |= {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "AWS_MSK_IAM",
                "sasl.jaas.config": f"{_IAM}LoginModule required;",
                "sasl.client.callback.handler.class": f"{_IAM}ClientCallbackHandler",
            }
        elif self.protocol != "PLAINTEXT":
            options["security.protocol"] = self.protocol
        if self.password is not None:
            login = jaas(self.mechanism, self.username or "", self.password)
            options |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": login}
        if self.ca:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        return {f"kafka.{name}": value for name, value in options.items()}

    def client_options(self) -> dict[str, Any]:
        """Return options for the Python client (librdkafka).

        Raises:
            KafkaError: the servers are MSK's for IAM.
        """
        if self.iam:
            raise KafkaError(
                f"{self.servers} requires IAM, which the Python client does not support; produce "
                "with Spark, or use the cluster's SASL/SCRAM servers"
            )
        options: dict[str, Any] = {"bootstrap.servers": self.servers}
        if self.protocol != "PLAINTEXT":
            options["security.protocol"] = self.protocol
        if self.password is not None:
            options |= {
                "sasl.mechanism": self.mechanism,
                "sasl.username": self.username,
                "sasl.password": self.password,
            }
        return options | ({"ssl.ca.location": self.ca} if self.ca else {})


def present(group: Group | None) -> Group:
    """Return the settings' group.

    Raises:
        KafkaError: the settings have no such group.
    """
    if group is None:
        raise KafkaError(
            "application_properties.json has no Kafka groups; "
            "add consumer.config.0 and producer.config.0"
        )
    return group


def access(group: Consumer | Producer | None, env: Mapping[str, str] | None = None) -> Access:
    """Return the access that a group of application_properties.json describes.

    The password comes from the environment. If the group names the home's own broker and that is
    running, user and password come from the broker's folder.

    Raises:
        KafkaError: settings or password are missing or wrong; never quotes a password.
    """
    env = os.environ if env is None else env
    asked = present(group)
    protocol = asked.security_protocol or "PLAINTEXT"
    if protocol == "PLAINTEXT" and (own := _own(asked.home, asked.bootstrap_servers)):
        return own
    if protocol != "SASL_SSL":
        return Access(asked.bootstrap_servers, protocol, ca=asked.ssl_ca_location)
    if not asked.sasl_username:
        raise KafkaError(
            "security.protocol is SASL_SSL, but sasl.username is not set; set sasl.username"
        )
    secret = password(env)
    return Access(
        asked.bootstrap_servers, protocol, asked.sasl_username, secret, asked.ssl_ca_location
    )


def read_access(folder: Path) -> Access:
    """Return the access to the broker that keeps its data in this folder.

    Raises:
        KafkaError: the folder's client.properties is missing or damaged.
    """
    file = folder / CLIENT
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    servers = re.search(r"(?m)^bootstrap\.servers=(.+)$", text)
    login = re.search(r'username="(\w+)" password="(\w+)"', text)
    if servers is None or login is None:
        raise KafkaError(
            f"cannot read servers and login from {file}; restart the broker to rewrite it: "
            "hudilab services stop kafka && hudilab services start kafka"
        )
    return Access(servers[1], "SASL_PLAINTEXT", login[1], login[2], mechanism=PLAIN)


def _own(home: Path | None, servers: str) -> Access | None:
    """Return the access to this home's broker if it is running and these are its servers."""
    folder = (home or Path()) / "services" / "kafka"
    if home is None or not (folder / CLIENT).exists():
        return None
    own, asked = read_access(folder), servers.replace("localhost:", "127.0.0.1:")
    # If the home's broker is down, another broker may have taken its port.
    return replace(own, servers=servers) if asked == own.servers and find(folder) else None


def jaas(mechanism: str, user: str, password: str, more: str = "") -> str:
    """Return a login in Java's JAAS syntax, for Kafka's `sasl.jaas.config`."""
    login = f"username={_quoted(user)} password={_quoted(password)}{more}"
    return f"{_MODULES[mechanism]} required {login};"


def check_topics(
    client: Access, topics: Sequence[str] = (), patience: float = PATIENCE
) -> dict[str, int]:
    """Return the number of partitions of each existing topic; `topics` must be among them.

    For MSK with IAM, only check that a server accepts connections, and return nothing.

    Args:
        topics: Names of topics that must exist.
        patience: Seconds until the check gives up, approximately.

    Raises:
        KafkaError: no broker, an untrusted certificate, a refused login, the wrong protocol or a
            missing topic; names the cause and the remedy.
    """
    if client.iam:
        _connect(client.servers, patience)
        return {}
    found = {
        name: len(topic.partitions)
        for name, topic in _metadata(client, patience).topics.items()
        if not name.startswith("__")
    }
    missing = [repr(name) for name in topics if name not in found]
    if missing:
        there = ", ".join(sorted(found)) or "none"
        raise KafkaError(
            f"no topic {', '.join(missing)} at {client.servers}; available topics: {there}; create "
            "it, or fix topic.name"
        )
    return found


def create_topics(client: Access, topics: Mapping[str, int], *, afresh: bool = False) -> None:
    """Create the topics (name: partitions) that do not exist.

    Args:
        afresh: Delete existing ones first.

    Raises:
        KafkaError: a topic exists with a different number of partitions, or the broker fails.
    """
    there = check_topics(client)
    admin = _admin(client)
    if afresh and (old := [name for name in topics if name in there]):
        _done(admin.delete_topics(old, operation_timeout=PATIENCE))
        # Deletion is asynchronous: it is confirmed before the broker itself knows of it.
        ends = time.monotonic() + PATIENCE
        while set(old) & (there := check_topics(client)).keys():
            if time.monotonic() > ends:
                raise KafkaError(f"topics {', '.join(old)} are still being deleted; try again")
            time.sleep(0.05)
    for name, partitions in topics.items():
        if name in there and there[name] != partitions:
            raise KafkaError(
                f"topic {name!r} has {there[name]} partitions, expected {partitions}; "
                "delete it, or use another name"
            )
    if new := [NewTopic(n, p, 1) for n, p in topics.items() if n not in there]:
        _done(admin.create_topics(new, operation_timeout=PATIENCE))
    # Creation is asynchronous too: wait until every partition has a leader that answers.
    parts = [TopicPartition(name, number) for name, n in topics.items() for number in range(n)]
    _offsets(admin, dict.fromkeys(parts, OffsetSpec.latest()))


def topic_rows(
    client: Access, topics: Sequence[str], read: Mapping[str, Mapping[str, int]] | None = None
) -> pd.DataFrame:
    """Return one row per partition with its offsets: topic, partition, first, end.

    Args:
        read: What a query has read, as in its progress under `sources[0]["endOffset"]`; adds the
            columns read and lag.
    """
    import pandas as pd  # here: a deployed job has no pandas, and shows no frames

    there = check_topics(client, topics)
    parts = [TopicPartition(name, number) for name in topics for number in range(there[name])]
    admin = _admin(client)
    first, end = (
        _offsets(admin, dict.fromkeys(parts, which))
        for which in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    rows = []
    for part in parts:
        row = {"topic": part.topic, "partition": part.partition}
        row |= {"first": first[part], "end": end[part]}
        if read is not None:
            at = read.get(part.topic, {}).get(str(part.partition), first[part])
            row |= {"read": at, "lag": end[part] - at}
        rows.append(row)
    return pd.DataFrame(rows)


class TopicIdentity:
    """A topic's identity, whatever address it is reached at: name, cluster id and topic id.

    Call it to get the source of a `BatchLedger`. A topic of the same name on another cluster, or
    one deleted and recreated, has a different identity: a checkpoint's offsets mean nothing there.
    It uses the Spark session's Kafka client, which supports IAM too.

    Raises:
        KafkaError: on a call, if the topic cannot be described.
    """

    def __init__(self, spark: SparkSession, client: Access, topic: str) -> None:
        self._servers, self._topic = client.servers, topic
        jvm: Any = spark._jvm
        self._jvm = jvm
        options = jvm.java.util.Properties()
        for name, value in client.spark_options().items():
            options.put(name.removeprefix("kafka."), value)
        options.put("default.api.timeout.ms", "30000")
        self._admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(options)

    def __call__(self) -> dict[str, str]:
        """Return the topic's name, its id and the id of its cluster, as the brokers say now."""
        names = self._jvm.java.util.Collections.singletonList(self._topic)
        try:
            cluster = str(self._admin.describeCluster().clusterId().get())
            found = self._admin.describeTopics(names).allTopicNames().get().get(self._topic)
        except Py4JError as error:
            raise KafkaError(
                f"cannot describe topic {self._topic!r} at {self._servers} "
                f"({root_cause(str(error))}); fix bootstrap.servers or the topic's name"
            ) from None
        id_ = str(found.topicId().toString())
        return {"topic": self._topic, "cluster": cluster, "topic_id": id_}


@dataclass
class Sent:
    """How many messages the client was given and the broker acknowledged; the first error."""

    given: int = 0
    acknowledged: int = 0
    refused: str = ""


def produce(client: Access, topic: str, batch: Iterable[tuple[bytes | None, bytes | None]]) -> Sent:
    """Send (key, value) messages without duplicates and wait for every acknowledgement.

    Raises:
        KafkaError: a message was not acknowledged; says how many were.
    """
    with Sender(client, topic) as sender:
        for message in batch:
            sender.send(message)
    return sender.sent


class Sender:
    """An idempotent producer; leaving its context waits for every acknowledgement."""

    def __init__(self, client: Access, topic: str) -> None:
        self.sent, self._topic = Sent(), topic
        self._client = Client(
            client.client_options()
            | {
                "enable.idempotence": True,
                # Puts a key in the partition that Spark's and Java's clients would choose.
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "delivery.timeout.ms": DELIVERY_MS,
                "log_level": 0,
            }
        )

    def send(self, message: tuple[bytes | None, bytes | None]) -> None:
        """Hand a (key, value) message to the client; block while its queue is full."""
        while True:
            try:
                key, value = message
                self._client.produce(self._topic, value, key, on_delivery=self._report)
            except BufferError:
                self._client.poll(0.1)
                continue
            except KafkaException as error:
                self.sent.refused = self.sent.refused or error.args[0].str()
            self.sent.given += 1
            self._client.poll(0)
            return

    def flush(self) -> None:
        """Wait until every message is acknowledged.

        Raises:
            KafkaError: a message was not acknowledged; says how many were.
        """
        left = self._client.flush(DELIVERY_MS / 1000 + 5)
        if left or self.sent.refused:
            why = self.sent.refused or "no answer"
            raise KafkaError(
                f"only {self.sent.acknowledged} of {self.sent.given} messages were acknowledged by "
                f"topic {self._topic!r}: {why}; fix the cause, then send the rest again"
            )

    def _report(self, error: Any, _: Any) -> None:
        if error is None:
            self.sent.acknowledged += 1
        else:
            self.sent.refused = self.sent.refused or error.str()

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.flush()


def _offsets(admin: AdminClient, asked: dict[TopicPartition, Any]) -> dict[TopicPartition, int]:
    """List offsets; retry, as a new topic briefly has no leader and the error varies."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            futures = admin.list_offsets(asked).items()
            return {part: future.result(PATIENCE).offset for part, future in futures}
        except (KafkaException, TimeoutError) as error:
            if time.monotonic() > ends:
                names = ", ".join(sorted({repr(part.topic) for part in asked}))
                raise KafkaError(
                    f"cannot list the offsets of {names}: {_said(error)}; {AGAIN}"
                ) from None
            time.sleep(0.1)


def _admin(client: Access) -> AdminClient:
    """Return an admin client that logs nothing: its failures come as errors."""
    return AdminClient(client.client_options() | {"log_level": 0})


def _quoted(text: str) -> str:
    """Quote text for JAAS."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def password(env: Mapping[str, str]) -> str:
    """Return KAFKA_PASSWORD, or the text of the file that KAFKA_PASSWORD_FILE names (mode 0600).

    Raises:
        KafkaError: neither is set, or the file is unreadable, empty or readable by others.
    """
    if word := env.get("KAFKA_PASSWORD"):
        return word
    name = env.get("KAFKA_PASSWORD_FILE", "")
    if not name:
        raise KafkaError(
            "security.protocol is SASL_SSL, but no password is set; set KAFKA_PASSWORD, or set "
            "KAFKA_PASSWORD_FILE to a file of mode 0600"
        )
    file = Path(name)
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        word = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise KafkaError(
            f"KAFKA_PASSWORD_FILE={name} cannot be read ({why}); set it to a readable file"
        ) from None
    if mode & 0o077:
        raise KafkaError(
            f"KAFKA_PASSWORD_FILE={name} is readable by others (mode {mode:04o}); restrict it with "
            "chmod 600"
        )
    if not word:
        raise KafkaError(f"KAFKA_PASSWORD_FILE={name} is empty; write the password into it")
    return word


def _metadata(client: Access, patience: float) -> Any:
    if client.ca and not Path(client.ca).is_file():
        raise KafkaError(f"ssl.ca.location {client.ca} is not a file; fix the path")
    heard: list[Code] = []
    # The client logs the same errors that it passes to the callback.
    quiet = {"error_cb": heard.append, "log_level": 0, "reconnect.backoff.max.ms": 500}
    try:
        admin = AdminClient(client.client_options() | quiet)
    except KafkaException as error:
        raise KafkaError(f"the Kafka client rejected its settings ({error}); fix them") from None
    ends = time.monotonic() + patience
    while True:
        try:
            return admin.list_topics(timeout=min(1.0, patience))
        except KafkaException:
            admin.poll(0)
        final = [e for e in heard if e.code() in (Code._AUTHENTICATION, Code._SSL)]
        if final or time.monotonic() > ends:
            raise KafkaError(_cause(client, final or heard)) from None


def _cause(client: Access, heard: Sequence[Code]) -> str:
    # The last error only says that all brokers are down.
    told = [e for e in heard if e.code() != Code._ALL_BROKERS_DOWN]
    error = told[-1] if told else None
    text = error.str() if error else "no answer"
    said = text.rpartition(f"{client.servers.partition(',')[0]}/bootstrap: ")[2]
    said = said.partition(" (after ")[0]
    if error and error.code() == Code._AUTHENTICATION:
        return (
            f"{client.servers} rejected user {client.username!r} ({said}); fix sasl.username, or "
            "the password in KAFKA_PASSWORD"
        )
    tls = _speaks_tls(client.servers)
    if client.protocol.endswith("SSL") and tls is False:
        return f"{client.servers} does not use TLS; set security.protocol to PLAINTEXT"
    if client.protocol == "PLAINTEXT" and tls:
        return f"{client.servers} accepts only TLS; set security.protocol to SASL_SSL or SSL"
    if client.protocol == "PLAINTEXT" and tls is False:
        return (
            f"{client.servers} is not a Kafka broker, or requires a login ({said}); for the lab's "
            "own broker, set HUDILAB_HOME to its home, for any other, set security.protocol and "
            "sasl.username"
        )
    if error and error.code() == Code._SSL:
        return (
            f"the certificate of {client.servers} is not trusted ({said}); "
            "set ssl.ca.location to the PEM file of the CA that signed it"
        )
    return (
        f"no broker answers at {client.servers} ({said}); "
        "set BOOTSTRAP_SERVERS, or start a broker with: hudilab services start kafka"
    )


def _speaks_tls(servers: str) -> bool | None:
    """Return whether the first server answers a TLS handshake; None if nothing listens there.

    Kafka's client cannot tell a broker with a different protocol from one that is down.
    """
    host, _, port = servers.partition(",")[0].rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    try:
        with socket.create_connection((host.strip("[]"), int(port)), 2) as raw:
            try:
                context.wrap_socket(raw).close()
            except OSError:
                return False
            return True
    except OSError:
        return None


def _connect(servers: str, patience: float) -> None:
    problems = []
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), patience):
                return
        except OSError as error:
            problems.append(f"{server}: {error.strerror or error}")
    raise KafkaError(
        f"no broker answers ({'; '.join(problems)}); fix bootstrap.servers, or allow access to it "
        "(network, security group)"
    )


def _done(futures: Mapping[str, Any]) -> None:
    for name, future in futures.items():
        try:
            future.result(PATIENCE * 2)
        except TimeoutError as error:
            raise KafkaError(f"topic {name!r}: {_said(error)}; {AGAIN}") from None
        except KafkaException as error:
            done = (Code.TOPIC_ALREADY_EXISTS, Code.UNKNOWN_TOPIC_OR_PART)
            if error.args[0].code() not in done:
                raise KafkaError(
                    f"topic {name!r}: {_said(error)}; fix the cause, then start again"
                ) from None


def _said(error: KafkaException | TimeoutError) -> str:
    return "the request timed out" if isinstance(error, TimeoutError) else str(error.args[0].str())
