"""Files on a disk, as the writer lists them."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hudi_sink.files import file_size, list_files
from hudi_sink.locks import lock_held, sharing_options

T = TypeVar("T")
SPARK: Any = None  # a disk is listed without it
COMES_AND_GOES = """
import sys
from pathlib import Path
while True:
    Path(sys.argv[1]).touch()
    Path(sys.argv[1]).unlink()
"""


@contextmanager
def coming_and_going(file: Path) -> Iterator[None]:
    """A file that another process creates and deletes all the time."""
    other = subprocess.Popen([sys.executable, "-c", COMES_AND_GOES, str(file)])
    try:
        while not file.exists():
            assert other.poll() is None
        yield
    finally:
        other.kill()
        other.wait()


def answers(ask: Callable[[], T]) -> set[T]:
    """What 20,000 questions, and more if all had the same answer, were answered."""
    found = {ask() for _ in range(20_000)}
    ends = time.monotonic() + 60  # a machine with other work may run the other process later
    while len(found) == 1 and time.monotonic() < ends:
        found.add(ask())
    return found


@pytest.mark.parametrize("target", ["loop", ".", "..", "../.."])
def test_a_link_that_leads_back_adds_nothing(tmp_path: Path, target: str) -> None:
    folder = tmp_path / "table" / "part"
    folder.mkdir(parents=True)
    (folder / "file").touch()
    (folder / "loop").symlink_to(target)
    (folder / "nothing").symlink_to("nowhere")
    assert [file.path for file in list_files(SPARK, f"file://{tmp_path}/table")] == ["part/file"]


def test_a_partition_behind_a_link_is_listed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").touch()
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "part").symlink_to(tmp_path / "elsewhere")
    assert [file.path for file in list_files(SPARK, f"file://{tmp_path}/table")] == ["part/file"]


def test_a_file_that_another_process_deletes_has_a_size_or_none(tmp_path: Path) -> None:
    with coming_and_going(tmp_path / "file"):
        sizes = answers(lambda: file_size(SPARK, f"file://{tmp_path}/file"))
    assert sizes == {0, -1}
    assert file_size(SPARK, f"file://{tmp_path}/none/file") == -1


def test_a_lock_that_its_owner_releases_meanwhile_is_still_the_cause(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    table = f"file://{tmp_path}"
    options = sharing_options(table)
    with coming_and_going(tmp_path / ".hoodie" / "lock"):
        remedies = answers(lambda: lock_held(table, options).remedy)
    assert {remedy.partition(",")[0] for remedy in remedies} == {
        "if no writer is running",
        "stop that writer",
    }
