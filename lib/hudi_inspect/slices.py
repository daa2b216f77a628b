"""Group a table's files into file groups and slices, as Hudi's file system view does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hudi_inspect.model import Event, Slice
from hudi_inspect.store import Entry
from hudi_inspect.timeline import WRITES

# Parquet, ORC, HFile, Lance: the name says whose a base file is, in whatever format it is.
_BASE = re.compile(r"(?P<group>[^_]+)_[^_]+_(?P<instant>\d+)\.[A-Za-z]\w*")
_LOG = re.compile(
    r"\.(?P<group>.+)_(?P<instant>[^_]*)\.log\.(?P<version>\d+)(?:_\d+-\d+-\d+)?(?P<cdc>\.cdc)?"
)
_Group = tuple[str, str]  # partition, file group


class DataFile(NamedTuple):
    """What the path of a data file says: whose it is, and which instant wrote it."""

    partition: str
    group: str
    instant: str
    is_base: bool


@dataclass(frozen=True)
class View:
    """What the timeline says about files.

    Attributes:
        events: The active timeline.
        replaced: Maps a file group to the instant that replaced it, by clustering or an overwrite;
            the files stay until a clean.
        compacting: Maps a file group to its pending compaction: newer logs start a slice, which
            readers still merge with the previous one.
        older: Completion times of archived instants.
        by_completion: A log belongs to the slice that was the newest when the log was completed
            (layout 2); otherwise to the slice in the log's name (layout 1).
    """

    events: Collection[Event]
    replaced: Mapping[_Group, str]
    compacting: Mapping[_Group, str]
    older: Mapping[str, str]
    by_completion: bool


class _Files(NamedTuple):
    """The files of one file group."""

    bases: dict[str, Entry]
    logs: list[tuple[str, Entry]]


def parse_file(path: str) -> DataFile | None:
    """Parse a path relative to the table; return None if it is not that of a data file."""
    if path.startswith(".hoodie/"):
        return None
    partition, _, name = path.rpartition("/")
    base = _BASE.fullmatch(name)
    match = base or _LOG.fullmatch(name)
    if match is None:
        return None
    return DataFile(partition, match["group"], match["instant"], base is not None)


def build_slices(entries: Iterable[Entry], view: View) -> list[Slice]:
    """Return all committed slices, sorted by partition, file group and instant.

    Files that no completed instant wrote are ignored, as readers ignore them.
    """
    builder = _Builder(view)
    slices: list[Slice] = []
    for pair, files in sorted(_groups(entries).items()):
        slices += builder.slices(pair, files)
    return slices


def _groups(entries: Iterable[Entry]) -> dict[_Group, _Files]:
    found: dict[_Group, _Files] = {}
    for entry in entries:
        if file := parse_file(entry.path):
            group = found.setdefault((file.partition, file.group), _Files({}, []))
            if file.is_base:
                group.bases[file.instant] = entry
            else:
                group.logs.append((file.instant, entry))
    return found


class _Builder:
    def __init__(self, view: View) -> None:
        self._view = view
        self._done = {
            event.time: event.completed or event.time
            for event in view.events
            if event.is_done and event.action in WRITES
        }
        active = [event.time for event in view.events if event.action != "savepoint"]
        self._begin = min(active, default="")

    def slices(self, pair: _Group, files: _Files) -> list[Slice]:
        """Return the slices of one file group, oldest first."""
        bases = {time: base for time, base in files.bases.items() if self._is_committed(time)}
        logs = self._logs_by_slice(pair, bases, files.logs)
        times = sorted(logs)
        ends = [*times[1:], self._view.replaced.get(pair)]
        return [
            _slice(pair, time, bases.get(time), logs[time], ended)
            for time, ended in zip(times, ends, strict=False)
            if time in bases or logs[time]
        ]

    def _is_committed(self, time: str) -> bool:
        """Return whether an instant is completed: all older than the active timeline are."""
        return time in self._done or time < self._begin

    def _logs_by_slice(
        self, pair: _Group, bases: Collection[str], logs: list[tuple[str, Entry]]
    ) -> dict[str, list[Entry]]:
        """Return the logs of each slice, by the slice's instant."""
        pending = self._view.compacting.get(pair)
        found: dict[str, list[Entry]] = {time: [] for time in bases}
        if pending:
            found.setdefault(pending, [])
        for time, entry in sorted(logs, key=lambda log: (log[0], log[1].path)):
            if not self._view.by_completion:
                found.setdefault(time, []).append(entry)
            elif self._is_committed(time):
                found.setdefault(self._slice_of(time, found), []).append(entry)
        times = sorted(found)
        if pending and len(times) > 1 and times[-1] == pending and pending not in bases:
            # Until the compaction completes, readers merge the slices before and after its plan.
            found[times[-2]] += found.pop(pending)
        return found

    def _slice_of(self, time: str, begins: Iterable[str]) -> str:
        completed = self._done.get(time) or self._view.older.get(time) or time
        # A log older than every base file is a slice of its own.
        return max((begin for begin in begins if begin <= completed), default=time)


def _slice(
    pair: _Group, time: str, base: Entry | None, logs: list[Entry], ended: str | None
) -> Slice:
    return Slice(
        partition=pair[0],
        group=pair[1],
        instant=time,
        base=base.path if base else None,
        base_bytes=base.size if base else 0,
        logs=tuple(log.path for log in logs),
        log_bytes=sum(log.size for log in logs),
        ended=ended,
        rows=None,
    )
