"""Group a table's files into file groups and slices, as Hudi's file system view does."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple

from hudilab.inspect.model import Event, Slice
from hudilab.inspect.store import Entry
from hudilab.inspect.timeline import WRITES

__all__ = ["Files", "build_slices", "parse_files"]

_BASE = re.compile(r"(?P<group>[^_]+)_[^_]+_(?P<instant>\d+)\.(?:parquet|orc|hfile)")
_LOG = re.compile(
    r"\.(?P<group>.+)_(?P<instant>[^_]*)\.log\.(?P<version>\d+)(?:_\d+-\d+-\d+)?(?P<cdc>\.cdc)?"
)


class Files(NamedTuple):
    """The files of one file group."""

    bases: dict[str, Entry]
    logs: list[tuple[str, Entry]]


def parse_files(entries: Collection[Entry]) -> dict[tuple[str, str], Files]:
    """Return the data files by (partition, file group); ignore all other files."""
    found: dict[tuple[str, str], Files] = {}
    for entry in entries:
        if entry.path.startswith(".hoodie/"):
            continue
        partition, _, name = entry.path.rpartition("/")
        if match := _BASE.fullmatch(name):
            group = found.setdefault((partition, match["group"]), Files({}, []))
            group.bases[match["instant"]] = entry
        elif match := _LOG.fullmatch(name):
            group = found.setdefault((partition, match["group"]), Files({}, []))
            group.logs.append((match["instant"], entry))
    return found


def build_slices(
    files: Mapping[tuple[str, str], Files],
    events: Collection[Event],
    *,
    replaced: Mapping[tuple[str, str], str],
    compacting: Mapping[tuple[str, str], str],
    older: Mapping[str, str],
    by_completion: bool,
) -> list[Slice]:
    """Return all committed slices, sorted by partition, file group and instant.

    Files that no completed instant wrote are ignored, as readers ignore them.

    Args:
        events: The active timeline.
        replaced: Maps a file group to the instant that replaced it, by clustering or an overwrite;
            the files stay until a clean.
        compacting: Maps a file group to its pending compaction: newer logs start a slice, which
            readers still merge with the previous one.
        older: Completion times of archived instants.
        by_completion: A log belongs to the slice that was the newest when the log was completed
            (layout 2); otherwise to the slice in the log's name (layout 1).
    """
    done = {
        one.time: one.completed or one.time
        for one in events
        if one.is_done and one.action in WRITES
    }
    active = [one.time for one in events if one.action != "savepoint"]
    view = _View(done, min(active, default=""), older, by_completion)
    slices: list[Slice] = []
    for (partition, group), found in sorted(files.items()):
        pair = partition, group
        slices += view.slices(*pair, found, compacting.get(pair), replaced.get(pair))
    return slices


class _View:
    def __init__(
        self, done: Mapping[str, str], begin: str, older: Mapping[str, str], by_completion: bool
    ) -> None:
        self._done, self._begin, self._older = done, begin, older
        self._by_completion = by_completion

    def _is_committed(self, time: str) -> bool:
        """Return whether an instant is completed: all older than the active timeline are."""
        return time in self._done or time < self._begin

    def slices(
        self, partition: str, group: str, files: Files, pending: str | None, replaced: str | None
    ) -> list[Slice]:
        """Return the slices of one file group, oldest first."""
        bases = {time: one for time, one in files.bases.items() if self._is_committed(time)}
        logs = sorted(files.logs, key=lambda log: (log[0], log[1].path))
        if self._by_completion:
            logs = [log for log in logs if self._is_committed(log[0])]
        begins = sorted({*bases, *([pending] if pending else [])})
        parts: dict[str, list[Entry]] = {begin: [] for begin in begins}
        for time, entry in logs:
            parts.setdefault(self._slice_of(time, sorted(parts)), []).append(entry)
        times = sorted(parts)
        if pending and len(times) > 1 and times[-1] == pending and pending not in bases:
            # Until the compaction completes, readers merge the slices before and after its plan.
            parts[times[-2]] += parts.pop(pending)
            times.pop()
        made = []
        for time, ended in zip(times, [*times[1:], replaced], strict=False):
            base, its = bases.get(time), parts[time]
            if base is None and not its:
                continue
            made.append(
                Slice(
                    partition=partition,
                    group=group,
                    instant=time,
                    base=base.path if base else None,
                    base_bytes=base.size if base else 0,
                    logs=tuple(log.path for log in its),
                    log_bytes=sum(log.size for log in its),
                    ended=ended,
                    rows=None,
                )
            )
        return made

    def _slice_of(self, time: str, begins: list[str]) -> str:
        if not self._by_completion:
            return time
        completed = self._done.get(time) or self._older.get(time) or time
        # A log older than every base file is a slice of its own.
        return max((begin for begin in begins if begin <= completed), default=time)
