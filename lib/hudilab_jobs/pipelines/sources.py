"""Where a pipeline's rows come from: a folder of files, or the changes of a Hudi table.

`topic.py` has the third source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hudi_sink.commits import Commits
from hudi_sink.files import FileInfo, exists, list_files
from hudi_sink.jvm import completed
from hudilab.errors import ConfigError, many, root_cause
from hudilab.groups import PREFIX, FilePipeline, Pipeline, TablePipeline
from hudilab.paths import TableLocation
from hudilab.settings import Settings

SAMPLE = 1_000  # rows that a check reads
FILES = 20  # the newest, of which columns are read
FAILED = (Py4JError, PySparkException)
META = ("_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")
Group = TypeVar("Group", bound=Pipeline)


class Sample(NamedTuple):
    """The first rows of a source, held in memory, and what they were read from."""

    origin: str
    rows: DataFrame


class Source(ABC, Generic[Group]):
    """A pipeline's source, as a stream or as a sample; errors name file, group and key."""

    unit: ClassVar[str]  # what `behind` counts

    def __init__(self, spark: SparkSession, settings: Settings, name: str, group: Group) -> None:
        self._spark, self._settings, self._name = spark, settings, PREFIX + name
        self.group = group

    @abstractmethod
    def identity(self) -> Mapping[str, Any]:
        """Return what must not change between the runs of one checkpoint."""

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """Return what the source holds now, and what a batch reads of it at most."""

    @abstractmethod
    def check(self) -> None:
        """Raise LabError if the source does not exist, or the schema or the query is wrong."""

    @abstractmethod
    def stream(self, *, whole: bool = False) -> DataFrame:
        """Return the rows as a stream; with `whole`, its first batch reads the whole source."""

    @abstractmethod
    def sample(self) -> Sample | None:
        """Return the first rows, or None if the source is empty; rows that are wrong raise."""

    @abstractmethod
    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return how many `unit`s the table lacks after a batch with this progress."""

    def selected(self, rows: DataFrame) -> DataFrame:
        """Return the rows as the group's query makes them."""
        if self.group.select is None:
            return rows
        rows.createOrReplaceTempView("source")
        try:
            return self._spark.sql(self.group.select)
        except FAILED as error:
            raise self.error(
                "select", root_cause(str(error)), "fix the query; it reads the view source"
            ) from error

    def error(self, key: str, problem: str, remedy: str) -> ConfigError:
        """Return an error about a key of the group."""
        file = self._settings.origin(self._name, key)
        return ConfigError(f"{file}: group {self._name!r}, key {key!r}: {problem}", remedy)

    def first(self, rows: DataFrame) -> DataFrame:
        """Return the first rows that the query makes of these, read once."""
        rows = self.selected(rows).limit(SAMPLE).cache()
        rows.count()
        return rows


class Folder(Source[FilePipeline]):
    """A folder of files: CSV, JSON, Parquet, ORC or Avro."""

    unit = "file"

    _read: set[str] | None = None  # files of finished batches

    def identity(self) -> Mapping[str, Any]:
        """Return the files' format and the folder."""
        return {"source": f"{self.group.source_format} of {self.group.uri}"}

    def describe(self) -> tuple[str, str]:
        """Return the number and size of the files: all of them, and those of one batch."""
        files = self._files()
        first = files[: int(self.group.files_per_batch)]
        size, first_size = (sum(file.size for file in chosen) for chosen in (files, first))
        return (
            f"{many(len(files), 'file')}, {size:,} bytes, in {self.group.uri}",
            f"{many(len(first), 'file')} ({first_size:,} bytes)",
        )

    def check(self) -> None:
        """Raise LabError without the folder, or if the schema or the query is wrong."""
        if not exists(self._spark, self.group.uri):
            raise self.error(
                "source.path", f"there is no folder {self.group.uri}", "create it, or name another"
            )
        if self.group.source_schema is None:
            raise self._without_schema()
        self.selected(self._rows(self._spark.read, self.group.uri))

    def stream(self, *, whole: bool = False) -> DataFrame:
        """Read new files; a batch has at most `files.per.batch` of them, unless `whole`."""
        reader = self._spark.readStream
        if not whole:
            reader = reader.option("maxFilesPerTrigger", self.group.files_per_batch)
        return self.selected(self._rows(reader, self.group.uri))

    def sample(self) -> Sample | None:
        """Read the newest file."""
        files = self._files()
        if not files:
            return None
        file = files[-1].path
        try:
            rows = self.first(self._rows(self._spark.read, f"{self.group.uri}/{file}"))
        except FAILED as error:
            raise self._unreadable(file, error) from error
        return Sample(file, rows)

    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return how many files no batch has read, by the source's own log."""
        jvm: Any = self._spark._jvm
        streaming = jvm.org.apache.spark.sql.execution.streaming
        log = streaming.FileStreamSourceLog(
            1, self._spark._jsparkSession, f"{location.checkpoint}/sources/0"
        )
        if self._read is None:
            entries = log.allFiles()
        else:
            entries = log.get(progress["sources"][0]["endOffset"]["logOffset"]).get()
        self._read = (self._read or set()) | {unquote(str(entry.path())) for entry in entries}
        return sum(f"{self.group.uri}/{file.path}" not in self._read for file in self._files())

    def _files(self) -> list[FileInfo]:
        """Return the files that Spark would read, oldest first."""
        files = list_files(self._spark, self.group.uri)
        visible = [file for file in files if not _is_hidden(file.path)]
        return sorted(visible, key=lambda file: (file.modified_ms, file.path))

    def _rows(self, reader: Any, path: str) -> DataFrame:
        """Read a path with a reader or a stream reader.

        A line that does not fit the schema is an error, unless the group's options say otherwise.
        """
        options = {"mode": "FAILFAST"} | self.group.options()
        reader = reader.format(self.group.source_format).options(**options)
        rows: DataFrame = reader.schema(str(self.group.source_schema)).load(path)
        return rows

    def _without_schema(self) -> ConfigError:
        """Return the error about the missing schema, with the columns of the newest files."""
        newest = [file.path for file in self._files()[-FILES:]]
        if not newest:
            return self.error(
                "source.schema",
                "is missing, and the folder has no file to read it from",
                'add it: "source.schema": "id BIGINT, ..."',
            )
        reader = self._spark.read.format(self.group.source_format)
        options = {"inferSchema": "true"} | self.group.options()
        try:
            rows = reader.options(**options).load([f"{self.group.uri}/{file}" for file in newest])
        except FAILED as error:
            return self._unreadable(newest[-1], error)
        return self.error(
            "source.schema",
            f"is missing; the newest files have these columns ({newest[-1]})",
            f'add "source.schema": "{rows._jdf.schema().toDDL()}"',
        )

    def _unreadable(self, file: str, error: Exception) -> ConfigError:
        return self.error(
            "source.format",
            f"{file} cannot be read as {self.group.source_format} with this schema: "
            f"{root_cause(str(error))}",
            "fix the key, source.schema, source.options or the file",
        )


class Changes(Source[TablePipeline]):
    """The rows that a Hudi table's commits add or change, with `commit_time`."""

    unit = "commit"

    def identity(self) -> Mapping[str, Any]:
        """Return the table."""
        return {"source": f"hudi of {self.group.uri}"}

    def describe(self) -> tuple[str, str]:
        """Return the number of commits; a batch reads all of them."""
        commits = Commits(self._spark, self.group.uri).count()
        return f"table of {many(commits, 'commit')}, {self.group.uri}", "all commits"

    def check(self) -> None:
        """Raise LabError without a table, or if the query is wrong."""
        if not Commits(self._spark, self.group.uri).is_there():
            raise self.error(
                "source.path", f"there is no Hudi table in {self.group.uri}", "name another folder"
            )
        self.selected(self._snapshot())

    def stream(self, *, whole: bool = False) -> DataFrame:
        """Read the rows of new commits."""
        return self.selected(self._rows(self._spark.readStream))

    def sample(self) -> Sample | None:
        """Read rows of the table as it is now."""
        rows = self.first(self._snapshot())
        return Sample(self.group.uri, rows) if rows.take(1) else None

    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return how many commits of the table completed after what the batch has read."""
        read = progress["sources"][0]["endOffset"]["offsetCommitTime"]
        timeline = Commits(self._spark, self.group.uri).meta()
        return int(completed(timeline, read).countInstants())

    def _snapshot(self) -> DataFrame:
        try:
            return self._rows(self._spark.read)
        except FAILED as error:
            raise self.error(
                "source.path",
                f"the table {self.group.uri} cannot be read: {root_cause(str(error))}",
                "fix the table, or name another folder",
            ) from error

    def _rows(self, reader: Any) -> DataFrame:
        """Read the table with a reader or a stream reader."""
        rows: DataFrame = reader.format("hudi").options(**self.group.options()).load(self.group.uri)
        return rows.withColumnRenamed("_hoodie_commit_time", "commit_time").drop(*META)


def _is_hidden(path: str) -> bool:
    """Return whether Spark skips a file because of its name or a folder's."""
    return any(part.startswith(("_", ".")) for part in path.split("/"))
