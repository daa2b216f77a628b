"""Register connectors of Kafka Connect, and diagnose their failures."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from hudilab.errors import ServiceError
from hudilab.files import properties, read_properties, write_private
from hudilab.settings import Settings
from hudilab_cli.servers import database, process
from hudilab_cli.servers.connect import Connect, find_connect
from hudilab_cli.servers.process import HOST

SECRETS = "secrets.properties"  # passwords of databases, one for each connector
_AGAIN = "then register the connector again"
_LOST = "the database has dropped or invalidated its replication slot, so unread changes are lost"
_ANEW = "register it with another name, which begins with a new snapshot of its tables"
# Pattern of a failed connector's trace, problem, and remedy.
_PROBLEMS = (
    (
        r"wal_level property must be .logical. but is: \W?(?P<level>\w+)",
        "the database cannot decode changes: its wal_level is {level!r}",
        f"set wal_level = logical in its postgresql.conf and restart it, {_AGAIN}",
    ),
    (
        r'password authentication failed for user "(?P<user>[^"]+)"',
        "the database rejects the password of user {user!r}",
        f"correct database.password, {_AGAIN}",
    ),
    (
        r"no longer available on the server|(?i:replication slot .* (does not exist|invalidated))"
        r"|can no longer (?:access|get changes from) replication slot|WAL segment .* been removed",
        _LOST,
        _ANEW,
    ),
    (
        r'publication "(?P<publication>[^"]+)" does not exist',
        "the database has dropped publication {publication!r}",
        _ANEW,
    ),
    (
        r"all replication slots are in use",
        "all replication slots of the database are in use",
        f"drop the slots of former connectors with pg_drop_replication_slot, {_AGAIN}",
    ),
    (
        r"(?i)permission denied (?P<what>.+)|must be superuser or replication role",
        "its user may not read the database's changes",
        f"run: ALTER ROLE ... REPLICATION, and make the user the owner of the tables, {_AGAIN}",
    ),
    (
        r"No space left on device|KafkaStorageException",
        "a disk is full",
        f"free space, {_AGAIN}",
    ),
    (
        r"RecordTooLargeException: (?P<size>.+?)\.?\n",
        "a row is too large for Kafka ({size})",
        f"set producer.override.max.request.size, and max.message.bytes of the topic, {_AGAIN}",
    ),
    (
        r"Connection to (?P<address>\S+) refused",
        "no database answers at {address}",
        f"start it, {_AGAIN}",
    ),
)


def register(settings: Settings, connector: Mapping[str, str]) -> list[str]:
    """Register a connector that sends the changes of tables to Kafka; return the tables' topics.

    A second registration changes the settings, restarts a failed connector, and keeps its position
    in the database's log.

    Args:
        connector: Debezium's settings. Only `table.include.list` is required, with schemas:
            "public.orders, public.customers". `name`, by default `lab`, is also the prefix of the
            topics. `database.hostname` is by default the lab's own database. The other settings are
            in conf/services/connector.properties.

    Raises:
        ServiceError: the worker or the database does not run, refuses the login, cannot decode
            changes, lacks the table or its primary key, or has dropped the slot; or the connector
            fails.
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
    before = connect.status(name)
    _keep_password(connect.folder / SECRETS, name, wanted.get("database.password", ""))
    # Connect replaces the placeholder when it starts the connector.
    sent = wanted | {"database.password": f"${{file:{SECRETS}:{name}}}"}
    path = f"/connectors/{quote(name, safe='')}"
    try:
        connect.request("PUT", f"{path}/config", sent)
    except HTTPError as error:
        raise ServiceError(
            f"Connect refuses connector {name!r} ({_reasons(connect, sent, error)})",
            "correct its settings, then register it again",
        ) from None
    failed = before is not None and _failure(before) is not None
    if failed:  # new settings don't restart it
        connect.request("POST", f"{path}/restart?includeTasks=true&onlyFailed=true")
    _wait(connect, name, 5 if failed else 0)
    return topics


def connector_problem(connect: Connect, name: str) -> ServiceError | None:
    """Return the error for a failing connector, or None.

    It contains the cause from the trace of the failed part. If the database is down, refuses the
    password or has dropped the slot, a connector retries forever instead of failing, so this also
    queries the database.

    Raises:
        ServiceError: the connector doesn't exist.
    """
    status = connect.status(name)
    if status is None:
        known = ", ".join(connect.request("GET", "/connectors")) or "none"
        raise ServiceError(
            f"Connect has no connector {name!r}", f"register it, or use one of: {known}"
        )
    if failure := _failure(status):
        return failure
    config = connect.request("GET", f"/connectors/{quote(name, safe='')}/config")
    secrets = read_properties((connect.folder / SECRETS).read_text("utf-8"))
    try:
        _check_source(config | {"database.password": secrets.get(name, "")})
    except ServiceError as error:
        return ServiceError(f"connector {name!r}: {error.problem}", error.remedy)
    return None


def _failure(status: Mapping[str, Any]) -> ServiceError | None:
    """Return the error for a failed connector or task, from its Java trace."""
    for part in (status["connector"], *status["tasks"]):
        if part["state"] != "FAILED":
            continue
        trace = str(part.get("trace", ""))
        start = f"connector {str(status['name'])!r} failed"
        for pattern, text, remedy in _PROBLEMS:
            if match := re.search(pattern, trace):
                return ServiceError(f"{start}: {text.format(**match.groupdict())}", remedy)
        causes = re.findall(r"(?m)^(?:Caused by: )?(?!\s)(.+)$", trace) or ["no trace"]
        return ServiceError(f"{start}: {causes[-1]}", f"correct its settings, {_AGAIN}")
    return None


def _reasons(connect: Connect, sent: Mapping[str, str], error: HTTPError) -> str:
    """Return Connect's messages about wrong settings, which its error contains only in part."""
    kind = sent["connector.class"].rpartition(".")[2]
    try:
        checked = connect.request("PUT", f"/connector-plugins/{kind}/config/validate", sent)
        values = [setting["value"] for setting in checked["configs"] if setting["value"]]
        reasons = [f"{value['name']}: {text}" for value in values for text in value["errors"]]
        message = "; ".join(reasons) or str(json.loads(error.read())["message"])
    except (OSError, ValueError, KeyError, TypeError):
        message = f"HTTP {error.code}"
    return " ".join(message.split())


def _with_defaults(settings: Settings, connector: Mapping[str, str]) -> dict[str, str]:
    name = connector.get("name", "lab")
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):  # the prefix of the topics
        raise ServiceError(
            f"a connector cannot have the name {name!r}", "use letters, digits, '.', '-' and '_'"
        )
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
    """Check the database of a connector; return the topics of its tables.

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
            slots = dict(_rows(connection, _SLOTS))
    except psycopg.OperationalError as error:
        text = str(error).strip()
        if "password authentication failed" in text:
            raise ServiceError(
                f"{address} rejects the password of user {user!r}", "correct database.password"
            ) from None
        raise ServiceError(
            f"cannot log in at PostgreSQL {address} ({text.splitlines()[0]})",
            "correct database.hostname, .port, .user and .dbname, or start it",
        ) from None
    if level != "logical":
        raise ServiceError(
            f"PostgreSQL {address} cannot decode changes: its wal_level is {level!r}",
            "set wal_level = logical in its postgresql.conf, and restart it",
        )
    if slots.get(connector.get("slot.name", "debezium")) == "lost":
        raise ServiceError(_LOST, _ANEW)
    return [f"{connector['topic.prefix']}.{table}" for table in _tables(connector, tables)]


_SLOTS = "SELECT slot_name, wal_status FROM pg_replication_slots"
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
    """Return the tables that match `table.include.list`, patterns of schema.table."""
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
    """Write a connector's password to the worker's file of secrets."""
    known = read_properties(file.read_text("utf-8")) if file.exists() else {}
    write_private(file, properties(known | {name: secret}))


def _wait(connect: Connect, name: str, grace: float) -> None:
    """Wait until a connector runs; for `grace` seconds, ignore its previous failure."""
    began = time.monotonic()
    while True:
        status = connect.status(name) or {"connector": {"state": "not there yet"}, "tasks": []}
        states = [str(part["state"]) for part in (status["connector"], *status["tasks"])]
        if len(states) > 1 and set(states) == {"RUNNING"}:
            return
        seconds = time.monotonic() - began
        if "FAILED" in states and seconds > grace and (failure := _failure(status)):
            raise failure
        if seconds > process.START_TIMEOUT:
            raise ServiceError(
                f"connector {name!r} does not run after {seconds:.0f} s ({', '.join(states)})",
                f"see {connect.log}, {_AGAIN}",
            )
        time.sleep(0.2)
