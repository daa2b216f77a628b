"""A Hudi table, as a stream of the rows that its commits add or change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from typing_extensions import override

from hudi_sink.commits import Commits
from hudi_sink.jvm import completed
from hudilab.errors import many, root_cause
from hudilab.groups import TablePipeline
from hudilab.paths import TableLocation
from hudilab_jobs.pipelines.source import FAILED, Source

META = ("_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")


class Changes(Source[TablePipeline]):
    """The table of a pipeline; its commits' times are the column `commit_time`."""

    unit = "commit"

    @cached_property
    def _commits(self) -> Commits:
        return Commits(self._spark, self.group.uri)

    @override
    def identity(self) -> Mapping[str, Any]:
        return {"source": f"hudi of {self.group.uri}"}

    @override
    def describe(self) -> str:
        return f"table of {many(self._commits.count(), 'commit')}, {self.group.uri}"

    @override
    def batch(self) -> str:
        return "all commits"

    @override
    def check(self) -> None:
        if not self._commits.is_there():
            raise self._error(
                "source.path", f"there is no Hudi table in {self.group.uri}", "name another folder"
            )
        self.selected(self._rows(self._static()))

    def _static(self) -> DataFrame:
        reader = self._spark.read.format("hudi").options(**self.group.options())
        try:
            return reader.load(self.group.uri)
        except FAILED as error:
            raise self._error(
                "source.path",
                f"the table {self.group.uri} cannot be read: {root_cause(str(error))}",
                "fix the table, or name another folder",
            ) from error

    def _rows(self, rows: DataFrame) -> DataFrame:
        return rows.withColumnRenamed("_hoodie_commit_time", "commit_time").drop(*META)

    @override
    def stream(self, *, whole: bool = False) -> DataFrame:
        reader = self._spark.readStream.format("hudi").options(**self.group.options())
        return self.selected(self._rows(reader.load(self.group.uri)))

    @override
    def sample(self) -> tuple[str, DataFrame] | None:
        rows = self._held(self._rows(self._static()))
        return (self.group.uri, rows) if rows.take(1) else None

    @override
    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return how many commits of the table completed after what the batch has read."""
        read = progress["sources"][0]["endOffset"]["offsetCommitTime"]
        return int(completed(self._commits.meta(), read).countInstants())
