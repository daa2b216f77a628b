"""A write that stops in the middle, and goes on when it may."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from hudilab.errors import WaitError
from hudilab_lessons.faults import SlowWrite, leave_lock


def test_a_slow_write_goes_on_when_it_may(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    slow = SlowWrite(spark, lambda rows: rows.write.parquet(str(folder)), spark.range(5))
    assert not (folder / "_SUCCESS").exists()
    assert slow.finish() is None
    assert spark.read.parquet(str(folder)).count() == 5


def test_a_slow_write_returns_why_it_failed(spark: SparkSession, tmp_path: Path) -> None:
    def write(rows: DataFrame) -> None:
        rows.count()
        rows.write.parquet(str(tmp_path))  # exists

    slow = SlowWrite(spark, write, spark.range(5))
    assert "already exists" in str(slow.finish())


def test_a_write_that_does_not_read_its_rows(spark: SparkSession) -> None:
    with pytest.raises(WaitError) as caught:
        SlowWrite(spark, lambda rows: None, spark.range(5))
    assert str(caught.value) == (
        "the slow write did not stop in the middle: it never evaluated its rows; run the cell again"
    )


def test_a_lock_of_a_dead_writer(spark: SparkSession, tmp_path: Path) -> None:
    leave_lock(spark, f"file://{tmp_path}/table", 10)
    lock = tmp_path / "table" / ".hoodie" / "lock"
    age = tmp_path.stat().st_mtime - lock.stat().st_mtime
    assert lock.read_bytes() == b""
    assert 590 < age < 660
