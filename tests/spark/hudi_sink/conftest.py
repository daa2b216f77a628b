"""Where each test of a sink has its table."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import readings_at

from hudilab.paths import TableLocation
from hudilab.table import TableSpec


@pytest.fixture
def location(tmp_path: Path) -> TableLocation:
    return readings_at(tmp_path)


@pytest.fixture
def spec(written: tuple[TableSpec, Path]) -> TableSpec:
    """Of the table that a module's `written` holds."""
    return written[0]
