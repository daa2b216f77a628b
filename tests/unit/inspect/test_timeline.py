"""Instants follow from the names and contents of timeline files, damaged ones too."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from unit.handmade import HandMade
from unit.inspect.tables import NOW, A, B, look, refusal

from hudilab.inspect.timeline import parse_commit, parse_content


def test_version_6_keeps_json_and_completes_when_the_file_was_written(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "t", version=6)
    table.commit(10, 12, {A: 5})
    table.commit(20, None, {B: 5})
    found = look(table)
    assert [(one.completed, one.state) for one in found.report.instants] == [
        (None, "INFLIGHT"),
        ("2026-01-01T00:00:12.000Z", "COMPLETED"),
    ]
    assert (found.report.table.rows, found.report.table.files) == (5, 1)


def test_a_savepoint_is_an_instant_of_its_own(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.instant(10, 15, "savepoint")
    actions = [one.action for one in look(table).report.instants]
    assert actions == ["savepoint", "commit"]
    assert look(table).report.table.rows == 5


def test_a_zone_that_is_not_utc(table: HandMade, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    table.properties["hoodie.table.timeline.timezone"] = "LOCAL"
    table.save()
    table.commit(7200, 7201, {A: 5})
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert look(table).report.instants[0].requested == "2026-01-01T01:00:00.000Z"
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
    commit = parse_commit(parse_content((SAMPLES / name).read_bytes(), name))
    assert (commit.operation, len(commit.stats), len(commit.replaced)) == (
        operation,
        files,
        replaced,
    )
    assert sum(one.writes for one in commit.stats) == written
    assert sum(one.updates for one in commit.stats) == updated
    assert all(one.path.startswith(f"{one.partition}/") and one.bytes for one in commit.stats)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "a list"])
def test_a_damaged_commit(tmp_path: Path, version: int, damage: str) -> None:
    table = HandMade(tmp_path / "t", version=version)
    table.commit(10, 12, {A: 5})
    file = next(file for file in table.timeline.glob("*.commit"))
    data = file.read_bytes()
    changed = {"empty": b"", "cut": data[: len(data) // 2], "garbage": b"\xff\x00", "a list": b"[]"}
    file.write_bytes(changed[damage])
    os.utime(file, (NOW.timestamp(),) * 2)
    what = "is empty" if damage == "empty" else "is damaged"
    assert refusal(table) == (
        f"the timeline file file://{file} {what}, as after a power failure, so what the instant "
        "wrote is unknown; restore the file from a backup, or delete it, and the next write rolls "
        f"the instant back: rm {file}"
    )


def test_a_commit_whose_file_is_just_being_written_is_waited_for(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    file = next(file for file in table.timeline.glob("*.commit"))
    data = file.read_bytes()
    file.write_bytes(b"")
    later = threading.Timer(0.1, file.write_bytes, [data])
    later.start()
    try:
        assert look(table).report.table.rows == 5
    finally:
        later.join()
