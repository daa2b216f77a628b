"""Show the report in a terminal."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from hudi_inspect.about import about
from hudi_inspect.names import Instant
from hudi_inspect.slices import Slice
from hudi_inspect.units import brief, iso, size

if TYPE_CHECKING:
    from hudi_inspect.snapshot import Partition, TableSnapshot

INSTANTS, PENDING, PARTITIONS, SLICES = 15, 50, 10, 40
WIDE = 116  # characters that fit all columns of the instants


def text(snapshot: TableSnapshot, width: int) -> str:
    """Return the view as text of at most this width."""
    out = io.StringIO()
    # In a notebook rich would display the text itself, beside what is returned.
    console = Console(
        file=out, width=width, force_terminal=False, force_jupyter=False, highlight=False
    )
    console.print(view(snapshot, INSTANTS, width))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def view(snapshot: TableSnapshot, limit: int, width: int) -> RenderableType:
    """Return the view, with `limit` instants and partitions at most, for a terminal of a width."""
    wide = width >= WIDE
    parts = [_about(snapshot), _instants(snapshot.instants, limit, wide)]
    if snapshot.pending:
        parts.append(_pending(snapshot))
    if snapshot.options.partition:
        parts.append(_slices(snapshot.chosen_slices, wide))
    else:
        parts.append(_partitions(snapshot.partitions, limit))
    spaced = [line for part in parts for line in (part, Text(""))]
    return Group(*spaced, _health(snapshot))


def _about(snapshot: TableSnapshot) -> RenderableType:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in about(snapshot):
        grid.add_row(name, Text(value))
    return grid


def _add(grid: Grid, cells: Sequence[str], style: str = "") -> None:
    """Add a row of plain text: nothing in it is markup, or an order to the terminal."""
    grid.add_row(*(Text(brief(cell)) for cell in cells), style=style)


def _grid(*columns: str, right: tuple[str, ...] = ()) -> Grid:
    grid = Grid(box=None, pad_edge=False)
    for name in columns:
        justify: Any = "right" if name in right else "left"
        grid.add_column(name, justify=justify, no_wrap=name != "file", overflow="fold")
    return grid


def _titled(title: str, grid: Grid) -> RenderableType:
    return Group(Text(title, style="bold"), grid)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _seconds(instant: Instant) -> str:
    """Return how long an instant took."""
    if instant.requested is None or instant.completed is None:
        return ""
    seconds = (instant.completed - instant.requested).total_seconds()
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _instants(instants: Sequence[Instant], limit: int, wide: bool) -> RenderableType:
    shown = instants[:limit]
    title = f"Instants, newest first ({len(shown)} of {len(instants)})"
    rows = ("written", "updated", "deleted")
    more = ("operation", "completed (UTC)") if wide else ()
    grid = _grid("instant", "action", "state", *more, "took", *rows, right=("took", *rows))
    for instant in shown:
        columns = [instant.time, instant.action, instant.state.lower()]
        if instant.archived:
            columns[-1] += ", archived"
        if wide:
            columns += [(instant.operation or "").lower(), _utc(instant.completed)]
        columns.append(_seconds(instant))
        for count in (instant.rows_written, instant.rows_updated, instant.rows_deleted):
            columns.append(_number(count))
        _add(grid, columns, "" if instant.is_done else "yellow")
    return _titled(title, grid)


def _utc(moment: datetime | None) -> str:
    return (iso(moment) or "").replace("T", " ").rstrip("Z")


def _pending(snapshot: TableSnapshot) -> RenderableType:
    shown = snapshot.pending[: -PENDING - 1 : -1]  # the oldest first
    grid = _grid("instant", "action", "state", "since (UTC)", "for")
    for instant in shown:
        since = instant.requested
        seconds = (snapshot.options.now - since).total_seconds() if since else 0
        state = instant.state.lower()
        _add(grid, [instant.time, instant.action, state, _utc(since), _ago(seconds)])
    hidden = len(snapshot.pending) - len(shown)
    return _titled("Pending" + (f" (the oldest; {hidden:,} more)" if hidden else ""), grid)


def _ago(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _partitions(partitions: Sequence[Partition], limit: int) -> RenderableType:
    if not partitions:
        return Text("No committed files.")
    by_size = sorted(partitions, key=lambda partition: (-partition.bytes, partition.path))
    largest = by_size[: min(limit, PARTITIONS)]
    mean = sum(partition.bytes for partition in partitions) / len(partitions)
    skew = max(partition.bytes for partition in partitions) / mean if mean else 1.0
    title = (
        f"Partitions by size ({len(largest)} of {len(partitions)}); "
        f"the largest is {skew:.1f} times the mean"
    )
    numbers = ("size", "files", "under 100 MiB", "logs/base", "rows")
    grid = _grid("partition", *numbers, right=numbers)
    for partition in largest:
        ratio = (
            f"{partition.log_bytes / partition.base_bytes:.2f}"
            if partition.base_bytes
            else "logs only"
        )
        cells = [
            partition.path or "(unpartitioned)",
            size(partition.bytes),
            f"{partition.files:,}",
            f"{partition.small:,}",
            ratio if partition.log_bytes else "",
            _number(partition.rows),
        ]
        _add(grid, cells)
    return _titled(title, grid)


def _slices(slices: Sequence[Slice], wide: bool) -> RenderableType:
    newest = sorted(slices, key=lambda part: (part.instant, part.group), reverse=True)[:SLICES]
    partition = brief(slices[0].partition)
    title = f"File slices of {partition}, newest first ({len(newest)} of {len(slices)})"
    grid = _grid("file group", "instant", "size", "logs", "rows", "", right=("size", "rows"))
    for part in newest:
        state = f"until {part.ended}" if part.ended else "latest"
        logs = str(len(part.logs)) if part.logs else ""
        group = part.group if wide else f"{part.group[:13]}…"
        _add(grid, [group, part.instant, size(part.bytes), logs, _number(part.rows), state])
    return _titled(title, grid)


def _health(snapshot: TableSnapshot) -> RenderableType:
    lines = [Text("Health", style="bold")]
    lines += [Text(check.line(), style="" if check.ok else "red") for check in snapshot.health]
    return Group(*lines)
