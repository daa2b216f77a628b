"""Instants follow from the names and contents of timeline files, damaged ones too."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from unit.handmade import HandMade, at
from unit.hudi_inspect.tables import NOW, A, B, line, look, mor, problem, refusal

from hudi_inspect.names import Entry, instants_of, moment
from hudi_inspect.records import parse_commit
from hudi_inspect.units import iso


def test_version_6_keeps_json_and_completes_when_the_file_was_written(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "t", version=6)
    table.commit(10, 12, {A: 5})
    table.commit(20, None, {B: 5})
    snapshot = look(table)
    assert [(iso(instant.completed), instant.state) for instant in snapshot.instants] == [
        (None, "INFLIGHT"),
        ("2026-01-01T00:00:12.000Z", "COMPLETED"),
    ]
    assert (snapshot.table.rows, snapshot.table.files) == (5, 1)


def test_a_zone_that_is_not_utc(table: HandMade, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    table.properties["hoodie.table.timeline.timezone"] = "LOCAL"
    table.save()
    table.commit(7200, 7201, {A: 5})
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert iso(look(table).instants[0].requested) == "2026-01-01T01:00:00.000Z"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("names", "action", "state"),
    [
        (["logcompaction.requested"], "logcompaction", "REQUESTED"),
        (["clustering.requested", "clustering.inflight"], "clustering", "INFLIGHT"),
        (["indexing.requested", "indexing.inflight"], "indexing", "INFLIGHT"),
        (["restore.inflight"], "restore", "INFLIGHT"),
        (["other.inflight"], "", ""),
    ],
)
def test_actions_of_every_kind(names: list[str], action: str, state: str) -> None:
    entries = [Entry(f"f/{at(10)}.{name}", 0, float(i)) for i, name in enumerate(names)]
    below = Entry(f"f/history/{at(20)}.commit.requested", 0, 9.0)
    instants = instants_of([*entries, below], "f", utc=True)
    assert [(instant.action, instant.state) for instant in instants] == (
        [(action, state)] if action else []
    )
    assert [instant.touched for instant in instants] == [float(len(names) - 1)] * len(instants)


def test_a_commit_whose_fields_are_empty() -> None:
    stats: dict[str, Any] = {"fileId": None, "path": None, "numDeletes": 3, "numWrites": None}
    commit = parse_commit({"partitionToWriteStats": {"p": [stats]}, "extraMetadata": {"a": ""}})
    assert commit == ("UNKNOWN", (("p", "", "", 0, 0, 3, 0),), (), {})
    assert parse_commit({}) == ("UNKNOWN", (), (), {})


def test_an_instant_whose_name_is_no_time(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    (table.timeline / "20261399000000000.commit.requested").touch()
    snapshot = look(table)
    assert [instant.requested for instant in snapshot.pending] == [None]
    assert line(snapshot, "clock").startswith("ok ")


def test_an_instant_of_seconds_and_one_of_a_metadata_table() -> None:
    assert iso(moment("20260131235959", True)) == "2026-01-31T23:59:59.000Z"
    assert iso(moment("20260131235959123", True)) == "2026-01-31T23:59:59.123Z"
    assert iso(moment("20260131235959123002", True)) == "2026-01-31T23:59:59.123Z"
    assert moment("00000000000000000", True) is None


def test_a_file_that_cannot_be_read_is_named_with_the_way_to_look(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.commit(20, 22, {A: 5})
    (file,) = table.timeline.glob(f"{at(20)}_*")
    data = file.read_bytes()
    remedy = (
        f"look at it (ls -l '{file}'), and restore it from a backup instead of deleting it, then "
        "try again: hudi-inspect TABLE"
    )
    for changed, why in (
        (b"", "is empty"),
        (bytes(len(data)), "contains only zero bytes"),
        (data[:2], "JSONDecodeError: "),
        (data[: len(data) // 2], "EOFError: it ends too early)"),
        (data[:-1], "EOFError: it ends too early)"),
        (data[:300] + bytes(len(data) - 300), "Error: "),
        (b"\xff\x00", "UnicodeDecodeError: "),
        (b'{"a": 1', "JSONDecodeError: "),
        (b"[]", "contains no record"),
        (data.replace(b"INSERT", b"IN\xffERT"), "UnicodeDecodeError: "),
        (data.replace(b"\x08null", b"\x08lzip", 1), "ValueError: unsupported codec lzip"),
    ):
        file.write_bytes(changed)
        os.utime(file, (NOW.timestamp(),) * 2)
        text = problem(table)
        assert text.startswith(f"the commit {at(20)} can't be read: file://{file} ")
        assert why in text
        assert text.endswith(f"; {remedy}")


def test_a_plan_and_an_archived_commit_that_cannot_be_read(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.compaction(10, A)
    plan = table.timeline / f"{at(10)}.compaction.requested"
    plan.write_bytes(plan.read_bytes()[:9])
    os.utime(plan, (NOW.timestamp(),) * 2)
    assert problem(table).startswith(f"the compaction {at(10)} can't be read: file://{plan} is ")
    plan.unlink()
    stat = {"partitionToWriteStats": {}, "operationType": "INSERT"}
    history = table.archive((1, 2, "commit", stat))
    (archive,) = history.glob("*.parquet")
    rows = parquet.read_table(archive).to_pylist()
    rows[0]["metadata"] = rows[0]["metadata"][:-1]
    parquet.write_table(pa.Table.from_pylist(rows), archive)
    assert problem(table, archived=True).startswith(
        f"the archived commit {at(1)} can't be read: file://{history} is "
    )


def test_too_little_memory_says_nothing_of_the_file(
    table: HandMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.commit(10, 12, {A: 5})

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("fastavro.schemaless_reader", full)
    assert refusal(table) == (
        f"there is not enough memory to read file://{table.root}; end other programs, then try "
        "again: hudi-inspect TABLE"
    )


def test_a_commit_whose_file_is_just_being_written_is_waited_for(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    file = next(file for file in table.timeline.glob("*.commit"))
    data = file.read_bytes()
    file.write_bytes(b"")
    later = threading.Timer(0.1, file.write_bytes, [data])
    later.start()
    try:
        assert look(table).table.rows == 5
    finally:
        later.join()
