"""Show the report in a terminal."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from hudi_inspect.health import batches
from hudi_inspect.model import Event, Partition, Slice, iso, many, size

if TYPE_CHECKING:
    from hudi_inspect.inspection import Inspection

INSTANTS, PARTITIONS, SLICES = 15, 10, 40
WIDE = 116  # characters that fit all columns of the instants


def text(found: Inspection, *, width: int, color: bool) -> str:
    """Return the view as text of at most this width."""
    out = io.StringIO()
    # In a notebook rich would display the text itself, beside what is returned.
    console = Console(
        file=out, width=width, force_terminal=color, force_jupyter=False, highlight=False
    )
    console.print(view(found, INSTANTS, width))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def view(found: Inspection, limit: int = INSTANTS, width: int = WIDE) -> RenderableType:
    """Return the view, with `limit` instants and partitions at most, for a terminal of a width."""
    report = found.report
    parts: list[RenderableType] = [_head(found), Text("")]
    parts += [_instants(found, limit, width >= WIDE), Text("")]
    if report.pending:
        parts += [_pending(found), Text("")]
    if found.partition:
        parts += [_slices(found.slices, width >= WIDE), Text("")]
    else:
        parts += [_partitions(found.partitions, limit), Text("")]
    return Group(*parts, _health(found))


def about(found: Inspection) -> Iterator[tuple[str, str]]:
    """Yield the main facts about the table, as (name, value)."""
    facts, its = found.facts, found.report.table
    properties = facts.properties
    yield "table", f"{its.name}, {its.type}, version {its.version}"
    yield "location", its.uri
    key = ", ".join(its.record_key) or "none"
    ordering = properties.get("hoodie.table.ordering.fields") or properties.get(
        "hoodie.table.precombine.field"
    )
    yield (
        "key",
        f"{key}; for duplicate keys, "
        + (f"the greatest {ordering} wins" if ordering else "the last write wins"),
    )
    yield "partitioned by", ", ".join(its.partition) or "nothing"
    metadata = properties.get("hoodie.table.metadata.partitions") or "off"
    yield "index", f"{its.index or 'not recorded in the table'}; metadata table: {metadata}"
    yield "services", services(found)
    rows = "unknown without reading the data (--count)" if its.rows is None else f"{its.rows:,}"
    yield "rows", rows
    old = [part for part in facts.slices if not part.is_latest]
    kept = f", plus {many(len(old), 'superseded slice')} ({size(sum(part.bytes for part in old))})"
    held = f"{size(its.bytes)} in {many(its.files, 'file')}, {many(its.file_groups, 'file group')}"
    yield "size", held + (kept if old else "")
    bases = sum(partition.base_bytes for partition in found.partitions)
    logs = sum(partition.log_bytes for partition in found.partitions)
    if logs:
        ratio = f", {logs / bases:.2f} times the base files ({size(bases)})" if bases else ""
        yield "logs", f"{size(logs)}{ratio}"
    yield "reach", reach(found)
    yield from (("note", note) for note in found.report.notes)
    last = {query: (number, event) for event, query, number in batches(facts)}
    for query, (number, event) in sorted(last.items()):
        yield "written by", f"stream {query}, last batch {number} at {iso(event.completed_at)}"


def services(found: Inspection) -> str:
    """Return which table services ran, and how often, according to the timeline."""
    counts: Counter[str] = Counter()
    for event in (*(found.facts.archived or ()), *found.facts.events):
        if not event.is_done:
            continue
        commit = found.facts.commit_of(event)
        operation = commit.operation if commit else ""
        name = {"COMPACT": "compaction", "LOG_COMPACT": "log compaction", "CLUSTER": "clustering"}
        if event.action in ("clean", "rollback", "restore", "savepoint", "indexing"):
            counts[event.action] += 1
        elif operation in name:
            counts[name[operation]] += 1
    parts = [many(count, what) for what, count in sorted(counts.items())]
    archive = "archive" if found.facts.has_history else "no archive"
    return ", ".join([*parts, "archive not read" if found.facts.unread else archive])


def reach(found: Inspection) -> str:
    """Return how far back queries can go."""
    known = found.report.reach
    travel = known.oldest_time_travel or "n/a"
    return f"time travel back to {travel}, incremental from {known.oldest_incremental or 'n/a'}"


def duration(event: Event) -> str:
    """Return how long an instant took."""
    if event.requested_at is None or event.completed_at is None:
        return ""
    seconds = (event.completed_at - event.requested_at).total_seconds()
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 60:.0f} min"


def _head(found: Inspection) -> Grid:
    grid = Grid.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in about(found):
        grid.add_row(name, Text(value))
    return grid


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


def _instants(found: Inspection, limit: int, wide: bool) -> RenderableType:
    shown = found.events[:limit]
    title = f"Instants, newest first ({len(shown)} of {len(found.events)})"
    rows = ("written", "updated", "deleted")
    more = ("operation", "completed (UTC)") if wide else ()
    grid = _grid("instant", "action", "state", *more, "took", *rows, right=("took", *rows))
    style = {"COMPLETED": "", "INFLIGHT": "yellow", "REQUESTED": "yellow"}
    for event in shown:
        instant = found.instant(event)
        completed = (instant.completed or "").replace("T", " ").rstrip("Z")
        grid.add_row(
            event.time,
            event.action,
            event.state.lower() + (", archived" if event.archived else ""),
            *(((instant.operation or "").lower(), completed) if wide else ()),
            duration(event),
            _number(instant.rows_written),
            _number(instant.rows_updated),
            _number(instant.rows_deleted),
            style=style[event.state],
        )
    return _titled(title, grid)


def _pending(found: Inspection) -> RenderableType:
    grid = _grid("instant", "action", "state", "since (UTC)", "for")
    for event in found.facts.events:
        if not event.is_done:
            since = event.requested_at
            seconds = (found.now - since).total_seconds() if since else 0
            shown = (iso(since) or "").replace("T", " ").rstrip("Z")
            grid.add_row(event.time, event.action, event.state.lower(), shown, _ago(seconds))
    return _titled("Pending", grid)


def _ago(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def _partitions(partitions: list[Partition], limit: int) -> RenderableType:
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
        grid.add_row(
            Text(partition.path or "(unpartitioned)"),
            size(partition.bytes),
            f"{partition.files:,}",
            f"{partition.small:,}",
            ratio if partition.log_bytes else "",
            _number(partition.rows),
        )
    return _titled(title, grid)


def _slices(slices: list[Slice], wide: bool) -> RenderableType:
    newest = sorted(slices, key=lambda part: (part.instant, part.group), reverse=True)[:SLICES]
    title = f"File slices of {slices[0].partition}, newest first ({len(newest)} of {len(slices)})"
    grid = _grid("file group", "instant", "size", "logs", "rows", "", right=("size", "rows"))
    for part in newest:
        state = f"until {part.ended}" if part.ended else "latest"
        logs = str(len(part.logs)) if part.logs else ""
        group = part.group if wide else f"{part.group[:13]}…"
        grid.add_row(group, part.instant, size(part.bytes), logs, _number(part.rows), state)
    return _titled(title, grid)


def _health(found: Inspection) -> RenderableType:
    lines = [Text("Health", style="bold")]
    lines += [Text(check.line(), style="" if check.ok else "red") for check in found.report.health]
    return Group(*lines)
