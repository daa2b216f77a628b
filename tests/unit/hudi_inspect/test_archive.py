"""Archived instants."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from unit.handmade import HandMade, at
from unit.hudi_inspect.tables import A, B, archive_a_commit, look, problem, refusal

from hudi_inspect.archive import Archive
from hudi_inspect.content import parse_content
from hudi_inspect.records import parse_commit
from hudi_inspect.store import open_store
from hudi_inspect.units import iso


def test_archived_instants_and_the_rows_of_their_files(table: HandMade) -> None:
    archive_a_commit(table)
    table.commit(10, 12, {A: 5})
    plain, archived = look(table), look(table, archived=True)
    assert (plain.table.rows, archived.table.rows) == (9, 9)
    assert [instant.archived for instant in plain.instants] == [False]
    assert [
        (instant.archived, iso(instant.completed), instant.operation, instant.rows_written)
        for instant in archived.instants
    ] == [
        (False, "2026-01-01T00:00:12.000Z", "INSERT", 5),
        (True, "2026-01-01T00:00:02.000Z", "INSERT", 4),
    ]
    assert plain.window.oldest_time_travel == "2026-01-01T00:00:01.000Z"
    assert archived.content(at(1))["commit"]["operationType"] == "INSERT"
    assert f'"t":"{at(1)}"' in plain.to_html()
    assert "services        archive\n" in str(plain)


SAMPLES = Path(__file__).parents[1] / "samples" / "hudi"  # as Hudi 1.2 wrote them


def test_hudis_clean_plan_and_archive_are_understood() -> None:
    clean = parse_content((SAMPLES / "v9.clean").read_bytes())
    assert clean["earliestCommitToRetain"] == "20261122090107744"
    plan = parse_content((SAMPLES / "v9.compaction.requested").read_bytes())
    assert {operation["partitionPath"] for operation in plan["operations"]} == {
        f"sensor_id={sensor}" for sensor in (10, 11, 12)
    }
    archive = Archive(open_store(str(SAMPLES)), "history", True, [])
    events = archive.instants()
    assert [event.action for event in events] == ["commit"] * 10
    contents = archive.contents([event.time for event in events], parse_commit)
    rows = [sum(s.writes for s in contents[event.time].stats) for event in events]
    assert rows == [100] * 10


def test_an_archive_in_any_order_and_without_content(table: HandMade) -> None:
    record = {"partitionToWriteStats": {}, "operationType": "INSERT"}
    history = table.archive((3, 4, "clean", None), (1, 2, "commit", record), (2, None, "x", None))
    (history / "_version_").write_text("1\n")
    archive = Archive(open_store(str(table.root)), ".hoodie/timeline/history", True, [])
    instants = archive.instants()
    assert [instant.action for instant in instants] == ["commit", "x", "clean"]
    assert [instant.completed is None for instant in instants] == [False, True, False]
    assert list(archive.contents([at(1), at(3)], parse_commit)) == [at(1)]
    assert archive.contents([], parse_commit) == {}


def test_a_damaged_archive(table: HandMade) -> None:
    history = table.archive((1, 2, "commit", None))
    file = next(history.glob("*.parquet"))
    text = parquet.read_table(file).set_column(3, "metadata", pa.array(["text"]))
    parquet.write_table(text, file)
    assert ' contains metadata="text", which is not binary; ' in problem(table, archived=True)
    file.write_bytes(b"PAR1")
    assert problem(table, archived=True) == (
        f"the archived timeline's file file://{file} is damaged; if it is damaged, restore it from "
        "a backup instead of deleting it, then try again: hudi-inspect TABLE"
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", ""),
        ("[" * 100_000, ""),
        ('{"files": [{"fileName": ""}]}', " (lists '', which is not a file of the folder)"),
        ('{"files": [{"fileName": "../x"}]}', " (lists '../x', which is not a file of the folder)"),
        (None, " (manifest_1 does not exist)"),
    ],
)
def test_a_damaged_manifest(table: HandMade, text: str | None, why: str) -> None:
    manifest = table.archive((1, 2, "commit", None)) / "manifest_1"
    manifest.write_text(text) if text else manifest.unlink()
    assert problem(table, archived=True) == (
        f"the archived timeline file://{manifest.parent} is damaged: its manifest cannot be "
        f"read{why}; restore the folder from a backup, then try again: hudi-inspect TABLE"
    )


def test_an_archive_of_version_6_is_not_read_and_the_report_says_so(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "t", version=6, archivelog__folder="history")
    table.commit(10, 12, {A: 5})
    assert look(table, archived=True).notes == []
    assert "services        no archive\n" in str(look(table))
    table.archive((1, 2, "commit", None))
    file = table.root / table.base(1, B)  # an archived instant wrote it
    parquet.write_table(pa.table({"a": [1, 2, 3, 4]}), file)
    snapshot = look(table)
    assert (snapshot.table.rows, snapshot.table.files) == (9, 2)
    assert snapshot.window.oldest_time_travel == "2026-01-01T00:00:10.000Z"
    note = (
        "the archive .hoodie/history is not read, because the table has version 6: its instants "
        "are missing here, and queries may go further back; list its commits with "
        "CALL show_archived_commits(table => 'readings')"
    )
    assert snapshot.as_dict()["notes"] == [note]
    assert "services        archive not read\n" in str(snapshot)
    assert note in " ".join(str(snapshot).split())
    assert note.replace("'", "&#x27;").replace(">", "&gt;") in snapshot.to_html()
    assert refusal(table, archived=True) == (
        f"cannot read the archived timeline file://{table.meta}/history: inspect reads archives "
        "from table version 8 on, this is version 6; omit --archived, or let Hudi list them: "
        "CALL show_archived_commits(table => 'readings')"
    )
