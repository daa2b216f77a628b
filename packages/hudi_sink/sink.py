"""Write each micro-batch of a stream to a Hudi table exactly once."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hudi_sink import jvm
from hudi_sink.async_services import StreamServices
from hudi_sink.checkpoints import CheckpointFiles, Fence
from hudi_sink.commits import Commits
from hudi_sink.initial_load import SORT_MODE, InitialLoad
from hudi_sink.locks import is_conflict, lock_held, services_failed, sharing_options
from hudi_sink.metadata import (
    QUARANTINED,
    SHARED,
    closing_options,
    first_options,
    leaks_connections,
    overlap_options,
)
from hudi_sink.quarantine import Quarantine
from hudi_sink.rows import COMBINE, REFUSED, check_files, check_sources, gathered, refused_row
from hudi_sink.rules import BatchMetadata, Checkpoint, Rules
from hudi_sink.schema_guard import Layout, SchemaGuard
from hudi_sink.service_schedule import check_services
from hudilab.errors import StreamError, many, root_cause
from hudilab.paths import TableLocation, local_path
from hudilab.table import TableSpec

# Errors of s3a after minutes of retries. Reading the owner from the same store would take as long.
UNREACHABLE = ("AWSClientIOException", "SdkClientException")
TRIES = 10  # attempts to write a batch that loses conflicts with other writers
_log = logging.getLogger("hudi_sink")


@dataclass(frozen=True)
class Batch:
    """A micro-batch to write, from `ExactlyOnceSink.begin`.

    Attributes:
        metadata: The batch's entry in its commit.
        rows: Its rows; pass them through `ExactlyOnceSink.fenced` when you write them.
        options: Write options that store `metadata` in the commit, preserve the table's indexes,
            and allow other writers of a shared table.
        layout: The current layout of the table.
    """

    metadata: BatchMetadata
    rows: DataFrame
    options: dict[str, str]
    layout: Layout


class ExactlyOnceSink:
    """Writes micro-batches exactly once; pass its `write_batch` to `foreachBatch`.

    Structured Streaming replays the batch during which a driver died. Each commit therefore stores
    the query's id, the batch's number and a digest of its offsets, atomically with the rows, and
    `begin` compares the newest commit with the checkpoint before each write. A new driver records
    itself as the checkpoint's owner and rolls back the old driver's writes. Each write checks the
    owner again after Hudi has announced the commit (`fenced`), so a replaced driver can't commit.
    Source: Hudi 1.2 `hoodie.datasource.write.commitmeta.key.prefix`.

    Args:
        source: The identity of the rows' source, such as its parameters or a topic's id, or a
            function that returns it; compared for every batch.
        batches: The length of a bounded stream.
        shared: Other streams or jobs may write to the table at the same time; set it in all of
            them. Hudi 1.2 loses rows when two writers merge files at the same time, so streams
            never merge a shared table's files. Run `CALL run_clustering` in a separate job.
        lock: Options of a Hudi lock provider for shared tables; the default on a local disk is the
            table's own lock file.
        services_every: See `service_schedule.service_options`; not allowed for shared tables.
        async_services: Execute table services in a separate thread; `close` waits for it.
        quarantine: Write rows that the table cannot store to the table `location.quarantine`, see
            `Quarantine`; by default, such a row is an error.
        initial_load: Write the source's existing rows as batch 0, see `InitialLoad`; omit it in
            later runs.
        extra: Further write options, see `TableSpec.write_options`.

    Attributes:
        quarantined: The number of quarantined rows of the newest batch.

    Raises:
        TableError: The table's key, type, partitioning or file groups differ from the spec, the
            table rejects a batch's columns (`TableSpec.schema`), or the clock is behind its newest
            instant (`Commits.await_clock`). Raised before anything is written.
        StreamError: Checkpoint, source and table do not belong together; raised before anything is
            written.
    """

    def __init__(  # noqa: PLR0913 - a stream and its options, which are keywords
        self,
        spark: SparkSession,
        spec: TableSpec,
        location: TableLocation,
        source: Mapping[str, Any] | Callable[[], Mapping[str, Any]],
        batches: int | None = None,
        *,
        shared: bool = False,
        lock: Mapping[str, str] | None = None,
        services_every: int | None = None,
        async_services: bool = False,
        quarantine: bool = False,
        initial_load: bool = False,
        extra: Mapping[str, str] | None = None,
    ) -> None:
        check_services(services_every, shared=shared)
        self._spark, self._spec, self._location = spark, spec, location
        self._source, self._shared = source, shared
        self._commits = Commits(spark, location.table)
        self._checkpoint = CheckpointFiles(spark, location.checkpoint)
        self._fence = Fence(self._checkpoint)
        self._rules = Rules(location.table, location.checkpoint, batches, shared)
        self._first = InitialLoad(spec, location.table) if initial_load else None
        upserts = spec.operation == "upsert" and not initial_load
        # If the caller sets compaction options, these decide when to compact.
        compacts = upserts and any(name.startswith("hoodie.compact") for name in extra or {})
        if shared or compacts or initial_load:
            services_every = 0
        self._services = StreamServices(
            spark,
            spec,
            location.table,
            every=services_every,
            async_services=async_services,
            is_mine=self._fence.is_mine,
        )
        self._options = overlap_options(location.table, spark.sparkContext.defaultParallelism)
        self._options |= closing_options(location.table)
        self._options |= first_options(location.table, shared=shared)
        self._options |= spec.write_options(extra)
        self._options |= self._services.lock
        self._combines = upserts and COMBINE not in self._options
        if self._combines:
            self._options |= {COMBINE: "false"}
        if self._first:
            self._options |= self._first.options()
        # If the caller sets a sort mode, it decides which task writes what.
        self._gathers = location.table.startswith("s3a:") and SORT_MODE not in self._options
        self._gathers &= spec.operation == "bulk_insert"
        self._guard = SchemaGuard(spark, spec, location.table, self._commits, self._options)
        self._sharing = sharing_options(location.table, lock) if shared else {}
        self._quarantine = Quarantine(spark, location, self._sharing) if quarantine else None
        self._run, self._query = "", ""  # of the run that has taken over the checkpoint
        self._seen: set[str] = set()  # commits of a shared table whose locks were checked
        self._throttled = 0  # 503 responses of S3 so far
        self.quarantined = 0
        self._commits.check_access(write=True)
        self._commits.recover_properties()
        self._checkpoint.check_access()
        self._check()
        self._check_groups()

    def write_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Write a micro-batch to the table once; pass this method to `foreachBatch`."""
        self.quarantined = 0
        write = partial(self._write, rows, batch_id)
        try:
            if local_path(self._location.table) is None:
                write()
            else:
                # Hadoop starts a process between the creation of a file on a disk and its first
                # byte. An interrupt there would leave an empty commit.
                jvm.uninterrupted(rows.sparkSession, write)
        except Exception as error:  # explained and raised again
            if self._shared and "HoodieLockException" in str(error):
                raise lock_held(self._location.table, self._sharing) from error
            raise
        finally:
            self._report_throttling(batch_id)
            if self._quarantine is not None:
                self._quarantine.release()

    def _write(self, rows: DataFrame, batch_id: int) -> None:
        batch = self.begin(rows, batch_id)
        if batch is None:
            return
        leaks = leaks_connections(self._location.table, batch.options)
        services = self._services.options(batch_id, leaks=leaks)
        for attempt in count(1):
            try:
                batch = self._prepared(batch)
                options = self._options | services | batch.options
                writer = self.fenced(batch.rows).write.format("hudi").options(**options)
                writer.mode("append").save(self._location.table)
                self._services.start(services, options)
                return
            except Exception as error:  # raised again, unless a shared table has the batch
                self._explain(error)
                if not self._shared:
                    raise
                # Two writers can collide in the table services after their commits.
                batch = self.begin(rows, batch_id)
                if batch is None:
                    _log.warning(services_failed(batch_id, root_cause(str(error))))
                    return
                if attempt == TRIES or not is_conflict(str(error)):
                    raise
                time.sleep(0.1 * attempt)

    def _report_throttling(self, batch_id: int) -> None:
        """Log that S3 throttles, because its client retries for minutes without a message."""
        if not self._location.table.startswith("s3a:"):
            return
        before, self._throttled = self._throttled, jvm.throttled(self._spark, self._location.table)
        if slow := self._throttled - before:
            _log.warning(
                f"S3 throttles: it answered {many(slow, 'request')} with 503 SlowDown during batch "
                f"{batch_id}, and the client repeated each; raise the trigger's interval if this "
                "continues"
            )

    def close(self) -> None:
        """Wait for the thread's table services; raise StreamError if they failed."""
        self._services.close()

    def begin(self, rows: DataFrame, batch_id: int) -> Batch | None:
        """Return the batch to write; None if it is committed, or a bounded stream has ended.

        The first batch of a run takes over the checkpoint.

        Raises:
            TableError: The table rejects the batch.
            StreamError: Checkpoint, source, locks and table do not belong together.
        """
        context = rows.sparkSession.sparkContext
        # Spark interrupts the tasks of a stopped stream. Hudi 1.2 retries an interrupted read of a
        # log (HoodieLogBlock.inflate) until the stack overflows, which ends the JVM.
        context.setLocalProperty("spark.job.interruptOnCancel", "false")
        run = str(context.getLocalProperty("spark.jobGroup.id"))
        if run != self._run:
            query = str(context.getLocalProperty("sql.streaming.queryId"))
            self._take_over(rows.sparkSession, run, query)
        else:
            self._fence.check()
        commits = self._services.count_bytes(self._commits.newest_first(to_write=True))
        newest, others = self._rules.find(self._query, commits)
        self._guard.check_groups({group for commit in others for group in commit.groups})
        layout = self._guard.layout()
        if self._shared:
            self._check_locks()
        plan, source = self._checkpoint.plan(batch_id), self._described_source()
        if self._rules.is_written(batch_id, plan.digest, source, newest):
            return None
        check_files(self._spark, self._query, batch_id, plan.entries)
        self._guard.check_columns(rows.drop(REFUSED), others)
        metadata = BatchMetadata(self._query, batch_id, plan.digest, source)
        options = metadata.options() | layout.options | self._guard.key_options() | self._sharing
        return Batch(metadata, rows, options, layout)

    def fenced(self, rows: DataFrame) -> DataFrame:
        """Return the same rows, unreadable once another driver has taken over the checkpoint.

        Spark evaluates the condition on the driver after Hudi has announced the commit: a driver
        that takes over later sees the announcement and rolls the commit back.
        """
        return rows.where(self._fence.condition())

    def _prepared(self, batch: Batch) -> Batch:
        """Return the batch's rows to write: storable rows, one per key.

        An unstorable row is quarantined. Without a quarantine, it raises an error during the write.
        """
        rows, options = batch.rows, batch.options
        if self._quarantine is not None:
            problem = self._guard.problem(batch.layout)
            rows, self.quarantined = self._quarantine.put(
                rows, problem, batch.metadata, self.fenced
            )
            options = options | {QUARANTINED: str(self.quarantined)}
        rows = self._guard.rows(rows, batch.layout, combine=self._combines)
        if self._first:
            rows = self._first.rows(rows, batch.metadata.batch)
        elif self._gathers:
            rows = gathered(rows, self._spec)
        if self._quarantine is not None or self._first:
            self._commits.await_clock()  # again, after the time to read all rows
        return replace(batch, rows=rows, options=options)

    def _explain(self, error: Exception) -> None:
        """Raise a clearer error if a row, or another driver, is the cause of a failed write."""
        if refusal := refused_row(self._location.table, str(error)):
            raise refusal from error
        # The other driver's rollback can stop Hudi before the fence does.
        if not any(name in str(error) for name in UNREACHABLE):
            self._fence.raise_if_replaced(error)

    def _check(self, running: str | None = None) -> str:
        """Check that checkpoint, source and table belong together; return the query's id.

        It writes nothing. `running` is the id of the calling query.
        """
        self._guard.check()
        query = self._checkpoint.query()
        if running is not None and running != query:
            raise StreamError(
                f"the stream does not use the checkpoint {self._location.checkpoint}, so a "
                "restart would write everything again",
                'add .option("checkpointLocation", location.checkpoint) to writeStream',
            )
        newest, others = self._rules.find(query, self._commits.newest_first(to_write=True))
        planned = {}
        if newest is not None and self._checkpoint.is_planned(newest.batch):
            planned = {newest.batch: self._checkpoint.plan(newest.batch).digest}
        checkpoint = Checkpoint(query, self._checkpoint.done(), planned)
        if self._first:
            self._first.check_new(checkpoint.done, newest)
        self._rules.check(checkpoint, self._described_source(), newest, others)
        return str(query)

    def _check_groups(self) -> None:
        """Check the table's file groups once per run, because that lists the table.

        Later batches check the file groups of newer commits.
        """
        self._guard.check_groups(self._commits.file_groups() if self._spec.buckets else set())

    def _take_over(self, session: SparkSession, run: str, running: str) -> None:
        """Fence off the earlier driver and check everything again, at a run's first batch."""
        self._checkpoint.forget()
        self._guard.forget_columns()
        if not self._shared:  # another stream may be creating a shared table
            self._commits.clear_half_made()
        check_sources(self._spark, running)
        self._query = self._check(running)
        if self._run:  # a later run of this sink
            self._check_groups()
        self._fence.take(session, run)
        if self._shared:
            self._commits.check_not_ahead(self._checkpoint.owner_file())
        options = self._options | self._guard.layout().options | self._sharing
        self._commits.roll_back_unfinished(options, wait=self._shared)
        self._services.take_over(options)
        if self._quarantine is not None:
            self._quarantine.take_over()
        # Check again, because the earlier driver may have committed until now.
        self._check(running)
        self._seen = self._commits.instants() if self._shared else set()
        self._run = run

    def _check_locks(self) -> None:
        """Check the lock of each commit since the last check."""
        new = self._commits.unseen(self._seen)
        self._seen |= {commit.instant for commit in new}
        self._rules.check_locks(self._sharing[SHARED], new)

    def _described_source(self) -> str:
        """Return the identity of the rows' source as commits store it."""
        source = self._source() if callable(self._source) else self._source
        return json.dumps(dict(source) | self._spec.fixed(), sort_keys=True)
