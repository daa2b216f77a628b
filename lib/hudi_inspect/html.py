"""Build one self-contained page: no network, no web fonts, no libraries."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import datetime
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudi_inspect.health import batches
from hudi_inspect.model import Event, Health, Slice, iso, many, size
from hudi_inspect.text import about
from hudi_inspect.timeline import moment

if TYPE_CHECKING:
    from hudi_inspect.inspection import Inspection

FILES = 20  # per commit
GROUPS = 30  # per partition
SLICES = 60  # per file group


def page(found: Inspection) -> str:
    """Return the page."""
    table, report = found.report.table, found.report
    values = {
        "title": escape(f"{table.name}: Hudi table"),
        "name": escape(table.name),
        "subtitle": escape(f"{table.type}, table version {table.version}, {table.uri}"),
        "tiles": "".join(_tile(name, value) for name, value in _tiles(found)),
        "health": "".join(map(_check, report.health)),
        "about": "".join(
            f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in about(found)
        ),
        "count": f"{many(len(found.events), 'instant')}, newest first; expand one to see its files",
        "made": escape(f"Made by hudilab inspect at {iso(found.now)}, which only reads the table."),
        "data": _json(_data(found)),
    }
    template = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    # One pass, so that a value that looks like a placeholder is not replaced.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], template)


def embedded(found: Inspection) -> str:
    """Return the page in a frame, which keeps its styles and the notebook's apart."""
    return (
        f'<iframe srcdoc="{escape(page(found))}" title="Hudi table" '
        'style="width:100%;height:46rem;border:1px solid #8888;border-radius:6px"></iframe>'
    )


def _json(value: Any) -> str:
    """Return JSON that is safe in a script element: it cannot contain `</script>` or `<!--`."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _tile(name: str, value: str) -> str:
    return f'<div class="tile"><b>{escape(value)}</b><span class="soft">{escape(name)}</span></div>'


def _tiles(found: Inspection) -> list[tuple[str, str]]:
    table = found.report.table
    failed = sum(not check.ok for check in found.report.health)
    return [
        ("rows", "unknown" if table.rows is None else f"{table.rows:,}"),
        ("size", size(table.bytes)),
        ("files", f"{table.files:,}"),
        ("file groups", f"{table.file_groups:,}"),
        ("partitions", f"{table.partitions:,}"),
        ("pending", f"{len(found.report.pending):,}"),
        ("failed checks", f"{failed}"),
    ]


def _check(its: Health) -> str:
    told = f"<b>{'✓ ok' if its.ok else '✗ FAIL'}</b> {escape(its.check)}: {escape(its.detail)}"
    after = f'<span class="remedy">→ <code>{escape(its.remedy)}</code></span>' if its.remedy else ""
    return f'<li class="{"ok" if its.ok else "fail"}">{told}{after}</li>'


def _ms(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1000)


def _data(found: Inspection) -> dict[str, Any]:
    stamps = {event.time: (query, batch) for event, query, batch in batches(found.facts)}
    parts = sorted(found.partitions, key=lambda part: (-part.bytes, part.path))
    return {
        "now": _ms(found.now),
        "events": [_event(found, event, i, stamps) for i, event in enumerate(found.events)],
        "parts": [
            {
                "path": part.path,
                "b": part.bytes,
                "f": part.files,
                "lb": part.log_bytes,
                "k": part.rows,
            }
            for part in parts
        ],
        "groups": _groups(found, [part.path for part in parts]),
    }


def _event(
    found: Inspection, event: Event, i: int, stamps: dict[str, tuple[str, int]]
) -> dict[str, Any]:
    instant = found.instant(event)
    commit = found.facts.commit_of(event)
    stats = commit.stats if commit else ()
    query, batch = stamps.get(event.time, (None, None)) if commit else (None, None)
    extra = commit.extra if commit else {}
    return {
        "i": i,
        "t": event.time,
        "a": event.action,
        "s": event.state,
        "r": _ms(event.requested_at),
        "c": _ms(event.completed_at),
        "op": instant.operation,
        "w": instant.rows_written,
        "u": instant.rows_updated,
        "d": instant.rows_deleted,
        "n": len(stats),
        "b": sum(stat.bytes for stat in stats),
        "p": len({stat.partition for stat in stats}),
        "arch": event.archived,
        "q": query,
        "k": batch,
        "x": [[s.path, s.writes, s.updates, s.deletes, s.bytes] for s in stats[:FILES]],
        "more": max(0, len(stats) - FILES),
        "m": {key: value for key, value in extra.items() if key != "schema"},
    }


def _groups(found: Inspection, paths: list[str]) -> list[dict[str, Any]]:
    slices: dict[str, dict[str, list[Slice]]] = defaultdict(lambda: defaultdict(list))
    for part in found.slices:
        slices[part.partition][part.group].append(part)
    chosen = [path for path in paths if path in slices]
    chosen += sorted(slices.keys() - set(paths))
    made = []
    for path in chosen:
        groups = sorted(slices[path].items(), key=lambda pair: (-pair[1][-1].bytes, pair[0]))
        drawn = [_group(found, name, its) for name, its in groups[:GROUPS]]
        made.append({"path": path, "groups": drawn, "more": max(0, len(groups) - GROUPS)})
    return made


def _group(found: Inspection, name: str, slices: list[Slice]) -> dict[str, Any]:
    ended = slices[-1].ended
    return {
        "g": name,
        "e": None if ended is None else _ms(moment(ended, found.facts.is_utc)),
        "s": [
            {
                "i": part.instant,
                "t": _ms(moment(part.instant, found.facts.is_utc)),
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
