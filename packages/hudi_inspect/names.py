"""Parse the names of a table's files: instants of the timeline, and data files.

Timeline layout 1 (table version 6) has files `.hoodie/<time>.<action>`, with JSON for commits.
Layout 2 (table versions 8 and 9) has Avro files `.hoodie/timeline/<time>_<completed>.<action>`, and
Parquet files of old instants in `history/`.

This module imports no other module, so that it loads fast.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hudi_inspect.records import CommitFile

# Actions whose completed file lists the written files.
WRITES = ("commit", "deltacommit", "replacecommit")
ACTIONS = (
    *WRITES,
    "clean",
    "rollback",
    "restore",
    "savepoint",
    "compaction",
    "logcompaction",
    "clustering",
    "indexing",
)
STATES = ("REQUESTED", "INFLIGHT", "COMPLETED")
# Seconds or milliseconds; an instant of a metadata table can have three more digits.
_TIME = r"\d{14}(?:\d{3}){0,2}"
_NAME = re.compile(
    rf"(?P<time>{_TIME})(?:_(?P<completed>{_TIME}))?"
    r"(?=\.)(?:\.(?P<action>[a-z]+))??(?:\.(?P<step>requested|inflight))?"
)
_FIRST = datetime.min.replace(tzinfo=UTC)

# A base file's name contains its file group in any format: Parquet, ORC, HFile, Lance.
_BASE = re.compile(r"(?P<group>[^_]+)_[^_]+_(?P<instant>\d+)\.[A-Za-z]\w*")
_LOG = re.compile(
    r"\.(?P<group>.+)_(?P<instant>[^_]*)\.log\.(?P<version>\d+)(?:_\d+-\d+-\d+)?(?P<cdc>\.cdc)?"
)


class Entry(NamedTuple):
    """A file: path relative to the table, size in bytes, last change in seconds since 1970."""

    path: str
    size: int
    modified: float


@dataclass(slots=True)
class Instant:
    """An action on the timeline.

    Attributes:
        time: The time in the file name, which Hudi's procedures accept.
        completion_time: The completion time in the file name; None if pending, and in layout 1.
        files: Files by state (REQUESTED, INFLIGHT, COMPLETED), relative to the table.
        touched: The last modification of its files, in seconds since 1970; 0 if archived.
        commit: The content of a write; None for an action that writes no rows.
    """

    time: str
    action: str
    state: str
    completion_time: str | None
    requested: datetime | None
    completed: datetime | None
    files: dict[str, str] = field(default_factory=dict)
    touched: float = 0.0
    archived: bool = False
    commit: CommitFile | None = None

    @property
    def is_done(self) -> bool:
        """Return whether it is completed."""
        return self.state == "COMPLETED"

    @property
    def is_write(self) -> bool:
        """Return whether it is a completed write of data."""
        return self.is_done and self.action in WRITES

    @property
    def end(self) -> tuple[datetime, str]:
        """Return a sort key by completion time, or by request time for a pending instant."""
        return self.completed or self.requested or _FIRST, self.time

    @property
    def operation(self) -> str | None:
        """Return the writer's operation, such as UPSERT; None for an action without rows."""
        return self.commit.operation if self.commit else None

    @property
    def rows_written(self) -> int | None:
        """Return the number of rows in its files; None for an action without rows."""
        return sum(stat.writes for stat in self.commit.stats) if self.commit else None

    @property
    def rows_updated(self) -> int | None:
        """Return the number of updated rows; None for an action without rows."""
        return sum(stat.updates for stat in self.commit.stats) if self.commit else None

    @property
    def rows_deleted(self) -> int | None:
        """Return the number of deleted rows; None for an action without rows."""
        return sum(stat.deletes for stat in self.commit.stats) if self.commit else None


def moment(time: str, utc: bool) -> datetime | None:
    """Return the time in an instant's name, or None if the name is not a time.

    Args:
        utc: Whether the timeline is in UTC. Otherwise it is in the writer's time zone, which Hudi
            and this function assume to be this machine's.
    """
    try:
        # strptime is twenty times slower.
        local = datetime.fromisoformat(f"{time[:8]}T{time[8:14]}.{time[14:17] or '000'}")
        return local.replace(tzinfo=UTC) if utc else local.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


class _File(NamedTuple):
    """A file of an instant; `step` is the index of its state in STATES."""

    step: int
    action: str
    completion_time: str | None
    entry: Entry


def instants_of(entries: Iterable[Entry], folder: str, utc: bool) -> list[Instant]:
    """Return the instants with files in a folder, oldest first.

    Args:
        folder: `.hoodie/timeline` for layout 2, `.hoodie` for layout 1. File names of layout 1 lack
            the completion time, so the last file's modification time replaces it, as in Hudi.
    """
    files: dict[tuple[str, str], list[_File]] = {}
    for entry in entries:
        parent, _, name = entry.path.rpartition("/")
        match = _NAME.fullmatch(name)
        if parent != folder or match is None:
            continue
        # The second file of a COPY_ON_WRITE commit has no action in its name.
        action = match["action"] or "commit"
        if action not in ACTIONS:
            continue
        step = {"requested": 0, "inflight": 1}.get(match["step"], 2)
        # A savepoint has the time of its commit.
        key = match["time"], "savepoint" if action == "savepoint" else ""
        files.setdefault(key, []).append(_File(step, action, match["completed"], entry))
    return [_instant(time, files[time, kind], utc) for time, kind in sorted(files)]


def _instant(time: str, files: list[_File], utc: bool) -> Instant:
    files.sort(key=lambda file: file.step)
    last = files[-1]
    completed = None
    if STATES[last.step] == "COMPLETED":
        at = last.completion_time
        completed = moment(at, utc) if at else _modified(last.entry)
    return Instant(
        time=time,
        action=last.action,
        state=STATES[last.step],
        completion_time=last.completion_time,
        requested=moment(time, utc),
        completed=completed,
        files={STATES[file.step]: file.entry.path for file in files},
        touched=max(file.entry.modified for file in files),
    )


def _modified(entry: Entry) -> datetime | None:
    try:
        return datetime.fromtimestamp(entry.modified, UTC)
    except (ValueError, OverflowError, OSError):
        return None


class DataFile(NamedTuple):
    """The parts of a data file's path: partition, file group, and the instant of the write."""

    partition: str
    group: str
    instant: str
    is_base: bool


def parse_file(path: str) -> DataFile | None:
    """Parse a path relative to the table; return None for other files."""
    if path.startswith(".hoodie/"):
        return None
    partition, _, name = path.rpartition("/")
    base = _BASE.fullmatch(name)
    match = base or _LOG.fullmatch(name)
    if match is None:
        return None
    return DataFile(partition, match["group"], match["instant"], base is not None)
