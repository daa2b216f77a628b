"""Group a table's files into file groups and slices, like Hudi's file system view."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hudi_inspect.names import Entry, Instant, parse_file

_Group = tuple[str, str]  # partition, file group


class Slice(NamedTuple):
    """A version of a file group: a base file, its logs, or both.

    `rows` is None if no metadata contains the number. `ended` is the instant that superseded the
    slice, or None for a slice of a snapshot query.
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
        """Return whether a snapshot query reads the slice."""
        return self.ended is None

    @property
    def bytes(self) -> int:
        """Return the total size of the files."""
        return self.base_bytes + self.log_bytes


@dataclass
class _Files:
    """The files of a file group, each with the instant in its name."""

    bases: dict[str, Entry] = field(default_factory=dict)
    logs: list[tuple[str, Entry]] = field(default_factory=list)


class SliceBuilder:
    """Groups files into the slices of completed instants.

    Args:
        timeline: The active timeline.
        replaced: The instants that replaced file groups, by clustering or an overwrite; the files
            stay until a clean.
        compacting: The pending compactions of file groups. Newer logs start a slice, which readers
            still merge with the previous slice.
        archived: Completion times of archived instants.
        by_completion: Assign a log to the newest slice at its completion (layout 2), not to the
            slice in its name (layout 1).
    """

    def __init__(
        self,
        timeline: Collection[Instant],
        *,
        replaced: Mapping[_Group, str],
        compacting: Mapping[_Group, str],
        archived: Mapping[str, str],
        by_completion: bool,
    ) -> None:
        self._replaced, self._compacting = replaced, compacting
        self._by_completion = by_completion
        self._archived = archived
        self._completed = {
            instant.time: instant.completion_time or instant.time
            for instant in timeline
            if instant.is_write
        }
        active = [instant.time for instant in timeline if instant.action != "savepoint"]
        self._begin = min(active, default="")

    def build(self, entries: Iterable[Entry]) -> list[Slice]:
        """Return all committed slices, sorted by partition, file group and instant.

        Like readers, it ignores files without a completed instant.
        """
        groups: defaultdict[_Group, _Files] = defaultdict(_Files)
        for entry in entries:
            if file := parse_file(entry.path):
                files = groups[file.partition, file.group]
                if file.is_base:
                    files.bases[file.instant] = entry
                else:
                    files.logs.append((file.instant, entry))
        return [part for group in sorted(groups) for part in self._slices(group, groups[group])]

    def _slices(self, group: _Group, files: _Files) -> list[Slice]:
        """Return the slices of a file group, oldest first."""
        bases = {time: base for time, base in files.bases.items() if self._is_committed(time)}
        logs = self._logs_by_slice(group, bases, files.logs)
        times = sorted(logs)
        ends = [*times[1:], self._replaced.get(group)]
        return [
            _slice(group, time, bases.get(time), logs[time], ended)
            for time, ended in zip(times, ends, strict=False)
            if time in bases or logs[time]
        ]

    def _is_committed(self, time: str) -> bool:
        """Return whether an instant is completed, as all older than the active timeline are."""
        return time in self._completed or time < self._begin

    def _logs_by_slice(
        self, group: _Group, bases: Collection[str], logs: Iterable[tuple[str, Entry]]
    ) -> dict[str, list[Entry]]:
        """Return the logs by their slice's instant."""
        pending = self._compacting.get(group)
        slices: dict[str, list[Entry]] = {time: [] for time in bases}
        if pending:
            slices.setdefault(pending, [])
        begins = sorted(slices)
        for time, entry in sorted(logs, key=lambda log: (log[0], log[1].path)):
            if not self._by_completion:
                slices.setdefault(time, []).append(entry)
            elif self._is_committed(time):
                begin = self._slice_of(time, begins)
                if begin not in slices:
                    slices[begin] = []
                    insort(begins, begin)
                slices[begin].append(entry)
        times = sorted(slices)
        if pending and len(times) > 1 and times[-1] == pending and pending not in bases:
            # Until the compaction completes, readers merge the slices before and after its plan.
            slices[times[-2]] += slices.pop(pending)
        return slices

    def _slice_of(self, time: str, begins: Sequence[str]) -> str:
        completed = self._completed.get(time) or self._archived.get(time) or time
        # A log older than every base file is a separate slice.
        older = bisect_right(begins, completed)
        return begins[older - 1] if older else time


def _slice(
    group: _Group, time: str, base: Entry | None, logs: Sequence[Entry], ended: str | None
) -> Slice:
    return Slice(
        partition=group[0],
        group=group[1],
        instant=time,
        base=base.path if base else None,
        base_bytes=base.size if base else 0,
        logs=tuple(log.path for log in logs),
        log_bytes=sum(log.size for log in logs),
        ended=ended,
        rows=None,
    )
