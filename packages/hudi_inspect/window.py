"""Find the oldest times for which a table's queries return complete results."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from hudi_inspect.names import Instant, moment
from hudi_inspect.units import iso

if TYPE_CHECKING:
    from hudi_inspect.snapshot import TableSnapshot

_FILE = re.compile(r"\.?(?P<group>[^_]+)_(?:[^_]+_)?(?P<time>\d{14,})\.")


class QueryWindow(NamedTuple):
    """The oldest times for which queries return complete results."""

    oldest_time_travel: str | None
    oldest_incremental: str | None


def find_window(snapshot: TableSnapshot) -> QueryWindow:
    """Return the oldest times for which queries return complete results.

    Time travel goes back to the earliest commit that the last clean retained, or to the first
    commit. If cleans retain file versions, it goes back to the first commit without a deleted file.
    """
    writes = [instant for instant in snapshot.timeline if instant.is_write]
    if not writes:
        return QueryWindow(None, None)
    oldest = snapshot.first_commit or writes[0].time
    if snapshot.cleaned:
        oldest = max(oldest, _after_deleted(snapshot))
    return QueryWindow(iso(moment(oldest, snapshot.is_utc)), _begin(writes, oldest))


def _begin(writes: list[Instant], oldest: str) -> str | None:
    """Return the exclusive start of an incremental query for all writes from `oldest` on."""
    kept = [write for write in writes if write.time >= oldest]
    begin = kept[0].requested if kept else None
    if begin is None:
        return None
    # An incremental query starts at a completion time.
    first = min(write.completed for write in kept if write.completed)
    ends = (write.completed for write in writes if write.time < oldest)
    return iso(max((end for end in ends if end and begin < end < first), default=begin))


def _after_deleted(snapshot: TableSnapshot) -> str:
    """Return the oldest instant that needs no file that a clean has deleted."""
    kept: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part in snapshot.slices:
        kept[part.partition, part.group].append(part.instant)
    replaced = {
        group: instant.time
        for instant in snapshot.history
        if instant.commit
        for group in instant.commit.replaced
    }
    needed = ""
    for partition, name in snapshot.cleaned:
        if match := _FILE.match(name):
            group = partition, match["group"]
            newer = kept[group][bisect_right(kept[group], match["time"]) :][:1]
            needed = max(needed, *newer or [replaced.get(group, "")])
    return needed
