"""The contract of the servers: one of each kind per home, started, found and stopped alike."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
from refusals import refused
from running import running_server, start_program
from services import objects

from hudilab.errors import JarError, ServiceError
from hudilab.settings import Settings
from hudilab_cli import servers
from hudilab_cli.servers import cluster, connect, database, history, kafka, metastore, process, s3
from hudilab_jobs.generated_prices import price_messages
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import create_topics, topic_rows
from hudilab_jobs.settings import load_settings
from hudilab_spark.waiting import wait_for

# A blank, an umlaut, an apostrophe and a comma: Java's and SQL's own syntax, and a name.
HOME = "o'brien, jürgen's, home"
SMALL: dict[str, Any] = {"workers": 1, "cores": 1, "memory": "512m"}


class Kind(NamedTuple):
    """What differs from server to server."""

    name: servers.Name
    start: Callable[..., Any]
    jars: str  # the group it needs
    run: Callable[[Settings], AbstractContextManager[Any]] | None = None
    options: str = ""  # of `hudilab services start`
    prints: str = ""  # what the command prints after the description
    put: Callable[[Any], None] = lambda _: None
    kept: Callable[[Any], bool] = lambda _: True
    needs: Callable[[Settings], AbstractContextManager[Any]] | None = None  # another server
    java: bool = True
    secret: Callable[[Any], str] = lambda _: ""
    holders: frozenset[str] = frozenset()  # the files that have it


def put_messages(broker: kafka.Broker) -> None:
    create_topics(broker.access(), {"kept": 1})
    produce(broker.access(), "kept", price_messages(1000, seed=1))


def has_messages(broker: kafka.Broker) -> bool:
    return bool(topic_rows(broker.access(), ["kept"])["end"].sum() == 1000)


def put_object(server: s3.S3Server) -> None:
    objects.client(server).put_object(Bucket="hudilab", Key="a/b", Body=b"kept")


def has_object(server: s3.S3Server) -> bool:
    body: bytes = objects.client(server).get_object(Bucket="hudilab", Key="a/b")["Body"].read()
    return body == b"kept"


def put_rows(server: database.Database) -> None:
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS number")


def has_rows(server: database.Database) -> bool:
    with server.connect() as connection:
        return connection.execute("SELECT sum(number) FROM kept").fetchall() == [(500500,)]


KINDS = {
    "s3": Kind(
        "s3",
        s3.start_s3,
        "s3proxy",
        partial(running_server, s3.SERVICE),
        "",
        "export AWS_ENDPOINT_URL_S3=http://{host} "
        r"""AWS_SHARED_CREDENTIALS_FILE=.*/credentials.* AWS_PROFILE=hudilab""",
        put_object,
        has_object,
        secret=lambda server: objects.keys(server)[1],
        holders=frozenset({"credentials", "s3proxy.conf"}),
    ),
    "kafka": Kind(
        "kafka",
        kafka.start_broker,
        "broker",
        partial(running_server, kafka.SERVICE),
        "",
        "topics: stocks-in, stocks-out, stocks-dead; export BOOTSTRAP_SERVERS={host}\n"
        "Kafka's own tools: --bootstrap-server {host} --command-config .*client.properties.*",
        put_messages,
        has_messages,
        secret=lambda server: str(server.access().password),
        holders=frozenset({"kafka.json", "client.properties", "server.properties"}),
    ),
    "cluster": Kind(
        "cluster",
        partial(cluster.start_cluster, **SMALL),
        "core",
        partial(running_server, cluster.SERVICE, **SMALL),
        " ".join(f"--{name} {value}" for name, value in SMALL.items()),
        "export RUNTIME_ENV=DOCKER SPARK_MASTER_URL=spark://{host}",
    ),
    "history": Kind("history", history.start_history, "core"),
    "metastore": Kind(
        "metastore",
        metastore.start_metastore,
        "",
        prints='group \'metastore\' of the settings: "uri": "thrift://{host}"',
    ),
    "database": Kind(
        "database",
        database.start_database,
        "",
        partial(running_server, database.SERVICE),
        prints="export PGPASSFILE=.*pgpass.*; .*psql.* postgresql://hudilab@{host}/lab",
        put=put_rows,
        kept=has_rows,
        java=False,
        secret=lambda server: str(server.about["password"]),
        holders=frozenset({"database.json", "pgpass"}),
    ),
    "connect": Kind(
        "connect",
        connect.start_connect,
        "connect",
        partial(running_server, connect.SERVICE),
        prints="next, in Python: .*",
        needs=partial(running_server, kafka.SERVICE),
        secret=lambda server: str(server.about["password"]),
        holders=frozenset({"connect.json", "users.properties", "netrc"}),
    ),
}
# One runs every day; the others are as long as the daily tests.
DAILY = "s3"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(kind, id=name, marks=[] if name == DAILY else pytest.mark.deep)
        for name, kind in KINDS.items()
    ],
)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture(scope="module")
def home(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """One home a kind, and in it one server for as many tests as it lives."""
    settings = replace(load_settings(env={}), home=tmp_path_factory.mktemp(kind.name) / HOME)
    with kind.needs(settings) if kind.needs else nullcontext():
        yield settings
        servers.service(kind.name).stop(settings)


def find(kind: Kind, settings: Settings) -> Any:
    return servers.service(kind.name).find(settings)


def stop(kind: Kind, settings: Settings) -> int | None:
    return servers.service(kind.name).stop(settings)


def command(settings: Settings, *words: str) -> subprocess.Popen[str]:
    program = "from hudilab_cli.cli import main; main()"
    env = {"HUDILAB_HOME": str(settings.home)}
    return start_program("-c", program, "services", *words, env=env)


def run(settings: Settings, *words: str) -> tuple[int, str]:
    program = command(settings, *words)
    out, err = program.communicate(timeout=180)
    assert err == "", err
    return program.returncode, out


def has_open(pid: int, path: str) -> bool:
    return path in [file.path for file in psutil.Process(pid).open_files()]


def test_all_servers_are_held_to_the_contract() -> None:
    assert set(KINDS) == set(servers.NAMES)


def test_two_starts_at_once_are_one_server(kind: Kind, home: Settings) -> None:
    home.home.mkdir(exist_ok=True)
    if kind.needs is None:
        nothing = "".join(f"{name} is not running\n" for name in servers.NAMES)
        assert run(home, "status") == (1, nothing)
    with process.starting(home, kind.name) as folder:
        words = ("start", kind.name, *kind.options.split())
        both = [command(home, *words) for _ in range(2)]
        for program in both:
            opened = partial(has_open, program.pid, str(folder / "lock"))
            wait_for(opened, 60, "the second starter")
        assert find(kind, home) is None
    printed = [program.communicate(timeout=180) for program in both]
    assert [program.returncode for program in both] == [0, 0], printed
    server = find(kind, home)
    host = re.escape(server.address.rpartition("/")[2])
    for out, _ in printed:
        first, _, rest = out.partition("\n")
        assert first == server.describe()
        assert re.fullmatch(kind.prints.replace("{host}", host) + "\n?", rest), rest
    # All that it keeps is below its home, whatever signs that has in its name.
    assert [path.name for path in home.home.parent.iterdir()] == [HOME]


def test_a_second_start_finds_the_first_or_is_refused(kind: Kind, home: Settings) -> None:
    server = kind.start(home)
    assert kind.start(home) == server == find(kind, home)
    assert kind.start(home, port=process.port_of(server.address)) == server
    stop_it = f"; stop it with: hudilab services stop {kind.name}"
    with refused(ServiceError, server.describe(), "other settings", remedy=stop_it):
        kind.start(home, port=process.free_port())
    assert find(kind, home) == server


def test_others_neither_reach_it_nor_read_its_files(kind: Kind, home: Settings) -> None:
    server = kind.start(home)
    services = home.home / "services"
    for folder in (services, services / kind.name):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert (services / f"{kind.name}.json").stat().st_mode & 0o777 == 0o600
    for pid in (server.pid, *getattr(server, "workers", ())):
        ports = psutil.Process(pid).net_connections("inet")
        heard = {port.laddr.ip for port in ports if port.status == psutil.CONN_LISTEN}
        assert {ip.removeprefix("::ffff:") for ip in heard} == {"127.0.0.1"}
    if not (secret := kind.secret(server)):
        return
    files = [file for file in home.home.rglob("*") if file.is_file()]
    holding = [file for file in files if secret.encode() in file.read_bytes()]
    assert {file.name for file in holding} == kind.holders
    assert {file.stat().st_mode & 0o777 for file in holding} == {0o600}
    commands = [running.info["cmdline"] or () for running in psutil.process_iter(["cmdline"])]
    assert secret not in " ".join(word for words in commands for word in words)
    assert secret not in repr(server) + server.describe()


def test_status_and_stop(kind: Kind, home: Settings) -> None:
    server = kind.start(home)
    assert run(home, "status", kind.name) == (0, f"{server.describe()}\n")
    assert run(home, "stop", kind.name) == (0, f"{kind.name} stopped, process {server.pid}\n")
    assert not psutil.pid_exists(server.pid)
    assert run(home, "stop", kind.name) == (0, f"{kind.name} was not running\n")
    assert run(home, "status", kind.name) == (1, f"{kind.name} is not running\n")


def test_data_and_address_survive_a_kill_and_a_stop(kind: Kind, home: Settings) -> None:
    first = kind.start(home)
    kind.put(first)
    psutil.Process(first.pid).kill()
    # Dead, and not waited for by its parent; its record is still there.
    wait_for(lambda: find(kind, home) is None, 10, "its end")
    # Its last threads may hold the port a moment longer.
    wait_for(lambda: not process.in_use(process.port_of(first.address)), 10, "its port")
    again = kind.start(home)
    assert again.pid != first.pid
    assert (again.address, kind.kept(again)) == (first.address, True)
    assert stop(kind, home) == again.pid
    assert (find(kind, home), stop(kind, home)) == (None, None)
    third = kind.start(home)
    assert (third.address, kind.kept(third)) == (first.address, True)


def test_a_with_block_stops_what_it_started(kind: Kind, home: Settings) -> None:
    if kind.run is None:
        pytest.skip("no lesson or test runs it in a with block")
    stop(kind, home)
    with kind.run(home) as outer:
        with kind.run(home) as inner:
            assert inner == outer
        assert find(kind, home) == outer
    assert find(kind, home) is None


def test_a_port_in_use_is_named(kind: Kind, home: Settings) -> None:
    stop(kind, home)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        remedy = "; choose another with --port, or omit --port to get a free one"
        with refused(ServiceError, f"port {port} is in use", remedy=remedy):
            kind.start(home, port=port)
    assert find(kind, home) is None


def test_a_port_that_was_taken_meanwhile_is_left(
    kind: Kind, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free when it was chosen, and another program's when the server wants it."""
    stop(kind, home)
    choose = process.choose_port
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        chosen = iter([port])
        monkeypatch.setattr(process, "choose_port", lambda *a: next(chosen, None) or choose(*a))
        server = kind.start(home)
    assert next(chosen, None) is None
    assert process.port_of(server.address) != port


def test_a_full_disk_is_named(kind: Kind, home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = servers.SPECS[kind.name]
    if not spec.data:
        pytest.skip("it keeps no data")
    stop(kind, home)
    usage = shutil.disk_usage("/")._replace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    folder, need = home.home / "services" / kind.name, f"{spec.least_free // 10**6} MB are needed"
    named = (f"only 5 MB are free for {spec.data} in {folder}", need)
    with refused(ServiceError, *named, remedy="; free space, or set HUDILAB_HOME"):
        kind.start(home)


def test_a_missing_jar_is_named(
    kind: Kind, home: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kind.jars:
        pytest.skip("its jars are pyspark's")
    stop(kind, home)
    (tmp_path / "jars").mkdir()
    shutil.copy(home.project / "jars" / "jars.lock", tmp_path / "jars")
    shutil.copytree(home.project / "conf", tmp_path / "conf")
    monkeypatch.setenv("HUDILAB_JARS_URL", "file:///nowhere")  # Connect's would be fetched
    with pytest.raises(JarError, match=f"(; |, then )run: hudilab jars {kind.jars}$"):
        kind.start(replace(home, project=tmp_path))
    assert find(kind, home) is None


def test_a_server_that_ends_says_why(
    kind: Kind, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kind.java:
        pytest.skip("it is no JVM")
    stop(kind, home)
    monkeypatch.setattr(process, "JVM", ("-XX:+NoSuchFlag",))
    log = home.home / "services" / kind.name
    log /= "master.log" if kind.name == "cluster" else f"{kind.name}.log"
    named = ("exited with code 1", "Unrecognized VM option")
    with refused(ServiceError, *named, remedy=f"; see {log}"):
        kind.start(home)
    assert find(kind, home) is None


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_who_listens_on_all_addresses_uses_the_port(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    both = ":" in address
    with socket.create_server((address, 0), family=family, dualstack_ipv6=both) as other:
        port = other.getsockname()[1]
        assert process.in_use(port)
    assert not process.in_use(port)
