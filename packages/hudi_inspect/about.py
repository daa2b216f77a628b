"""The main facts about a table, for the text report and the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hudi_inspect.properties import READERS
from hudi_inspect.units import brief, iso, many, plain, size

if TYPE_CHECKING:
    from hudi_inspect.snapshot import TableSnapshot

STREAMS = 50  # maximum number of streams to show


def about(snapshot: TableSnapshot) -> Iterator[tuple[str, str]]:
    """Yield the main facts about the table, as (name, value), in plain text."""
    for name, value in _facts(snapshot):
        # Notes end in a command, which must not be truncated.
        yield name, plain(value) if name == "note" else brief(value)


def _facts(snapshot: TableSnapshot) -> Iterator[tuple[str, str]]:
    table, properties, window = snapshot.table, snapshot.properties, snapshot.window
    yield "table", f"{table.name}, {table.type}, version {table.version}"
    yield "read by", f"Hudi {READERS[table.version]} and later, hudi-rs 0.5"
    yield "location", table.uri
    key = ", ".join(table.record_key) or "none"
    ordering = properties.get("hoodie.table.ordering.fields") or properties.get(
        "hoodie.table.precombine.field"
    )
    winner = f"the greatest {ordering} wins" if ordering else "the last write wins"
    yield "key", f"{key}; for duplicate keys, {winner}"
    yield "partitioned by", ", ".join(table.partition) or "nothing"
    metadata = properties.get("hoodie.table.metadata.partitions") or "off"
    yield "index", f"{table.index or 'not recorded in the table'}; metadata table: {metadata}"
    yield "services", _services(snapshot)
    unknown = "unknown without reading the data (--count)"
    yield "rows", unknown if table.rows is None else f"{table.rows:,}"
    yield "size", _size(snapshot)
    bases = sum(partition.base_bytes for partition in snapshot.partitions)
    logs = sum(partition.log_bytes for partition in snapshot.partitions)
    if logs:
        ratio = f", {logs / bases:.2f} times the base files ({size(bases)})" if bases else ""
        yield "logs", f"{size(logs)}{ratio}"
    yield (
        "reach",
        f"time travel back to {window.oldest_time_travel or 'n/a'}, "
        f"incremental from {window.oldest_incremental or 'n/a'}",
    )
    for note in snapshot.notes:
        yield "note", note
    for batch in snapshot.writers[:STREAMS]:
        completed = iso(batch.instant.completed)
        yield "written by", f"stream {batch.query}, last batch {batch.number} at {completed}"
    if (more := len(snapshot.writers) - STREAMS) > 0:
        yield "written by", many(more, "more stream")


def _services(snapshot: TableSnapshot) -> str:
    """Return the timeline's table services with their counts."""
    names = {"COMPACT": "compaction", "LOG_COMPACT": "log compaction", "CLUSTER": "clustering"}
    names |= {
        action: action for action in ("clean", "rollback", "restore", "savepoint", "indexing")
    }
    counts = Counter(
        names.get(instant.operation or instant.action)
        for instant in snapshot.history
        if instant.is_done
    )
    services = [many(counts[name], name) for name in sorted(filter(None, counts))]
    archive = "archive" if snapshot.archive.folder else "no archive"
    return ", ".join([*services, "archive not read" if snapshot.unread else archive])


def _size(snapshot: TableSnapshot) -> str:
    table = snapshot.table
    files = f"{many(table.files, 'file')}, {many(table.file_groups, 'file group')}"
    text = f"{size(table.bytes)} in {files}"
    old = [part for part in snapshot.slices if not part.is_latest]
    if old:
        kept = size(sum(part.bytes for part in old))
        text += f", plus {many(len(old), 'superseded slice')} ({kept})"
    return text
