"""Run Hudi's table services from outside a table's stream, if that is safe."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hudi_sink import jvm
from hudi_sink.commits import SERVICES, Commits
from hudi_sink.files import exists
from hudi_sink.locks import sharing_options
from hudi_sink.metadata import MOST_BUCKETS, SHARED, closing_options, leaks_connections
from hudi_sink.repairs import foreign_groups
from hudi_sink.rules import Commit
from hudi_sink.service_schedule import merged_files
from hudi_sink.table_files import check_upgrade, table_index_options, table_properties
from hudilab.errors import TableError, many

HEARTBEAT_DELAY = 3.0  # seconds until a writer's first heartbeat, after it requested an instant


class TableServices:
    """Runs the table services of one table; each method runs a service and returns a summary line.

    A stream without `shared=True` doesn't lock the table, and two programs that compact or clean it
    at the same time can delete each other's files. Services are therefore refused after a write
    without a lock, unless its writer is stopped. With a shared stream, a service takes the stream's
    lock, and its heartbeat keeps the stream from executing the same plan. The next run or the
    stream executes the plan of a killed service. Source: Hudi 1.2 `hoodie.write.concurrency.mode`.

    Args:
        stopped: The caller guarantees that no writer is running.
        lock: The options of the streams' Hudi lock provider, see `sharing_options`.

    Raises:
        TableError: There is no table, or (in each method) the service doesn't fit the table or
            isn't safe now; raised before anything is written.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: str,
        *,
        stopped: bool = False,
        lock: Mapping[str, str] | None = None,
    ) -> None:
        self._spark, self._table, self._stopped = spark, table, stopped
        self._commits = Commits(spark, table)
        self._commits.check_exists("tidy")
        properties = table_properties(spark, table)
        check_upgrade(spark, table, properties)
        self.table_type = properties["hoodie.table.type"]
        # No lock file is safe on an object store: services use only the caller's lock.
        local = table.startswith("file:")
        self._locks = sharing_options(table, lock) if local or lock else {}
        self._kept = table_index_options(spark, table, properties)

    def check(self, *, compact: bool = False, cluster: bool = False) -> None:
        """Raise TableError for services that do not fit the table."""
        if compact and self.table_type != "MERGE_ON_READ":
            raise TableError(
                f"{self._table} is {self.table_type}: it has no logs to compact",
                f"omit --compact, or merge small files: hudilab tidy {self._table} --cluster",
            )
        if cluster and self._is_bucketed():
            raise TableError(
                f"{self._table} has a bucket index: clustering gives files names that belong to "
                "no bucket, and every later upsert fails",
                "its number of files is fixed; to merge its logs, compact it: hudilab tidy "
                f"{self._table}",
            )

    def check_safe(self, *services: str) -> None:
        """Raise TableError if services and a running writer could destroy each other's work.

        Also if the account may not write to the table, or the clock is behind it.
        """
        self._commits.check_access(write=True)
        newest = self._newest_write(to_write=True)
        again = " ".join((f"hudilab tidy {self._table}", *(f"--{name}" for name in services)))
        if newest is not None and not self._stopped:
            if not newest.lock:
                raise TableError(
                    f"the newest write to {self._table} took no lock, so its writer may be running",
                    "stop it and add --stopped, or write with ExactlyOnceSink(..., "
                    f"shared=True): {again} --stopped",
                )
            if not self._locks:
                raise TableError(
                    f"{self._table} is on an object store and shared, so services need the "
                    "writers' lock",
                    f"give the options of its provider: {again} --lock NAME=VALUE",
                )
            if newest.lock not in (self._locks[SHARED], "true"):
                raise TableError(
                    f"the newest write to {self._table} used the lock {newest.lock}, but services "
                    f"would use {self._locks[SHARED]}",
                    f"stop its writer, then: {again} --stopped",
                )
            if "cluster" in services and newest.operation != "BULK_INSERT":
                raise TableError(
                    f"the newest write to {self._table} is an {newest.operation.lower()}, and a "
                    "batch that changes a file fails while clustering merges it",
                    f"stop the writer, then: {again} --stopped",
                )
        if alone := self._without_heartbeat():
            raise TableError(
                f"{self._table} has an unfinished write without a lock, {alone}: its writer is "
                "running or has died",
                f"wait for it, or start it again, which rolls that write back, then: {again}",
            )

    def compact(self) -> str:
        """Plan a compaction and execute all plans: merge each slice's logs into a new base file."""
        self.check(compact=True)
        self.check_safe("compact")
        at_once = {"hoodie.compact.inline.max.delta.commits": "1"}
        merged, plans = self._run_plans("compact", jvm.COMPACTIONS, at_once)
        return f"compact: {many(merged, 'file slice')} merged, {many(plans, 'plan')}"

    def cluster(self) -> str:
        """Plan a clustering and execute all plans: merge each partition's small files."""
        self.check(cluster=True)
        self.check_safe("cluster")
        before = len(self._commits.slices())
        often = {f"hoodie.clustering.{kind}.max.commits": "1" for kind in ("inline", "async")}
        often |= merged_files(self._table)
        made, plans = self._run_plans("cluster", jvm.CLUSTERINGS, often)
        after = len(self._commits.slices())
        return (
            f"cluster: {many(made, 'file')} written, {many(plans, 'plan')}, file groups "
            f"{before:,} -> {after:,}"
        )

    def _run_plans(self, service: str, kind: str, options: dict[str, str]) -> tuple[int, int]:
        """Plan a service and execute all plans; return the counts of file groups and plans."""
        with self._client(options) as client:
            self._compact_metadata(client)
            jvm.schedule(self._spark, client, kind)
            self.check_safe(service)  # a stream may have started since
            plans = jvm.pending(self._commits.meta(), kind)
            for instant in plans:
                self._execute(getattr(client, service), instant, kind)
        commits = (commit for commit in self._commits.newest_first() if commit.instant in plans)
        executed = islice(commits, len(plans))  # reads no further
        return sum(len(commit.groups) for commit in executed), len(plans)

    def clean(self, retain: int) -> str:
        """Delete files that only readers of commits older than the newest `retain` need."""
        self.check_safe("clean")
        with self._client(self._retaining(retain)) as client:
            self._compact_metadata(client)
            done = client.clean()
        files = 0 if done is None else int(done.getTotalFilesDeleted())
        return f"clean: {many(files, 'file')} deleted, the newest {many(retain, 'commit')} kept"

    def archive(self) -> str:
        """Move old instants from the active timeline to the archived one."""
        self.check_safe("archive")
        before = self._active()
        with self._client({}) as client:
            client.archive()
        return f"archive: {many(max(0, before - self._active()), 'instant')} archived"

    def preview(self, service: str, retain: int) -> str:
        """Return a line about what a service would do now; change nothing."""
        if service == "compact":
            logged = sum(file_slice.logs > 0 for file_slice in self._commits.slices())
            plans = len(jvm.pending(self._commits.meta(), jvm.COMPACTIONS))
            return f"compact: {many(logged, 'file slice')} with logs, {many(plans, 'plan')} open"
        if service == "cluster":
            small = self._small()
            return f"cluster: {many(sum(small), 'small file')} in {many(len(small), 'partition')}"
        if service == "clean":
            with self._client(self._retaining(retain)) as client:
                files = jvm.count_files_to_clean(self._spark, client)
            return f"clean: {many(files, 'file')} older than the newest {many(retain, 'commit')}"
        with self._client({}) as client:
            config = client.getConfig()
            least, most = config.getMinCommitsToKeep(), config.getMaxCommitsToKeep()
        return (
            f"archive: {many(self._active(), 'instant')} active, down to {least} commits when "
            f"there are more than {most}"
        )

    def _client(self, options: dict[str, str]) -> AbstractContextManager[Any]:
        options = (
            closing_options(self._table)
            | self._kept
            | self._locks
            | self._rollback_options()
            | options
        )
        return jvm.write_client(self._spark, self._table, options)

    def _compact_metadata(self, client: Any) -> None:
        # A running stream compacts its metadata table itself, at the start of each commit.
        if self._stopped and leaks_connections(self._table, self._kept):
            jvm.compact_metadata(self._spark, client)

    def _rollback_options(self) -> dict[str, str]:
        """Return the option that keeps a service from rolling back a write without a lock."""
        newest = self._newest_write()
        shared = newest is not None and newest.lock and self._locks
        return {} if shared else {"hoodie.clean.failed.writes.policy": "NEVER"}

    def _retaining(self, retain: int) -> dict[str, str]:
        # A tuned table's cleaning looks for files to delete only every ten commits.
        return {"hoodie.clean.max.commits": "1", "hoodie.clean.commits.retained": str(retain)}

    def _execute(self, run: Callable[[str, bool], Any], instant: str, kind: str) -> None:
        """Execute a plan, unless the stream has already executed it."""
        try:
            run(instant, True)
        except Py4JJavaError as error:
            if instant not in jvm.pending(self._commits.meta(), kind):
                return
            if "due to heartbeat by concurrent writer" not in str(error):
                raise
            raise TableError(
                f"another program is executing the plan {instant} of {self._table}, or was "
                "killed meanwhile",
                f"wait a minute, then: hudilab tidy {self._table}",
            ) from None

    def _active(self) -> int:
        timeline = self._commits.meta().getActiveTimeline()
        return int(timeline.filterCompletedInstants().countInstants())

    def _newest_write(self, *, to_write: bool = False) -> Commit | None:
        commits = self._commits.newest_first(to_write=to_write)
        return next((commit for commit in commits if commit.operation not in SERVICES), None)

    def _without_heartbeat(self) -> str:
        """Return the first unfinished write whose writer sends no heartbeats; empty if none."""
        ends = time.monotonic() + HEARTBEAT_DELAY
        while True:
            beats = f"{self._table}/.hoodie/.heartbeat"
            writes = sorted(self._commits.unfinished())
            alone = [write for write in writes if not exists(self._spark, f"{beats}/{write}")]
            if not alone or time.monotonic() > ends:
                return alone[0] if alone else ""
            time.sleep(0.5)

    def _is_bucketed(self) -> bool:
        newest = self._newest_write()
        if (
            newest is not None
            and newest.metadata
            and "buckets" in json.loads(newest.metadata.source)
        ):
            return True
        # `hoodie.properties` lacks the index, but the file group of bucket 7 is 00000007-...
        groups = self._commits.file_groups()
        return bool(groups) and not foreign_groups(groups, MOST_BUCKETS)

    def _small(self) -> list[int]:
        """Return the number of small files of each partition that has several."""
        with self._client(merged_files(self._table)) as client:
            limit = int(client.getConfig().getClusteringSmallFileLimit())
        small = Counter(part.partition for part in self._commits.slices() if 0 < part.bytes < limit)
        return [count for count in small.values() if count > 1]
