"""A copy of the table that a module's `written` holds, for each of its tests."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from running import readings_at

from hudilab.paths import TableLocation
from hudilab.table import TableSpec


@pytest.fixture
def spec(written: tuple[TableSpec, Path]) -> TableSpec:
    return written[0]


@pytest.fixture
def location(written: tuple[TableSpec, Path], tmp_path: Path) -> TableLocation:
    shutil.copytree(written[1], tmp_path, dirs_exist_ok=True)
    return readings_at(tmp_path)
