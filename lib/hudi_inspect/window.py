"""Find how far back the queries of a table can go."""

from __future__ import annotations

import re
from collections import defaultdict

from hudi_inspect.model import Event, QueryWindow, iso
from hudi_inspect.table import Facts
from hudi_inspect.timeline import WRITES, moment

_FILE = re.compile(r"\.?(?P<group>[^_]+)_(?:[^_]+_)?(?P<time>\d{14,})\.")


def find_reach(facts: Facts) -> QueryWindow:
    """Return the oldest times for which queries are complete.

    Time travel: the earliest commit that the last clean retained, or the first commit. If cleans
    retain file versions rather than commits: the first commit that needs no deleted file.
    """
    writes = [event for event in facts.events if event.is_done and event.action in WRITES]
    if not writes:
        return QueryWindow(None, None)
    oldest = facts.clean_begin or facts.first_commit or writes[0].time
    if facts.cleaned:
        oldest = max(oldest, _after_deleted(facts))
    return QueryWindow(iso(moment(oldest, facts.is_utc)), _begin(writes, oldest))


def _begin(writes: list[Event], oldest: str) -> str | None:
    """Return the begin, exclusive, of an incremental query of all writes from one on."""
    kept = [event for event in writes if event.time >= oldest]
    begin = kept[0].requested_at if kept else None
    if begin is None:
        return None
    # The begin of an incremental query is a completion time.
    first = min(event.completed_at for event in kept if event.completed_at)
    ends = (event.completed_at for event in writes if event.time < oldest)
    return iso(max((end for end in ends if end and begin < end < first), default=begin))


def _after_deleted(facts: Facts) -> str:
    """Return the oldest instant that needs no file deleted by a clean."""
    kept: dict[tuple[str, str], list[str]] = defaultdict(list)
    for part in facts.slices:
        kept[part.partition, part.group].append(part.instant)
    replaced = {pair: time for time, commit in facts.commits.items() for pair in commit.replaced}
    needed = ""
    for partition, name in facts.cleaned:
        if match := _FILE.match(name):
            pair = partition, match["group"]
            newer = [time for time in kept[pair] if time > match["time"]]
            needed = max(needed, min(newer, default=replaced.get(pair, "")))
    return needed
