"""Read a streaming checkpoint, record its owner, and set it back to an earlier batch."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator
from typing import NamedTuple

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from hudi_sink.access import denied
from hudi_sink.files import (
    delete_file,
    exists,
    list_files,
    read_text,
    read_text_or_none,
    write_text,
)
from hudi_sink.rules import offsets_digest, replaced
from hudilab.errors import StreamError

OWNER = "hudilab-owner"
# Removed in this order: Spark runs a batch without a commit entry again, with the same offsets.
FOLDERS = ("commits", "offsets")
_ENTRY = re.compile(r"(\d+)(?:\.compact)?").fullmatch
_COMPACT = re.compile(r"\d+\.compact").fullmatch


class Owner(NamedTuple):
    """The owner of a checkpoint: a run of a query, and its process and machine."""

    run: str
    process: int
    host: str

    @classmethod
    def here(cls, run: str) -> Owner:
        """Return this process as the owner."""
        return cls(run, os.getpid(), socket.gethostname())

    def __str__(self) -> str:
        """Return the owner as the checkpoint's file stores it."""
        return " ".join(map(str, self))


class PlannedBatch(NamedTuple):
    """What a batch reads: a digest, and the entries of the sources' logs (see `entries`)."""

    digest: str
    entries: list[str]


class CheckpointFiles:
    """The files of one checkpoint; each method reads them again. Source: Spark 3.5."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark, self.uri = spark, uri
        self._offsets: dict[int, str] = {}  # of the batch that `plan` returned last

    def query(self) -> str | None:
        """Return the id of the checkpoint's query, None for a new checkpoint.

        Raises:
            StreamError: The file with the id is damaged.
        """
        file = f"{self.uri}/metadata"
        if not exists(self._spark, file):
            return None
        try:
            return str(json.loads(read_text(self._spark, file))["id"])
        except (ValueError, KeyError, TypeError):
            raise StreamError(
                f"the checkpoint file {file} is damaged",
                "restore it from a backup, or delete the table and the checkpoint together and "
                "start again",
            ) from None

    def check_access(self) -> None:
        """Raise StreamError if the account may not write to an existing checkpoint on a disk."""
        if refusal := denied(self.uri, *FOLDERS, "sources", write=True):
            problem, remedy = refusal
            raise StreamError(f"the checkpoint {self.uri} cannot be written: {problem}", remedy)

    def batches(self, folder: str) -> list[int]:
        """Return the batches in the folder `offsets` (planned) or `commits` (done), ascending."""
        files = list_files(self._spark, f"{self.uri}/{folder}")
        return sorted(int(file.path) for file in files if file.path.isdecimal())

    def done(self) -> int:
        """Return the newest batch with a commit entry, or -1."""
        return max(self.batches("commits"), default=-1)

    def is_planned(self, batch: int) -> bool:
        """Return whether the checkpoint still contains a batch's offsets."""
        return exists(self._spark, f"{self.uri}/offsets/{batch}")

    def offsets(self, batch: int) -> str:
        """Return the end offsets of a planned batch; empty if the batch isn't planned.

        Raises:
            StreamError: The file is damaged.
        """
        file = f"{self.uri}/offsets/{batch}"
        if (text := read_text_or_none(self._spark, file)) is None:
            return ""
        version, _, rest = text.partition("\n")
        # The file has a version, a line of JSON, and a line for each source.
        if not version.startswith("v") or not rest.startswith("{") or "\n" not in rest:
            raise StreamError(
                f"the checkpoint file {file} is damaged",
                f"delete the files numbered {batch} and higher in {self.uri}/commits and "
                f"{self.uri}/offsets, and start again: Spark plans these batches again, and "
                "the sink skips those that the table contains",
            )
        return text

    def plan(self, batch: int) -> PlannedBatch:
        """Return what a planned batch reads; keep its offsets for the next batch."""
        texts = {-1: ""} | self._offsets
        for number in (batch - 1, batch):
            if number not in texts:
                texts[number] = self.offsets(number)
        self._offsets = {batch: texts[batch]}
        before, upto = texts[batch - 1], texts[batch]
        entries = self.entries(before, upto)
        return PlannedBatch(offsets_digest(before, upto, entries), entries)

    def forget(self) -> None:
        """Discard the cached offsets."""
        self._offsets = {}

    def entries(self, before: str, upto: str) -> list[str]:
        """Return a batch's entries in the sources' own logs; none for sources without a log.

        A file source's offset is only the number of its newest log entry, which names the files.
        Every tenth entry also repeats all earlier ones.

        Args:
            before: The previous batch's offsets, as `offsets` returns them.
            upto: The batch's own offsets.
        """
        earlier = _log_offsets(before)
        return [
            text
            for source, newest in _log_offsets(upto).items()
            for text in self._log(source, range(earlier.get(source, -1) + 1, newest + 1))
        ]

    def _log(self, source: int, numbers: range) -> Iterator[str]:
        """Yield the text of each entry of a source's log, with its lines sorted."""
        log = f"{self.uri}/sources/{source}"
        names = {file.path for file in list_files(self._spark, log)}
        compacts = sorted(int(name.removesuffix(".compact")) for name in names if _COMPACT(name))
        for number in numbers:
            later = next((compact for compact in compacts if compact >= number), None)
            if str(number) not in names and later is None:
                yield f"entry {number} is missing"
                continue
            name = str(number) if str(number) in names else f"{later}.compact"
            lines = read_text(self._spark, f"{log}/{name}").splitlines()[1:]
            yield "\n".join(sorted(line for line in lines if json.loads(line)["batchId"] == number))

    def later(self, batch: int) -> list[str]:
        """Return the files of later batches, relative to the folder, in the order of removal."""
        noted = {name: set(self.batches(name)) for name in FOLDERS}
        newest_first = sorted(set().union(*noted.values()), reverse=True)
        return [
            f"{name}/{number}"
            for number in newest_first
            for name in FOLDERS
            if number > batch and number in noted[name]
        ]

    def remove(self, files: list[str]) -> None:
        """Remove files in order, so that the checkpoint is valid after each removal."""
        for file in files:
            delete_file(self._spark, f"{self.uri}/{file}")

    def log_end(self, batch: int, source: int = 0) -> int:
        """Return the number of the last log entry of a source that a batch reads, or -1."""
        return _log_offsets(self.offsets(batch)).get(source, -1)

    def forget_plan(self, batch: int, source: int = 0) -> None:
        """Remove the plan of the newest batch, so that Spark lists the files again.

        The table must not contain the batch. After an interruption, Spark plans the batch with the
        same files.
        """
        end = self.log_end(batch - 1, source)
        self.remove([f"offsets/{batch}"])
        names = (file.path for file in list_files(self._spark, f"{self.uri}/sources/{source}"))
        entries = {int(found[1]): name for name in names if (found := _ENTRY(name))}
        newest_first = sorted(entries, reverse=True)
        log = f"sources/{source}"
        self.remove([f"{log}/{entries[number]}" for number in newest_first if number > end])

    def owner(self) -> str:
        """Return the owner's file as text; the file must exist."""
        return read_text(self._spark, self.owner_file())

    def recorded_owner(self) -> Owner | None:
        """Return the recorded owner; None if no owner, process or machine is recorded."""
        if not exists(self._spark, self.owner_file()):
            return None
        parts = self.owner().split(" ")
        return Owner(parts[0], int(parts[1]), parts[2]) if len(parts) == 3 else None

    def take(self, owner: Owner) -> str:
        """Record a new owner, so that no earlier owner can commit; return the file's text."""
        write_text(self._spark, self.owner_file(), str(owner))
        return str(owner)

    def owner_file(self) -> str:
        """Return the URI of the owner's file."""
        return f"{self.uri}/{OWNER}"


class Fence:
    """Fences off the earlier drivers of a checkpoint.

    A driver that takes over records itself as the owner, then rolls back other drivers' writes.
    """

    def __init__(self, files: CheckpointFiles) -> None:
        self._files = files
        self._owner, self._view = "", ""  # of this run
        self._condition: Column | None = None  # cached: takes a dozen calls into the JVM

    def take(self, session: SparkSession, run: str) -> None:
        """Record this process as the owner in a run of the query; `session` is the query's."""
        self._owner, self._condition = self._files.take(Owner.here(run)), None
        self._view = f"hudilab_owner_{run.replace('-', '')}"
        session.read.text(self._files.owner_file()).createOrReplaceTempView(self._view)

    def is_mine(self) -> bool:
        """Return whether this process still owns the checkpoint."""
        return self._files.owner() == self._owner

    def check(self) -> None:
        """Raise StreamError if this process no longer owns the checkpoint."""
        if not self.is_mine():
            raise replaced(self._files.uri)

    def raise_if_replaced(self, cause: Exception) -> None:
        """Raise StreamError from `cause` if another driver has taken over the checkpoint."""
        recorded = self._files.recorded_owner()
        if recorded is not None and str(recorded) != self._owner:
            raise replaced(self._files.uri) from cause

    def condition(self) -> Column:
        """Return a condition that is true for the owner and raises an error for other drivers.

        Spark evaluates it on the driver when it reads the rows.
        """
        if self._condition is None:
            is_owner = F.expr(f"(SELECT value FROM {self._view})") == F.lit(self._owner)
            error = F.raise_error(F.lit(str(replaced(self._files.uri))))
            self._condition = F.when(is_owner, F.lit(True)).otherwise(error)
        return self._condition


def _log_offsets(offsets: str) -> dict[int, int]:
    """Return the newest log entry by source, for sources whose offset is an entry's number."""
    newest = {}
    for source, line in enumerate(offsets.splitlines()[2:]):
        if match := re.fullmatch(r'\{"logOffset":(\d+)\}', line):
            newest[source] = int(match[1])
    return newest
