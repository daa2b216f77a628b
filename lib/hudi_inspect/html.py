"""Build one self-contained page: no network, no web fonts, no libraries."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudi_inspect.about import about
from hudi_inspect.health import Batch, HealthCheck
from hudi_inspect.slices import Slice
from hudi_inspect.timeline import Instant, moment
from hudi_inspect.units import iso, many, size

if TYPE_CHECKING:
    from hudi_inspect.snapshot import TableSnapshot

FILES = 20  # per commit
GROUPS = 30  # per partition
SLICES = 60  # per file group


def page(snapshot: TableSnapshot) -> str:
    """Return the page."""
    table = snapshot.table
    instants = many(len(snapshot.instants), "instant")
    values = {
        "title": escape(f"{table.name}: Hudi table"),
        "name": escape(table.name),
        "subtitle": escape(f"{table.type}, table version {table.version}, {table.uri}"),
        "tiles": "".join(_tile(name, value) for name, value in _tiles(snapshot).items()),
        "health": "".join(map(_check, snapshot.health)),
        "about": "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in about(snapshot)
        ),
        "count": f"{instants}, newest first; expand one to see its files",
        "made": escape(
            f"Made by hudilab inspect at {iso(snapshot.options.now)}, which only reads the table."
        ),
        "data": _json(_data(snapshot)),
    }
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    # One pass, so that a value that looks like a placeholder is not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def embedded(snapshot: TableSnapshot) -> str:
    """Return the page in a frame, which keeps its styles and the notebook's apart."""
    return (
        f'<iframe srcdoc="{escape(page(snapshot))}" title="Hudi table" '
        'style="width:100%;height:46rem;border:1px solid #8888;border-radius:6px"></iframe>'
    )


def _json(value: Any) -> str:
    """Return JSON that is safe in a script element: it cannot contain `</script>` or `<!--`."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


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
    line = f"<b>{mark}</b> {escape(check.check)}: {escape(check.detail)}"
    if check.remedy:
        line += f'<span class="remedy">→ <code>{escape(check.remedy)}</code></span>'
    return f'<li class="{style}">{line}</li>'


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def _data(snapshot: TableSnapshot) -> dict[str, Any]:
    batches = {batch.instant.time: batch for batch in snapshot.batches}
    partitions = sorted(snapshot.partitions, key=lambda part: (-part.bytes, part.path))
    return {
        "now": _ms(snapshot.options.now),
        "instants": [
            {"i": i} | instant.as_dict() | _details(instant, batches.get(instant.time))
            for i, instant in enumerate(snapshot.instants)
        ],
        "partitions": [part._asdict() for part in partitions],
        "groups": _groups(snapshot, [part.path for part in partitions]),
    }


def _details(instant: Instant, batch: Batch | None) -> dict[str, Any]:
    """Return what the page shows of an instant beyond the fields of the JSON."""
    stats = instant.commit.stats if instant.commit else ()
    extra = instant.commit.extra if instant.commit else {}
    if instant.commit is None:  # a savepoint has the time of the commit that it keeps
        batch = None
    return {
        "t": instant.time,
        "r": _ms(instant.requested),
        "c": _ms(instant.completed),
        "n": len(stats),
        "b": sum(stat.bytes for stat in stats),
        "p": len({stat.partition for stat in stats}),
        "q": batch.query if batch else None,
        "k": batch.number if batch else None,
        "x": [[s.path, s.writes, s.updates, s.deletes, s.bytes] for s in stats[:FILES]],
        "more": max(0, len(stats) - FILES),
        "m": {key: value for key, value in extra.items() if key != "schema"},
    }


def _groups(snapshot: TableSnapshot, paths: list[str]) -> list[dict[str, Any]]:
    slices: dict[str, dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
    for part in snapshot.chosen_slices:
        slices[part.partition][part.group].append(part)
    # Partitions without a latest slice come last.
    chosen = [path for path in paths if path in slices] + sorted(slices.keys() - set(paths))
    partitions = []
    for path in chosen:
        groups = sorted(slices[path].items(), key=lambda pair: (-pair[1][-1].bytes, pair[0]))
        drawn = [_group(name, parts, snapshot.is_utc) for name, parts in groups[:GROUPS]]
        more = max(0, len(groups) - GROUPS)
        partitions.append({"path": path, "groups": drawn, "more": more})
    return partitions


def _group(name: str, slices: list[Slice], utc: bool) -> dict[str, Any]:
    ended = slices[-1].ended
    return {
        "g": name,
        "e": None if ended is None else _ms(moment(ended, utc)),
        "s": [
            {
                "i": part.instant,
                "t": _ms(moment(part.instant, utc)),
                "b": part.bytes,
                "n": len(part.logs),
                "lb": part.log_bytes,
                "k": part.rows,
                "l": part.is_latest,
                "f": part.base,
            }
            for part in slices[-SLICES:]
        ],
    }
