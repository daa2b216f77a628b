"""Which micro-batches a table holds already: the batch's number is kept in Hudi's commit itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from hudilab.errors import StreamError, TableError
from hudilab.paths import Place
from hudilab.storage import exists, list_files, read_text
from hudilab.tables import TableSpec

__all__ = ["BatchLedger"]

PREFIX = "hudilab."
QUERY, BATCH, SOURCE = PREFIX + "query_id", PREFIX + "batch_id", PREFIX + "source"


class _Stamp(NamedTuple):
    batch: int
    source: str


class BatchLedger:
    """Makes a replayed micro-batch harmless, and refuses what would lose or repeat rows silently.

    Structured Streaming replays the batch during which a driver died. `stamp` puts the streaming
    query's id, the batch's number and the source's settings into the commit's metadata, in the
    same atomic step as the rows; `done` looks for them before a batch is written. `batches` is
    the length of a bounded stream. Errors, before anything is written: TableError when the table
    there has another key, type or partitioning; StreamError when checkpoint, source and table do
    not belong together. Source: Hudi 1.2.0 `hoodie.datasource.write.commitmeta.key.prefix`.
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: TableSpec,
        place: Place,
        source: Mapping[str, Any],
        batches: int | None = None,
    ) -> None:
        self._spark, self._place, self._batches = spark, place, batches
        # Another number of buckets would look for a key in another file: part of what must stay.
        fixed = {"buckets": spec.buckets} if spec.buckets else {}
        self._source = json.dumps(dict(source) | fixed, sort_keys=True)
        self._run, self._query, self._last = "", "", -1
        self._refuse_other_table(spec)
        self._refuse_strangers()

    def done(self, batch: DataFrame, batch_id: int) -> bool:
        """Whether nothing of this batch is left to write: it is committed, or after the last."""
        context = batch.sparkSession.sparkContext
        run = context.getLocalProperty("spark.jobGroup.id")
        if run != self._run:
            # Only the first batch of a run can be a replay, and a run keeps its checkpoint: one
            # look at checkpoint and timeline is enough.
            self._look(context.getLocalProperty("sql.streaming.queryId"))
            self._run = str(run)
        if self._batches is not None and batch_id >= self._batches:
            return True
        return batch_id <= self._last

    def stamp(self, batch_id: int) -> dict[str, str]:
        """Write options that keep query, batch and source in the commit's metadata."""
        return {
            "hoodie.datasource.write.commitmeta.key.prefix": PREFIX,
            QUERY: self._query or str(self._query_id()),
            BATCH: str(batch_id),
            SOURCE: self._source,
        }

    def _look(self, running: str | None) -> None:
        """Refuse a query without the checkpoint; note the newest batch that it has in the table."""
        if running != self._query_id():
            raise StreamError(
                f"the stream does not use the checkpoint {self._place.checkpoint}, so a restart "
                "would write everything again; "
                'add .option("checkpointLocation", place.checkpoint) to writeStream'
            )
        last = self._committed().get(str(running))
        self._query, self._last = str(running), -1 if last is None else last.batch

    def _query_id(self) -> str | None:
        file = f"{self._place.checkpoint}/metadata"
        if not exists(self._spark, file):
            return None
        try:
            return str(json.loads(read_text(self._spark, file))["id"])
        except (ValueError, KeyError, TypeError):
            raise StreamError(
                f"the checkpoint file {file} is damaged; restore it from a copy, "
                "or delete table and checkpoint together and start again"
            ) from None

    def _last_checkpointed(self) -> int:
        """The newest batch that the checkpoint calls done, -1 for none."""
        done = list_files(self._spark, f"{self._place.checkpoint}/commits")
        return max((int(file.path) for file in done if file.path.isdecimal()), default=-1)

    def _committed(self) -> dict[str, _Stamp]:
        """The newest stamp of each streaming query on the table's active timeline."""
        newest: dict[str, _Stamp] = {}
        if not exists(self._spark, f"{self._place.table}/.hoodie/hoodie.properties"):
            return newest
        jvm: Any = self._spark._jvm
        jsc: Any = self._spark._jsc
        conf = jvm.org.apache.hudi.hadoop.fs.HadoopFSUtils.getStorageConf(jsc.hadoopConfiguration())
        builder = jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        meta = builder.setConf(conf).setBasePath(self._place.table).build()
        timeline = meta.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        for instant in timeline.getInstants():
            commit = timeline.readCommitMetadata(instant)
            query, batch = commit.getMetadata(QUERY), commit.getMetadata(BATCH)
            if query is not None and batch is not None:
                found = _Stamp(int(batch), str(commit.getMetadata(SOURCE)))
                newest[query] = max(found, newest.get(query, found))
        return newest

    def _refuse_other_table(self, spec: TableSpec) -> None:
        file = f"{self._place.table}/.hoodie/hoodie.properties"
        if not exists(self._spark, file):
            return
        lines = read_text(self._spark, file).splitlines()
        pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        differences = spec.conflicts({key: value.replace("\\:", ":") for key, value in pairs})
        if differences:
            raise TableError(
                f"the table at {self._place.table} is another one: {'; '.join(differences)}; "
                "use the table's own settings, or another table.name or run_id"
            )

    def _refuse_strangers(self) -> None:
        query, done, committed = self._query_id(), self._last_checkpointed(), self._committed()
        table, checkpoint = self._place.table, self._place.checkpoint
        both = "delete table and checkpoint together, or use another run_id"
        if query is None and committed:
            raise StreamError(
                f"the table {table} was written by a stream whose checkpoint is not at "
                f"{checkpoint}: all would be written again; restore that checkpoint, or {both}"
            )
        if self._batches is not None:
            done = min(done, self._batches - 1)  # a bounded stream's batches after the last
        mine = committed.get(str(query))
        if mine is None:
            if done >= 0:
                raise StreamError(
                    f"the checkpoint {checkpoint} belongs to another table or run: {table} holds "
                    f"none of its {done + 1} batches; use its own table, or {both}"
                )
            return
        if mine.source != self._source:
            raise StreamError(
                f"the checkpoint {checkpoint} belongs to a run with {mine.source}, and "
                f"{self._source} is asked for; use the same parameters, or {both}"
            )
        if not done <= mine.batch <= done + 1:
            older = "table" if mine.batch < done else "checkpoint"
            raise StreamError(
                f"the {older} was set back: {table} holds batches up to {mine.batch}, {checkpoint} "
                f"up to {done}; restore both from the same moment, or {both}"
            )
