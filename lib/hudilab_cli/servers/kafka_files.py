"""The files of the lab's Kafka broker: server and client properties, logging, certificates."""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from hudilab.errors import KafkaError
from hudilab.files import properties, write_private
from hudilab_cli.servers.process import HOST
from hudilab_jobs.kafka.connection import CLIENT, PLAIN, SCRAM, Access, jaas, read_access

CA = "ca.pem"  # in the broker's folder: the certificate that its clients trust
USER = "hudilab"
ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "log.dirs": "data",
    # A misspelt topic is an error, not a new topic.
    "auto.create.topics.enable": "false",
    # There is only one broker, so one replica.
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
    # After a kill -9, the next start waits until the old session has expired.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


def read_ports(folder: Path) -> dict[str, int]:
    """Return the listeners' ports of the last start; empty before the first one."""
    file = folder / "server.properties"
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    line = re.search(r"(?m)^listeners=(.*)$", text)
    found = re.findall(r"(\w+)://[\d.]+:(\d+)", line[1] if line else "")
    return {name: int(port) for name, port in found}


def write_properties(folder: Path, ports: Mapping[str, int]) -> None:
    """Write `server.properties` and `client.properties`; the first start makes the password."""
    try:
        secret = read_access(folder).password or ""
    except KafkaError:
        secret = secrets.token_hex(20)
    lines = ONE_NODE | _listeners(ports) | _logins(ports, secret)
    if "USERS" in ports:
        _make_certificates(folder)
    write_private(folder / "server.properties", properties(lines))
    lab = f"{HOST}:{ports['LAB']}"
    client = Access(lab, "SASL_PLAINTEXT", USER, secret, mechanism=PLAIN).spark_options()
    client = {key.removeprefix("kafka."): value for key, value in client.items()}
    write_private(folder / CLIENT, properties(client))


def write_logging(folder: Path) -> None:
    """Write a log4j2 file: without one, Kafka logs nothing, not even why it ends."""
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


def _listeners(ports: Mapping[str, int]) -> dict[str, str]:
    address = {name: f"{name}://{HOST}:{port}" for name, port in ports.items()}
    return {
        "controller.quorum.voters": f"1@{HOST}:{ports['CONTROLLER']}",
        "listeners": ",".join(address.values()),
        "advertised.listeners": ",".join(address[name] for name in ports if name != "CONTROLLER"),
        "inter.broker.listener.name": "LAB",
        "controller.listener.names": "CONTROLLER",
        # Every account on this machine can reach loopback, so every listener asks for a password.
        "listener.security.protocol.map": (
            "LAB:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,USERS:SASL_SSL"
        ),
        "sasl.mechanism.inter.broker.protocol": PLAIN,
        "sasl.mechanism.controller.protocol": PLAIN,
    }


def _logins(ports: Mapping[str, int], secret: str) -> dict[str, str]:
    login = jaas(PLAIN, USER, secret, f' user_{USER}="{secret}"')
    lines = {}
    for name in ("listener.name.lab", "listener.name.controller"):
        lines[f"{name}.sasl.enabled.mechanisms"] = PLAIN
        lines[f"{name}.plain.sasl.jaas.config"] = login
    if "USERS" in ports:
        lines |= {
            "listener.name.users.sasl.enabled.mechanisms": SCRAM,
            f"listener.name.users.{SCRAM.lower()}.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "server.pem",
        }
    return lines


def _make_certificates(folder: Path) -> None:
    """Write `ca.pem`, which clients trust, and `server.pem` (key and certificate), signed by it."""
    ca_file, server_file = folder / CA, folder / "server.pem"
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
    chain = private + server.public_bytes(pem) + ca.public_bytes(pem)
    write_private(server_file, chain.decode())
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
