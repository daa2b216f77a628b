"""Read the plans of pending compactions, and the deleted files of cleans."""

from __future__ import annotations

from collections.abc import Collection

from hudi_inspect.archive import Archive
from hudi_inspect.errors import InspectError
from hudi_inspect.names import Instant
from hudi_inspect.records import Clean, parse_clean, parse_compaction
from hudi_inspect.store import Store
from hudi_inspect.timeline import read_file


def pending_compactions(
    store: Store, timeline: Collection[Instant], problems: list[InspectError]
) -> dict[tuple[str, str], str]:
    """Return the times of pending compactions by file group."""
    pending = [
        instant
        for instant in timeline
        if instant.action == "compaction" and not instant.is_done and "REQUESTED" in instant.files
    ]
    plans = store.each(
        lambda instant: read_file(store, instant, parse_compaction, "REQUESTED"), pending
    )
    groups: dict[tuple[str, str], str] = {}
    for instant, plan in zip(pending, plans, strict=True):
        if isinstance(plan, InspectError):
            problems.append(plan)
        else:
            groups |= dict.fromkeys(plan, instant.time)
    return groups


def retained_by_cleans(
    store: Store, timeline: Collection[Instant], archive: Archive, problems: list[InspectError]
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the earliest commit that the last clean retained, or the deleted files.

    The commit is None if cleans retain file versions. The files are (partition, name).
    """
    active = [instant for instant in timeline if instant.action == "clean" and instant.is_done]
    cleans: list[Clean] = []
    for instant in reversed(active):
        clean = read_file(store, instant, parse_clean)
        if isinstance(clean, InspectError):
            problems.append(clean)
            continue
        cleans.append(clean)
        if clean.retained:
            break
    if not active:
        times = [instant.time for instant in archive.instants() if instant.action == "clean"]
        cleans = list(archive.contents(times[-1:], parse_clean).values())
    if cleans and cleans[-1].retained:
        return cleans[-1].retained, ()
    return None, tuple(file for clean in cleans for file in clean.deleted)
