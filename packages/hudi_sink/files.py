"""Access files wherever Spark can: on S3 through Hadoop's FileSystem, on a disk directly.

Reading a file needs eight calls into the JVM, a millisecond each.
"""

from __future__ import annotations

import os
import pwd
import shlex
import stat
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
    """A file below a root: path relative to it, size in bytes, modification time in epoch ms."""

    path: str
    size: int
    modified_ms: int


@cache
def java_class(jvm: Any, name: str) -> Any:
    """Return a class of the JVM.

    Py4J asks the JVM about each part of the name, and the JVM searches all jars for it: two
    milliseconds each time.
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


def denied(uri: str, *inside: str, write: bool) -> tuple[str, str] | None:
    """Return which folder on this disk the account may not read or write, and what to do.

    Args:
        inside: Folders in it to check, too; missing folders are ignored.
    """
    if (local := local_path(uri)) is None:
        return None
    for folder in (local, *(local / name for name in inside)):
        # A folder below one that cannot be entered seems not to be there.
        deepest = next(above for above in (folder, *folder.parents) if os.path.lexists(above))
        needed = os.X_OK
        if deepest == folder:
            needed |= os.W_OK if write else os.R_OK
        if os.path.isdir(deepest) and not os.access(deepest, needed):  # noqa: PTH112 - no error
            return _whose(deepest, write)
    return None


def _whose(folder: Path, write: bool) -> tuple[str, str]:
    status = folder.stat()
    owner, me = _account(status.st_uid), _account(os.geteuid())
    if write and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{folder} is on a file system that is mounted read-only", "mount it writable"
    if owner == me:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        return f"{folder} has mode {mode}", f"run: chmod u+rwx {shlex.quote(str(folder))}"
    return (
        f"{folder} belongs to {owner}, and {me} may not {'write to' if write else 'read'} it",
        f"run this as {owner}, or have {owner} grant {me} access",
    )


def _account(number: int) -> str:
    """Return the name of an account; its number if it has none, as in many containers."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"


def delete_file(spark: SparkSession, uri: str) -> None:
    """Delete a file if it is there; never a folder that is not empty."""
    fs, path = file_system(spark, uri)
    fs.delete(path, False)


def delete_tree(spark: SparkSession, uri: str) -> bool:
    """Delete a folder and its contents; return whether it existed."""
    fs, path = file_system(spark, uri)
    deleted = bool(fs.delete(path, True))
    # S3Proxy can keep the empty folder of a timeline, which Hudi would take for a table: such a
    # folder only goes with the last file in it.
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
    """Return the text of a small UTF-8 file, or None without one, which takes no extra request."""
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
    """Return all files below a folder, hidden ones too, sorted by path; empty if it is missing.

    On a disk, what a running writer deletes meanwhile is left out, and so are Hadoop's checksums.
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
    """Return the names of the files and folders in a folder; none if it doesn't exist."""
    fs, path = file_system(spark, folder)
    return [status.getPath().getName() for status in fs.listStatus(path)] if fs.exists(path) else []


def _walk(root: Path) -> Iterator[FileInfo]:
    """Yield the files below a folder of a disk; Hadoop's listing fails if one is deleted."""

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
