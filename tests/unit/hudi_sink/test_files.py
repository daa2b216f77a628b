"""Files on a disk, as the writer lists them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hudi_sink.files import list_files

SPARK: Any = None  # a disk is listed without it


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
