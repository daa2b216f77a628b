"""Files of a disk through Hadoop's FileSystem."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from hudilab.storage import FileInfo, list_files


def test_all_files_are_listed_with_their_sizes(spark: SparkSession, tmp_path: Path) -> None:
    sizes = {"a": 1, "b c/100%/.hidden": 2, "b c/_x/d": 3, ".hoodie/timeline/1.commit": 0}
    for name, size in sizes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    found = list_files(spark, f"file://{tmp_path}")
    assert found == [
        FileInfo(name, size, (tmp_path / name).stat().st_mtime_ns // 1_000_000)
        for name, size in sorted(sizes.items())
    ]
    assert list_files(spark, f"file://{tmp_path}/b c") == [
        FileInfo(one.path.removeprefix("b c/"), one.size, one.modified_ms)
        for one in found
        if one.path.startswith("b c/")
    ]


def test_a_folder_that_is_empty_or_not_there_has_no_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert list_files(spark, f"file://{tmp_path}") == []
    assert list_files(spark, f"file://{tmp_path}/nowhere") == []
