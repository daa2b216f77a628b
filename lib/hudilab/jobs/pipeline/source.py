"""A folder of files, as a group of the settings describes it, as a stream or as a sample."""

from __future__ import annotations

from functools import cached_property

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hudilab.errors import ConfigError, root_cause
from hudilab.paths import rewrite_scheme
from hudilab.runtime.pipelines import PREFIX, Pipeline
from hudilab.runtime.settings import Settings
from hudilab.writer.files import FileInfo, exists, list_files

__all__ = ["SAMPLE", "Source"]

FILES = 20  # the newest, of which columns are read
SAMPLE = 1_000  # rows of the newest file that a check reads


class Source:
    """The folder of a pipeline, as a stream or as one file; errors name file, group and key."""

    def __init__(self, spark: SparkSession, settings: Settings, name: str, group: Pipeline) -> None:
        self._spark, self._settings, self._name = spark, settings, PREFIX + name
        self.group, self.path = group, rewrite_scheme(group.source_path)

    @cached_property
    def files(self) -> list[FileInfo]:
        """The files that Spark would read, oldest first."""
        found = [one for one in list_files(self._spark, self.path) if self._is_read(one.path)]
        return sorted(found, key=lambda one: (one.modified_ms, one.path))

    def _is_read(self, path: str) -> bool:
        return not any(part.startswith(("_", ".")) for part in path.split("/"))

    def check(self) -> None:
        """Raise ConfigError if the folder, its first file, the schema or the query is wrong."""
        if not exists(self._spark, self.path):
            raise self._error(
                "source.path", f"there is no folder {self.path}", "create it, or name another"
            )
        if self.group.source_schema is None:
            self._ask_for_schema()
        self.selected(self._static())

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
            rows = reader.options(**options).load([f"{self.path}/{file}" for file in newest])
        except (Py4JError, PySparkException) as error:
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

    def _error(self, key: str, problem: str, remedy: str) -> ConfigError:
        file = self._settings.origin(self._name, key)
        return ConfigError(f"{file}: group {self._name!r}, key {key!r}: {problem}; {remedy}")

    def _strict(self) -> dict[str, str]:
        """The reader's options: a line that is not in the schema is an error, unless asked."""
        return {"mode": "FAILFAST"} | self.group.options()

    def _static(self) -> DataFrame:
        reader = self._spark.read.format(self.group.source_format).options(**self._strict())
        return reader.schema(str(self.group.source_schema)).load(self.path)

    def stream(self) -> DataFrame:
        """Return the folder's files as a stream, oldest first."""
        reader = self._spark.readStream.format(self.group.source_format).options(**self._strict())
        reader = reader.option("maxFilesPerTrigger", self.group.files_per_batch)
        return self.selected(reader.schema(str(self.group.source_schema)).load(self.path))

    def selected(self, rows: DataFrame) -> DataFrame:
        """Return the rows as the group's query makes them."""
        if self.group.select is None:
            return rows
        rows.createOrReplaceTempView("source")
        try:
            return self._spark.sql(self.group.select)
        except (Py4JError, PySparkException) as error:
            raise self._error(
                "select", root_cause(str(error)), "fix the query; it reads the view source"
            ) from error

    def sample(self) -> DataFrame:
        """Return rows of the newest file, held in memory: what is wrong with it shows here."""
        file = self.files[-1].path
        reader = self._spark.read.format(self.group.source_format).options(**self._strict())
        rows = reader.schema(str(self.group.source_schema)).load(f"{self.path}/{file}")
        rows = self.selected(rows).limit(SAMPLE).cache()
        try:
            rows.count()
        except (Py4JError, PySparkException) as error:
            raise self._unreadable(file, error) from error
        return rows
