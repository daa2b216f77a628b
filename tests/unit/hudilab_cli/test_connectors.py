"""The trace of a failed connector is one line: what is wrong, and what to do."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError

import pytest
from cases import read_cases
from refusals import assert_refusal, refused

from hudilab.errors import ServiceError
from hudilab.files import read_properties
from hudilab_cli.servers import connectors

AGAIN = ", then register the connector again"


def status(trace: str) -> dict[str, Any]:
    running = {"state": "RUNNING", "worker_id": "127.0.0.1:8083"}
    tasks = [{"id": 0, **running}, {"id": 1, "state": "FAILED", "trace": trace}]
    return {"name": "orders", "connector": running, "tasks": tasks, "type": "source"}


@pytest.mark.parametrize("case", read_cases(__file__)["traces"])
def test_a_trace_is_one_line(case: dict[str, Any]) -> None:
    """As Debezium 3.6.1 and PostgreSQL 18 word them."""
    connect: Any = SimpleNamespace(status=lambda _: status(case["trace"]))
    problem = connectors.connector_problem(connect, "orders")
    says = ("connector 'orders' failed", *case["says"])
    assert_refusal(str(problem), *says, remedy=case["remedy"])


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
    monkeypatch.setattr("hudilab_cli.servers.process.START_TIMEOUT", 0)
    with refused(ServiceError, "'a'", "after 0 s (not there yet)", remedy=AGAIN):
        connectors._wait(Worker(None), "a", 0)  # type: ignore[arg-type]


def test_passwords_of_all_connectors_are_in_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / connectors.SECRETS
    connectors._keep_password(file, "a", "first")
    connectors._keep_password(file, "b", "with = and \\ and ü")
    connectors._keep_password(file, "a", "second")
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_properties(file.read_text()) == {"a": "second", "b": "with = and \\ and ü"}
