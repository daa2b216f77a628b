"""The trace of a failed connector is one line: what is wrong, and what to do."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from refusals import assert_refusal, refused

from hudilab.errors import ServiceError
from hudilab.files import read_properties
from hudilab_cli.servers import connectors

AGAIN = ", then register the connector again"
ANEW = "; register it with another name, which begins with a new snapshot of its tables"
# As Debezium 3.6.1 and PostgreSQL 18 word them.
TRACES = {
    "decoding": (
        "Postgres server wal_level property must be 'logical' but is: 'replica'\n\tat a.B.c(B:1)",
        ("wal_level", "'replica'"),
        f"set wal_level = logical in its postgresql.conf and restart it{AGAIN}",
    ),
    "password": (
        "org.apache.kafka.connect.errors.RetriableException: x\n\tat a.B.c(B:1)\nCaused by: "
        'org.postgresql.util.PSQLException: FATAL: password authentication failed for user "lab"',
        ("password", "'lab'"),
        f"correct database.password{AGAIN}",
    ),
    "slot": (
        "io.debezium.DebeziumException: The connector is trying to read change stream starting at "
        "PostgresOffsetContext [lsn=LSN{0/1B49170}], but this is no longer available on the "
        "server. Reconfigure the connector to use a snapshot mode when needed.\n\tat a.B.c(B:1)",
        ("given up its slot",),
        ANEW,
    ),
    "slot of another version": (
        'x: y\nCaused by: PSQLException: ERROR: can no longer access replication slot "lab"\n',
        ("given up its slot",),
        ANEW,
    ),
    "publication": (
        'PSQLException: ERROR: publication "lab" does not exist\n',
        ("'lab'",),
        ANEW,
    ),
    "rights": (
        "PSQLException: ERROR: permission denied to use replication slots\n",
        ("may not read the database's changes",),
        AGAIN,
    ),
    "disk": (
        "org.apache.kafka.common.errors.KafkaStorageException: Disk error\n",
        ("a disk is full",),
        f"free space{AGAIN}",
    ),
    "size": (
        "x: y\nCaused by: org.apache.kafka.common.errors.RecordTooLargeException: The message is "
        "2000075 bytes when serialized which is larger than 1048576.\n",
        ("The message is 2000075 bytes",),
        f"and max.message.bytes of the topic{AGAIN}",
    ),
    "down": (
        "x: y\nCaused by: PSQLException: Connection to 127.0.0.1:5432 refused. Check that ...\n",
        ("127.0.0.1:5432",),
        f"start it{AGAIN}",
    ),
    "unknown": (
        "a.B: outer\n\tat c.D.e(D:1)\nCaused by: f.G: the inner cause\n\t... 3 more\n",
        ("f.G: the inner cause",),
        f"correct its settings{AGAIN}",
    ),
    "none": ("", ("no trace",), AGAIN),
}


def status(trace: str) -> dict[str, Any]:
    running = {"state": "RUNNING", "worker_id": "127.0.0.1:8083"}
    tasks = [{"id": 0, **running}, {"id": 1, "state": "FAILED", "trace": trace}]
    return {"name": "orders", "connector": running, "tasks": tasks, "type": "source"}


@pytest.mark.parametrize(("trace", "failed", "remedy"), TRACES.values(), ids=TRACES)
def test_a_trace_is_one_line(trace: str, failed: tuple[str, ...], remedy: str) -> None:
    connect: Any = SimpleNamespace(status=lambda _: status(trace))
    problem = connectors.connector_problem(connect, "orders")
    assert_refusal(str(problem), "connector 'orders' failed", *failed, remedy=remedy)


class Worker:
    """Answers as Connect does, from a list; keeps what it is asked."""

    def __init__(self, *answers: object) -> None:
        self.answers, self.requests = list(answers), list[tuple[str, str]]()
        self.log = Path("/home/connect.log")

    def request(self, method: str, path: str, body: object = None) -> object:
        self.requests.append((method, path))
        return self.answers.pop(0)

    def status(self, name: str) -> object:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def test_wrong_settings_are_named() -> None:
    text = json.dumps({"message": "Cannot invoke ..."}).encode()
    error = HTTPError("", 500, "", {}, io.BytesIO(text))  # type: ignore[arg-type]
    wrong = {"name": "snapshot.mode", "errors": ["Value must be\none of initial"]}
    checked = {"configs": [{"value": wrong}, {"value": None}, {"value": {"errors": []}}]}
    sent = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector"}
    worker: Any = Worker(checked)
    reasons = connectors._reasons(worker, sent, error)
    assert reasons == "snapshot.mode: Value must be one of initial"
    path = "/connector-plugins/PostgresConnector/config/validate"
    assert worker.requests == [("PUT", path)]
    worker = Worker({"configs": []})
    assert connectors._reasons(worker, sent, error) == "Cannot invoke ..."


def test_one_that_had_failed_may_show_so_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    running = {"name": "a", "connector": {"state": "RUNNING"}, "tasks": [{"state": "RUNNING"}]}
    connectors._wait(Worker(None, status("old"), running), "a", 5)  # type: ignore[arg-type]
    with refused(ServiceError, "connector 'orders' failed: new", remedy=AGAIN):
        connectors._wait(Worker(status("new")), "a", 0)  # type: ignore[arg-type]
    monkeypatch.setattr("hudilab_cli.servers.process.PATIENCE", 0)
    with refused(ServiceError, "'a'", "after 0 s (not there yet)", remedy=AGAIN):
        connectors._wait(Worker(None), "a", 0)  # type: ignore[arg-type]


def test_passwords_of_all_connectors_are_in_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / connectors.SECRETS
    connectors._keep_password(file, "a", "first")
    connectors._keep_password(file, "b", "with = and \\ and ü")
    connectors._keep_password(file, "a", "second")
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_properties(file.read_text()) == {"a": "second", "b": "with = and \\ and ü"}
