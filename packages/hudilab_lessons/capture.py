"""Reset a lesson's database, wait until its changes are captured, and compare its rows."""

from __future__ import annotations

import hashlib
import inspect
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError

import pandas as pd
import psutil

from hudilab_lessons.faults import kill_when, states
from hudilab_spark.waiting import wait_for

if TYPE_CHECKING:
    import psycopg

    from hudilab_cli.servers.connect import Connect
    from hudilab_cli.servers.database import Database
    from hudilab_lessons.lesson import Lab

TIMEOUT = 60.0  # seconds
VICTIM = "hudilab_lessons.programs.killed_stream"
# What the lesson's stream consists of.
FUNCTIONS = ("upsert", "stored", "parsed", "write_batch", "run_stream")
VALUES = ("CHANGES", "ROWS", "tables", "paths", "keys", "options", "source", "checkpoint")


def source_name(run_id: str) -> str:
    """Return the name of the lesson's database, connector and slot in this run."""
    # A slot's name has at most 63 letters, digits and underscores, and a run_id may be longer.
    return f"shop_{hashlib.sha256(run_id.encode()).hexdigest()[:8]}" if run_id else "shop"


def reset(database: Database, worker: Connect, name: str) -> psycopg.Connection[tuple[Any, ...]]:
    """Delete an earlier run's database and connector; return a connection to a new database.

    Raises:
        WaitError: the earlier connector does not stop.
    """
    path = f"/connectors/{name}"
    if worker.status(name):
        worker.request("PUT", f"{path}/stop")
        # Its offsets belong to the earlier database.
        wait_for(lambda: _is_done(worker, "DELETE", f"{path}/offsets"), TIMEOUT, "its stop")
        worker.request("DELETE", path)
    with database.connect() as connection:
        slot = f"FROM pg_replication_slots WHERE slot_name = '{name}'"
        wait_for(
            lambda: not connection.execute(f"SELECT active {slot} AND active").fetchall(),
            TIMEOUT,
            f"the end of slot {name}",
        )
        connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {slot}")
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    connection = database.connect(name)
    connection.cursor_factory = _quiet()
    return connection


def _quiet() -> type[psycopg.Cursor[tuple[Any, ...]]]:
    """Return a class of cursors without output as the value of a cell."""
    import psycopg

    class Quiet(psycopg.Cursor[tuple[Any, ...]]):
        def _ipython_display_(self) -> None:
            pass

    return Quiet


def _is_done(worker: Connect, method: str, path: str) -> bool:
    """Send a request that fails until the connector has stopped; return whether it succeeded."""
    with suppress(HTTPError):
        worker.request(method, path)
        return True
    return False


def wait_until_sent(connection: psycopg.Connection[tuple[Any, ...]], name: str) -> None:
    """Wait until Kafka has acknowledged all committed changes of the database.

    Raises:
        WaitError: the connector takes more than a minute.
    """
    slot = f"FROM pg_replication_slots WHERE slot_name = '{name}'"
    query = f"SELECT {slot} AND active"  # the snapshot is over
    wait_for(lambda: connection.execute(query).fetchall(), TIMEOUT, f"the slot of {name!r}")
    (position,) = connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("",)
    what = f"connector {name!r} to send the database's changes"

    def is_sent() -> bool:
        # The slot passes the end of a transaction only after the next one, so commit another one.
        connection.execute("SELECT pg_logical_emit_message(true, 'hudilab', '')")
        query = f"SELECT {slot} AND confirmed_flush_lsn >= '{position}'::pg_lsn"
        return bool(connection.execute(query).fetchall())

    wait_for(is_sent, TIMEOUT, what)


def compare(
    connection: psycopg.Connection[tuple[Any, ...]],
    tables: Mapping[str, str],
    storage: Mapping[str, str],
) -> pd.DataFrame:
    """Compare the rows of the database, read with psycopg, with Hudi tables, read with hudi-rs.

    A column that a Hudi table lacks counts as null.

    Args:
        tables: paths of Hudi tables by name, compared with the database's tables.

    Returns:
        One row per table: database and Hudi (numbers of rows), missing and extra in Hudi.
    """
    counts = {}
    names = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    for name in sorted({name for (name,) in names} & tables.keys()):
        cursor = connection.execute(f'SELECT * FROM "{name}"')
        columns = [column.name for column in cursor.description or ()]
        wanted, stored = Counter(cursor.fetchall()), Counter(_rows(tables[name], columns, storage))
        counts[name] = {
            "database": wanted.total(),
            "Hudi": stored.total(),
            "missing": (wanted - stored).total(),
            "extra": (stored - wanted).total(),
        }
    return pd.DataFrame.from_dict(counts, orient="index")


def _rows(path: str, columns: list[str], storage: Mapping[str, str]) -> list[tuple[Any, ...]]:
    from hudi import HudiTableBuilder

    reader = HudiTableBuilder.from_base_uri(path).with_storage_options(dict(storage)).build()
    rows = [row for batch in reader.read() for row in batch.to_pylist()]
    return [tuple(row.get(column) for column in columns) for row in rows]


def kill(server: Connect) -> None:
    """Kill a server with SIGKILL, and wait until it has ended."""
    process = psutil.Process(server.pid)
    process.kill()
    process.wait()


def kill_stream(lab: Lab, names: Mapping[str, Any], first: str) -> None:
    """Run a lesson's stream in a separate program, and kill it after its first write to a table.

    Args:
        names: a namespace with the stream's `FUNCTIONS` and `VALUES`, such as `globals()`.
        first: the path of the table.

    Raises:
        WaitError: the program ends before the kill.
    """
    functions = [inspect.getsource(names[name]) for name in FUNCTIONS]
    values = {name: names[name] for name in VALUES}
    job = {"runtime": lab.settings.runtime, "first": first, "values": values}
    before = _commits(lab, first)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "lesson_stream.py").write_text("\n".join(functions), "utf-8")
        kill_when(lambda: _commits(lab, first) > before, VICTIM, job | {"folder": folder})


def _commits(lab: Lab, table: str) -> int:
    return states(lab.spark, table).count("commit completed")
