"""Connect to a broker, or raise an error that names the cause: certificate, login or network."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError as Code
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from hudilab.errors import KafkaError
from hudilab_jobs.kafka.connection import Access


def metadata(client: Access, timeout: float) -> Any:
    """Return the brokers' answer to a metadata request, within about `timeout` seconds.

    Raises:
        KafkaError: no broker answers, or it refuses certificate, login or protocol.
    """
    if client.ca and not Path(client.ca).is_file():
        raise KafkaError(f"ssl.ca.location {client.ca} is not a file", "fix the path")
    errors: list[Code] = []
    # The client would also log the errors that it passes to the callback.
    quiet = {"error_cb": errors.append, "log_level": 0, "reconnect.backoff.max.ms": 500}
    try:
        admin = AdminClient(client.client_options() | quiet)
    except KafkaException as error:
        raise KafkaError(f"the Kafka client rejected its settings ({error})", "fix them") from None
    ends = time.monotonic() + timeout
    while True:
        try:
            return admin.list_topics(timeout=min(1.0, timeout))
        except KafkaException:
            admin.poll(0)
        final = [e for e in errors if e.code() in (Code._AUTHENTICATION, Code._SSL)]
        if final or time.monotonic() > ends:
            raise _unreachable(client, final or errors) from None


def connect(servers: str, timeout: float) -> None:
    """Raise KafkaError unless a server accepts connections within `timeout` seconds."""
    problems = []
    for server in servers.split(","):
        host, _, port = server.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout):
                return
        except OSError as error:
            problems.append(f"{server}: {error.strerror or error}")
    raise KafkaError(
        f"no broker answers ({'; '.join(problems)})",
        "fix bootstrap.servers, or allow access to it (network, security group)",
    )


def _unreachable(client: Access, errors: Sequence[Code]) -> KafkaError:
    """Return the error about brokers that answer no request, from the client's errors."""
    # The last error only reports that all brokers are down.
    causes = [error for error in errors if error.code() != Code._ALL_BROKERS_DOWN]
    code = causes[-1].code() if causes else None
    text = causes[-1].str() if causes else "no answer"
    text = text.rpartition(f"{client.servers.partition(',')[0]}/bootstrap: ")[2]
    text = text.partition(" (after ")[0]
    if code == Code._AUTHENTICATION:
        return KafkaError(
            f"{client.servers} rejected user {client.username!r} ({text})",
            "fix sasl.username, or the password in KAFKA_PASSWORD",
        )
    tls = _speaks_tls(client.servers)
    if client.protocol.endswith("SSL") and tls is False:
        return KafkaError(
            f"{client.servers} does not use TLS", "set security.protocol to PLAINTEXT"
        )
    if client.protocol == "PLAINTEXT" and tls:
        return KafkaError(
            f"{client.servers} accepts only TLS", "set security.protocol to SASL_SSL or SSL"
        )
    if client.protocol == "PLAINTEXT" and tls is False:
        return KafkaError(
            f"{client.servers} is not a Kafka broker, or requires a login ({text})",
            "for the lab's own broker, set HUDILAB_HOME to its home, for any other, set "
            "security.protocol and sasl.username",
        )
    if code == Code._SSL:
        return KafkaError(
            f"the certificate of {client.servers} is not trusted ({text})",
            "set ssl.ca.location to the PEM file of the CA that signed it",
        )
    return KafkaError(
        f"no broker answers at {client.servers} ({text})",
        "set BOOTSTRAP_SERVERS, or start a broker with: hudilab services start kafka",
    )


def _speaks_tls(servers: str) -> bool | None:
    """Return whether the first server answers a TLS handshake; None if no server listens.

    Kafka's client reports a broker with a different protocol as down.
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
