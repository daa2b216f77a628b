"""Read what compactions plan and what cleans deleted, from the content of their instants."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePosixPath

from hudi_inspect.archive import Archive
from hudi_inspect.store import Store
from hudi_inspect.timeline import Instant, parse_content


def pending_compactions(store: Store, timeline: Collection[Instant]) -> dict[tuple[str, str], str]:
    """Return the file groups of pending compactions, each with its compaction's time."""
    plans = {
        instant.time: instant.files["REQUESTED"]
        for instant in timeline
        if instant.action == "compaction" and not instant.is_done and "REQUESTED" in instant.files
    }
    groups = {}
    contents = store.each(store.read, plans.values())
    for (time, path), data in zip(plans.items(), contents, strict=True):
        plan = parse_content(data, f"{store.uri}/{path}")
        for operation in plan.get("operations") or ():
            groups[operation.get("partitionPath") or "", operation.get("fileId") or ""] = time
    return groups


def retained_by_cleans(
    store: Store, timeline: Collection[Instant], archive: Archive
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the earliest commit that the last clean retained, or the files that cleans deleted.

    The commit is None if cleans retain file versions; the files are (partition, name).
    """
    cleans = [instant for instant in timeline if instant.action == "clean" and instant.is_done]
    contents = []
    for clean in reversed(cleans):
        path = clean.files["COMPLETED"]
        contents.append(parse_content(store.read(path), f"{store.uri}/{path}"))
        if contents[-1].get("earliestCommitToRetain"):
            break
    if not cleans:
        times = [instant.time for instant in archive.instants() if instant.action == "clean"]
        contents = list(archive.contents(times[-1:]).values())
    if contents and contents[-1].get("earliestCommitToRetain"):
        return str(contents[-1]["earliestCommitToRetain"]), ()
    deleted = (
        (partition, PurePosixPath(name).name)
        for content in contents
        for partition, files in (content.get("partitionMetadata") or {}).items()
        for name in files.get("deletePathPatterns") or ()
    )
    return None, tuple(deleted)
