"""Files on a disk: they are only read, and they can vanish."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from others import bound_by_modes
from unit.handmade import HandMade, at
from unit.hudi_inspect.tables import A, look, problem, refusal

from hudi_inspect import inspect
from hudi_inspect.errors import InspectError, Unreadable
from hudi_inspect.names import Entry
from hudi_inspect.snapshot import Options, read_snapshot
from hudi_inspect.store import FOLDER_LEVELS, DiskStore, Vanished


def test_nothing_is_written(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})

    def state() -> list[tuple[str, int, int]]:
        snapshot = sorted(table.root.rglob("*"))
        return [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in snapshot]

    before = state()
    snapshot = look(table, archived=True)
    _ = (
        snapshot.as_dict(),
        snapshot.to_html(),
        str(snapshot),
        snapshot._repr_html_(),
        snapshot.content(at(10)),
    )
    assert state() == before


def test_a_table_that_changes_is_read_again(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})

    class Changing(DiskStore):
        """Lists a commit's file that is gone when it is read, so many times."""

        times = 1

        def files(self) -> list[Entry]:
            files = super().files()
            if self.times:
                self.times -= 1
                files.append(Entry(f".hoodie/timeline/{at(5)}_{at(6)}.commit", 1, 0.0))
            return files

    store = Changing(table.root)
    assert len(read_snapshot(store, Options()).timeline) == 1
    store.times = 9
    with pytest.raises(InspectError) as caught:
        read_snapshot(store, Options())
    assert str(caught.value) == (
        f"file://{table.root}/.hoodie/timeline/{at(5)}_{at(6)}.commit was deleted during the read: "
        "the table changed in each of five attempts; try again when fewer writers are running: "
        "hudi-inspect TABLE"
    )
    with pytest.raises(Vanished):
        store.read("none")


def test_a_file_that_vanishes_hides_no_other(table: HandMade) -> None:
    """A link to nothing is listed and cannot be looked at, like a file that was just deleted."""
    names = [f"data/{number:02}" for number in range(20)]
    (table.root / "data").mkdir()
    for name in names:
        (table.root / name).touch()
        (table.root / f"{name}.gone").symlink_to("nowhere")
    paths = [file.path for file in DiskStore(table.root).files() if file.path.startswith("data/")]
    assert sorted(paths) == names


@pytest.mark.parametrize("target", ["loop", ".", "..", "../..", "mutual"])
def test_a_link_that_leads_back_adds_nothing(table: HandMade, target: str) -> None:
    table.commit(10, 12, {A: 5})
    link = table.root / "sensor_id=10" / "loop"
    if target == "mutual":  # two folders, each with a link to the other
        other = table.root / "sensor_id=11"
        other.mkdir()
        (other / "back").symlink_to(link.parent)
        link.symlink_to(other)
    else:
        link.symlink_to(target)
    (table.meta / "loop").symlink_to("loop")
    paths = [file.path for file in DiskStore(table.root).files() if file.path.endswith(".parquet")]
    assert len(paths) == (2 if target == "mutual" else 1)  # also as sensor_id=11/back/
    with pytest.raises(InspectError, match=f"choose one: hudi-inspect '{table.root}'"):
        inspect(str(table.root.parent))  # whose search for tables meets the link, too


@pytest.mark.parametrize("inside", [True, False])
def test_a_link_is_followed_inside_the_table_and_no_further(
    table: HandMade, tmp_path: Path, inside: bool
) -> None:
    table.commit(10, 12, {A: 5})
    moved = table.root / "moved" if inside else tmp_path / "elsewhere"
    (table.root / "sensor_id=10").rename(moved)
    (table.root / "sensor_id=10").symlink_to(moved)
    snapshot = look(table)
    assert snapshot.table.files == (2 if inside else 0)
    assert snapshot.store.skipped == ([] if inside else ["sensor_id=10"])
    note = (
        "sensor_id=10 can't be read: inspect reads only regular files inside the table, and "
        "follows no link to a path outside it"
    )
    assert (note in snapshot.notes) != inside


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder outside", "deep"])
def test_what_is_no_regular_file_of_the_table_is_left_out(table: HandMade, kind: str) -> None:
    table.commit(10, 12, {A: 5})
    thing = table.timeline / f"{at(20)}_{at(22)}.commit"
    if kind == "pipe":
        os.mkfifo(thing)
    elif kind == "device":
        thing.symlink_to("/dev/zero")
    elif kind == "folder outside":
        thing.symlink_to("/dev")
    elif kind == "deep":
        thing = table.timeline.joinpath(*["deep"] * FOLDER_LEVELS)
        thing.mkdir(parents=True)
        thing = thing.parents[0]
    else:
        with socket.socket(socket.AF_UNIX) as made:
            folder = os.open(thing.parent, os.O_RDONLY)
            made.bind(f"/proc/self/fd/{folder}/{thing.name}")
            os.close(folder)
    snapshot = look(table)
    assert [instant.time for instant in snapshot.instants] == [at(10)]
    assert snapshot.notes == [
        f"{thing.relative_to(table.root)} can't be read: inspect reads only regular files inside "
        "the table, and follows no link to a path outside it"
    ]
    assert snapshot.problems == ()


def test_a_path_in_a_file_leads_nowhere_else(table: HandMade, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (table.root / "link").symlink_to(tmp_path / "secret")
    store = DiskStore(table.root)
    for path in ("../secret", "x/../../secret", "link", "/etc/passwd", "..", "a\0b", "\ud800"):
        with pytest.raises((Unreadable, Vanished)):
            store.read(path)
    history = table.archive((1, 2, "commit", {"operationType": "INSERT"}))
    for version, name in (("1", "../../../../../secret"), ("../1", "x"), ("1", "a\0b"), ("1", "")):
        (history / "_version_").write_text(version)
        (history / "manifest_1").write_text(json.dumps({"files": [{"fileName": name}]}))
        assert problem(table).startswith("the archived timeline")
    table.properties["hoodie.timeline.path"] = "../.."
    table.save()
    assert problem(table).startswith("hoodie.timeline.path=../.. is outside the table")


def test_links_do_not_multiply_what_they_lead_to(table: HandMade) -> None:
    for i in range(30):
        (table.root / f"d{i}").mkdir()
        for j in range(30):
            (table.root / f"d{i}" / f"l{j}").symlink_to(table.root / f"d{j}")
    assert len(look(table).store.skipped) < 30**3


@pytest.mark.parametrize("name", ["hoodie.properties", "timeline"])
def test_a_large_file_is_not_read(table: HandMade, name: str) -> None:
    file = table.meta / name
    if name == "timeline":
        file = file / f"{at(20)}_{at(22)}.commit"
        file.touch()
    os.truncate(file, 2**40)
    text = problem(table) if name == "timeline" else refusal(table)
    assert f"file://{file} has 1024.0 GiB, more than the limit of " in text


def test_properties_behind_a_link_to_itself(table: HandMade) -> None:
    file = table.meta / "hoodie.properties"
    file.unlink()
    file.symlink_to(file.name)
    with pytest.raises(InspectError) as caught:
        look(table)
    assert str(caught.value) == (
        f"cannot read {file} (Too many levels of symbolic links); make it readable, then try "
        "again: hudi-inspect TABLE"
    )


def test_an_archive_that_changes_after_the_read_is_one_line(table: HandMade) -> None:
    history = table.archive((1, 2, "commit", {"operationType": "INSERT"}))
    table.commit(10, 12, {A: 5})
    snapshot = look(table, archived=True)
    next(history.glob("*.parquet")).unlink()
    with pytest.raises(
        InspectError, match=r"was deleted during the read: .*; try again: hudi-inspect"
    ):
        snapshot.content(at(1))


def test_no_right_to_read(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.timeline.chmod(0)
    with bound_by_modes():
        error = refusal(table)
    table.timeline.chmod(0o755)
    assert error == (
        f"cannot read {table.timeline}: permission denied; ask its owner for read access, or run "
        "as a user with read access: hudi-inspect TABLE"
    )
