"""Format the report as plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hudi_inspect.about import about
from hudi_inspect.names import Instant
from hudi_inspect.slices import Slice
from hudi_inspect.units import brief, iso, size

if TYPE_CHECKING:
    from hudi_inspect.snapshot import Partition, TableSnapshot

INSTANTS, PENDING, PARTITIONS, SLICES = 15, 50, 10, 40  # maximum rows of each table
WIDTH = 116  # characters of all columns of the instants
CELL = 60  # maximum characters of a column's padding; a longer cell moves the rest of its row


def text(snapshot: TableSnapshot, width: int, limit: int = INSTANTS) -> str:
    """Return the report for a terminal of this width, with at most `limit` instants."""
    wide = width >= WIDTH
    parts = [_about(snapshot, width), _instants(snapshot.instants, limit, wide)]
    if snapshot.pending:
        parts.append(_pending(snapshot))
    if snapshot.options.partition:
        parts.append(_slices(snapshot.chosen_slices, wide))
    else:
        parts.append(_partitions(snapshot.partitions, limit))
    parts.append(["Health", *(check.line() for check in snapshot.health)])
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _about(snapshot: TableSnapshot, width: int) -> list[str]:
    facts = list(about(snapshot))
    indent = max(len(name) for name, _ in facts) + 2
    return [
        textwrap.fill(
            f"{name:{indent}}{value}",
            max(width, 2 * indent),
            subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )
        for name, value in facts
    ]


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[str] = ()
) -> list[str]:
    """Return a title and aligned rows; the columns named in `right` are aligned to the right."""
    cells = [columns, *([brief(cell) for cell in row] for row in rows)]
    widths = [min(CELL, max(map(len, column))) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [
            f"{cell:>{width}}" if name in right else f"{cell:{width}}"
            for name, cell, width in zip(columns, row, widths, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return [title, *lines]


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _seconds(instant: Instant) -> str:
    """Return an instant's duration in seconds."""
    if instant.requested is None or instant.completed is None:
        return ""
    seconds = (instant.completed - instant.requested).total_seconds()
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _instants(instants: Sequence[Instant], limit: int, wide: bool) -> list[str]:
    shown = instants[:limit]
    numbers = ("took", "written", "updated", "deleted")
    more = ("operation", "completed (UTC)") if wide else ()
    rows = []
    for instant in shown:
        row = [instant.time, instant.action, instant.state.lower()]
        if instant.archived:
            row[-1] += ", archived"
        if wide:
            row += [(instant.operation or "").lower(), _utc(instant.completed)]
        counts = (instant.rows_written, instant.rows_updated, instant.rows_deleted)
        rows.append([*row, _seconds(instant), *map(_number, counts)])
    title = f"Instants, newest first ({len(shown)} of {len(instants)})"
    return _table(title, ("instant", "action", "state", *more, *numbers), rows, numbers)


def _utc(moment: datetime | None) -> str:
    return (iso(moment) or "").replace("T", " ").rstrip("Z")


def _pending(snapshot: TableSnapshot) -> list[str]:
    shown = snapshot.pending[: -PENDING - 1 : -1]  # oldest first
    rows = []
    for instant in shown:
        since = instant.requested
        seconds = (snapshot.options.now - since).total_seconds() if since else 0
        state = instant.state.lower()
        rows.append([instant.time, instant.action, state, _utc(since), _ago(seconds)])
    hidden = len(snapshot.pending) - len(shown)
    title = "Pending" + (f" (the oldest; {hidden:,} more)" if hidden else "")
    return _table(title, ("instant", "action", "state", "since (UTC)", "for"), rows)


def _ago(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _partitions(partitions: Sequence[Partition], limit: int) -> list[str]:
    if not partitions:
        return ["No committed files."]
    by_size = sorted(partitions, key=lambda partition: (-partition.bytes, partition.path))
    largest = by_size[: min(limit, PARTITIONS)]
    mean = sum(partition.bytes for partition in partitions) / len(partitions)
    skew = max(partition.bytes for partition in partitions) / mean if mean else 1.0
    title = (
        f"Partitions by size ({len(largest)} of {len(partitions)}); "
        f"the largest is {skew:.1f} times the mean"
    )
    numbers = ("size", "files", "under 100 MiB", "logs/base", "rows")
    rows = [
        [
            partition.path or "(unpartitioned)",
            size(partition.bytes),
            f"{partition.files:,}",
            f"{partition.small:,}",
            _ratio(partition),
            _number(partition.rows),
        ]
        for partition in largest
    ]
    return _table(title, ("partition", *numbers), rows, numbers)


def _ratio(partition: Partition) -> str:
    if not partition.log_bytes:
        return ""
    if not partition.base_bytes:
        return "logs only"
    return f"{partition.log_bytes / partition.base_bytes:.2f}"


def _slices(slices: Sequence[Slice], wide: bool) -> list[str]:
    newest = sorted(slices, key=lambda part: (part.instant, part.group), reverse=True)[:SLICES]
    partition = brief(slices[0].partition)
    title = f"File slices of {partition}, newest first ({len(newest)} of {len(slices)})"
    rows = [
        [
            part.group if wide else f"{part.group[:13]}…",
            part.instant,
            size(part.bytes),
            str(len(part.logs)) if part.logs else "",
            _number(part.rows),
            f"until {part.ended}" if part.ended else "latest",
        ]
        for part in newest
    ]
    columns = ("file group", "instant", "size", "logs", "rows", "")
    return _table(title, columns, rows, ("size", "rows"))
