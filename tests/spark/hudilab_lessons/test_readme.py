"""The stream on README's first screen prints what README shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

README = (Path(__file__).resolve().parents[3] / "README.md").read_text("utf-8")


def test_the_first_stream_prints_what_readme_shows(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ((program, printed),) = re.findall(r"(?ms)^```python\n(.*?)^```\n\n^```\n(.*?)^```$", README)
    assert program.count("/tmp/lake/") == 3
    exec(program.replace("/tmp/lake/", f"{tmp_path}/"), {"spark": spark})
    assert capsys.readouterr().out.strip() == printed.strip()
