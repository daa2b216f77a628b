"""Create, list and delete savepoints, whose files cleaning keeps for a rewind."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from hudi_sink import jvm
from hudi_sink.commits import Commits
from hudi_sink.table_files import check_upgrade, table_index_options, table_properties
from hudilab.errors import TableError


class Savepoint(NamedTuple):
    """A savepoint: the commit's instant, a name, and its creator and creation time (UTC)."""

    instant: str
    name: str
    user: str
    made: datetime

    def __str__(self) -> str:
        """Return a line about the savepoint."""
        name = f" {self.name!r}" if self.name else ""
        return f"{self.instant}{name}, made by {self.user} at {self.made:%Y-%m-%d %H:%M:%S} UTC"


class Savepoints:
    """The savepoints of one table. Source: Hudi 1.2 `CALL create_savepoint`.

    They are safe while a stream is running, because they change no data file.

    Raises:
        TableError: There is no table.
    """

    def __init__(self, spark: SparkSession, table: str) -> None:
        self._spark, self._table = spark, table
        self._commits = Commits(spark, table)
        self._commits.check_exists("savepoint")

    def all(self) -> list[Savepoint]:
        """Return the savepoints, oldest first."""
        timeline = self._commits.meta().getActiveTimeline().getSavePointTimeline()
        done = timeline.filterCompletedInstants()
        return [_savepoint(done, instant) for instant in done.getInstants()]

    def find(self, text: str) -> Savepoint:
        """Return the savepoint with an instant or a name; raise TableError if there is none."""
        savepoints = self.all()
        for savepoint in savepoints:
            if text in (savepoint.instant, savepoint.name):
                return savepoint
        known = "; ".join(map(str, savepoints))
        raise TableError(
            f"{self._table} has no savepoint {text!r} ({known or 'it has none'})",
            f"list them: hudilab savepoint {self._table} --list",
        )

    def create(self, name: str) -> Savepoint:
        """Create a savepoint of the newest commit.

        Raises:
            TableError: There is no commit, the commit or the name already has a savepoint, or
                account or clock forbid a write.
        """
        self._commits.check_access(write=True)
        commits = self._commits.newest_first(to_write=True)
        newest = next((commit.instant for commit in commits), "")
        if not newest:
            raise TableError(
                f"{self._table} has no commit yet", "write to it first, then create a savepoint"
            )
        for savepoint in self.all():
            if savepoint.instant == newest or (name and savepoint.name == name):
                raise TableError(
                    f"{self._table} already has this savepoint: {savepoint}",
                    f"use it: hudilab rewind {self._table} --to {savepoint.instant}; or delete it: "
                    f"hudilab savepoint {self._table} --delete {savepoint.instant}",
                )
        with self._client() as client:
            client.savepoint(newest, _user(), name)
        return self.find(newest)

    def delete(self, text: str) -> Savepoint:
        """Delete the savepoint with an instant or a name, so that its files can be cleaned."""
        savepoint = self.find(text)
        self._commits.check_access(write=True)
        self._commits.await_clock()
        with self._client() as client:
            client.deleteSavepoint(savepoint.instant)
        return savepoint

    def _client(self) -> Any:
        properties: Mapping[str, str] = table_properties(self._spark, self._table)
        check_upgrade(self._spark, self._table, properties)
        options = table_index_options(self._spark, self._table, properties)
        return jvm.write_client(self._spark, self._table, options)


def _savepoint(timeline: Any, instant: Any) -> Savepoint:
    stored = timeline.readSavepointMetadata(instant)
    made = datetime.fromtimestamp(int(stored.getSavepointedAt()) / 1000, UTC)
    name, user = str(stored.getComments() or ""), str(stored.getSavepointedBy() or "")
    return Savepoint(str(instant.requestedTime()), name, user, made)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return "unknown"
