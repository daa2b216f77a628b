"""Servers, protocol and login of Kafka clients, for Spark and the Python client."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from hudilab.errors import ConfigError, KafkaError
from hudilab.settings import Settings
from hudilab_jobs.groups import CONSUMER, PRODUCER, Client, Consumer, Producer
from hudilab_spark.hive_group import servers
from hudilab_spark.server_records import read_record, running_process

IAM_PORT = "9098"  # Amazon MSK: TLS, and IAM instead of a password
SCRAM, PLAIN = "SCRAM-SHA-512", "PLAIN"
_LOGIN = "org.apache.kafka.common.security"
_MODULES = {SCRAM: f"{_LOGIN}.scram.ScramLoginModule", PLAIN: f"{_LOGIN}.plain.PlainLoginModule"}
_IAM = "software.amazon.msk.auth.iam.IAM"


def kafka_groups(
    settings: Settings, env: Mapping[str, str] | None = None
) -> tuple[Consumer | None, Producer | None]:
    """Return the groups of the topics to read and write; BOOTSTRAP_SERVERS overrides the servers.

    Raises:
        ConfigError: BOOTSTRAP_SERVERS is no list of servers, or the groups do not fit.
    """
    consumer, producer = settings.group(CONSUMER, Consumer), settings.group(PRODUCER, Producer)
    named = (os.environ if env is None else env).get("BOOTSTRAP_SERVERS", "").strip()
    if not named:
        return consumer, producer
    try:
        servers(named)
    except PydanticCustomError as error:
        problem = error.message()
    else:
        problem = ""
    if problem:
        raise ConfigError(
            f"BOOTSTRAP_SERVERS={named!r} {problem}",
            "fix it, or unset it to use the servers in the settings file",
        )
    update = {"bootstrap_servers": named}
    return (
        consumer and consumer.model_copy(update=update),
        producer and producer.model_copy(update=update),
    )


@dataclass(frozen=True)
class Access:
    """A client's servers, `security.protocol` and credentials; the repr omits the password."""

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
        """Return options for Spark's Kafka source and sink, which start with `kafka.`."""
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

    def read_options(self) -> dict[str, str]:
        """Return options for Spark's Kafka source that skip messages of aborted transactions."""
        # Spark reads these by default; the Python client doesn't.
        return self.spark_options() | {"kafka.isolation.level": "read_committed"}

    def client_options(self) -> dict[str, Any]:
        """Return options for the Python client (librdkafka).

        Raises:
            KafkaError: the servers are MSK's for IAM.
        """
        if self.iam:
            raise KafkaError(
                f"{self.servers} requires IAM, which the Python client does not support",
                "use Spark's Kafka source and sink, or the cluster's SASL/SCRAM servers",
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


def access(
    group: Client | None, home: Path | None = None, env: Mapping[str, str] | None = None
) -> Access:
    """Return the access that a group of application_properties.json describes.

    The password comes from the environment, or, for the running broker of the lab's `home`, from
    the broker's record.

    Raises:
        KafkaError: settings or password are missing or wrong; never quotes a password.
    """
    env = os.environ if env is None else env
    if group is None:
        raise KafkaError(
            "application_properties.json has no Kafka groups",
            "add consumer.config.0 and producer.config.0",
        )
    servers, protocol = group.bootstrap_servers, group.security_protocol or "PLAINTEXT"
    if protocol == "PLAINTEXT" and (own := _own(home, servers)):
        return own
    if protocol != "SASL_SSL":
        return Access(servers, protocol, ca=group.ssl_ca_location)
    if not group.sasl_username:
        raise KafkaError(
            "security.protocol is SASL_SSL, but sasl.username is not set", "set sasl.username"
        )
    return Access(servers, protocol, group.sasl_username, password(env), group.ssl_ca_location)


def broker_access(record: Mapping[str, Any]) -> Access:
    """Return the access to the lab's own broker from the broker's record."""
    secret = str(record["password"])
    return Access(str(record["lab"]), "SASL_PLAINTEXT", "hudilab", secret, mechanism=PLAIN)


def _own(home: Path | None, servers: str) -> Access | None:
    """Return the access to this home's broker, if it is running at these servers."""
    record = read_record(home, "kafka") if home else {}
    # If the home's broker is down, another broker may have taken its port.
    if servers.replace("localhost:", "127.0.0.1:") != record.get("lab"):
        return None
    return replace(broker_access(record), servers=servers) if running_process(record) else None


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
            "security.protocol is SASL_SSL, but no password is set",
            "set KAFKA_PASSWORD, or set KAFKA_PASSWORD_FILE to a file of mode 0600",
        )
    file = Path(name)
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        word = file.read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "not UTF-8 text"
        raise KafkaError(
            f"KAFKA_PASSWORD_FILE={name} cannot be read ({why})", "set it to a readable file"
        ) from None
    if mode & 0o077:
        raise KafkaError(
            f"KAFKA_PASSWORD_FILE={name} is readable by others (mode {mode:04o})",
            "restrict it with chmod 600",
        )
    if not word:
        raise KafkaError(f"KAFKA_PASSWORD_FILE={name} is empty", "write the password into it")
    return word


def jaas(mechanism: str, user: str, password: str) -> str:
    """Return a login in Java's JAAS syntax, for Kafka's `sasl.jaas.config`."""
    login = f"username={_quoted(user)} password={_quoted(password)}"
    return f"{_MODULES[mechanism]} required {login};"


def _quoted(text: str) -> str:
    """Quote text for JAAS."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
