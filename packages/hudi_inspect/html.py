"""Build a self-contained page without network, web fonts and libraries."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudi_inspect.about import about
from hudi_inspect.health import HealthCheck, StreamBatch
from hudi_inspect.names import Instant, moment
from hudi_inspect.slices import Slice
from hudi_inspect.units import brief, iso, many, plain, size, to_script

if TYPE_CHECKING:
    from hudi_inspect.snapshot import TableSnapshot

DETAILED = 1000  # newest instants with their files and extra metadata
FILES = 20  # per commit
PARTITIONS, DRAWN = 5000, 500  # largest partitions to list, and those with their file groups
GROUPS = 30  # per partition
SLICES = 60  # per file group


def page(snapshot: TableSnapshot) -> str:
    """Return the page."""
    table = snapshot.table
    instants = many(len(snapshot.instants), "instant")
    values = {
        "title": escape(brief(f"{table.name}: Hudi table")),
        "name": escape(brief(table.name)),
        "subtitle": escape(brief(f"{table.type}, table version {table.version}, {table.uri}")),
        "tiles": "".join(_tile(name, value) for name, value in _tiles(snapshot).items()),
        "health": "".join(map(_check, snapshot.health)),
        "about": "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in about(snapshot)
        ),
        "count": f"{instants}, newest first; expand one to see its files",
        "made": escape(
            f"Created by hudi-inspect at {iso(snapshot.options.now)}, which only reads the table."
        ),
    }
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    # In a single pass, which doesn't replace placeholders within values.
    before, after = (
        re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], part)
        for part in template.split("{{data}}")
    )
    return "".join((before, *_data(snapshot), after))


def embedded(snapshot: TableSnapshot) -> str:
    """Return the page in a frame, which separates its styles from the notebook's."""
    return (
        f'<iframe srcdoc="{escape(page(snapshot))}" title="Hudi table" '
        'style="width:100%;height:46rem;border:1px solid #8888;border-radius:6px"></iframe>'
    )


def _tile(name: str, value: str) -> str:
    return f'<div class="tile"><b>{escape(value)}</b><span class="soft">{escape(name)}</span></div>'


def _tiles(snapshot: TableSnapshot) -> dict[str, str]:
    table = snapshot.table
    return {
        "rows": "unknown" if table.rows is None else f"{table.rows:,}",
        "size": size(table.bytes),
        "files": f"{table.files:,}",
        "file groups": f"{table.file_groups:,}",
        "partitions": f"{table.partitions:,}",
        "pending": f"{len(snapshot.pending):,}",
        "failed checks": str(sum(not check.ok for check in snapshot.health)),
    }


def _check(check: HealthCheck) -> str:
    mark, style = ("✓ ok", "ok") if check.ok else ("✗ FAIL", "fail")
    line = f"<b>{mark}</b> {escape(check.check)}: {escape(brief(check.detail))}"
    if check.remedy:
        line += f'<span class="remedy">→ <code>{escape(brief(check.remedy))}</code></span>'
    return f'<li class="{style}">{line}</li>'


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def _data(snapshot: TableSnapshot) -> Iterator[str]:
    """Yield the JSON of the page's script in parts, because one object would need much memory."""
    batches = {batch.instant.time: batch for batch in snapshot.batches}
    partitions = sorted(snapshot.partitions, key=lambda part: (-part.bytes, part.path))
    listed = [part._asdict() | {"path": plain(part.path)} for part in partitions[:PARTITIONS]]
    instants = (
        _instant(instant, batches.get(instant.time), i < DETAILED)
        for i, instant in enumerate(snapshot.instants)
    )
    yield f'{{"now":{_ms(snapshot.options.now)},"more":{len(partitions) - len(listed)}'
    groups = _groups(snapshot, [part.path for part in partitions])
    for name, values in (("instants", instants), ("partitions", listed), ("groups", groups)):
        yield f',"{name}":['
        for i, text in enumerate(to_script(values)):
            yield f",{text}" if i else text
        yield "]"
    yield "}"


def _instant(instant: Instant, batch: StreamBatch | None, is_detailed: bool) -> dict[str, Any]:
    """Return the page's data of an instant; the script adds defaults."""
    shown: dict[str, Any] = {
        "t": plain(instant.time),
        "action": brief(instant.action),
        "state": instant.state,
        "r": _ms(instant.requested),
        "c": _ms(instant.completed),
    }
    if instant.archived:
        shown["archived"] = True
    if not instant.commit:
        return shown
    stats, extra = instant.commit.stats, instant.commit.extra
    shown |= {
        "operation": brief(instant.commit.operation),
        "rows_written": instant.rows_written,
        "rows_updated": instant.rows_updated,
        "rows_deleted": instant.rows_deleted,
        "n": len(stats),
        "b": sum(stat.bytes for stat in stats),
        "p": len({stat.partition for stat in stats}),
    }
    if batch:
        shown |= {"q": brief(batch.query), "k": batch.number}
    if is_detailed:
        shown["x"] = [
            [brief(stat.path), stat.writes, stat.updates, stat.deletes, stat.bytes]
            for stat in stats[:FILES]
        ]
        shown["m"] = {brief(key): brief(value) for key, value in extra.items()}
    return shown


def _groups(snapshot: TableSnapshot, paths: list[str]) -> list[dict[str, Any]]:
    slices: dict[str, dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
    for part in snapshot.chosen_slices:
        slices[part.partition][part.group].append(part)
    # Partitions without a latest slice come last.
    chosen = [path for path in paths if path in slices] + sorted(slices.keys() - set(paths))
    chosen = chosen[:DRAWN]
    partitions = []
    for path in chosen:
        groups = sorted(slices[path].items(), key=lambda pair: (-pair[1][-1].bytes, pair[0]))
        drawn = [_group(name, parts, snapshot.is_utc) for name, parts in groups[:GROUPS]]
        more = max(0, len(groups) - GROUPS)
        partitions.append({"path": plain(path), "groups": drawn, "more": more})
    return partitions


def _group(name: str, slices: list[Slice], utc: bool) -> dict[str, Any]:
    ended = slices[-1].ended
    return {
        "g": plain(name),
        "e": None if ended is None else _ms(moment(ended, utc)),
        "s": [
            {
                "i": plain(part.instant),
                "t": _ms(moment(part.instant, utc)),
                "b": part.bytes,
                "n": len(part.logs),
                "lb": part.log_bytes,
                "k": part.rows,
                "l": part.is_latest,
                "f": part.base and plain(part.base),
            }
            for part in slices[-SLICES:]
        ],
    }
