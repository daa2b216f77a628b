"""A table for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from unit.handmade import HandMade


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "a table")
