"""List the files of a folder that Spark reads, has read, and ignores. Source: Spark 3.5.

Spark lists the folder for each batch and records the batch's files in the checkpoint. It never
reports the files that it ignores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import unquote

from pyspark.sql import SparkSession

from hudi_sink.files import FileInfo, exists, list_files
from hudilab.errors import many
from hudilab.paths import local_path

HIDDEN = "hidden by a name that starts with _ or ., or ends in ._COPYING_"
UNLISTED = "not in _spark_metadata, which lists the files of completed batches"
MODIFIED = "modified after being read, so write new rows to a new file"
SINK = "_spark_metadata"  # Spark's folder in the output of a stream
# Parquet readers need these files, so Spark lists them but reads no rows from them.
LISTED = ("_common_metadata", "_metadata")
SHOWN = 3  # names in a line


def is_hidden(path: str) -> bool:
    """Return whether Spark skips a file because of its name or a folder's name."""
    name = path.rpartition("/")[2]
    return _is_marked(name) or any(
        (_is_marked(part) or part.endswith("._COPYING_")) and not part.startswith(LISTED)
        for part in path.split("/")
    )


def _is_marked(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


class Entry(NamedTuple):
    """A file in the log of a stream's source.

    Attributes:
        modified_ms: The file's modification time in Spark's listing.
        number: The number of the log's entry, which is the source's offset.
    """

    modified_ms: int
    number: int


class SourceLog:
    """The files that Spark has planned for batches, from the log in the stream's checkpoint.

    Attributes:
        files: Entries by the unescaped URIs of the files; filled by `read`.
    """

    def __init__(self, spark: SparkSession, checkpoint: str) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self.files: dict[str, Entry] = {}
        self._next = 0  # the first entry that is not in `files`
        self._log: Any = None

    def read(self, upto: int = -1) -> None:
        """Read the entries up to a number; the first call reads the whole log."""
        folder = f"{self._checkpoint}/sources/0"
        if self._log is None:
            if not exists(self._spark, folder):
                return  # Spark's class would create it
            jvm: Any = self._spark._jvm
            streaming = jvm.org.apache.spark.sql.execution.streaming
            self._log = streaming.FileStreamSourceLog(1, self._spark._jsparkSession, folder)
            self._add(self._log.allFiles())
        for number in range(self._next, upto + 1):
            entries = self._log.get(number)
            if entries.isDefined():
                self._add(entries.get())
        self._next = max(self._next, upto + 1)

    def _add(self, entries: Any) -> None:
        for path, modified, number in _fields(self._spark, entries, 3):
            self.files[path] = Entry(int(modified), int(number))
            self._next = max(self._next, int(number) + 1)

    def modified_since(self, files: Iterable[FileInfo], folder: str) -> list[str]:
        """Return the paths of files that were modified after Spark had finished their batch.

        While a batch is refused, its files may still be corrected.
        """
        done = {
            int(file.path): file.modified_ms
            for file in list_files(self._spark, f"{self._checkpoint}/commits")
            if file.path.isdecimal()
        }
        oldest = min(done, default=0)  # Spark keeps 100 batches

        def is_modified(file: FileInfo) -> bool:
            entry = self.files.get(f"{folder}/{file.path}")
            if entry is None or entry.modified_ms == file.modified_ms:
                return False
            end = done.get(max(entry.number, oldest))
            return end is not None and _arrived_ms(f"{folder}/{file.path}", file) > end

        return [file.path for file in files if is_modified(file)]


def _arrived_ms(uri: str, file: FileInfo) -> int:
    """Return the time of a file's content; a copied file can have an older modification time."""
    with suppress(OSError):
        if local := local_path(uri):
            return max(file.modified_ms, local.stat().st_ctime_ns // 1_000_000)
    return file.modified_ms


def committed_files(spark: SparkSession, folder: str) -> set[str]:
    """Return the unescaped URIs of the files that a Spark stream has committed to a folder."""
    jvm: Any = spark._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming
    none = jvm.scala.Option.apply(None)
    log = streaming.FileStreamSinkLog(1, spark._jsparkSession, f"{folder}/{SINK}", none)
    return {path for path, *_ in _fields(spark, log.allFiles(), 7)}


def _fields(spark: SparkSession, entries: Any, count: int) -> Iterable[list[str]]:
    """Return the fields of a log's entries, starting with a file's unescaped URI.

    A single call into the JVM returns all entries as a text.
    """
    jvm: Any = spark._jvm
    text = str(jvm.scala.Predef.genericArrayOps(entries).mkString("\n"))
    for entry in text.split("\n") if text else ():
        path, *others = entry.partition("(")[2].removesuffix(")").rsplit(",", count - 1)
        yield [unquote(path), *others]


def unread_line(folder: str, unread: Mapping[str, Sequence[str]]) -> str:
    """Return a line about the files that Spark ignores; empty if there are none.

    Args:
        unread: Paths in the folder, by reason.
    """
    if not (count := sum(map(len, unread.values()))):
        return ""
    parts = (f"{len(paths):,} {why} ({_some(paths)})" for why, paths in unread.items() if paths)
    return f"{many(count, 'file')} in {folder} left unread: {'; '.join(parts)}"


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN:,} more" if len(paths) > SHOWN else ""
    return ", ".join(sorted(paths)[:SHOWN]) + more
