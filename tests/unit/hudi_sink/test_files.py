"""Files on a disk, as the writer lists them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hudi_sink.files import file_size, list_files
from hudi_sink.locks import lock_held, sharing_options

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
        sizes = {file_size(SPARK, f"file://{tmp_path}/file") for _ in range(20_000)}
    assert sizes == {0, -1}
    assert file_size(SPARK, f"file://{tmp_path}/none/file") == -1


def test_a_lock_that_its_owner_releases_meanwhile_is_still_the_cause(tmp_path: Path) -> None:
    (tmp_path / ".hoodie").mkdir()
    table = f"file://{tmp_path}"
    options = sharing_options(table)
    with coming_and_going(tmp_path / ".hoodie" / "lock"):
        errors = [lock_held(table, options) for _ in range(20_000)]
    assert {error.remedy.partition(",")[0] for error in errors} == {
        "if no writer is running",
        "stop that writer",
    }
