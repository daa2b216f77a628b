"""Run Kafka Connect with Debezium's connector for PostgreSQL, from the jars of group `connect`.

`register` lets it send the changes of a database's tables to the lab's broker.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request

from hudilab.errors import ServiceError
from hudilab.files import properties, read_properties, write_private
from hudilab.settings import Settings, load_settings
from hudilab_cli.servers import database, process
from hudilab_cli.servers.kafka import find_broker
from hudilab_cli.servers.process import HOST
from hudilab_jobs.kafka.connection import Access
from hudilab_spark.cluster import open_directly
from hudilab_spark.fetch import fetch
from hudilab_spark.jars import problem, wanted
from hudilab_spark.server_records import read_record, server_folder

USER = "hudilab"
SECRETS = "secrets.properties"  # passwords of databases, one for each connector
_LOGIN = (
    "KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule "
    'required file="users.properties"; };\n'
)
# What a client of the worker connects with: the worker itself, and what it starts for a connector.
_CLIENTS = ("", "producer.", "consumer.", "admin.")


class Connect(process.Server):
    """A running worker of Kafka Connect."""

    name = "connect"

    @property
    def netrc(self) -> Path:
        """Return the file with the login of the REST API, for `curl --netrc-file`; mode 0600."""
        return self.folder / "netrc"

    def describe(self) -> str:
        """Return one line: where it listens, which broker it uses, and where it logs."""
        where = f"Kafka {self.about['broker']}, process {self.pid}, log {self.log}"
        return (
            f"connect at {self.address} (curl --netrc-file {shlex.quote(str(self.netrc))}), {where}"
        )

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Return the answer of the REST API, parsed.

        Raises:
            HTTPError: the worker refuses the request.
            OSError: it does not answer.
        """
        return _request(self.address, str(self.about["password"]), method, path, body)

    def status(self, name: str) -> dict[str, Any]:
        """Return the states of a connector and its tasks, with the Java trace of each failure.

        Raises:
            ServiceError: there is no such connector.
        """
        try:
            return dict(self.request("GET", f"/connectors/{quote(name, safe='')}/status"))
        except HTTPError as error:
            if error.code != 404:
                raise
            known = ", ".join(self.request("GET", "/connectors")) or "none"
            raise ServiceError(
                f"Connect has no connector {name!r}", f"register it, or use one of: {known}"
            ) from None


def start_connect(settings: Settings, *, port: int = 0) -> Connect:
    """Start a worker, or return the running one, once its REST API answers.

    Connectors and offsets are kept in topics of the lab's broker. The first start fetches the jars.
    Port 0 tries the last port used, then 8083, then any free port.

    Raises:
        ServiceError: the lab's broker does not run, the port is in use, the worker is not ready in
            time, or the running one has another port or broker.
        JarError: a jar cannot be fetched.
        JavaError: no suitable Java is found.
    """
    broker = find_broker(settings)
    if broker is None:
        raise ServiceError(
            "Kafka is not running, and Connect keeps its connectors and offsets there",
            "start it with: hudilab services start kafka",
        )
    access = broker.access()
    folder = server_folder(settings.home, "connect")

    def prepare() -> process.Plan:
        jars = _jars(settings)
        address = f"http://{HOST}:{process.server_port(settings, 'connect', port)}"
        secret = read_record(settings.home, "connect").get("password") or token_hex(20)
        _write_settings(settings, folder, address, secret, access)
        # Files are named relative to the folder: no path can clash with the syntax of Java's.
        flags = ["-Dlog4j2.configurationFile=log4j2.properties"]
        flags += ["-Djava.security.auth.login.config=jaas.conf"]
        main = ("org.apache.kafka.connect.cli.ConnectDistributed", "worker.properties")
        command = [*process.java_command(jars, *flags), *main]
        about = {"password": secret, "broker": access.servers}
        return process.Plan(command, address, _answers(address, secret), about=about)

    def fits(running: Connect) -> bool:
        return bool(running.about["broker"] == access.servers)

    return process.start(settings, Connect, port, prepare, fits)


def running_connect(settings: Settings) -> AbstractContextManager[Connect]:
    """Run a worker for a `with` block; one that was running before keeps running."""
    return process.running(settings, find_connect, start_connect, stop_connect)


def find_connect(settings: Settings) -> Connect | None:
    """Return the worker that runs in this home, or None."""
    return process.find(settings, Connect)


def stop_connect(settings: Settings) -> int | None:
    """Stop the worker; its connectors go on at the next start. Return its process id, or None."""
    return process.stop(settings, "connect")


def _jars(settings: Settings) -> list[Path]:
    """Return the jars, after fetching those that are missing."""
    folder = settings.project / "jars"
    missing = [jar for jar in wanted(folder, ["connect"]) if problem(folder, jar)]
    if missing:
        print(f"Kafka Connect and Debezium: {len(missing)} jars to download, at most 42 MB")
    return fetch(folder, ["connect"], say=lambda _: None)


def _write_settings(
    settings: Settings, folder: Path, address: str, secret: str, access: Access
) -> None:
    """Write the worker's files; all but the log's hold a password."""
    lines = process.render(settings, "connect.properties", port=process.port_of(address))
    login = {name.removeprefix("kafka."): text for name, text in access.spark_options().items()}
    for client in _CLIENTS:
        lines |= {f"{client}{name}": text for name, text in login.items()}
    process.write_settings(folder / "worker.properties", lines)
    process.write_settings(folder / "users.properties", {USER: secret})
    write_private(folder / "jaas.conf", _LOGIN)
    write_private(folder / "netrc", f"machine {HOST} login {USER} password {secret}\n")
    process.copy_settings(settings, "log4j2.properties", folder)


def _request(address: str, secret: str, method: str, path: str, body: object = None) -> Any:
    token = base64.b64encode(f"{USER}:{secret}".encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = Request(f"{address}{path}", data, headers, method=method)
    with open_directly(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def _answers(address: str, secret: str) -> Callable[[], bool]:
    """Return a function that lists the connectors, which the worker can once it has joined."""

    def answers() -> bool:
        try:
            return isinstance(_request(address, secret, "GET", "/connectors"), list)
        except (OSError, ValueError):  # not ready yet
            return False

    return answers


# --- connectors


def register(settings: Settings, connector: Mapping[str, str], patience: float = 60) -> list[str]:
    """Let the worker send the changes of tables to Kafka; return the topics, one for each table.

    Registering it again changes its settings, and keeps its place in the database's log.

    Args:
        connector: Debezium's settings; `table.include.list` is enough, with schemas:
            "public.orders, public.customers". `name`, by default `lab`, is also the prefix of the
            topics. Without `database.hostname`, the database is the lab's own. The rest is in
            conf/services/connector.properties.
        patience: seconds to wait until it runs.

    Raises:
        ServiceError: the worker or the database does not run, refuses the login, cannot decode
            changes, has no such table or one without a primary key, or the connector fails.
    """
    connect = find_connect(settings)
    if connect is None:
        raise ServiceError(
            "Kafka Connect is not running", "start it with: hudilab services start connect"
        )
    database.install(settings)  # psycopg
    wanted = _with_defaults(settings, connector)
    topics = _check_source(wanted)
    name = wanted["name"]
    _keep_password(connect.folder / SECRETS, name, wanted.get("database.password", ""))
    # Connect replaces it when it starts the connector.
    sent = wanted | {"database.password": f"${{file:{SECRETS}:{name}}}"}
    path = f"/connectors/{quote(name, safe='')}"
    try:
        connect.request("PUT", f"{path}/config", sent)
        # One that has failed stays so, even with new settings.
        connect.request("POST", f"{path}/restart?includeTasks=true&onlyFailed=true")
    except HTTPError as error:
        raise ServiceError(
            f"Connect refuses connector {name!r} ({_message(error)})",
            "correct its settings, then register it again",
        ) from None
    _wait(connect, name, patience)
    return topics


def connector_problem(status: Mapping[str, Any]) -> ServiceError | None:
    """Return what is wrong with a connector in one line, or None; `status` is `Connect.status`."""
    name = str(status["name"])
    for part in (status["connector"], *status["tasks"]):
        if part["state"] == "FAILED":
            trace = str(part.get("trace", ""))
            for pattern, text, remedy in _PROBLEMS:
                if match := re.search(pattern, trace):
                    words = {"name": name, **match.groupdict()}
                    return ServiceError(
                        f"connector {name!r} failed: {text.format(**words)}",
                        remedy.format(**words),
                    )
            cause = [
                line.strip() for line in trace.splitlines() if not re.match(r"\s+(at|\.{3}) ", line)
            ]
            text = cause[-1].removeprefix("Caused by: ") if cause else "no trace"
            return ServiceError(
                f"connector {name!r} failed: {text}", "see its trace in Connect.status, and the log"
            )
    return None


_AGAIN = "then register it again"
_ANEW = "register it with another name, which begins with a new snapshot of the tables"
# What Connect's trace of a failed connector shows, what it means, and what helps.
_PROBLEMS: tuple[tuple[str, str, str], ...] = ()


def _with_defaults(settings: Settings, connector: Mapping[str, str]) -> dict[str, str]:
    name = connector.get("name", "lab")
    slot = re.sub(r"\W", "_", name.lower(), flags=re.ASCII)
    lines = process.render(settings, "connector.properties", name=name, slot=slot)
    if "database.hostname" not in connector:
        own = database.find_database(settings)
        if own is None:
            raise ServiceError(
                "the lab's database is not running, and no database.hostname is given",
                "start it with: hudilab services start database",
            )
        lines |= {
            "database.hostname": HOST,
            "database.port": str(own.port),
            "database.user": database.USER,
            "database.password": str(own.about["password"]),
            "database.dbname": database.NAME,
        }
    if not connector.get("table.include.list"):
        raise ServiceError(
            f"connector {name!r} has no table.include.list", 'set it, such as to "public.orders"'
        )
    return {"name": name, **lines, **connector}


def _check_source(connector: Mapping[str, str]) -> list[str]:
    """Check the database that a connector is to read; return the topics of its tables.

    Raises:
        ServiceError: see `register`.
    """
    import psycopg

    where, user = (connector.get(f"database.{key}", "") for key in ("hostname", "user"))
    address = f"{where}:{connector.get('database.port', '5432')}"
    try:
        with psycopg.connect(
            host=where,
            port=connector.get("database.port", "5432"),
            user=user,
            password=connector.get("database.password", ""),
            dbname=connector.get("database.dbname", ""),
            connect_timeout=10,
        ) as connection:
            level = _rows(connection, "SHOW wal_level")[0][0]
            tables = dict(_rows(connection, _TABLES))
    except psycopg.OperationalError as error:
        line = str(error).strip().splitlines()[-1]
        if "password authentication failed" in line:
            raise ServiceError(
                f"{address} rejects the password of user {user!r}", "correct database.password"
            ) from None
        raise ServiceError(
            f"cannot log in at PostgreSQL {address} ({line})",
            "correct database.hostname, .port, .user and .dbname, or start it",
        ) from None
    if level != "logical":
        raise ServiceError(
            f"PostgreSQL {address} cannot decode changes: its wal_level is {level!r}",
            "set wal_level = logical in its postgresql.conf, and restart it",
        )
    return [f"{connector['topic.prefix']}.{table}" for table in _tables(connector, tables)]


_TABLES = """
SELECT n.nspname || '.' || c.relname,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND n.nspname NOT IN ('pg_catalog', 'information_schema')
ORDER BY 1
"""


def _rows(connection: Any, query: str) -> list[tuple[Any, ...]]:
    return list(connection.execute(query).fetchall())


def _tables(connector: Mapping[str, str], keyed: Mapping[str, bool]) -> list[str]:
    """Return the tables that `table.include.list`, patterns of schema.table, names."""
    tables: list[str] = []
    for pattern in connector["table.include.list"].split(","):
        try:
            fits = re.compile(pattern.strip(), re.IGNORECASE).fullmatch
        except re.error as error:
            raise ServiceError(
                f"table.include.list: {pattern.strip()!r} is not a pattern ({error})", "correct it"
            ) from None
        matches = [table for table in keyed if fits(table)]
        if not matches:
            known = ", ".join(keyed) or "none"
            raise ServiceError(
                f"table.include.list: the database has no table {pattern.strip()!r}",
                f"create it, or use one of its tables: {known}",
            )
        tables += [table for table in matches if table not in tables]
    for table in tables:
        if not keyed[table] and "message.key.columns" not in connector:
            raise ServiceError(
                f"table {table} has no primary key, so its changes would have no record key",
                f"run: ALTER TABLE {table} ADD PRIMARY KEY (...), or set message.key.columns",
            )
    return tables


def _keep_password(file: Path, name: str, secret: str) -> None:
    """Write a connector's password to the file in which the worker looks it up."""
    known = read_properties(file.read_text("utf-8")) if file.exists() else {}
    write_private(file, properties(known | {name: secret}))


def _message(error: HTTPError) -> str:
    try:
        text = str(json.loads(error.read())["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {error.code}"
    return " ".join(text.split())


def _wait(connect: Connect, name: str, patience: float) -> None:
    ends = time.monotonic() + patience
    while True:
        states: Sequence[str] = ()
        try:
            status = connect.status(name)
            if wrong := connector_problem(status):
                raise wrong
            states = [part["state"] for part in (status["connector"], *status["tasks"])]
        except (HTTPError, ServiceError) as error:
            if isinstance(error, ServiceError) and "has no connector" not in error.problem:
                raise
        if len(states) > 1 and set(states) == {"RUNNING"}:
            return
        if time.monotonic() > ends:
            raise ServiceError(
                f"connector {name!r} does not run after {patience:.0f} s ({', '.join(states)})",
                f"see {connect.log}",
            )
        time.sleep(0.2)


def command(port: int) -> None:
    """Start Kafka Connect with Debezium's connector for PostgreSQL."""
    connect = start_connect(load_settings(), port=port)
    print(connect.describe())
    print(
        'next, in Python: connect.register(settings, {"table.include.list": "public.orders"}) of '
        "hudilab_cli.servers"
    )


SERVICE = process.Service(find_connect, stop_connect)
