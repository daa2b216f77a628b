"""Run an Apache Kafka broker in KRaft mode on loopback from the jars of group `broker`."""

from __future__ import annotations

import base64
import os
import secrets
import shlex
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from hudilab.errors import ServiceError
from hudilab.files import write_private
from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_cli.servers.process import HOST
from hudilab_jobs.kafka.connection import Access, access, broker_access, kafka_groups, password
from hudilab_jobs.kafka.topics import create_topics
from hudilab_jobs.settings import load_settings
from hudilab_spark.jars import verify
from hudilab_spark.java import run_quietly
from hudilab_spark.server_records import read_record

CA = "ca.pem"  # in the broker's folder: the certificate that clients trust
PARTITIONS = 3  # of each topic that the settings name


class Broker(process.Server):
    """A running broker."""

    name = "kafka"

    @property
    def ca(self) -> Path | None:
        """Return the CA certificate; None if clients need neither TLS nor a user."""
        return self.folder / CA if self.about["users"] else None

    @property
    def client_file(self) -> Path:
        """Return the `--command-config` file for Kafka's tools, with a password; mode 0600."""
        return self.folder / "client.properties"

    def describe(self) -> str:
        """Return a line with address, protocol and log."""
        protocol = f"SASL_SSL, certificate {self.ca}" if self.ca else "SASL_PLAINTEXT"
        return f"kafka at {self.address} ({protocol}), process {self.pid}, log {self.log}"

    def access(self) -> Access:
        """Return the lab's own access, which needs no TLS even if users do."""
        return broker_access(self.about)


@dataclass(frozen=True)
class GivenBroker:
    """A broker that BOOTSTRAP_SERVERS or the settings name."""

    settings: Settings

    def access(self) -> Access:
        """Return the access that the settings and the environment describe.

        Raises:
            ConfigError, KafkaError: They are missing or wrong.
        """
        consumer, _ = kafka_groups(self.settings)
        return access(consumer, self.settings.home)


def start_broker(
    settings: Settings, *, port: int = 0, users: Mapping[str, str] | None = None
) -> Broker:
    """Start a broker, or return the running one, once it answers a metadata request.

    Its data is in `<home>/services/kafka`. The lab has its own login, see `Broker.access`.

    Args:
        port: 0 tries the last port used, then 9092, then any free port.
        users: passwords by name; clients then need TLS and SASL SCRAM-SHA-512 on this port. The
            users are added to a running broker.

    Raises:
        ServiceError: the port is in use, the disk is full, the broker is not ready in time, or the
            running one has other settings.
        JarError: a jar is missing or altered.
        JavaError: no suitable Java is found.
    """

    def prepare(folder: Path) -> process.Launch:
        # Relative file names, because Kafka and log4j2 end a path at a comma.
        java = process.java_command(verify(settings.project / "jars", ["broker"]))
        java += ["-Dlog4j2.configurationFile=log4j2.properties"]
        process.check_disk(settings, "kafka", folder)
        address = f"{HOST}:{process.server_port(settings, 'kafka', port)}"
        lab = f"{HOST}:{process.free_port()}" if users else address
        secret = read_record(settings.home, "kafka").get("password") or secrets.token_hex(20)
        _write_settings(settings, folder, address, lab, secret, bool(users))
        if not (folder / "data" / "meta.properties").exists():
            _format(java, folder)
        about = {"users": bool(users), "lab": lab, "password": secret}
        command = [*java, "kafka.Kafka", "server.properties"]
        return process.Launch(command, address, _answers(broker_access(about)), about=about)

    def fits(running: Broker) -> bool:
        return bool(users) == bool(running.ca)

    broker = process.start(settings, Broker, port, prepare, fits)
    for name, secret in (users or {}).items():
        _add_user(broker.access(), name, secret)
    return broker


def find_broker(settings: Settings) -> Broker | None:
    """Return this home's running broker, or None."""
    return process.find(settings, Broker)


def stop_broker(settings: Settings) -> int | None:
    """Stop the broker cleanly and keep its data; return its process id, or None if none ran."""
    return process.stop(settings, "kafka")


def _write_settings(
    settings: Settings, folder: Path, address: str, lab: str, secret: str, users: bool
) -> None:
    """Write the broker's files; with `users`, the listener at `address` requires TLS."""
    values = {
        "users": process.port_of(address),
        "lab": process.port_of(lab),
        "controller": process.free_port(),
        "password": secret,
    }
    lines = process.render(settings, "kafka.properties", **values)
    if users:
        _make_certificates(folder)
        lines |= process.render(settings, "kafka-users.properties", **values)
    client = process.render(settings, "kafka-client.properties", **values)
    process.write_settings(folder / "server.properties", lines)
    process.write_settings(folder / "client.properties", client)
    process.copy_settings(settings, "log4j2.properties", folder)


def _make_certificates(folder: Path) -> None:
    """Write `ca.pem` and, with the server's private key, `server.pem`, unless they exist.

    Clients with an existing `ca.pem` still trust the broker.
    """
    ca_file, server_file = folder / CA, folder / "server.pem"
    if ca_file.exists() and server_file.exists():
        return
    ca = trustme.CA(organization_name="Hudi Streaming Lab")
    server = ca.issue_cert("localhost", HOST)
    # Kafka reads keys only in PKCS 8.
    key = load_pem_private_key(server.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = [blob.bytes() for blob in (*server.cert_chain_pems, ca.cert_pem)]
    write_private(server_file, b"".join((pem, *chain)).decode())
    ca.cert_pem.write_to_path(ca_file)


def _new_id() -> str:
    """Return a cluster id in Kafka's format: 16 bytes that are not a reserved value.

    A version 4 UUID is never reserved. Kafka's tools would parse a leading '-' as an option.
    """
    while True:
        id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not id.startswith("-"):
            return id


def _format(java: Sequence[str], folder: Path) -> None:
    """Format the data folder before the first start."""
    log, tool = folder / "kafka.log", ("kafka.tools.StorageTool", "format")
    done = run_quietly([*java, *tool, "-t", _new_id(), "-c", "server.properties"], cwd=folder)
    if done.returncode:
        with log.open("a", encoding="utf-8") as out:
            out.write(done.stdout + done.stderr)
        raise process.why_ended("kafka", done.stdout + done.stderr, done.returncode, log)


def _answers(client: Access) -> Callable[[], bool]:
    """Return a check that requests the broker's metadata."""
    quiet = client.client_options() | {"log_level": 0, "reconnect.backoff.max.ms": 200}
    admin = None

    def answers() -> bool:
        nonlocal admin
        if not process.in_use(process.port_of(client.servers)):
            return False
        admin = admin or AdminClient(quiet)
        try:
            return bool(admin.list_topics(timeout=1).brokers)
        except KafkaException:  # not ready
            return False

    return answers


def _add_user(client: Access, user: str, password: str) -> None:
    """Add a user by a request, because other accounts could read a command's arguments."""
    admin = AdminClient(client.client_options() | {"log_level": 0})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(user, info, password.encode())
    for future in admin.alter_user_scram_credentials([wanted]).values():
        try:
            future.result(process.START_TIMEOUT)
        except (KafkaException, TimeoutError) as error:
            raise ServiceError(
                f"Kafka did not add user {user!r} ({str(error) or 'no answer'})",
                "start it again with the same --user",
            ) from None


def command(port: int, user: str) -> None:
    """Start a Kafka broker and create the topics named in the settings."""
    settings = load_settings()
    secret = password(os.environ) if user else None
    broker = start_broker(settings, port=port, users={user: secret} if secret else None)
    print(broker.describe())
    client = broker.access()
    consumer, producer = kafka_groups(settings)
    topics = [group.topic_name for group in (consumer, producer) if group]
    topics += [producer.dead_letter_topic_name] if producer else []
    create_topics(client, dict.fromkeys(topics, PARTITIONS))
    print(f"topics: {', '.join(topics) or 'none'}; export BOOTSTRAP_SERVERS={broker.address}")
    tools = f"--bootstrap-server {client.servers} --command-config"
    print(f"Kafka's own tools: {tools} {shlex.quote(str(broker.client_file))}")


SERVICE = process.Service(start_broker, find_broker, stop_broker)
