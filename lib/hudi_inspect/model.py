"""The results of `hudilab inspect`: plain values, and the report with the fields of the JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple


class Stat(NamedTuple):
    """What one commit wrote into one file; `path` is relative to the table."""

    partition: str
    group: str
    path: str
    writes: int
    updates: int
    deletes: int
    bytes: int


class Commit(NamedTuple):
    """The content of a completed commit: what it wrote and replaced, and its extra metadata."""

    operation: str
    stats: tuple[Stat, ...]
    replaced: tuple[tuple[str, str], ...]
    extra: dict[str, str]


@dataclass(frozen=True)
class Event:
    """An instant of the timeline.

    Attributes:
        time: As in the file name, which is the form that Hudi's procedures take.
        files: Maps a state (requested, inflight, completed) to its file, relative to the table.
        touched: When one of its files last changed, in seconds since 1970; 0 if archived.
    """

    time: str
    action: str
    state: str
    completed: str | None
    requested_at: datetime | None
    completed_at: datetime | None
    files: dict[str, str] = field(default_factory=dict)
    touched: float = 0.0
    archived: bool = False

    @property
    def is_done(self) -> bool:
        """Return whether the instant is completed."""
        return self.state == "COMPLETED"


class Slice(NamedTuple):
    """A version of a file group: a base file, its logs, or both.

    `rows` is None if only reading the data would give it; `ended` is the instant that superseded
    the slice, None for a slice that a snapshot query reads.
    """

    partition: str
    group: str
    instant: str
    base: str | None
    base_bytes: int
    logs: tuple[str, ...]
    log_bytes: int
    ended: str | None
    rows: int | None

    @property
    def is_latest(self) -> bool:
        """Return whether a snapshot query reads it."""
        return self.ended is None

    @property
    def bytes(self) -> int:
        """Return the size of all its files."""
        return self.base_bytes + self.log_bytes


class Partition(NamedTuple):
    """Totals of a partition's latest slices."""

    path: str
    bytes: int
    files: int
    groups: int
    rows: int | None
    log_bytes: int
    base_bytes: int
    small: int


@dataclass(frozen=True)
class Table:
    """What the table is, and what a snapshot query reads."""

    uri: str
    name: str
    type: str
    version: int
    record_key: tuple[str, ...]
    partition: tuple[str, ...]
    index: str | None
    rows: int | None
    bytes: int
    files: int
    file_groups: int
    partitions: int


@dataclass(frozen=True)
class Instant:
    """An instant with its row counts, which are None if the action writes no rows."""

    requested: str | None
    completed: str | None
    action: str
    state: str
    operation: str | None
    rows_written: int | None
    rows_updated: int | None
    rows_deleted: int | None
    archived: bool


@dataclass(frozen=True)
class Writer:
    """A stream that wrote to the table, and the number of its last batch."""

    query: str
    last_batch: int


@dataclass(frozen=True)
class QueryWindow:
    """How far back queries can go."""

    oldest_time_travel: str | None
    oldest_incremental: str | None


@dataclass(frozen=True)
class Health:
    """The result of one check; the remedy is empty if the check is ok."""

    check: str
    ok: bool
    detail: str
    remedy: str

    def line(self) -> str:
        """Return the check as one line."""
        mark = "ok  " if self.ok else "FAIL"
        return f"{mark} {self.check:<14} {self.detail}" + ("" if self.ok else f"; {self.remedy}")


@dataclass(frozen=True)
class Report:
    """The report; it has the fields of the JSON, in the same order."""

    table: Table
    instants: tuple[Instant, ...]
    pending: tuple[Instant, ...]
    writers: tuple[Writer, ...]
    reach: QueryWindow
    health: tuple[Health, ...]
    notes: tuple[str, ...]  # what the report lacks, and why; mostly empty

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain values, for JSON."""
        # Not dataclasses.asdict: it copies every value, which takes longer than reading the table.
        return {
            "table": _plain(self.table),
            "instants": [vars(instant) for instant in self.instants],
            "pending": [vars(instant) for instant in self.pending],
            "writers": [vars(writer) for writer in self.writers],
            "reach": vars(self.reach),
            "health": [vars(check) for check in self.health],
            "notes": list(self.notes),
        }


def _plain(value: Table) -> dict[str, Any]:
    return {name: list(x) if isinstance(x, tuple) else x for name, x in vars(value).items()}


def iso(moment: datetime | None) -> str | None:
    """Return a moment as ISO 8601 in UTC with milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def size(count: float) -> str:
    """Return a number of bytes in readable units."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            break
        count /= 1024
    return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
