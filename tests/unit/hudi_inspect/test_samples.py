"""Tables that Hudi wrote, kept without their rows: as hudi-rs finds them, and the same report."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from unit.hudi_inspect.tables import SAMPLES, report_of

from hudi_inspect import inspect

NAMES = (
    "cow_clustered_cleaned",
    "cow_overwritten",
    "cow_pending",
    "cow_savepoint",
    "mor_compacted_cleaned",
    "mor_compaction_pending",
    "mor_logs",
    "mor_logs_restored",
    "mor_logs_rolled_back",
)
# Python before 3.11.4, which Debian 12 has, knows no filters.
FILTER: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}


@pytest.mark.parametrize("name", NAMES)
def test_a_table_that_hudi_wrote(tmp_path: Path, name: str) -> None:
    with tarfile.open(SAMPLES / f"{name}.tar.xz") as kept:
        kept.extractall(tmp_path, **FILTER)
    answers = json.loads((SAMPLES / f"{name}.json").read_text("utf-8"))
    snapshot = inspect(str(tmp_path))
    slices = [
        [part.partition, part.group, part.base_bytes, len(part.logs)]
        for part in snapshot.latest_slices
    ]
    assert sorted(slices) == answers["slices"]
    has_logs = any(part.logs for part in snapshot.latest_slices)
    assert snapshot.table.rows == (None if has_logs else answers["rows"])
    assert report_of(tmp_path) == answers["report"]
    _ = str(snapshot), snapshot.to_html()
