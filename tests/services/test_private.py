"""Another account of this machine: it reaches the servers' ports, and gets nothing from them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from others import why_not
from running import running_server
from services import objects

from hudi_sink.metastore import trouble
from hudilab.settings import Settings
from hudilab_cli.servers import connect as connect_server
from hudilab_cli.servers import database as database_server
from hudilab_cli.servers import kafka as kafka_server
from hudilab_cli.servers import s3 as s3_server
from hudilab_cli.servers.database import login
from hudilab_cli.servers.kafka import Broker
from hudilab_cli.servers.metastore import start_metastore, stop_metastore
from hudilab_cli.servers.s3 import S3Server
from hudilab_jobs.generated_prices import price_messages
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import create_topics, topic_rows
from hudilab_jobs.settings import load_settings

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

# Loaded as root, whose Python nobody else may be able to read; then it is nobody.
NOBODY = """
import json, os, psycopg, socket, struct, sys
from http.client import HTTPConnection
from pathlib import Path
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from hudi_sink.metastore import trouble

given, told = json.load(sys.stdin), {}
"localhost".encode("idna")  # loads what a connection needs
os.setgroups([])
os.setgid(65534)
os.setuid(65534)

def attempt(name, call):
    try:
        told[name] = call()
    except Exception as error:
        told[name] = type(error).__name__

def lists(options):
    return "private" in AdminClient(options).list_topics(timeout=5).topics

def write(options):
    said = []
    client = Producer({**options, "message.timeout.ms": 3000})
    client.produce("private", b"x", on_delivery=lambda error, _: said.append(error is None))
    client.flush(8)
    return said == [True]

def read(options):
    client = Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
    client.assign([TopicPartition("private", 0, 0)])
    message = client.poll(5)
    client.close()
    return message is not None and message.error() is None

def ask(port):
    # DescribeCluster, version 0: brokers and controllers answer it to whom they have let in.
    body = struct.pack(">hhih", 60, 0, 1, -1) + bytes(3)
    with socket.create_connection(("127.0.0.1", port), 5) as one:
        one.sendall(struct.pack(">i", len(body)) + body)
        return one.recv(100)[4:8] == struct.pack(">i", 1)

def http(method, path):
    client = HTTPConnection("127.0.0.1", given["port"], timeout=60)
    body = {"PUT": b"x", "POST": b"[]"}.get(method)
    client.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    return client.getresponse().status

def borrow(uri):
    # Connections of its own that have ended: Linux lists them with the metastore's port, with the
    # source port of the connection that follows, and with the account 0.
    port, source = int(uri.rpartition(":")[2]), 0
    with socket.create_server(("127.0.0.2", port)) as server:
        for last in range(3, 60):
            mine = (f"127.0.0.{last}", source)
            with socket.create_connection(("127.0.0.2", port), 5, mine) as one:
                source = one.getsockname()[1]
                other = server.accept()[0]
            other.close()
    connect = socket.create_connection
    socket.create_connection = lambda *given: connect(*given, ("127.0.0.1", source))
    try:
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
        # The same port can also be in a connection of another program.
        own = {f"{last:02X}00007F:{source:04X}" for last in range(3, 60)}
        ended = [line[1] for line in lines if line[1] in own and line[3:8:4] == ["06", "0"]]
        return [len(ended), trouble(uri)]
    finally:
        socket.create_connection = connect

for name, options in given["clients"].items():
    options["log_level"] = 0
    attempt(f"{name} lists", lambda: lists(options))
    attempt(f"{name} writes", lambda: write(options))
    attempt(f"{name} reads", lambda: read(options))
for port in given["ports"]:
    attempt(f"asks {port}", lambda: ask(port))
for method, path in given["requests"]:
    attempt(f"{method} {path}", lambda: http(method, path))
for name, options in given["logins"].items():
    attempt(name, lambda: psycopg.connect(**options).close() is None)
for uri in given["metastores"]:
    attempt(uri, lambda: trouble(uri))
    attempt(f"borrows {uri}", lambda: borrow(uri))
for file in given["files"]:
    attempt(f"opens {file}", lambda: Path(file).read_bytes() and True)
lines = [Path("/proc", pid, "cmdline") for pid in os.listdir("/proc") if pid.isdecimal()]
seen = b" ".join(line.read_bytes() for line in lines if line.exists())
told["sees"] = [secret for secret in given["secrets"] if secret.encode() in seen]
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def home() -> Iterator[Settings]:
    """A home whose parents are open to all: its own mode is what keeps others out."""
    above = Path(tempfile.mkdtemp())
    above.chmod(0o755)
    yield replace(load_settings(env={}), home=above / "home")
    shutil.rmtree(above)


@pytest.fixture(scope="module")
def broker(home: Settings) -> Iterator[Broker]:
    with running_server(kafka_server.SERVICE, home, users={"lab": "a user's password"}) as running:
        client = running.access()
        create_topics(client, {"private": 1})
        produce(client, "private", price_messages(3, seed=1))
        yield running


@pytest.fixture(scope="module")
def s3(home: Settings) -> Iterator[S3Server]:
    with running_server(s3_server.SERVICE, home) as running:
        yield running


def as_nobody(**given: Any) -> dict[str, Any]:
    empty: dict[str, Any] = {"clients": {}, "ports": [], "requests": [], "files": []}
    empty |= {"secrets": [], "metastores": [], "logins": {}}
    done = subprocess.run(
        [sys.executable, "-c", NOBODY],
        input=json.dumps(empty | given),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def listening(pid: int) -> list[int]:
    connections = psutil.Process(pid).net_connections("tcp")
    return sorted(
        {
            connection.laddr.port
            for connection in connections
            if connection.status == psutil.CONN_LISTEN
        }
    )


def test_kafka_lets_nobody_in_without_a_password(broker: Broker) -> None:
    client, ports = broker.access(), listening(broker.pid)
    assert len(ports) == 3  # of users, of the lab, of the controller
    trust = {"security.protocol": "SSL", "ssl.ca.location": str(broker.ca)}
    clients = {
        "plain": {"bootstrap.servers": client.servers},
        "tls": {"bootstrap.servers": broker.address} | trust,
        "guess": client.client_options() | {"sasl.password": "guess"},
        "lab": client.client_options(),  # so it is the password that counts
    }
    secrets = [str(client.password), "a user's password"]
    answers = as_nobody(clients=clients, ports=ports, secrets=secrets)
    for what in ("lists", "writes", "reads"):
        assert answers[f"lab {what}"] is True
        for name in ("plain", "tls", "guess"):
            assert answers[f"{name} {what}"] in (False, "KafkaException"), f"{name} {what}"
    # A connection is closed, or reset.
    assert all(answers[f"asks {port}"] in (False, "ConnectionResetError") for port in ports), (
        answers
    )
    assert answers["sees"] == []
    assert topic_rows(client, ["private"])["end"].sum() == 4  # three, and the lab's own


def test_s3_gives_nothing_without_keys(s3: S3Server) -> None:
    client = objects.client(s3)
    client.put_object(Bucket="hudilab", Key="private", Body=b"kept")
    signed = client.generate_presigned_url("get_object", {"Bucket": "hudilab", "Key": "private"})
    with_keys = signed.removeprefix(s3.endpoint)
    plain = [("GET", "/"), ("GET", "/hudilab"), ("GET", "/hudilab/private")]
    plain += [("PUT", "/hudilab/private"), ("DELETE", "/hudilab/private"), ("PUT", "/another")]
    port = int(s3.endpoint.rpartition(":")[2])
    _, secret = objects.keys(s3)
    answers = as_nobody(port=port, requests=[*plain, ("GET", with_keys)], secrets=[secret])
    assert answers[f"GET {with_keys}"] == 200
    assert {answers[f"{method} {path}"] for method, path in plain} == {403}
    assert answers["sees"] == []
    assert client.get_object(Bucket="hudilab", Key="private")["Body"].read() == b"kept"


def test_the_metastore_answers_nobody_else(home: Settings) -> None:
    uri = start_metastore(home).address
    try:
        assert trouble(uri) == ""
        # A Java client of this account is listed with its address mapped to one of IPv6.
        if Path("/proc/net/tcp6").exists():
            assert trouble(uri.replace("127.0.0.1", "[::ffff:127.0.0.1]")) == ""
        refused = "the server there is not a Hive metastore"
        answers = as_nobody(metastores=[uri])
        assert answers[uri] == refused
        assert answers[f"borrows {uri}"] == [57, refused]
        assert trouble(uri) == ""
    finally:
        stop_metastore(home)


@pytest.mark.usefixtures("broker", "s3")
def test_files_are_for_their_user_only(home: Settings) -> None:
    services = home.home / "services"
    files = [file for file in services.rglob("*") if file.is_file()]
    assert (services / "kafka" / "server.pem").stat().st_mode & 0o777 == 0o600
    assert home.home.stat().st_mode & 0o777 == 0o700
    answers = as_nobody(files=[str(file) for file in (*files, home.home)])
    assert len(answers) > 10
    del answers["sees"]
    assert set(answers.values()) == {"PermissionError"}


@pytest.mark.deep
def test_the_database_lets_nobody_in_without_the_password(home: Settings) -> None:
    with running_server(database_server.SERVICE, home) as database:
        secret = str(database.about["password"])
        words = {"lab": secret, "guess": "guess", "none": ""}
        logins = {name: login(database.port, word) for name, word in words.items()}
        logins["trust"] = login(database.port, "") | {"require_auth": "none"}
        answers = as_nobody(logins=logins, secrets=[secret])
        assert answers.pop("lab") is True
        assert answers == dict.fromkeys(("guess", "none", "trust"), "OperationalError") | {
            "sees": []
        }


@pytest.mark.deep
def test_connect_takes_no_connector_from_others(home: Settings, broker: Broker) -> None:
    with running_server(connect_server.SERVICE, home) as connect:
        port, secret = int(connect.address.rpartition(":")[2]), str(connect.about["password"])
        paths = [("GET", "/"), ("GET", "/connectors"), ("POST", "/connectors"), ("GET", "/health")]
        paths += [("PUT", "/connectors/a/config"), ("PUT", "/admin/loggers/root")]
        # These are for other workers, which sign them.
        inner = [("POST", "/connectors/a/tasks"), ("PUT", "/connectors/a/fence")]
        secrets = [secret, str(broker.access().password)]
        answers = as_nobody(port=port, requests=[*paths, *inner], secrets=secrets)
        assert {answers[f"{method} {path}"] for method, path in paths} == {401}
        assert [answers[f"{method} {path}"] for method, path in inner] == [400, 400]
        assert answers["sees"] == []
        assert connect.request("GET", "/connectors") == []
        assert (connect.folder / "worker.properties").stat().st_mode & 0o777 == 0o600
