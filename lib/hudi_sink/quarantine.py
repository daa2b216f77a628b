"""Move the rows that a table cannot store to a quarantine table, exactly once, with the reason."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_sink.commits import Commits
from hudi_sink.files import table_properties
from hudi_sink.metadata import closing_options
from hudi_sink.rules import BatchMetadata
from hudi_sink.service_schedule import TIDY_EVERY, tidy_options
from hudilab.errors import TableError, many
from hudilab.paths import TableLocation
from hudilab.table import TableSpec

DELETE = {"hoodie.datasource.write.operation": "delete"}
REASON = "_hudilab_reason"
_log = logging.getLogger("hudi_sink")


class Quarantine:
    """A second Hudi table, for the rows that a stream's table cannot store.

    Columns: query_id STRING, batch BIGINT, number BIGINT (within the batch), reason STRING, row
    STRING (the whole row as JSON).

    A batch's rows are put here before the others are written to the stream's table, so once that
    table has the batch, its quarantine has it too. A commit says which batch it holds, and a
    repeated batch is not put again; rows of batches that the stream's table no longer has, as after
    a rewind, are deleted before they come again. `sharing`: a shared table's `sharing_options`.

    Raises:
        TableError: Another table is in this place.
    """

    def __init__(
        self, spark: SparkSession, location: TableLocation, sharing: Mapping[str, str]
    ) -> None:
        self.table, self._sharing = location.quarantine, sharing
        self._spec = TableSpec(
            f"{location.name}_quarantine", ("query_id", "batch", "number"), (), "batch"
        )
        self._commits = Commits(spark, self.table)
        self._options = closing_options(self.table) | self._spec.write_options() | dict(sharing)
        self._newest: BatchMetadata | None = None
        self._known = False  # whether `_newest` is the newest stamp of this stream
        self._cached: DataFrame | None = None
        self._commits.check_access(write=True)
        if not self._commits.is_there():
            return
        if differences := self._spec.conflicts(table_properties(spark, self.table)):
            raise TableError(
                f"{self.table} is where the quarantine of {location.table} has to be, but is "
                "another "
                f"table: {'; '.join(differences)}",
                "move that table, or give the stream's table another name",
            )

    def take_over(self) -> None:
        """Roll back what an earlier driver was putting here, so that it can no longer commit."""
        if not self._sharing:
            self._commits.clear_half_made()
        self._commits.roll_back_unfinished(self._options, wait=bool(self._sharing))
        self._known = False

    def put(
        self,
        batch: DataFrame,
        problem: Column,
        stamp: BatchMetadata,
        fenced: Callable[[DataFrame], DataFrame],
    ) -> tuple[DataFrame, int]:
        """Put the rows that have a problem here; return the other rows, and how many were put.

        The batch stays in Spark's cache until `release`: both tables get rows of one reading.
        """
        if self._cached is None:
            self._cached = batch.withColumn(REASON, problem).persist()
        bad = self._cached.where(F.col(REASON).isNotNull())
        count = bad.count()
        self._put(bad, count, stamp, fenced)
        return self._cached.where(F.col(REASON).isNull()).drop(REASON), count

    def release(self) -> None:
        """Remove the batch from Spark's cache."""
        if self._cached is not None:
            self._cached.unpersist()
            self._cached = None

    def _put(
        self,
        bad: DataFrame,
        count: int,
        stamp: BatchMetadata,
        fenced: Callable[[DataFrame], DataFrame],
    ) -> None:
        if not self._known:
            found = (commit.stamp for commit in self._commits.newest_first() if commit.stamp)
            self._newest = next((one for one in found if one.query == stamp.query), None)
        self._known = False  # until all is written
        if self._newest == stamp:
            count = 0
        elif self._newest is not None and self._newest.batch >= stamp.batch:
            # Only the session of the query knows the fence.
            rows = bad.sparkSession.read.format("hudi").load(self.table)
            rows = rows.where((F.col("query_id") == stamp.query) & (F.col("batch") >= stamp.batch))
            rows = rows.select("query_id", "batch", "number", "reason", "row")
            self._newest = stamp._replace(batch=stamp.batch - 1, offsets_digest="")
            self._write(fenced(rows), self._newest, DELETE)
        if count:
            rows = bad.select(
                F.lit(stamp.query).alias("query_id"),
                F.lit(stamp.batch).cast("bigint").alias("batch"),
                F.monotonically_increasing_id().alias("number"),
                F.col(REASON).alias("reason"),
                F.to_json(
                    F.struct(*(F.col(name) for name in bad.columns if name != REASON)),
                    {"ignoreNullFields": "false"},
                ).alias("row"),
            )
            tidy = {} if self._sharing else tidy_options(self._spec, stamp.batch, TIDY_EVERY)
            self._write(fenced(rows), stamp, tidy)
            self._newest = stamp
            _log.warning(f"batch {stamp.batch}: {many(count, 'row')} set aside in {self.table}")
        self._known = True

    def _write(self, rows: DataFrame, stamp: BatchMetadata, options: Mapping[str, str]) -> None:
        self._commits.await_clock()
        asked = self._options | stamp.options() | dict(options)
        writer = rows.write.format("hudi").options(**asked)
        writer.mode("append").save(self.table)
