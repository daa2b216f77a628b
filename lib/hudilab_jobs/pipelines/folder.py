"""A folder of files: CSV, JSON, Parquet, ORC or Avro."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame
from typing_extensions import override

from hudi_sink.files import FileInfo, exists, list_files
from hudilab.errors import ConfigError, many, root_cause
from hudilab.groups import FilePipeline
from hudilab.paths import TableLocation
from hudilab_jobs.pipelines.source import FAILED, Source

FILES = 20  # the newest, of which columns are read


class Folder(Source[FilePipeline]):
    """The folder of a pipeline, as a stream or as one file."""

    unit = "file"

    _read: set[str] | None = None  # files of finished batches

    @override
    def identity(self) -> Mapping[str, Any]:
        return {"source": f"{self.group.source_format} of {self.group.uri}"}

    @override
    def describe(self) -> str:
        size = sum(one.size for one in self.files)
        return f"{many(len(self.files), 'file')}, {size:,} bytes, in {self.group.uri}"

    @override
    def batch(self) -> str:
        count = min(len(self.files), int(self.group.files_per_batch))
        size = sum(one.size for one in self.files[:count])
        return f"{many(count, 'file')} ({size:,} bytes)"

    @cached_property
    def files(self) -> list[FileInfo]:
        """The files that Spark would read, oldest first."""
        return self._files()

    def _files(self) -> list[FileInfo]:
        found = [one for one in list_files(self._spark, self.group.uri) if _is_read(one.path)]
        return sorted(found, key=lambda one: (one.modified_ms, one.path))

    @override
    def check(self) -> None:
        if not exists(self._spark, self.group.uri):
            raise self._error(
                "source.path", f"there is no folder {self.group.uri}", "create it, or name another"
            )
        if self.group.source_schema is None:
            self._ask_for_schema()
        self.selected(self._static(self.group.uri))

    def _ask_for_schema(self) -> None:
        if not self.files:
            raise self._error(
                "source.schema",
                "is missing, and the folder has no file to read it from",
                'add it: "source.schema": "id BIGINT, ..."',
            )
        newest = [file.path for file in self.files[-FILES:]]
        reader = self._spark.read.format(self.group.source_format)
        options = {"inferSchema": "true"} | self.group.options()
        try:
            rows = reader.options(**options).load([f"{self.group.uri}/{file}" for file in newest])
        except FAILED as error:
            raise self._unreadable(newest[-1], error) from error
        ddl = rows._jdf.schema().toDDL()
        raise self._error(
            "source.schema",
            f"is missing; the newest files have these columns ({newest[-1]})",
            f'add "source.schema": "{ddl}"',
        )

    def _unreadable(self, file: str, error: Exception) -> ConfigError:
        kind = self.group.source_format
        return self._error(
            "source.format",
            f"{file} cannot be read as {kind} with this schema: {root_cause(str(error))}",
            "fix the key, source.schema, source.options or the file",
        )

    def _options(self) -> dict[str, str]:
        """The reader's options: a line that is not in the schema is an error, unless asked."""
        return {"mode": "FAILFAST"} | self.group.options()

    def _static(self, path: str) -> DataFrame:
        reader = self._spark.read.format(self.group.source_format).options(**self._options())
        return reader.schema(str(self.group.source_schema)).load(path)

    @override
    def stream(self, *, whole: bool = False) -> DataFrame:
        reader = self._spark.readStream.format(self.group.source_format).options(**self._options())
        if not whole:
            reader = reader.option("maxFilesPerTrigger", self.group.files_per_batch)
        return self.selected(reader.schema(str(self.group.source_schema)).load(self.group.uri))

    @override
    def sample(self) -> tuple[str, DataFrame] | None:
        """Read the newest file."""
        if not self.files:
            return None
        file = self.files[-1].path
        try:
            return file, self._held(self._static(f"{self.group.uri}/{file}"))
        except FAILED as error:
            raise self._unreadable(file, error) from error

    @override
    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return how many files are there that no batch has read, by the source's own log."""
        jvm: Any = self._spark._jvm
        streaming = jvm.org.apache.spark.sql.execution.streaming
        log = streaming.FileStreamSourceLog(
            1, self._spark._jsparkSession, f"{location.checkpoint}/sources/0"
        )
        if self._read is None:
            entries = log.allFiles()
        else:
            entries = log.get(progress["sources"][0]["endOffset"]["logOffset"]).get()
        self._read = (self._read or set()) | {unquote(str(one.path())) for one in entries}
        return sum(f"{self.group.uri}/{one.path}" not in self._read for one in self._files())


def _is_read(path: str) -> bool:
    return not any(part.startswith(("_", ".")) for part in path.split("/"))
