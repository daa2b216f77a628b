"""Apache Kafka, one broker in KRaft mode, on loopback, from the jars of group `broker`."""

from __future__ import annotations

import base64
import ipaddress
import os
import re
import secrets
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from hudilab.config import Settings
from hudilab.errors import KafkaError, ServiceError
from hudilab.jars import verify
from hudilab.java import complaint, find_java
from hudilab.kafka import CLIENT, PLAIN, SCRAM, Access, jaas, read_access
from hudilab.private import write_private
from hudilab.services import process
from hudilab.services.files import properties

__all__ = ["Broker", "find_broker", "running_broker", "start_broker", "stop_broker"]

NAME, HOST, USER = "kafka", process.HOST, "hudilab"
USUAL_PORT = 9092
LEAST_FREE = 100_000_000  # bytes; Kafka makes files of 10 MB for each partition's index
PATIENCE = 60.0


@dataclass(frozen=True)
class Broker:
    """A broker that answers: what clients connect to, its process, its log, and, where it asks
    for TLS and a user of its own, the certificate to trust."""

    bootstrap: str
    pid: int
    log: Path
    ca: Path | None = None

    def describe(self) -> str:
        """Where it listens, as what, and where it logs: one line."""
        how = f"SASL_SSL, certificate {self.ca}" if self.ca else "SASL_PLAINTEXT"
        return f"kafka at {self.bootstrap} ({how}), process {self.pid}, log {self.log}"

    @property
    def client_file(self) -> Path:
        """What lets Kafka's own tools in (`--command-config`), with a password: mode 0600."""
        return self.log.parent / CLIENT

    def access(self) -> Access:
        """How the lab itself gets in, also where users need TLS. Errors: KafkaError."""
        return read_access(self.log.parent)


def start_broker(
    settings: Settings, *, port: int = 0, users: Mapping[str, str] | None = None
) -> Broker:
    """Start a broker, or return the one that runs; its data stay in `<home>/services/kafka`.

    `port` 0: the port of last time, else 9092, else any other, whichever is free first. `users`
    (name: password) makes it speak TLS there, with SASL SCRAM-SHA-512; to one that runs like that
    they are added. The lab itself gets in with a password of its own, which `Broker.access` knows.
    It is ready when it answers a metadata request.
    Errors: ServiceError (port in use, disk full, not ready in time), JarError, JavaError.
    """
    folder = settings.home / "services" / NAME

    def begin() -> None:
        jars = verify(settings.project / "jars", ["broker"])
        process.check_disk(folder, "Kafka's data", LEAST_FREE)
        ports = _ports(folder, port, bool(users))
        _write_logging(folder)
        _write_properties(folder, ports)
        java = _java(jars)
        if not (folder / "data" / "meta.properties").exists():
            _format(java, folder)
        server = process.launch(
            folder, [*java, "kafka.Kafka", "server.properties"], folder / "kafka.log"
        )
        _wait(server, read_access(folder))

    def fits(there: Broker) -> bool:
        return port in (0, _port(there.bootstrap)) and bool(users) == bool(there.ca)

    broker = process.start(folder, lambda: find_broker(settings), fits, begin)
    for user, password in (users or {}).items():
        _add_user(broker.access(), user, password)
    return broker


def running_broker(
    settings: Settings, *, port: int = 0, users: Mapping[str, str] | None = None
) -> AbstractContextManager[Broker]:
    """A broker for the time of a `with` block; one that ran before it runs on after it."""
    return process.running(
        lambda: find_broker(settings),
        lambda: start_broker(settings, port=port, users=users),
        lambda: stop_broker(settings),
    )


def find_broker(settings: Settings) -> Broker | None:
    """The broker that runs on this home's data, or None."""
    folder = settings.home / "services" / NAME
    found = process.find(folder)
    if found is None:
        return None
    ports, ca = _read_ports(folder), folder / "ca.pem"
    if "LAB" not in ports:
        raise ServiceError(
            f"{folder / 'server.properties'} does not say where Kafka listens, and it runs; "
            "stop it with: hudilab services stop kafka"
        )
    address = f"{HOST}:{ports.get('USERS', ports['LAB'])}"
    return Broker(address, found.pid, folder / "kafka.log", ca if "USERS" in ports else None)


def stop_broker(settings: Settings) -> int | None:
    """Stop it cleanly; its process id, or None when none runs. The data stay."""
    return process.stop(settings.home / "services" / NAME)


def _port(address: str) -> int:
    return int(address.rpartition(":")[2])


def _java(jars: Sequence[Path]) -> list[str]:
    """How its programs are started, in its folder: files are named relative to that, because
    Kafka and log4j2 take a comma in a path for the end of one."""
    java = [str(find_java().home / "bin" / "java"), *process.JVM]
    return [
        *java,
        *("-cp", os.pathsep.join(map(str, jars))),
        "-Dlog4j2.configurationFile=log4j2.properties",
    ]


def _ports(folder: Path, port: int, secure: bool) -> dict[str, int]:
    """The port of each listener: of users, of the lab itself, of the broker's controller."""
    last = _read_ports(folder)
    usual = last.get("USERS", last.get("LAB", 0))
    clients = process.choose_port(port, usual, USUAL_PORT)
    outside = {"USERS": clients, "LAB": process.free_port()} if secure else {"LAB": clients}
    return outside | {"CONTROLLER": process.free_port()}


def _read_ports(folder: Path) -> dict[str, int]:
    """The same, of the last start; empty before the first one."""
    file = folder / "server.properties"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = re.search(r"(?m)^listeners=(.*)$", text)
    found = re.findall(r"(\w+)://[\d.]+:(\d+)", line[1] if line else "")
    return {name: int(port) for name, port in found}


def _write_properties(folder: Path, ports: Mapping[str, int]) -> None:
    """Its settings, and `client.properties`; the lab's password is made at the first start."""
    try:
        secret = read_access(folder).password or ""
    except KafkaError:
        secret = secrets.token_hex(20)
    address = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    controller, lab = f"{HOST}:{ports['CONTROLLER']}", f"{HOST}:{ports['LAB']}"
    lines = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{controller}",
        "listeners": ",".join(address.values()),
        "advertised.listeners": ",".join(address[name] for name in ports if name != "CONTROLLER"),
        "inter.broker.listener.name": "LAB",
        "controller.listener.names": "CONTROLLER",
        # Loopback is everybody's on this machine: no listener lets a client in without a password.
        "listener.security.protocol.map": (
            "LAB:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,USERS:SASL_SSL"
        ),
        "sasl.mechanism.inter.broker.protocol": PLAIN,
        "sasl.mechanism.controller.protocol": PLAIN,
        "log.dirs": "data",
        # A misspelt topic is an error, not a new topic.
        "auto.create.topics.enable": "false",
        # One broker holds everything once.
        **dict.fromkeys(
            (
                "default.replication.factor",
                "offsets.topic.replication.factor",
                "offsets.topic.num.partitions",
                "transaction.state.log.replication.factor",
                "transaction.state.log.num.partitions",
                "transaction.state.log.min.isr",
                "min.insync.replicas",
            ),
            "1",
        ),
        "group.initial.rebalance.delay.ms": "0",
        # After a kill -9 the next start waits until the old session has ended.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
    }
    login = jaas(PLAIN, USER, secret, f' user_{USER}="{secret}"')
    for name in ("listener.name.lab", "listener.name.controller"):
        lines[f"{name}.sasl.enabled.mechanisms"] = PLAIN
        lines[f"{name}.plain.sasl.jaas.config"] = login
    if "USERS" in ports:
        _make_certificates(folder)
        lines |= {
            "listener.name.users.sasl.enabled.mechanisms": SCRAM,
            f"listener.name.users.{SCRAM.lower()}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "server.pem",
        }
    write_private(folder / "server.properties", properties(lines))
    client = Access(lab, "SASL_PLAINTEXT", USER, secret, mechanism=PLAIN).spark_options()
    client = {key.removeprefix("kafka."): value for key, value in client.items()}
    write_private(folder / CLIENT, properties(client))


def _write_logging(folder: Path) -> None:
    """Without a log4j2 file Kafka says nothing, not even why it ends."""
    lines = [
        "status = warn",
        "appender.console.type = Console",
        "appender.console.name = log",
        "appender.console.layout.type = PatternLayout",
        "appender.console.layout.pattern = %d{ISO8601} %p %m (%c{1})%n",
        "rootLogger.level = warn",
        "rootLogger.appenderRef.log.ref = log",
        "logger.server.name = kafka.server.KafkaRaftServer",
        "logger.server.level = info",
    ]
    (folder / "log4j2.properties").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _new_id() -> str:
    """An id as Kafka makes them: 16 bytes that are none of those it reserves (a version 4 UUID is
    not), and no '-' at the start, which its tools take for an option."""
    while True:
        id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not id.startswith("-"):
            return id


def _format(java: Sequence[str], folder: Path) -> None:
    """Prepare the folder of its data, once."""
    log, tool = folder / "kafka.log", ("kafka.tools.StorageTool", "format")
    done = subprocess.run(
        [*java, *tool, "-t", _new_id(), "-c", "server.properties"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        with log.open("a", encoding="utf-8") as out:
            out.write(done.stdout + done.stderr)
        raise ServiceError(_why(done.stdout + done.stderr, done.returncode, log))


def _wait(server: process.Launched, client: Access) -> None:
    """Until the broker answers a metadata request."""
    quiet = client.client_options() | {"log_level": 0, "reconnect.backoff.max.ms": 200}
    admin = None

    def answers() -> bool:
        nonlocal admin
        if not process.in_use(_port(client.servers)):
            return False
        admin = admin or AdminClient(quiet)
        try:
            return bool(admin.list_topics(timeout=1).brokers)
        except Exception:  # librdkafka's: not yet
            return False

    late = f"Kafka does not answer at {client.servers} after {PATIENCE:.0f} s"
    late += f"; see {server.log}, and start again"
    process.wait_until(answers, [server], why=_why, late=late, patience=PATIENCE)


def _why(text: str, code: int, log: Path) -> str:
    if "No space left on device" in text:
        return f"the disk of {log.parent} is full; free space, or set HUDILAB_HOME; see {log}"
    if "Address already in use" in text:
        return f"a port of Kafka was taken by another program meanwhile; start again; see {log}"
    return f"Kafka ended with code {code}: {complaint(text)}; see {log}"


def _add_user(client: Access, user: str, password: str) -> None:
    """By a request, not by an argument of a command, which all users of the machine can read."""
    admin = AdminClient(client.client_options() | {"log_level": 0})
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(user, info, password.encode())
    for future in admin.alter_user_scram_credentials([wanted]).values():
        try:
            future.result(PATIENCE)
        except (KafkaException, TimeoutError) as error:
            raise ServiceError(
                f"Kafka has not taken user {user!r} ({error or 'no answer'}); "
                "start it again with the same --user"
            ) from None


def _make_certificates(folder: Path) -> None:
    """`ca.pem` for clients to trust, and `server.pem` (key and certificate) signed by it."""
    ca_file, server_file = folder / "ca.pem", folder / "server.pem"
    if ca_file.exists() and server_file.exists():
        return
    issuer = _name("Hudi Streaming Lab")
    ca_key, server_key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    ca = (
        _unsigned(issuer, issuer, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(HOST))]
    server = (
        _unsigned(_name("localhost"), issuer, server_key)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = server_key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    server_file.touch(mode=0o600)
    server_file.write_bytes(private + server.public_bytes(pem) + ca.public_bytes(pem))
    ca_file.write_bytes(ca.public_bytes(pem))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=3650))
    )
