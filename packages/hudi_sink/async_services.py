"""Run the table services of a stream, in its batches or in a separate thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Thread
from typing import Any

from pyspark.sql import SparkSession

from hudi_sink import jvm
from hudi_sink.commits import SERVICES, Commits
from hudi_sink.locks import IN_PROCESS
from hudi_sink.rules import Commit
from hudi_sink.service_schedule import CLUSTER_EVERY, LEAST_LOGS, QUIET, SMALL_LOG, service_options
from hudilab.errors import StreamError, root_cause
from hudilab.table import CLEAN, INLINE, TableSpec

POOL = "services"  # of conf/fairscheduler.xml: the stream's tasks come first
CLUSTER = "hoodie.clustering.inline"
# The most commits that one plan makes in a table with many file groups.
MOST_PARTS = 16
LATEST = 40  # batches for which a new plan may wait until the previous plan is executed
# A service never changes files that the stream is writing.
NEVER = {"hoodie.clean.failed.writes.policy": "NEVER"}
_log = logging.getLogger("hudi_sink")


class StreamServices:
    """Runs the table services of one stream, in its batches or in a separate thread.

    With `async_services`, a batch only plans a service, and the thread executes the plan while the
    next batches are written. If the thread is busy when a service is due, the first batch after
    that plans the service, and after 40 batches the stream waits for the thread. A new driver
    removes its predecessor's plans (`take_over`), so that the old thread can't commit. Spark never
    takes a core from a running task, so a compaction is split to leave the stream a core. Source:
    Hudi 1.2 `hoodie.compact.schedule.inline`, `hoodie.clustering.schedule.inline`.

    Args:
        every: See `service_options`; None for its default, 0 for no services.
        async_services: Execute the plans in a thread.
        is_mine: Returns whether this driver still owns the checkpoint.
    """

    def __init__(
        self,
        spark: SparkSession,
        spec: TableSpec,
        table: str,
        *,
        every: int | None,
        async_services: bool,
        is_mine: Callable[[], bool],
    ) -> None:
        self._spark, self._spec, self._table = spark, spec, table
        self._every, self._is_mine = CLUSTER_EVERY if every is None else every, is_mine
        # Stream and thread are two writers, so a lock serializes their instants and commits.
        self.lock = IN_PROCESS if async_services and every != 0 else {}
        self._thread: Thread | None = None
        self._failed: Exception | None = None
        self._due: tuple[int, dict[str, str]] | None = None  # first batch, options
        self._written = SMALL_LOG  # bytes since the last services, unknown at the start
        self._warned = False

    def count_bytes(self, commits: Iterable[Commit]) -> Iterator[Commit]:
        """Pass commits through, adding their bytes to those written since the last services."""
        for commit in commits:
            self._written += 0 if commit.operation in SERVICES else commit.bytes
            yield commit

    def options(self, batch_id: int, *, leaks: bool = False) -> dict[str, str]:
        """Return the options that make a batch run or plan its services.

        Args:
            leaks: Run no services, because they would leak connections (`leaks_connections`).

        Raises:
            StreamError: The thread has failed.
        """
        if leaks:
            if not self._warned:
                self._warned = True
                _log.warning(
                    f"{self._table} has a metadata table, and Hudi's table services would leave "
                    "connections to S3 open, so this stream runs none; stop it now and then, and "
                    f"run: hudilab tidy {self._table} --clean --stopped"
                )
            return QUIET if self._every else {CLEAN: "false"}
        if not self._every:
            return {}
        services = service_options(self._spec, self._table, batch_id, self._every, self._written)
        if self.lock:
            self._check()
            services = self._in_turn(batch_id, services)
        service = _service_in(services)
        if service == INLINE:
            self._written = 0
        if not self.lock or not service:
            return services
        scheduled = service.replace(".inline", ".schedule.inline")
        return services | {service: "false", scheduled: "true", CLEAN: "false"}

    def _in_turn(self, batch_id: int, services: dict[str, str]) -> dict[str, str]:
        """Return the options of the services to plan now, none while the thread is busy."""
        if _service_in(services):
            since, earlier = self._due or (batch_id, services)
            self._due = since, min(earlier, services, key=_least)
        if self._due is None:
            return services
        since, due = self._due
        if self._thread is not None and self._thread.is_alive():
            if batch_id - since < LATEST:
                return QUIET
            _log.warning(
                f"batch {batch_id} waits for the table services that an earlier batch has planned"
            )
        self.close()
        self._due = None
        return due

    def start(self, services: Mapping[str, str], options: Mapping[str, str]) -> None:
        """Execute the plans of a committed batch; `services` is what `options` returned for it."""
        if not any(".schedule." in name for name in services):
            return
        spare = max(1, self._spark.sparkContext.defaultParallelism - 1)  # cores for the thread
        meta = Commits(self._spark, self._table).meta()
        jvm.split_compactions(self._spark, meta, spare, MOST_PARTS)
        own = dict(options) | dict(services) | NEVER
        own |= {CLEAN: "true", "hoodie.clustering.max.parallelism": str(spare)}
        self._thread = Thread(target=self._run, args=(own,), name="services", daemon=True)
        self._thread.start()

    def take_over(self, options: Mapping[str, str]) -> None:
        """Remove the plans of an earlier driver, which may still be executing them."""
        self._written, self._due = SMALL_LOG, None
        if not self._every:
            return
        meta = Commits(self._spark, self._table).await_clock()
        if meta is None or not (plans := _plans(meta)):
            return
        with jvm.write_client(self._spark, self._table, dict(options) | NEVER) as client:
            for kind, instant in plans:
                if kind == jvm.CLUSTERINGS:
                    client.rollback(instant)
                else:
                    jvm.remove_compaction(self._spark, client, instant)

    def close(self) -> None:
        """Wait until the thread has executed its plans.

        Raises:
            StreamError: The thread has failed.
        """
        if self._thread is not None:
            self._thread.join()
        self._check()

    def _check(self) -> None:
        if (failed := self._failed) is not None:
            self._failed = None
            raise StreamError(
                f"the table services of the stream into {self._table} failed "
                f"({root_cause(str(failed))}); no batch is lost",
                "fix the cause and start the stream again",
            ) from failed

    def _run(self, options: Mapping[str, str]) -> None:
        context = self._spark.sparkContext
        context.setLocalProperty("spark.scheduler.pool", POOL)
        context.setJobGroup(POOL, f"table services of {self._table}")
        try:
            with jvm.write_client(self._spark, self._table, options) as client:
                execute = {jvm.COMPACTIONS: client.compact, jvm.CLUSTERINGS: client.cluster}
                for kind, instant in _plans(Commits(self._spark, self._table).await_clock()):
                    if self._is_mine():
                        execute[kind](instant, True)
                client.clean()
        except Exception as error:  # noqa: BLE001 - raised by the next batch
            self._failed = error


def _service_in(options: Mapping[str, str]) -> str:
    """Return the option by which a batch runs a service; empty if it runs none."""
    return next((name for name in (INLINE, CLUSTER) if options.get(name) == "true"), "")


def _least(options: Mapping[str, str]) -> int:
    """Return the size in bytes from which a file slice's logs are compacted."""
    return int(options.get(LEAST_LOGS, 0))


def _plans(meta: Any) -> list[tuple[str, str]]:
    """Return the kind and instant of each plan that is not executed yet, oldest first."""
    kinds = (jvm.COMPACTIONS, jvm.CLUSTERINGS)
    return [(kind, instant) for kind in kinds for instant in jvm.pending(meta, kind)]
