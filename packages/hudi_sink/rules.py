"""Decide when a stream may write to a table: the exactly-once rules, without Spark and I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hudi_sink.metadata import BATCH, COVERS, PREFIX, QUERY, SOURCE
from hudilab.errors import StreamError


def replaced(checkpoint: str) -> StreamError:
    """Return the error for a driver that no longer owns its checkpoint."""
    return StreamError(
        f"another driver has taken over the checkpoint {checkpoint}",
        "stop this driver, and let the other driver write",
    )


class BatchMetadata(NamedTuple):
    """A micro-batch's entry in its commit.

    Attributes:
        query: The streaming query's id.
        batch: The batch's number.
        offsets_digest: See the function of that name.
        source: The identity of the rows' source, as JSON.
    """

    query: str
    batch: int
    offsets_digest: str
    source: str

    def options(self) -> dict[str, str]:
        """Return the write options that store this entry in a commit."""
        return {
            "hoodie.datasource.write.commitmeta.key.prefix": PREFIX,
            QUERY: self.query,
            BATCH: str(self.batch),
            COVERS: self.offsets_digest,
            SOURCE: self.source,
        }


class Commit(NamedTuple):
    """A completed commit.

    Attributes:
        metadata: None if no stream of the lab wrote the commit.
        groups: The ids of its file groups.
        operation: Hudi's name of the operation.
        lock: The lock that its writer took, or an empty string.
        bytes: The number of bytes written.
        keys: MICROS if all keys of the table have their times in microseconds.
        inserted: The number of rows added.
    """

    instant: str
    metadata: BatchMetadata | None
    groups: frozenset[str] = frozenset()
    operation: str = ""
    lock: str = ""
    bytes: int = 0
    keys: str = ""
    inserted: int = 0


class Checkpoint(NamedTuple):
    """The contents of a checkpoint.

    Attributes:
        query: The query's id; None for a new checkpoint.
        done: The newest batch with a commit entry; -1 for none.
        planned: The digest of each planned batch that Spark still keeps.
    """

    query: str | None
    done: int
    planned: Mapping[int, str]


def offsets_digest(before: str, upto: str, entries: Sequence[str] = ()) -> str:
    """Return a digest of the offsets between which a batch reads.

    It ignores the first two lines of an offsets file, version and time, which don't identify rows.

    Args:
        before: The previous batch's file in the checkpoint's `offsets` folder; empty for batch 0.
        upto: The batch's own file.
        entries: The sources' log entries, for sources whose offset is an entry's number.
    """
    parts = ["\n".join(text.splitlines()[2:]) for text in (before, upto)]
    return hashlib.sha256(json.dumps([*parts, *entries]).encode()).hexdigest()[:32]


class Rules:
    """The rules for one stream, its checkpoint and its table; every refusal is a StreamError.

    Args:
        table: The table's URI, for messages.
        location: The checkpoint's URI, for messages.
        batches: The length of a bounded stream, else None.
        shared: Other streams may write to the table.
    """

    def __init__(self, table: str, location: str, batches: int | None, shared: bool) -> None:
        self._table, self._location = table, location
        self._batches, self._shared = batches, shared
        self._both = "delete the table and the checkpoint together, or use another run_id"

    def find(
        self, query: str | None, commits: Iterable[Commit]
    ) -> tuple[BatchMetadata | None, list[Commit]]:
        """Return the metadata of the stream's newest commit, or None, and newer commits of others.

        `commits` is sorted newest first and is read only as far as needed.
        """
        newer: list[Commit] = []
        for commit in commits:
            if commit.metadata is not None and commit.metadata.query == query:
                self._refuse_newer_streams(newer)
                return commit.metadata, newer
            newer.append(commit)
        return None, newer

    def check(
        self,
        checkpoint: Checkpoint,
        source: str,
        newest: BatchMetadata | None,
        others: list[Commit],
    ) -> None:
        """Raise StreamError if checkpoint, table and source do not belong together.

        `newest` and `others` are the results of `find`.
        """
        if newest is None:
            self._refuse_strangers(checkpoint, others)
        else:
            self._refuse_gap(checkpoint, newest, source)

    def is_written(
        self, batch: int, digest: str, source: str, newest: BatchMetadata | None
    ) -> bool:
        """Return whether to skip a batch: the table contains it, or a bounded stream has ended.

        The table contains a batch if number, source and offsets are the same.
        """
        if newest is not None and newest.source != source:
            raise self._other_source(newest, source)
        last = -1 if newest is None else newest.batch
        if self._batches is not None and batch >= self._batches == last + 1:
            return True
        if batch == last + 1:
            return False
        if batch > last:
            raise StreamError(
                "the table was restored to an earlier state while the stream was running: "
                f"{self._table} has batches up to {last}, but batch {batch} is next",
                f"restore the table, or {self._both}",
            )
        if batch < last or newest is None:
            raise replaced(self._location)
        if digest != newest.offsets_digest:
            raise self._set_back(batch)
        return True

    def check_locks(self, lock: str, others: Iterable[Commit]) -> None:
        """Raise StreamError if another writer uses a different lock, so neither waits.

        `others` are the commits since this stream's start, including its own.
        """
        for commit in others:
            if commit.lock and commit.lock not in (
                lock,
                "true",
            ):  # the lab's first releases recorded no lock
                raise StreamError(
                    f"two writers of {self._table} use different locks, so neither waits for "
                    f"the other: commit {commit.instant} used {commit.lock}, this stream uses "
                    f"{lock}",
                    "use the same lock for both: omit lock= for a table on a disk, or name a "
                    "provider that both processes can reach",
                )

    def _refuse_gap(self, checkpoint: Checkpoint, newest: BatchMetadata, source: str) -> None:
        if newest.source != source:
            raise self._other_source(newest, source)
        done = self._done(checkpoint)
        if not done <= newest.batch <= done + 1:
            older = "table" if newest.batch < done else "checkpoint"
            end = newest.batch + 1
            # Spark runs empty batches after a bounded stream's last one, and marks them as done.
            shorter = older == "table" and self._batches is not None
            again = f"pass batches={end} again if an earlier run had that, " if shorter else ""
            raise StreamError(
                f"the {older} was restored to an earlier state: {self._table} has batches up to "
                f"{newest.batch}, {self._location} up to {done}",
                f"restore both from the same point in time, {again}or {self._both}",
            )
        if checkpoint.planned.get(newest.batch, newest.offsets_digest) != newest.offsets_digest:
            raise self._set_back(newest.batch)

    def _other_source(self, newest: BatchMetadata, source: str) -> StreamError:
        return StreamError(
            f"the checkpoint {self._location} belongs to a run with {newest.source}, but this "
            f"run has {source}",
            f"use the same source and parameters, or {self._both}",
        )

    def _set_back(self, batch: int) -> StreamError:
        return StreamError(
            f"batch {batch} in {self._table} has other source offsets than batch {batch} of the "
            f"checkpoint {self._location}: the checkpoint was restored to an earlier state or "
            "copied",
            f"restore both from the same point in time, or {self._both}",
        )

    def _refuse_newer_streams(self, newer: list[Commit]) -> None:
        strangers = sorted({commit.metadata.query for commit in newer if commit.metadata})
        if strangers and not self._shared:
            raise StreamError(
                f"another stream ({strangers[0]}) has written to {self._table} since this stream's "
                "last batch",
                "stop one of them, or pass shared=True to the ExactlyOnceSink of both",
            )

    def _refuse_strangers(self, checkpoint: Checkpoint, commits: list[Commit]) -> None:
        done = self._done(checkpoint)
        if done >= 0:
            raise StreamError(
                f"the checkpoint {self._location} belongs to another table or run: {self._table} "
                f"has none of its {done + 1} batches",
                f"use the checkpoint's own table, or {self._both}",
            )
        if self._shared or not commits:
            return
        if any(commit.metadata for commit in commits):
            raise StreamError(
                f"the table {self._table} was written by a stream whose checkpoint is not at "
                f"{self._location}, so this run would write its rows again",
                f"restore that checkpoint, or {self._both}; if both streams write to the table, "
                "pass shared=True to the ExactlyOnceSink of both",
            )
        raise StreamError(
            f"the table {self._table} contains rows that no stream wrote, and {self._location} "
            "is a new checkpoint",
            "use another table, or pass shared=True to ExactlyOnceSink to add to these rows",
        )

    def _done(self, checkpoint: Checkpoint) -> int:
        """Return the newest done batch, at most the last batch of a bounded stream.

        Spark marks later batches as done, too, but the sink never writes them.
        """
        if self._batches is None:
            return checkpoint.done
        return min(checkpoint.done, self._batches - 1)
