"""Access files on S3 through Hadoop's FileSystem, and on a disk directly.

Reading a file through Hadoop takes eight calls into the JVM, a millisecond each.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from errno import ELOOP
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hudilab.paths import leads_back, local_path


class FileInfo(NamedTuple):
    """A file: path relative to the listed folder, size in bytes, modification time in epoch ms."""

    path: str
    size: int
    modified_ms: int


@cache
def java_class(jvm: Any, name: str) -> Any:
    """Return a class of the JVM.

    Py4J looks up each part of the name, and the JVM searches all jars, in two milliseconds.
    """
    return reduce(getattr, name.split("."), jvm)


def hadoop_conf(spark: SparkSession) -> Any:
    """Return the Hadoop configuration of a session: a live object, not a copy."""
    jsc: Any = spark._jsc
    return jsc.hadoopConfiguration()


def file_system(spark: SparkSession, uri: str) -> tuple[Any, Any]:
    """Return Hadoop's file system of a URI, and its path in it."""
    path = java_class(spark._jvm, "org.apache.hadoop.fs.Path")(uri)
    return path.getFileSystem(hadoop_conf(spark)), path


def exists(spark: SparkSession, uri: str) -> bool:
    """Return whether a file or folder exists."""
    if (local := local_path(uri)) is not None:
        return local.exists()
    fs, path = file_system(spark, uri)
    return bool(fs.exists(path))


def file_size(spark: SparkSession, uri: str) -> int:
    """Return a file's size in bytes, or -1 if there is none. One request, also on S3."""
    if (local := local_path(uri)) is not None:
        try:
            return local.stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return -1
    fs, path = file_system(spark, uri)
    try:
        return int(fs.getFileStatus(path).getLen())
    except Py4JJavaError as error:
        _raise_unless_missing(error)
        return -1


def modified_ms(spark: SparkSession, uri: str) -> int:
    """Return when a file was modified, by the clock of its storage, in epoch ms."""
    fs, path = file_system(spark, uri)
    return int(fs.getFileStatus(path).getModificationTime())


def _raise_unless_missing(error: Py4JJavaError) -> None:
    if "FileNotFoundException" not in str(error.java_exception.getClass().getName()):
        raise error


def delete_file(spark: SparkSession, uri: str) -> None:
    """Delete a file if it exists; never a folder with files."""
    fs, path = file_system(spark, uri)
    fs.delete(path, False)


def delete_tree(spark: SparkSession, uri: str) -> bool:
    """Delete a folder and its contents; return whether it existed."""
    fs, path = file_system(spark, uri)
    deleted = bool(fs.delete(path, True))
    # S3Proxy can keep a timeline's empty folder, which Hudi would treat as a table. S3Proxy deletes
    # such a folder only with the last file in it.
    if fs.exists(path):
        write_text(spark, f"{uri.removesuffix('/.hoodie')}/.hoodie/timeline/last", "")
        fs.delete(path, True)
    return deleted


def read_text(spark: SparkSession, uri: str) -> str:
    """Return the text of a small UTF-8 file."""
    if (local := local_path(uri)) is not None and local.is_file():
        return local.read_text("utf-8")
    fs, path = file_system(spark, uri)
    utils = java_class(spark._jvm, "org.apache.commons.io.IOUtils")
    with closing(fs.open(path)) as stream:
        return str(utils.toString(stream, "UTF-8"))


def read_text_or_none(spark: SparkSession, uri: str) -> str | None:
    """Return the text of a small UTF-8 file, or None if it is missing; sends no extra request."""
    try:
        return read_text(spark, uri)
    except Py4JJavaError as error:
        _raise_unless_missing(error)
        return None


def write_text(spark: SparkSession, uri: str, text: str) -> None:
    """Write or replace a small UTF-8 file."""
    fs, path = file_system(spark, uri)
    with closing(fs.create(path, True)) as stream:
        stream.write(bytearray(text.encode()))


def list_files(spark: SparkSession, uri: str) -> list[FileInfo]:
    """Return all files below a folder, with hidden files, sorted by path; empty if it is missing.

    On a disk, the list omits Hadoop's checksums and files that a writer deletes meanwhile.
    """
    if (local := local_path(uri)) is not None and not local.is_file():
        return sorted(_walk(local))
    fs, root = file_system(spark, uri)
    base = str(fs.makeQualified(root).toString()).rstrip("/") + "/"
    infos: list[FileInfo] = []
    try:
        files = fs.listFiles(root, True)  # on S3, one request per 1000 files, for all folders
    except Py4JJavaError as error:
        _raise_unless_missing(error)
        return []
    while files.hasNext():
        status = files.next()
        name = str(status.getPath().toString()).removeprefix(base)
        infos.append(FileInfo(name, int(status.getLen()), int(status.getModificationTime())))
    return sorted(infos)


def names_in(spark: SparkSession, folder: str) -> list[str]:
    """Return the names of the files and folders in a folder; empty if it doesn't exist."""
    fs, path = file_system(spark, folder)
    return [status.getPath().getName() for status in fs.listStatus(path)] if fs.exists(path) else []


def _walk(root: Path) -> Iterator[FileInfo]:
    """Yield the files below a folder on a disk; Hadoop's listing fails if a file is deleted."""

    def keep_on(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for folder, folders, names in os.walk(root, onerror=keep_on, followlinks=True):
        paths = [Path(folder, name) for name in folders]
        folders[:] = [path.name for path in paths if not (path.is_symlink() and leads_back(path))]
        for name in names:
            file = Path(folder, name)
            if name.startswith(".") and name.endswith(".crc"):
                continue
            try:
                status = file.stat()
            except OSError as error:
                if isinstance(error, FileNotFoundError) or error.errno == ELOOP:
                    continue
                raise
            modified = status.st_mtime_ns // 1_000_000
            yield FileInfo(str(file.relative_to(root)), status.st_size, modified)
