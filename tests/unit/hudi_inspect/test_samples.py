"""Tables that Hudi made, kept without their rows: right, as Spark said when they were made."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
from unit.hudi_inspect.tables import SAMPLES, unlike

KEPT = sorted(file.name.removesuffix(".tar.xz") for file in SAMPLES.glob("*.tar.xz"))


@pytest.mark.parametrize("name", KEPT)
def test_a_table_is_as_spark_says(tmp_path: Path, name: str) -> None:
    with tarfile.open(SAMPLES / f"{name}.tar.xz") as kept:
        kept.extractall(tmp_path, filter="data")
    answers = json.loads((SAMPLES / f"{name}.json").read_text("utf-8"))
    assert unlike(tmp_path, answers) == []
