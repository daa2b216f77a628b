"""Read a table's commits through Hudi's own reader; roll back the writes of a dead driver."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from hudi_sink import jvm
from hudi_sink.access import denied
from hudi_sink.clock import LONGEST, NOTICE, clock_ahead, clock_behind, latest, seconds_behind
from hudi_sink.files import delete_tree, exists, file_size, list_files, modified_ms
from hudi_sink.metadata import BATCH, COVERS, KEYS, PROPERTIES, QUERY, SHARED, SOURCE
from hudi_sink.rules import BatchMetadata, Commit
from hudilab.errors import StreamError, TableError, root_cause
from hudilab.files import read_properties
from hudilab.paths import local_path

SERVICES = ("COMPACT", "LOG_COMPACT", "CLUSTER")
_INTERRUPTED = re.compile(r"\b(ClosedByInterrupt|Interrupted|InterruptedIO)Exception\b")
_log = logging.getLogger("hudi_sink")
WRITERS_SECONDS = 600.0  # to wait for the writes of other live drivers


class Commits:
    """The timeline of one table; each method reads it again. Source: Hudi 1.2."""

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark, self._table = spark, table
        self._is_created = False
        self._newest: Any = None  # the meta client that was returned last

    def newest_first(self, *, to_write: bool = False) -> Iterator[Commit]:
        """Yield completed commits of the active, then the archived timeline, newest first.

        With `to_write`, check the clock first (`await_clock`).

        Raises:
            StreamError: A commit's file is empty or damaged.
        """
        meta = self.await_clock() if to_write else self.meta()
        if meta is None:
            return
        yield from self._read(jvm.completed(meta))
        # Read only if the active timeline was not enough: the archive may span years.
        if exists(self._spark, f"{self._table}/.hoodie/timeline/history/_version_"):
            yield from self._read(jvm.archived(meta))

    def unseen(self, seen: Set[str]) -> list[Commit]:
        """Return the active commits whose instants are not in `seen`, newest first.

        A commit can appear long after its completion time: a writer with a lock waits in between.
        """
        meta = self.meta()
        return [] if meta is None else list(self._read(jvm.completed(meta), seen))

    def instants(self) -> set[str]:
        """Return the instants of the active commits."""
        meta = self.meta()
        instants = [] if meta is None else jvm.completed(meta).getInstants()
        return {str(instant.requestedTime()) for instant in instants}

    def count(self) -> int:
        """Return the number of commits, archived ones included, table services excluded."""
        return sum(commit.operation not in SERVICES for commit in self.newest_first())

    def roll_back_unfinished(self, options: Mapping[str, str], *, wait: bool) -> None:
        """Roll back the writes of dead or replaced drivers, so that they can no longer commit.

        With `wait`, other writers may be alive, so wait until their writes or heartbeats end.
        `options` are those of a write.

        Raises:
            StreamError: Another writer is still alive after 10 minutes.
        """
        meta = self.meta()
        if meta is None or not (unfinished := jvm.unfinished_writes(meta)):
            return
        self.await_clock()
        markers = f"{self._table}/.hoodie/.temp"
        if not all(exists(self._spark, f"{markers}/{instant}") for instant in unfinished):
            # If a commit's file was lost later, its markers are gone. Hudi would then delete none
            # of its files, and treat those of a table's first commit as committed.
            options = {**options, "hoodie.rollback.using.markers": "false"}
        ends = time.monotonic() + WRITERS_SECONDS
        with jvm.rollback_client(self._spark, self._table, options) as client:
            while True:
                client.rollbackFailedWrites(meta)
                meta = self.meta()
                left = unfinished & (set() if meta is None else jvm.unfinished_writes(meta))
                if not wait or not left:
                    return
                if time.monotonic() > ends:
                    raise StreamError(
                        f"another writer has been writing to {self._table} for "
                        f"{WRITERS_SECONDS:.0f} s (instant {min(left)})",
                        "stop it, then restart this stream",
                    )
                time.sleep(1)

    def clear_half_made(self) -> None:
        """Remove the empty folders of a driver that died while it created the table.

        Hudi would refuse every later write.

        Raises:
            StreamError: The table has files but has lost its `hoodie.properties`.
        """
        hoodie = f"{self._table}/.hoodie"
        if self.is_there() or not exists(self._spark, hoodie):
            return
        if any(file.path != PROPERTIES for file in list_files(self._spark, self._table)):
            raise StreamError(
                f"the table {self._table} has files, but its {PROPERTIES} is missing or empty",
                "restore that file from a backup, or delete the table and the checkpoint together",
            )
        delete_tree(self._spark, hoodie)

    def recover_properties(self) -> None:
        """Restore `hoodie.properties` if a driver died while it replaced the file.

        Hudi deletes the file before it writes the new one, and keeps a backup until then. It does
        so several times in the batch that creates a metadata table.
        """
        properties = f"{self._table}/{PROPERTIES}"
        ends = time.monotonic() + LONGEST
        while not self.is_there() and file_size(self._spark, f"{properties}.backup") > 0:
            if time.monotonic() > ends:  # no other driver is replacing it now
                delete_tree(self._spark, properties)  # an empty file, for Hudi a whole one
                jvm.recover_properties(self._spark, self._table)
                _log.warning(f"{properties} was missing; restored from Hudi's backup of it")
                return
            time.sleep(0.5)

    def is_there(self) -> bool:
        """Return whether the table has been created completely."""
        return file_size(self._spark, f"{self._table}/{PROPERTIES}") > 0

    def check_access(self, *, write: bool) -> None:
        """Raise TableError if the account may not read, or write to, an existing table on a disk.

        Looks at the folders of the table's first level and of its timeline.
        """
        local, inside = local_path(self._table), [".hoodie", ".hoodie/timeline"]
        if write and local is not None and os.access(local, os.R_OK | os.X_OK):
            inside += [entry.name for entry in os.scandir(local) if entry.is_dir()]
        if refusal := denied(self._table, *inside, write=write):
            problem, remedy = refusal
            verb = "written" if write else "read"
            raise TableError(f"the table {self._table} cannot be {verb}: {problem}", remedy)

    def check_exists(self, command: str) -> None:
        """Raise TableError if there is no table; `command` is the `hudilab` command to refuse."""
        self.check_access(write=False)
        if not self.is_there():
            raise TableError(
                f"no Hudi table at {self._table}: .hoodie/hoodie.properties is missing or empty",
                f"give the folder that contains .hoodie: hudilab {command} TABLE",
            )

    def unfinished(self) -> set[str]:
        """Return instants of requested or in-flight writes; table services do not count."""
        meta = self.meta()
        return set() if meta is None else jvm.unfinished_writes(meta)

    def file_groups(self) -> set[str]:
        """Return the ids of the file groups that readers see now."""
        meta = self.meta()
        return set() if meta is None else jvm.file_groups(self._spark, meta)

    def slices(self) -> list[jvm.LatestSlice]:
        """Return the file slices that readers see now, sorted."""
        meta = self.meta()
        return [] if meta is None else jvm.file_slices(self._spark, meta)

    def schema(self) -> str:
        """Return the table's columns as Spark's JSON, from its newest commit; empty without one."""
        meta = self.meta()
        return "" if meta is None else jvm.table_columns(self._spark, meta)

    def meta(self) -> Any:
        """Return Hudi's client for the current state of the table, or None without a table."""
        self._newest = self._read_table()
        return self._newest

    def _read_table(self) -> Any:
        if self._is_created:
            # Hudi reads the file that `is_there` looks for, so on S3 one request is enough.
            with suppress(Py4JJavaError):
                return jvm.meta_client(self._spark, self._table)
        self._is_created = self.is_there()
        return jvm.meta_client(self._spark, self._table) if self._is_created else None

    def properties(self) -> dict[str, str]:
        """Return `hoodie.properties` as `meta` last read it; empty without a table."""
        meta = self._newest or self.meta()
        return {} if meta is None else read_properties(jvm.table_config(self._spark, meta))

    def await_clock(self) -> Any:
        """Return `meta()`; call this before a write, whose instant must be later than all others.

        If the clock is behind the table, wait for 10 seconds at most.

        Raises:
            TableError: The clock is further behind.
        """
        ends = time.monotonic() + LONGEST
        while (meta := self.meta()) is not None:
            instants, now, zone = jvm.instants_and_clock(self._spark, meta)
            newest = latest(instants)
            if not (seconds := seconds_behind(newest, now)):
                return meta
            # Another writer whose clock is ahead may commit meanwhile, so the total is limited.
            if time.monotonic() + seconds > ends:
                raise clock_behind(self._table, newest, now, zone)
            if seconds > NOTICE:
                _log.warning(
                    f"the clock is {seconds:.1f} s behind the newest instant of {self._table}; "
                    "waiting until it has passed that"
                )
            time.sleep(seconds)
        return None

    def check_not_ahead(self, written: str) -> None:
        """Raise TableError if the clock is ahead of the storage's; call it right after a write.

        Hudi compares the clock with the modification times of other writers' heartbeat files. With
        a clock that is ahead, it would roll back a live writer, whose tasks then add files that no
        rollback removes. `written` is the file that was written last.
        """
        modified = modified_ms(self._spark, written)
        ahead = time.time() - modified / 1000
        if modified and ahead > LONGEST:  # 0 for a storage without times
            raise clock_ahead(self._table, ahead)

    def _read(self, timeline: Any, seen: Set[str] = frozenset()) -> Iterator[Commit]:
        for instant in timeline.getReverseOrderedInstants().toArray():
            time_ = str(instant.requestedTime())
            if time_ in seen:
                continue
            try:
                stored = timeline.readCommitMetadata(instant)
                extra, written = stored.getExtraMetadata(), stored.getFileIdAndRelativePaths()
            except Py4JJavaError as error:
                if _INTERRUPTED.search(str(error)):  # the stream is being stopped
                    raise
                raise self._damaged(instant, root_cause(str(error))) from None
            # A power failure can leave the file of a completed commit empty, and Hudi reads it as
            # an empty commit. A real commit has at least a schema, a table service its files.
            if extra.isEmpty() and written.isEmpty():
                raise self._damaged(instant, "")
            query, batch = extra.get(QUERY), extra.get(BATCH)
            metadata = None
            if query is not None and batch is not None:
                source = str(extra.get(SOURCE))
                metadata = BatchMetadata(str(query), int(batch), str(extra.get(COVERS)), source)
            # As a single text: a call into the JVM for each group would slow down every batch.
            groups = frozenset(str(written.keySet().toString())[1:-1].split(", ")) - {""}
            lock, keys = (str(extra.get(name) or "") for name in (SHARED, KEYS))
            kind, size = str(stored.getOperationType()), int(stored.fetchTotalBytesWritten())
            inserted = int(stored.fetchTotalInsertRecordsWritten())
            yield Commit(time_, metadata, groups, kind, lock, size, keys, inserted)

    def _damaged(self, instant: Any, cause: str) -> StreamError:
        """Return the error for a commit's file; `cause` is empty if the file is empty.

        The remedy may only delete the file of the newest write. If an older file is missing, Hudi
        1.2 refuses every write ("Found commits after time, please rollback greater commits first").
        """
        time_, action = str(instant.requestedTime()), str(instant.getAction())
        file = f"{self._table}/.hoodie/timeline/{time_}_{instant.getCompletionTime()}.{action}"
        # An S3 object is whole or missing, so the cause may be the network.
        cut = "EOFException" in cause and self._table.startswith("file:")
        lost = cut or not cause
        what = (
            "is damaged: its file is empty or truncated, as after a power failure, so what it "
            "wrote is unknown"
            if lost
            else f"cannot be read: {cause}"
        )
        newest = jvm.completed(self.meta()).lastInstant()
        is_newest = newest.isPresent() and str(newest.get().requestedTime()) == time_
        remedy = f"do not delete {file}; restore it from a backup, or fix the cause"
        if lost and is_newest and action in ("commit", "deltacommit"):
            remedy = f"look at {file}, then restore it from a backup, or delete it, and Hudi rolls "
            remedy += "the commit back"
        return StreamError(
            f"the commit {time_} of {self._table} {what}", f"{remedy}, and start the stream again"
        )
