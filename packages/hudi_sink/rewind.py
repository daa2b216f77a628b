"""Restore a table and its streams' checkpoints to a savepoint, together."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from hudi_sink.checkpoints import CheckpointFiles, Owner
from hudi_sink.commits import Commits
from hudi_sink.files import list_files
from hudi_sink.jvm import savepoint_of_restore, write_client
from hudi_sink.rules import Commit
from hudi_sink.table_files import check_upgrade, table_index_options, table_properties
from hudilab.errors import TableError, many
from hudilab.paths import checkpoint_of_table

ALIVE = 60.0  # seconds for which a writer counts as alive after its last heartbeat
RUN = "rewind"  # prefix of the owner that a rewind records in a checkpoint


class Rewind:
    """Restores a table to a savepoint, and removes the later batches from its checkpoints.

    After a restore alone, the sink refuses the stream, because the checkpoint contains later
    batches. Before the restore, the rewind makes itself the owner of each checkpoint, so that a
    running stream can't commit. An interrupted rewind completes when it is run again.

    Args:
        to: The instant of a commit with a savepoint.
        checkpoints: The checkpoints of all streams that have written since the savepoint; by
            default the table's own.
        stopped: The caller guarantees that no writer is running.

    Raises:
        TableError: The table or the savepoint doesn't exist, or a checkpoint belongs to another
            table; raised before anything is written.
    """

    def __init__(
        self,
        spark: SparkSession,
        table: str,
        to: str,
        *,
        checkpoints: Sequence[str] = (),
        stopped: bool = False,
    ) -> None:
        self._spark, self._table, self._to, self._stopped = spark, table, to, stopped
        self._commits = Commits(spark, table)
        self._commits.check_exists("rewind")
        self._again = " ".join(
            (f"hudilab rewind {table} --to {to}", *(f"--checkpoint {uri}" for uri in checkpoints))
        )
        self._refuse_without_savepoint()
        self._refuse_other_restore()
        uris = dict.fromkeys(checkpoints or [checkpoint_of_table(table)])
        self._checkpoints = [CheckpointFiles(spark, uri) for uri in uris]
        self._queries = self._by_query()
        # The newest batch of each query at the savepoint; -1 for none.
        self._kept = self._batches_kept()
        self._refuse_forgotten_batches()

    def preview(self) -> list[str]:
        """Return a line about the table and each checkpoint; change nothing."""
        later = self._later()
        numbers = sorted({commit.metadata.batch for commit in later if commit.metadata})
        strangers = sum(commit.metadata is None for commit in later)
        others = f" and {many(strangers, 'commit')} that no stream wrote" if strangers else ""
        lines = [
            f"table: {many(len(later), 'commit')} after {self._to}, with {_span(numbers)}{others}"
        ]
        for query, files in self._queries.items():
            count = many(len(files.later(self._kept[query])), "file")
            lines.append(f"checkpoint {files.uri}: {count} of later batches; {self._next(query)}")
        return lines

    def check_safe(self) -> None:
        """Raise TableError while a writer may be alive, or if account or clock forbid a write."""
        self._commits.check_access(write=True)
        check_upgrade(self._spark, self._table, table_properties(self._spark, self._table))
        for files in self._checkpoints:
            files.check_access()
        self._commits.await_clock()
        running = {str(query.id) for query in self._spark.streams.active}
        for query, files in self._queries.items():
            if query in running:
                raise TableError(
                    f"the stream of {files.uri} is running in this session",
                    f"stop it, then: {self._again}",
                )
        self._refuse_heartbeat()
        if self._stopped:
            return
        for files in self._checkpoints:
            self._refuse_owner(files)

    def run(self) -> list[str]:
        """Restore the table, then each checkpoint; return a line for each.

        Raises:
            TableError: See `check_safe`.
        """
        self.check_safe()
        lines = [self.restore_table()]
        self._kept = self._batches_kept()
        for query, files in self._queries.items():
            later = files.later(self._kept[query])
            files.remove(later)
            removed = many(len(later), "file")
            lines.append(f"checkpoint {files.uri}: {removed} removed; {self._next(query)}")
        return lines

    def restore_table(self) -> str:
        """Fence off every earlier driver and restore the table; return a summary line.

        The sink refuses the table's streams until `run` completes the rewind.
        """
        self._commits.await_clock()
        for files in self._checkpoints:
            files.take(Owner.here(f"{RUN}-{self._to}"))
        options = table_index_options(
            self._spark, self._table, table_properties(self._spark, self._table)
        )
        before = len(self._later())
        with write_client(self._spark, self._table, options) as client:
            # The first restore may only complete an interrupted one.
            for _ in range(2):
                if self._unfinished_restores() or self._later() or self._open_writes():
                    client.restoreToSavepoint(self._to)
        return f"table: restored to {self._to}, {many(before, 'commit')} rolled back"

    def _by_query(self) -> dict[str, CheckpointFiles]:
        """Return the checkpoint of each query."""
        by_query: dict[str, CheckpointFiles] = {}
        for files in self._checkpoints:
            query = files.query()
            if query is None:
                raise TableError(f"no checkpoint exists at {files.uri}", self._give_its_own())
            if (other := by_query.setdefault(query, files)) is not files:
                raise TableError(
                    f"the checkpoints {other.uri} and {files.uri} belong to the same query "
                    f"{query}, so one of them is a copy",
                    "pass the checkpoint that the stream uses: "
                    f"hudilab rewind {self._table} --to {self._to} --checkpoint URI",
                )
        return by_query

    def _next(self, query: str) -> str:
        return f"the next batch is {self._kept[query] + 1}"

    def _timeline(self) -> Any:
        return self._commits.meta().getActiveTimeline()

    def _later(self) -> list[Commit]:
        """Return the completed commits after the savepoint, newest first."""
        commits = self._commits.newest_first()
        return list(takewhile(lambda commit: commit.instant > self._to, commits))

    def _open_writes(self) -> list[str]:
        return sorted(instant for instant in self._commits.unfinished() if instant > self._to)

    def _unfinished_restores(self) -> list[Any]:
        return list(
            self._timeline().getRestoreTimeline().filterInflightsAndRequested().getInstants()
        )

    def _refuse_without_savepoint(self) -> None:
        done = self._timeline().getSavePointTimeline().filterCompletedInstants()
        savepoints = [str(instant.requestedTime()) for instant in done.getInstants()]
        if self._to in savepoints:
            return
        known = f"its savepoints are {', '.join(savepoints)}" if savepoints else "it has none"
        if any(commit.instant == self._to for commit in self._commits.newest_first()):
            table = "'" + self._table.replace("\\", "\\\\").replace("'", "\\'") + "'"
            raise TableError(
                f"the commit {self._to} of {self._table} has no savepoint, so cleaning may have "
                f"deleted its files ({known})",
                "create the savepoint before a clean deletes them: "
                f"CALL create_savepoint(path => {table}, commit_time => '{self._to}')",
            )
        raise TableError(
            f"{self._table} has no commit {self._to!r} to rewind to ({known})",
            f"choose a savepoint, or look at the timeline: hudilab inspect {self._table}",
        )

    def _refuse_other_restore(self) -> None:
        for instant in self._unfinished_restores():
            other = savepoint_of_restore(self._spark, self._commits.meta(), instant)
            if other not in ("", self._to):
                raise TableError(
                    f"a rewind of {self._table} to {other} was interrupted",
                    f"complete it first: hudilab rewind {self._table} --to {other} --stopped",
                )

    def _batches_kept(self) -> dict[str, int]:
        """Return the newest batch of each query at the savepoint, or -1.

        Raises:
            TableError: A query isn't the table's, or a later commit belongs to another query.
        """
        kept = dict.fromkeys(self._queries, -1)
        later: dict[str, int] = {}
        known: set[str] = set()
        for commit in self._commits.newest_first():
            if commit.metadata is None:
                continue
            query = commit.metadata.query
            if commit.instant > self._to:
                later[query] = later.get(query, 0) + 1
            elif kept.get(query) == -1:
                kept[query] = commit.metadata.batch
            known.add(query)
            if set(self._queries) <= known and -1 not in kept.values():
                break
        self._refuse_other_checkpoints(known)
        for query in sorted(set(later) - set(self._queries)):
            given = ", ".join(files.uri for files in self._checkpoints)
            raise TableError(
                f"{many(later[query], 'commit')} after {self._to} "
                f"{'comes' if later[query] == 1 else 'come'} from the stream {query}, whose "
                f"checkpoint is not {given}",
                f"pass the checkpoints of all streams: {self._again} --checkpoint URI",
            )
        return kept

    def _refuse_other_checkpoints(self, known: set[str]) -> None:
        for query, files in self._queries.items():
            # After a restore to before the first batch, only the checkpoint's owner shows a rewind.
            owner = files.recorded_owner()
            ours = owner is not None and owner.run == f"{RUN}-{self._to}"
            if query not in known and not ours:
                raise TableError(
                    f"the checkpoint {files.uri} belongs to another table: {self._table} has no "
                    f"commit of its stream {query}",
                    self._give_its_own(),
                )

    def _give_its_own(self) -> str:
        return (
            "pass the checkpoint of the table's stream: "
            f"hudilab rewind {self._table} --to {self._to} --checkpoint URI"
        )

    def _refuse_forgotten_batches(self) -> None:
        for query, files in self._queries.items():
            if (batch := self._kept[query]) >= 0 and not files.is_planned(batch):
                oldest = min(files.batches("offsets"), default=None)
                raise TableError(
                    f"the checkpoint {files.uri} no longer contains batch {batch}, the newest "
                    f"at {self._to}: Spark keeps the last 100 "
                    f"(spark.sql.streaming.minBatchesToRetain), of which {oldest} is the oldest",
                    f"choose a later savepoint: hudilab inspect {self._table}",
                )

    def _refuse_heartbeat(self) -> None:
        now = time.time()
        beats = list_files(self._spark, f"{self._table}/.hoodie/.heartbeat")
        ages = {beat.path: now - beat.modified_ms / 1000 for beat in beats}
        for instant in self._open_writes():
            if (age := ages.get(instant)) is not None and age < ALIVE:
                raise TableError(
                    f"a writer is still running: its write {instant} to {self._table} had a "
                    f"heartbeat less than {ALIVE:.0f} s ago",
                    f"stop it, wait for a minute, then: {self._again}",
                )

    def _refuse_owner(self, files: CheckpointFiles) -> None:
        """Raise TableError unless the last process that used this checkpoint has ended."""
        owner = files.recorded_owner()
        if owner is None or owner.host != socket.gethostname():
            where = f" on {owner.host}" if owner else ""
            raise TableError(
                f"the stream of {files.uri} may be running{where}",
                f"make sure that it has ended, then add --stopped: {self._again} --stopped",
            )
        if owner.process != Owner.here("").process and _is_running(owner.process):
            raise TableError(
                f"process {owner.process} on this machine has written with {files.uri} and is "
                "still running",
                f"end it or stop its stream, then add --stopped: {self._again} --stopped",
            )


def _is_running(process: int) -> bool:
    """Return whether a process of this machine is running; a zombie isn't."""
    with suppress(PermissionError):  # another account's process
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    try:
        status = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:  # not Linux, or it has just ended: refusing is safe
        return True
    return status.rpartition(")")[2].split()[0] != "Z"


def _span(numbers: list[int]) -> str:
    if not numbers:
        return "no batch"
    if len(numbers) == 1:
        return f"batch {numbers[0]}"
    return f"batches {numbers[0]} to {numbers[-1]}"
