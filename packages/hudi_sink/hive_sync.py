"""Register a table with a Hive metastore after each batch, so that programs find it by name."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from hudi_sink.commits import Commits
from hudi_sink.jvm import sync_with_metastore, table_in_metastore
from hudi_sink.metastore import Metastore, trouble
from hudilab.errors import root_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudilab.paths import TableLocation
    from hudilab.table import TableSpec

RETRY = 30.0  # seconds for which no batch waits for a metastore that has failed
SYNC = "hoodie.datasource.hive_sync."
# Hive's own defaults are ten minutes and several tries.
HIVE = {
    "hive.metastore.client.socket.timeout": "10s",
    "hive.metastore.connect.retries": "1",
    "hive.metastore.failure.retries": "0",
}
_log = logging.getLogger("hudi_sink")


class Catalog:
    """Registers the name, columns and partitions of one table; a failure never fails the batch.

    Hudi's own sync runs within the write, so its failure would fail a committed batch. This class
    runs it after the batch, logs a failure once, and tries again half a minute later or at the
    stream's end. Without a metastore, it does nothing. Source: Hudi 1.2 `HiveSyncTool`.
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: TableSpec,
        location: TableLocation,
        metastore: Metastore | None,
    ) -> None:
        self._spark, self._location, self._metastore = spark, location, metastore
        self._problem, self._failed = "", 0.0  # why the last attempt failed, and when
        self._registered = False  # whether the last attempt succeeded
        self._views = ("", "_ro", "_rt") if spec.logs() else ("",)
        self._options = {} if metastore is None else _options(spark, spec, location, metastore)

    def after(
        self, write_batch: Callable[[DataFrame, int], None]
    ) -> Callable[[DataFrame, int], None]:
        """Return a function for `foreachBatch` that writes a batch, then registers the table."""
        if self._metastore is None:
            return write_batch

        def write(batch: DataFrame, batch_id: int) -> None:
            write_batch(batch, batch_id)
            if not self._problem or time.monotonic() - self._failed > RETRY:
                self.register()

        return write

    def register(self) -> bool:
        """Register the committed columns and partitions; return whether that succeeded.

        Call it at a stream's end too, because batches don't retry a metastore that has just failed.
        """
        if self._metastore is None:
            return False
        try:
            problem = self._attempt(self._metastore)
        except Exception as error:  # noqa: BLE001  the batch is committed in any case
            problem = root_cause(str(error))
        table, where = self._location.table, f"the metastore {self._metastore.uri}"
        if problem and problem != self._problem:
            _log.warning(
                f"{table} was not registered with {where}: {problem}; the stream continues, and "
                "the next attempt that succeeds registers everything"
            )
        elif self._problem and not problem:
            _log.info(f"{table} is registered with {where} again")
        self._problem, self._failed = problem, time.monotonic()
        self._registered = not problem
        return not problem

    def _attempt(self, metastore: Metastore) -> str:
        """Register the table; return the problem, or an empty string."""
        meta = Commits(self._spark, self._location.table).meta()
        if meta is None:
            return ""
        if problem := trouble(metastore.uri):
            return problem
        hive = {**HIVE, "hive.metastore.uris": metastore.uri}
        # Hudi would replace another table's entry. After a success, the name is this table's.
        for view in () if self._registered else self._views:
            name = self._location.name + view
            other = table_in_metastore(self._spark, meta, name, self._options, hive)
            if other:
                return (
                    f"{metastore.database}.{name} is another table, at {other}; use another "
                    "table.name or another database.name of the metastore"
                )
        sync_with_metastore(self._spark, self._options, hive)
        return ""


def _options(
    spark: SparkSession, spec: TableSpec, location: TableLocation, metastore: Metastore
) -> dict[str, str]:
    """Return the options of Hudi's sync."""
    extractor = "MultiPartKeysValueExtractor" if spec.partition else "NonPartitionedExtractor"
    return {
        "hoodie.datasource.meta.sync.base.path": location.table,
        "hoodie.meta_sync.spark.version": spark.version,
        f"{SYNC}mode": "hms",
        f"{SYNC}metastore.uris": metastore.uri,
        f"{SYNC}database": metastore.database,
        f"{SYNC}table": location.name,
        f"{SYNC}partition_fields": ",".join(spec.partition),
        f"{SYNC}partition_extractor_class": f"org.apache.hudi.hive.{extractor}",
        # Otherwise, engines other than Spark read a timestamp as a number.
        f"{SYNC}support_timestamp": "true",
        # Partitions in one call, which must end within the client's timeout.
        f"{SYNC}batch_num": "100",
    }
