"""The command `hudilab inspect`: choose what to print."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from hudilab.errors import InspectError
from hudilab.inspect.inspection import Inspection, inspect

__all__ = ["run"]


def run(
    table: str,
    *,
    as_json: bool,
    html: Path | None,
    check: bool,
    instant: str,
    partition: str,
    since: str,
    archived: bool,
    count: bool,
    limit: int,
    stuck_after: float,
) -> bool:
    """Print what the options ask for; return False if `check` is set and a check fails."""
    found = inspect(
        table,
        archived=archived,
        count=count,
        since=since,
        partition=partition,
        stuck_after=stuck_after,
    )
    if html is not None:
        _write(html, found)
    if instant:
        print(json.dumps(found.content(instant), indent=2, ensure_ascii=False))
    elif as_json:
        print(found.to_json())
    elif check:
        for one in found.report.health:
            print(one.line())
    elif html is None:
        _show(found, limit)
    return found.is_healthy or not check


def _write(file: Path, found: Inspection) -> None:
    root = found.facts.uri.removeprefix("file://")
    if file.resolve().is_relative_to(Path(root).resolve()):
        raise InspectError(
            f"--html {file} is inside the table's folder; "
            "choose a file outside it: hudilab inspect TABLE --html FILE"
        )
    try:
        file.write_text(found.to_html(), encoding="utf-8")
    except OSError as error:
        raise InspectError(
            f"cannot write {file}: {error.strerror}; "
            "choose another file: hudilab inspect TABLE --html FILE"
        ) from None
    print(f"wrote {file}", file=sys.stderr)


def _show(found: Inspection, limit: int) -> None:
    from rich.console import Console

    from hudilab.inspect.text import view

    # A file or pipe has no width: use one that fits every column.
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    console.print(view(found, limit, console.width))
