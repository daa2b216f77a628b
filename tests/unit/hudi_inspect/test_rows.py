"""The number of rows, from commits, footers or hudi-rs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from unit.handmade import HandMade
from unit.hudi_inspect.tables import A, B, look, problem

from hudi_inspect import rows
from hudi_inspect.errors import InspectError
from hudi_inspect.parquet import FOOTER
from hudi_inspect.rows import count_snapshot
from hudi_inspect.store import DiskStore


def test_a_log_of_changes_does_not_hide_the_rows(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    log = table.root / table.log(10, A)
    log.rename(f"{log}.cdc")
    snapshot = look(table)
    assert (snapshot.table.rows, snapshot.table.files) == (5, 2)


def test_a_data_file_whose_rows_nobody_tells(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    path = table.base(1, B)  # older than the timeline, so committed, and no commit says its rows
    assert problem(table) == (
        f"the data file file://{table.root}/{path} is not a complete Parquet file; look at it "
        f"first (ls -l '{table.root}/{path}'), then restore it from a backup, or return to a "
        "savepoint, which removes all later commits: "
        "CALL rollback_to_savepoint(table => 'NAME', instant_time => 'T')"
    )


def test_an_encrypted_footer_is_not_a_damaged_one(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    (table.root / table.base(1, B)).write_bytes(b"PARE" + bytes(99) + b"PARE")
    assert (look(table).table.files, look(table).table.rows) == (2, None)


def test_rows_that_only_a_footer_has(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    for group, columns in ((B, 3), ("c" + B[1:], 4000)):  # a small footer, and one of many reads
        file = table.root / table.base(1, group)
        parquet.write_table(pa.table({f"column {i}": [i] * 7 for i in range(columns)}), file)
    assert file.stat().st_size > FOOTER
    assert look(table).table.rows == 5 + 7 + 7


def wide(table: HandMade, *, files: int, columns: int) -> None:
    """Data files that no commit lists, seven rows each."""
    table.commit(10, 12, {A: 5})
    one = table.root / table.base(1, "0" * 36 + "-0")
    parquet.write_table(pa.table({f"column {i}": [i] * 7 for i in range(columns)}), one)
    for number in range(1, files):
        file = table.root / table.base(1, f"{number:036}-0")
        file.write_bytes(one.read_bytes())


@pytest.mark.parametrize(("files", "rows_counted"), [(6, 5 + 6 * 7), (20, None)])
def test_the_steps_of_a_footer_are_its_own_and_those_of_all_footers_end_without_a_note(
    table: HandMade, monkeypatch: pytest.MonkeyPatch, files: int, rows_counted: int | None
) -> None:
    monkeypatch.setattr(rows, "STEPS", 1000)
    wide(table, files=files, columns=100)  # 816 steps each
    assert (look(table).notes, look(table).table.rows) == ([], rows_counted)


@pytest.mark.parametrize(
    ("limit", "why"),
    [("STEPS", "it has too many parts"), ("MAX_FOOTER", "more than the limit of 800 ")],
)
def test_a_footer_beyond_a_limit_is_not_called_damaged(
    table: HandMade, monkeypatch: pytest.MonkeyPatch, limit: str, why: str
) -> None:
    monkeypatch.setattr(rows, limit, 800)
    monkeypatch.setattr(rows, "FOOTER", 100)
    wide(table, files=1, columns=100)
    note = problem(table)
    assert " is not read (" in note
    assert why in note
    assert note.endswith(f"read the data: hudi-inspect 'file://{table.root}' --count")


@pytest.mark.parametrize("kind", ["lance", "orc", "hfile"])
def test_the_rows_of_other_formats_are_those_of_their_commits(table: HandMade, kind: str) -> None:
    table.kind = kind
    table.commit(10, 12, {A: 5})
    table.commit(20, 22, {A: 6, B: 4})
    assert (look(table).table.files, look(table).table.rows) == (2, 10)
    table.base(1, "c" + B[1:])  # older than the timeline, so committed, and no commit says its rows
    assert (look(table).table.files, look(table).table.rows) == (3, None)


def test_a_table_that_hudi_rs_cannot_count(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}"
    with pytest.raises(InspectError) as caught:
        count_snapshot(DiskStore(tmp_path), 0)
    message = str(caught.value)
    assert message.startswith(f"hudi-rs cannot count the rows of {uri}: ")
    assert message.endswith(f"; omit --count: hudi-inspect {uri}")
