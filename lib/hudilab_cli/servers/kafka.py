"""Run an Apache Kafka broker in KRaft mode on loopback, from the jars of group `broker`."""

from __future__ import annotations

import base64
import os
import shlex
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from hudilab.errors import ServiceError
from hudilab.settings import Settings, load_settings
from hudilab_cli.servers import process
from hudilab_cli.servers.folder import check_disk
from hudilab_cli.servers.kafka_files import CA, read_ports, write_logging, write_properties
from hudilab_jobs import server_locks
from hudilab_jobs.kafka.connection import CLIENT, Access, password, read_access
from hudilab_jobs.kafka.topics import create_topics
from hudilab_spark.jars import verify
from hudilab_spark.java import run_quietly

NAME, HOST = "kafka", process.HOST
USUAL_PORT = 9092
LEAST_FREE = 100_000_000  # bytes; Kafka creates 10 MB index files for each partition
PARTITIONS = 3  # of each topic that the settings name
_why = partial(process.why_ended, "Kafka", "one of Kafka's ports")


@dataclass(frozen=True)
class Broker:
    """A running broker; `ca` is the certificate to trust, None if clients need no TLS and user."""

    bootstrap: str
    pid: int
    log: Path
    ca: Path | None = None

    @property
    def address(self) -> str:
        """Return what clients connect to."""
        return self.bootstrap

    def describe(self) -> str:
        """Return one line: where it listens, with which protocol, and where it logs."""
        how = f"SASL_SSL, certificate {self.ca}" if self.ca else "SASL_PLAINTEXT"
        return f"kafka at {self.bootstrap} ({how}), process {self.pid}, log {self.log}"

    @property
    def client_file(self) -> Path:
        """Return the `--command-config` file for Kafka's tools; mode 0600, as it has a password."""
        return self.log.parent / CLIENT

    def access(self) -> Access:
        """Return the lab's own access, which works without TLS even if users need it.

        Raises:
            KafkaError: `client_file` is missing or damaged.
        """
        return read_access(self.log.parent)


def start_broker(
    settings: Settings, *, port: int = 0, users: Mapping[str, str] | None = None
) -> Broker:
    """Start a broker, or return the running one, once it answers a metadata request.

    Its data is kept in `<home>/services/kafka`. The lab logs in with its own password, which
    `Broker.access` returns.

    Args:
        port: 0 tries the last port used, then 9092, then any free port.
        users: names and passwords; clients then need TLS and SASL SCRAM-SHA-512 on this port. If
            such a broker is already running, the users are added to it.

    Raises:
        ServiceError: the port is in use, the disk is full, the broker is not ready in time, or the
            running one has other settings.
        JarError: a jar is missing or altered.
        JavaError: no suitable Java is found.
    """
    folder = settings.home / "services" / NAME

    def begin() -> None:
        jars = verify(settings.project / "jars", ["broker"])
        check_disk(folder, "Kafka's data", LEAST_FREE)
        ports = _ports(folder, port, bool(users))
        write_logging(folder)
        write_properties(folder, ports)
        java = _java(jars)
        if not (folder / "data" / "meta.properties").exists():
            _format(java, folder)
        server = process.launch(
            folder, [*java, "kafka.Kafka", "server.properties"], folder / "kafka.log"
        )
        _wait(server, read_access(folder))

    def fits(there: Broker) -> bool:
        return bool(users) == bool(there.ca)

    broker = process.start(folder, port, lambda: find_broker(settings), begin, fits)
    for name, secret in (users or {}).items():
        _add_user(broker.access(), name, secret)
    return broker


def running_broker(
    settings: Settings, *, users: Mapping[str, str] | None = None
) -> AbstractContextManager[Broker]:
    """Run a broker for a `with` block; one that was running before keeps running."""
    return process.running(settings, find_broker, partial(start_broker, users=users), stop_broker)


def find_broker(settings: Settings) -> Broker | None:
    """Return the broker that runs on this home's data, or None.

    Raises:
        ServiceError: a broker is running, but its settings do not say where it listens.
    """
    folder = settings.home / "services" / NAME
    found = server_locks.find(folder)
    if found is None:
        return None
    ports, ca = read_ports(folder), folder / CA
    if "LAB" not in ports:
        raise ServiceError(
            f"Kafka is running, but {folder / 'server.properties'} does not name its port",
            "stop it with: hudilab services stop kafka",
        )
    address = f"{HOST}:{ports.get('USERS', ports['LAB'])}"
    return Broker(address, found.pid, folder / "kafka.log", ca if "USERS" in ports else None)


def stop_broker(settings: Settings) -> int | None:
    """Stop the broker cleanly, keeping its data; return its process id, or None if none ran."""
    return process.stop(settings.home / "services" / NAME)


def _java(jars: Sequence[Path]) -> list[str]:
    """Return the java command, to run in the broker's folder.

    File names are relative to the folder: Kafka and log4j2 take a comma for the end of a path.
    """
    return [*process.java_command(jars), "-Dlog4j2.configurationFile=log4j2.properties"]


def _ports(folder: Path, port: int, secure: bool) -> dict[str, int]:
    """Choose a port for each listener: the users', the lab's own, the controller's."""
    last = read_ports(folder)
    usual = last.get("USERS", last.get("LAB", 0))
    clients = process.choose_port(port, usual, USUAL_PORT)
    outside = {"USERS": clients, "LAB": process.free_port()} if secure else {"LAB": clients}
    return outside | {"CONTROLLER": process.free_port()}


def _new_id() -> str:
    """Return an id as Kafka makes them: 16 bytes, and not a reserved value.

    A version 4 UUID never is reserved. Kafka's tools would parse a leading '-' as an option.
    """
    while True:
        id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not id.startswith("-"):
            return id


def _format(java: Sequence[str], folder: Path) -> None:
    """Format the data folder; needed only before the first start."""
    log, tool = folder / "kafka.log", ("kafka.tools.StorageTool", "format")
    done = run_quietly([*java, *tool, "-t", _new_id(), "-c", "server.properties"], cwd=folder)
    if done.returncode:
        with log.open("a", encoding="utf-8") as out:
            out.write(done.stdout + done.stderr)
        raise ServiceError(_why(done.stdout + done.stderr, done.returncode, log))


def _wait(server: process.Launched, client: Access, patience: float = process.PATIENCE) -> None:
    """Wait until the broker answers a metadata request."""
    quiet = client.client_options() | {"log_level": 0, "reconnect.backoff.max.ms": 200}
    admin = None

    def answers() -> bool:
        nonlocal admin
        if not process.in_use(process.port_of(client.servers)):
            return False
        admin = admin or AdminClient(quiet)
        try:
            return bool(admin.list_topics(timeout=1).brokers)
        except KafkaException:  # not ready yet
            return False

    what = f"Kafka did not answer at {client.servers}"
    process.wait_until(answers, [server], why=_why, what=what, patience=patience)


def _add_user(client: Access, user: str, password: str, patience: float = process.PATIENCE) -> None:
    """Add a user by a request: every account on the machine could read a command's arguments."""
    admin = AdminClient(client.client_options() | {"log_level": 0})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(user, info, password.encode())
    for future in admin.alter_user_scram_credentials([wanted]).values():
        try:
            future.result(patience)
        except (KafkaException, TimeoutError) as error:
            raise ServiceError(
                f"Kafka did not add user {user!r} ({str(error) or 'no answer'})",
                "start it again with the same --user",
            ) from None


def command(
    port: Annotated[int, process.port_option(USUAL_PORT)] = 0,
    user: Annotated[
        str, typer.Option(help="Require TLS and add this user; password: KAFKA_PASSWORD[_FILE].")
    ] = "",
) -> None:
    """Start a Kafka broker and create the topics named in the settings."""
    settings = load_settings()
    secret = password(os.environ) if user else None
    broker = start_broker(settings, port=port, users={user: secret} if secret else None)
    print(broker.describe())
    client = broker.access()
    topics = [group.topic_name for group in (settings.consumer, settings.producer) if group]
    topics += [settings.producer.dead_letter_topic_name] if settings.producer else []
    create_topics(client, dict.fromkeys(topics, PARTITIONS))
    print(f"topics: {', '.join(topics) or 'none'}; export BOOTSTRAP_SERVERS={broker.bootstrap}")
    tools = f"--bootstrap-server {client.servers} --command-config"
    print(f"Kafka's own tools: {tools} {shlex.quote(str(broker.client_file))}")


SERVICE = process.Service(command, find_broker, stop_broker)
