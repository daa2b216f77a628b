"""Register a table with a Hive metastore after its batches: other programs find it by name."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pyspark import InheritableThread

from hudi_sink.commits import Commits, completed
from hudi_sink.files import java_class
from hudi_sink.metastore import Metastore, trouble
from hudilab.errors import root_cause

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hudilab.paths import TableLocation
    from hudilab.table import TableSpec

PATIENCE = 10.0  # seconds that a batch waits; a metastore on this machine takes one the first time
# A tenth of a second or two: spared while partitions and columns stay the same, but not always, as
# somebody may have dropped the name.
SYNC_EVERY = 20
HUDI = "org.apache.hudi.hive."
SYNC = "hoodie.datasource.hive_sync."
# Of Hive's client, whose defaults are ten minutes, and several tries.
CLIENT = {
    "hive.metastore.client.socket.timeout": "20s",
    "hive.metastore.connect.retries": "1",
    "hive.metastore.failure.retries": "0",
}


class Catalog:
    """Registers one table: its name, columns and partitions. A failure never reaches the batch.

    Hudi's own sync runs within the write, so its failure would fail a batch that is committed. Here
    it runs after the batch, in a thread, and a batch waits 10 seconds at most. A failure is printed
    to stderr once, not for every batch; from then on no batch waits, and the first attempt that
    succeeds registers all that came in the meantime. Without a metastore nothing is registered.
    Source: Hudi 1.2 `HiveSyncTool`.
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: TableSpec,
        location: TableLocation,
        metastore: Metastore | None,
    ) -> None:
        self._spark, self._spec, self.location = spark, spec, location
        self._metastore = metastore
        self._attempt: InheritableThread | None = None
        self._found = ""  # why the last attempt failed
        self._told = ""  # the failure that was printed last; empty after a success
        self._is_ours = False  # whether the name was looked at, and is not another table's
        # Of the commits that are registered: when the newest was completed, partitions and columns.
        self._last = ""
        self._known: set[str] = set()
        self._spared = 0  # attempts in a row that had nothing to register

    def after(
        self, write_batch: Callable[[DataFrame, int], None]
    ) -> Callable[[DataFrame, int], None]:
        """Return a function for `foreachBatch` that writes a batch, then registers the table."""
        if self._metastore is None:
            return write_batch

        def write(batch: DataFrame, batch_id: int) -> None:
            write_batch(batch, batch_id)
            self.register(0.0 if self._told else PATIENCE)

        return write

    def register(self, patience: float = 30.0) -> bool:
        """Register what is committed; return whether the metastore has it now.

        Call it at a stream's end too: batches do not wait for a metastore that failed before. An
        attempt that takes longer than `patience` seconds continues in the background.
        """
        if self._metastore is None or not self._has_ended(patience):
            return False
        # An attempt that began at an earlier batch knows nothing of this one: make another.
        self._attempt = InheritableThread(self._try, name="hudilab-catalog", daemon=True)
        self._attempt.start()
        return self._has_ended(patience) and not self._told

    def _has_ended(self, patience: float) -> bool:
        """Wait for the running attempt, if there is one; tell how it ended, or that it has not."""
        if self._attempt is None:
            return True
        self._attempt.join(patience)
        if self._attempt.is_alive():
            if patience:
                self._tell(f"it was not finished within {patience:g} s; the attempt continues")
            return False
        self._attempt = None
        self._tell(self._found)
        return True

    def _try(self) -> None:
        self._found = self._problem()

    def _tell(self, problem: str) -> None:
        where = f"the metastore {self._metastore.uri}" if self._metastore else ""
        if problem and problem != self._told:
            print(
                f"hudilab: {self.location.table} was not registered with {where}: {problem}; the "
                "stream continues, and the next attempt that succeeds registers everything",
                file=sys.stderr,
            )
        elif self._told and not problem:
            print(
                f"hudilab: {self.location.table} is registered with {where} again", file=sys.stderr
            )
        self._told = problem

    def _problem(self) -> str:
        """Register the table; return why that failed, or an empty text."""
        metastore, commits = self._metastore, Commits(self._spark, self.location.table)
        try:
            if metastore is None or not commits.is_there():
                return ""
            last, found = _after(self._spark._jvm, meta := commits.meta(), self._last)
            self._spared += 1
            if self._last and found <= self._known and self._spared < SYNC_EVERY:
                self._last = last
                return ""
            if problem := trouble(metastore.uri) or self._taken(metastore, meta):
                return problem
            self._tool("HiveSyncTool", metastore).syncHoodieTable()
        except Exception as error:  # noqa: BLE001  whatever it is: the batch is committed
            return root_cause(str(error))
        self._last = last
        self._known |= found
        self._spared = 0
        return ""

    def _taken(self, metastore: Metastore, meta: Any) -> str:
        """Return whose the name is, if it is another table's: Hudi would replace that entry."""
        if self._is_ours:
            return ""
        jvm, config = self._spark._jvm, self._tool("HiveSyncConfig", metastore)
        with closing(java_class(jvm, f"{HUDI}HoodieHiveSyncClient")(config, meta)) as client:
            for suffix in ("", "_ro", "_rt") if self._spec.logs() else ("",):
                name = self.location.name + suffix
                if not client.tableExists(name):
                    continue
                there = str(client.getTableLocation(name))
                paths = java_class(jvm, "org.apache.hudi.common.fs.FSUtils")
                if not paths.comparePathsWithoutScheme(there, self.location.table):
                    return (
                        f"{metastore.database}.{name} is another table, at {there}; use another "
                        "table.name or another database.name of the metastore"
                    )
        self._is_ours = True
        return ""

    def _tool(self, name: str, metastore: Metastore) -> Any:
        """Return one of Hudi's classes, made with the options of this table."""
        jvm: Any = self._spark._jvm
        jsc: Any = self._spark._jsc
        options, conf = java_class(jvm, "java.util.Properties")(), jsc.hadoopConfiguration()
        # A copy: what is set here must not reach the session.
        conf = java_class(jvm, "org.apache.hadoop.conf.Configuration")(conf)
        for key, value in {**CLIENT, "hive.metastore.uris": metastore.uri}.items():
            conf.set(key, value)
        options.putAll(self._options(metastore))
        return java_class(jvm, HUDI + name)(options, conf)

    def _options(self, metastore: Metastore) -> dict[str, str]:
        parts = self._spec.partition
        extractor = "MultiPartKeysValueExtractor" if parts else "NonPartitionedExtractor"
        return {
            "hoodie.datasource.meta.sync.base.path": self.location.table,
            "hoodie.meta_sync.spark.version": self._spark.version,
            f"{SYNC}mode": "hms",
            f"{SYNC}metastore.uris": metastore.uri,
            f"{SYNC}database": metastore.database,
            f"{SYNC}table": self.location.name,
            f"{SYNC}partition_fields": ",".join(parts),
            f"{SYNC}partition_extractor_class": HUDI + extractor,
            # Otherwise other engines than Spark take a timestamp for a number.
            f"{SYNC}support_timestamp": "true",
            # Partitions in one call, which must end within the client's timeout.
            f"{SYNC}batch_num": "100",
        }


def _after(jvm: Any, meta: Any, last: str) -> tuple[str, set[str]]:
    """Return the newest commit's completion time, and what the commits since `last` contain.

    That are their partitions and columns; of all active commits if `last` is empty.
    """
    newest = completed(meta).getLatestCompletionTime().orElse("")
    timeline, found = completed(meta, last), set()
    for instant in timeline.getReverseOrderedInstants().toArray():
        commit = timeline.readCommitMetadata(instant)
        found.add(f"columns {commit.getMetadata('schema')}")
        # As one text: Py4J takes two milliseconds for each element of a set.
        paths = jvm.java.lang.String.join("\n", commit.getWritePartitionPaths())
        found |= {f"partition {path}" for path in str(paths).split("\n")}
        # One that replaces files may have emptied a partition.
        if "replace" in str(instant.getAction()):
            found.add(str(instant.requestedTime()))
    return str(newest), found
