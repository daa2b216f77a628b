"""Instants follow from the names and contents of timeline files, damaged ones too."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from unit.handmade import HandMade, at
from unit.hudi_inspect.tables import NOW, A, B, line, look, mor, problem, refusal

from hudi_inspect.content import parse_content
from hudi_inspect.errors import Lost, Unreadable
from hudi_inspect.records import parse_commit
from hudi_inspect.store import Entry
from hudi_inspect.timeline import instants_of, moment
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


def test_a_savepoint_is_an_instant_of_its_own(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.instant(10, 15, "savepoint")
    actions = [instant.action for instant in look(table).instants]
    assert actions == ["savepoint", "commit"]
    assert look(table).table.rows == 5


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


SAMPLES = Path(__file__).parents[1] / "samples" / "hudi"  # as Hudi 1.2 wrote them


@pytest.mark.parametrize(
    ("name", "operation", "files", "written", "updated", "replaced"),
    [
        ("v9.deltacommit", "UPSERT", 6, 100, 100, 0),
        ("v9.replacecommit", "CLUSTER", 3, 240, 0, 24),
        ("v6.deltacommit", "UPSERT", 6, 50, 50, 0),
    ],
)
def test_what_hudi_wrote_is_understood(
    name: str, operation: str, files: int, written: int, updated: int, replaced: int
) -> None:
    commit = parse_commit(parse_content((SAMPLES / name).read_bytes()))
    assert (commit.operation, len(commit.stats), len(commit.replaced)) == (
        operation,
        files,
        replaced,
    )
    assert sum(stat.writes for stat in commit.stats) == written
    assert sum(stat.updates for stat in commit.stats) == updated
    assert all(stat.path.startswith(f"{stat.partition}/") and stat.bytes for stat in commit.stats)


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


def damaged(table: HandMade, change: Callable[[bytes], bytes], name: str = "*_*.*") -> Path:
    """Change a timeline file, by default the only completed one, long ago; return it."""
    (file,) = table.timeline.glob(name if table.version > 6 else "*.commit")
    file.write_bytes(change(file.read_bytes()))
    os.utime(file, (NOW.timestamp(),) * 2)
    return file


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("is empty", lambda data: b""),
        ("holds only zero bytes", lambda data: bytes(len(data))),
        ("is truncated", lambda data: data[:2]),
        ("is truncated", lambda data: data[: len(data) // 2]),
        ("is truncated", lambda data: data[:-1]),
    ],
)
def test_the_newest_commit_may_be_deleted_if_its_file_has_lost_its_content(
    tmp_path: Path, version: int, what: str, change: Callable[[bytes], bytes]
) -> None:
    table = HandMade(tmp_path / "t", version=version)
    table.commit(10, 12, {A: 5})
    file = damaged(table, change)
    assert problem(table) == (
        f"instant {at(10)} can't be read: file://{file} {what}, as after a power failure, so what "
        f"it wrote is unknown; look at it first (ls -l {file}), then stop all writers and restore "
        "the file from a backup, or delete it, and the next write rolls the instant back: "
        f"rm {file}"
    )


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda data: b"\xff\x00", "Error: "),
        (lambda data: b"[]", "holds no record"),
        (lambda data: data.replace(b"INSERT", b"IN\xffERT"), "UnicodeDecodeError: "),
        (lambda data: data[:300] + bytes(len(data) - 300), "Error: "),
        (lambda data: data.replace(b"extraMetadata", b'extraM"{adata'), "JSONDecodeError: "),
    ],
)
def test_a_file_that_only_cannot_be_parsed_must_not_be_deleted(
    tmp_path: Path, version: int, change: Callable[[bytes], bytes], why: str
) -> None:
    table = HandMade(tmp_path / "t", version=version)
    table.commit(10, 12, {A: 5})
    file = damaged(table, change)
    assert_kept(problem(table), file, why)


def assert_kept(text: str, file: Path, why: str) -> None:
    """The error gives the cause, a way to look, and no command that deletes."""
    assert re.match(rf"instant \d+ can't be read: file://{re.escape(str(file))} ", text)
    assert text.endswith(
        f"; look at it first (ls -l {quote(str(file))}), and do not delete it; restore it from a "
        "backup if it is damaged, then try again: hudilab inspect TABLE"
    )
    assert why in text
    assert "rm " not in text


def test_an_older_commit_must_not_be_deleted(table: HandMade) -> None:
    """Hudi 1.2 then refuses every later write: "please rollback greater commits first"."""
    table.commit(10, 12, {A: 5})
    table.commit(20, 22, {A: 5})
    file = damaged(table, lambda data: b"", f"{at(10)}_*")
    assert_kept(problem(table), file, " is empty; ")


def test_a_table_services_file_must_not_be_deleted(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.commit(20, 22, {A: 5}, started="compaction", operation="COMPACT")
    file = damaged(table, lambda data: b"", f"{at(20)}_*")
    assert_kept(problem(table), file, " is empty; ")


def test_a_plan_and_an_archive_must_not_be_deleted(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.compaction(10, A)
    file = damaged(table, lambda data: data[:9], f"{at(10)}.compaction.requested")
    assert_kept(problem(table), file, " is truncated; ")
    file.unlink()
    stat = {"partitionToWriteStats": {}, "operationType": "INSERT"}
    history = table.archive((1, 2, "commit", stat))
    (archive,) = history.glob("*.parquet")
    rows = parquet.read_table(archive).to_pylist()
    rows[0]["metadata"] = rows[0]["metadata"][:-1]
    parquet.write_table(pa.Table.from_pylist(rows), archive)
    assert_kept(problem(table, archived=True), history, " is truncated; ")


def test_a_codec_that_is_not_known_is_named(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    file = damaged(table, lambda data: data.replace(b"\x08null", b"\x08lzip", 1))
    assert_kept(problem(table), file, "ValueError: unsupported codec lzip")


def test_too_little_memory_says_nothing_of_the_file(
    table: HandMade, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.commit(10, 12, {A: 5})

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("fastavro.schemaless_reader", full)
    assert refusal(table) == (
        f"there is not enough memory to read file://{table.root}; end other programs, then try "
        "again: hudilab inspect TABLE"
    )


@pytest.mark.parametrize("name", ["v9.deltacommit", "v9.replacecommit", "v6.deltacommit"])
def test_every_prefix_of_a_commit_is_truncated_and_no_change_in_it_is(name: str) -> None:
    data = (SAMPLES / name).read_bytes()
    for size in range(1, len(data), 37):
        with pytest.raises(Lost, match="is truncated"):
            parse_content(data[:size])
    for start in range(5, len(data), 37):  # a hole of 16 bytes, as of a lost block
        changed = data[:start] + bytes(16) + data[start + 16 :]
        assert len(changed) > len(data) or not _is_lost(changed), start
    for at_byte in range(len(data)):
        for bit in (1, 4, 64, 128):
            changed = data[:at_byte] + bytes([data[at_byte] ^ bit]) + data[at_byte + 1 :]
            assert not _is_lost(changed), (at_byte, bit)


def _is_lost(data: bytes) -> bool:
    try:
        parse_content(data)
    except Unreadable as error:
        return isinstance(error, Lost)
    return False


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
