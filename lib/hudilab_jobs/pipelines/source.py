"""Where a pipeline's rows come from, as a group of the settings describes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from hudilab.errors import ConfigError, root_cause
from hudilab.groups import PREFIX, Pipeline
from hudilab.paths import TableLocation
from hudilab.settings import Settings

SAMPLE = 1_000  # rows that a check reads
FAILED = (Py4JError, PySparkException)
Group = TypeVar("Group", bound=Pipeline)


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
    def describe(self) -> str:
        """Return what the source holds now, in a line."""

    @abstractmethod
    def batch(self) -> str:
        """Return what one batch reads at most of what is there."""

    @abstractmethod
    def check(self) -> None:
        """Raise LabError if the source is not there, or the schema or the query is wrong."""

    @abstractmethod
    def stream(self, *, whole: bool = False) -> DataFrame:
        """Return the rows as a stream; with `whole`, its first batch reads all that is there."""

    @abstractmethod
    def sample(self) -> tuple[str, DataFrame] | None:
        """Return what a sample was read of, and its rows, held in memory; None if nothing is there.

        What is wrong with the rows is an error here.
        """

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
            raise self._error(
                "select", root_cause(str(error)), "fix the query; it reads the view source"
            ) from error

    def _error(self, key: str, problem: str, remedy: str) -> ConfigError:
        file = self._settings.origin(self._name, key)
        return ConfigError(f"{file}: group {self._name!r}, key {key!r}: {problem}", f"{remedy}")

    def _held(self, rows: DataFrame) -> DataFrame:
        """Return the first of the rows, read once."""
        rows = self.selected(rows).limit(SAMPLE).cache()
        rows.count()
        return rows
