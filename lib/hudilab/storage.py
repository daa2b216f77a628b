"""Files wherever Spark can reach them, through Hadoop's FileSystem: disk and S3 alike."""

from __future__ import annotations

from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from hudilab.config import Settings
from hudilab.paths import Place, check_writable, local_path, locate
from hudilab.s3 import check_warehouse

__all__ = ["FileInfo", "check_place", "delete", "exists", "list_files", "prepare", "read_text"]


class FileInfo(NamedTuple):
    """A file below a root: path relative to it, size in bytes, modified in epoch ms."""

    path: str
    size: int
    modified_ms: int


def _open(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    jsc: Any = spark._jsc
    path = jvm.org.apache.hadoop.fs.Path(uri)
    return path.getFileSystem(jsc.hadoopConfiguration()), path


def exists(spark: SparkSession, uri: str) -> bool:
    """Whether a file or folder is there."""
    fs, path = _open(spark, uri)
    return bool(fs.exists(path))


def delete(spark: SparkSession, uri: str) -> bool:
    """Delete a file or a whole folder; False when there was none."""
    fs, path = _open(spark, uri)
    return bool(fs.delete(path, True))


def read_text(spark: SparkSession, uri: str) -> str:
    """The text of a small UTF-8 file."""
    fs, path = _open(spark, uri)
    stream = fs.open(path)
    try:
        text: str = spark._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")  # type: ignore[union-attr]
    finally:
        stream.close()
    return text


def list_files(spark: SparkSession, uri: str) -> list[FileInfo]:
    """All files below a folder, hidden ones too, sorted by path; empty when it is not there."""
    fs, root = _open(spark, uri)
    if not fs.exists(root):
        return []
    base = str(fs.getFileStatus(root).getPath().toString()).rstrip("/") + "/"
    found: list[FileInfo] = []
    pending = [root]
    while pending:
        for status in fs.listStatus(pending.pop()):
            path = status.getPath()
            if status.isDirectory():
                pending.append(path)
            else:
                name = str(path.toString()).removeprefix(base)
                found.append(
                    FileInfo(name, int(status.getLen()), int(status.getModificationTime()))
                )
    return sorted(found)


def prepare(settings: Settings, *, run_id: str = "", table: str = "") -> Place:
    """Where a table of this run lives (the configured one unless named); says what was rewritten.

    Errors: PathError when a local warehouse cannot be written, S3Error when one on S3 cannot,
    before anything is.
    """
    place = locate(
        settings.warehouse_path,
        settings.database_name,
        table or settings.table_name,
        is_local=settings.is_local,
        home=settings.home,
        run_id=run_id,
    )
    for notice in place.notices:
        print(notice)
    check_place(place, settings)
    return place


def check_place(place: Place, settings: Settings) -> None:
    """Errors: PathError, S3Error when nothing can be written there; leaves nothing behind."""
    check_writable(place, settings.home)
    if local_path(place.warehouse) is None:
        check_warehouse(place.warehouse, settings)
