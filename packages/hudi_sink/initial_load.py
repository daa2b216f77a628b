"""Write a source's existing rows as a single sorted commit: batch 0 of the later stream."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from hudi_sink.jvm import count_partitions
from hudi_sink.rows import STREAM
from hudi_sink.rules import BatchMetadata
from hudilab.errors import StreamError, TableError, many
from hudilab.table import CLEAN, INLINE, WRITE, TableSpec

PARTS = 4  # of Spark's input partitions (128 MB of files) that one task sorts and writes
SORT_MODE = "hoodie.bulkinsert.sort.mode"
KEPT = 100  # characters of a key in a message
SHOWN = 3  # keys in a message


class InitialLoad:
    """Writes batch 0 with bulk_insert: unique keys, sorted, in files of full size.

    Spark spills to disk while it sorts, so the rows needn't fit into memory.
    """

    def __init__(self, spec: TableSpec, table: str) -> None:
        self._spec, self._table = spec, table

    def options(self) -> dict[str, str]:
        """Return the write options; later batches use the spec's own operation."""
        # The rows are sorted already. Hudi's own sort would first convert keys to texts.
        options = {f"{WRITE}operation": "bulk_insert", SORT_MODE: "NONE"}
        return options | {CLEAN: "false"} | ({INLINE: "false"} if self._spec.logs() else {})

    def check_new(self, done: int, newest: BatchMetadata | None) -> None:
        """Raise StreamError if the stream has begun; `done` is its newest done batch, or -1."""
        if done >= 0 or (newest is not None and newest.batch > 0):
            last = max(done, newest.batch if newest else -1)
            raise StreamError(
                f"{self._table} already contains a stream's batches up to {last}, and an initial "
                "load writes batch 0",
                f"start the stream itself, which continues from there: {STREAM}",
            )

    def rows(self, rows: DataFrame, batch_id: int) -> DataFrame:
        """Return the rows sorted by partition and key, partitioned for files of full size.

        Raises:
            StreamError: The batch isn't batch 0.
            TableError: The table is for upserts, and a key occurs more than once.
        """
        if batch_id > 0:
            raise StreamError(
                f"batch {batch_id} is not part of the initial load of {self._table}, which is "
                "batch 0 alone",
                f"start the stream itself, which continues from there: {STREAM}",
            )
        spec = self._spec
        inputs = count_partitions(rows)
        parts = max(rows.sparkSession.sparkContext.defaultParallelism, -(-inputs // PARTS))
        if spec.operation == "upsert":
            self._check_unique(rows, parts)
        layout = list(dict.fromkeys([*spec.partition, *spec.record_key]))
        return rows.repartitionByRange(parts, *layout).sortWithinPartitions(*layout)

    def _check_unique(self, rows: DataFrame, parts: int) -> None:
        spec = self._spec
        key = list(dict.fromkeys([*([] if spec.is_global() else spec.partition), *spec.record_key]))
        # Keys are unique if their hashes are, and sorting hashes takes a third of the time of
        # counting keys.
        hashes = rows.select(F.xxhash64(*key).alias("hash")).repartition(PARTS * parts, "hash")
        before = F.lag("hash").over(Window.partitionBy("hash").orderBy("hash"))
        if hashes.select(before.alias("before")).where("before IS NOT NULL").limit(1).count() == 0:
            return
        twice = rows.groupBy(*key).count().where("count > 1")
        first = twice.orderBy(*key).limit(SHOWN).collect()
        if not first:
            return
        shown = [
            ", ".join(f"{name}={row[name]}" for name in spec.record_key)[:KEPT] for row in first
        ]
        count = twice.count()
        raise TableError(
            f"{many(count, 'key')} of the initial load of {self._table} occur{'s' * (count == 1)} "
            f"more than once: {'; '.join(shown)}",
            "add columns to the record key, or start the stream itself, which keeps the row of "
            f"each key with the greatest {spec.ordering}: {STREAM}",
        )
