"""A metastore that fails never reaches the batch; tests/services has a real one."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from hudi_sink import hive_sync
from hudi_sink.hive_sync import Catalog
from hudi_sink.metastore import Metastore
from hudilab.paths import TableLocation
from hudilab.table import TableSpec

LOCATION = TableLocation("file:///w", "file:///w/t", "file:///w/c", "lab", "t")
SPEC = TableSpec("t", ("id",), (), "moment", table_type="MERGE_ON_READ")
ROWS: Any = None


@pytest.fixture
def hive(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the metastore answers, whose each name is, the seconds that passed, and the calls."""
    state = SimpleNamespace(problem="", other="", now=100.0, names=[], synced=0)

    def sync(*_: object) -> None:
        if state.problem == "sync fails":
            raise ValueError("no disk")
        state.synced += 1

    def other(spark: object, meta: object, name: str, *_: object) -> str:
        state.names.append(name)
        return str(state.other)

    monkeypatch.setattr(hive_sync, "Commits", MagicMock())
    monkeypatch.setattr(
        hive_sync, "trouble", lambda _: "" if " " in state.problem else state.problem
    )
    monkeypatch.setattr(hive_sync, "table_in_metastore", other)
    monkeypatch.setattr(hive_sync, "sync_with_metastore", sync)
    # Import-linter, which another test runs, disables the loggers that are there.
    monkeypatch.setattr(logging.getLogger("hudi_sink"), "disabled", False)
    monkeypatch.setattr("hudi_sink.hive_sync.time.monotonic", lambda: state.now)
    return state


@pytest.fixture
def catalog(hive: SimpleNamespace) -> Catalog:
    return Catalog(MagicMock(), SPEC, LOCATION, Metastore("thrift://h:9083", "lab"))


def test_a_batch_registers_and_only_the_first_looks_at_the_names(
    catalog: Catalog, hive: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    written: list[int] = []
    write = catalog.after(lambda _, batch_id: written.append(batch_id))
    for batch in range(3):
        write(ROWS, batch)
    assert (written, hive.synced, hive.names) == ([0, 1, 2], 3, ["t", "t_ro", "t_rt"])
    assert caplog.messages == []


@pytest.mark.parametrize("problem", ["silent", "sync fails"])
def test_a_failure_is_one_line_and_the_next_batches_do_not_wait(
    catalog: Catalog, hive: SimpleNamespace, caplog: pytest.LogCaptureFixture, problem: str
) -> None:
    caplog.set_level("INFO", "hudi_sink")
    write = catalog.after(lambda *_: None)
    hive.problem = problem
    write(ROWS, 0)
    hive.problem = ""
    hive.now += hive_sync.RETRY
    write(ROWS, 1)
    assert hive.synced == 0
    hive.now += 1
    write(ROWS, 2)
    assert hive.synced == 1
    cause = "silent" if problem == "silent" else "no disk"
    assert caplog.messages == [
        f"file:///w/t was not registered with the metastore thrift://h:9083: {cause}; the stream "
        "continues, and the next attempt that succeeds registers everything",
        "file:///w/t is registered with the metastore thrift://h:9083 again",
    ]


def test_the_end_of_a_stream_tries_at_once_and_another_tables_name_stays(
    catalog: Catalog, hive: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    hive.other = "file:/elsewhere"
    assert (catalog.register(), catalog.register(), hive.synced) == (False, False, 0)
    (line,) = caplog.messages
    assert "lab.t is another table, at file:/elsewhere; use another table.name" in line
    hive.other = ""
    assert (catalog.register(), hive.synced) == (True, 1)


def test_without_a_metastore_nothing_is_registered(hive: SimpleNamespace) -> None:
    catalog = Catalog(MagicMock(), SPEC, LOCATION, None)
    write: Any = lambda *_: None  # noqa: E731
    assert catalog.after(write) is write
    assert (catalog.register(), hive.synced) == (False, 0)
