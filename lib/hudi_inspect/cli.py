"""The command `hudilab inspect`: choose what to print."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from hudi_inspect.inspection import Inspection, inspect
from hudi_inspect.options import Options
from hudilab.errors import InspectError


@dataclass(frozen=True)
class Output:
    """What to print; `limit` is the number of instants and partitions in the text."""

    as_json: bool
    html: Path | None
    check: bool
    instant: str
    limit: int


def run(table: str, options: Options, output: Output) -> bool:
    """Print what the output asks for; return False if `check` is set and a check fails."""
    found = inspect(table, options)
    if output.html is not None:
        _write(output.html, found)
    if output.instant:
        print(json.dumps(found.content(output.instant), indent=2, ensure_ascii=False))
    elif output.as_json:
        print(found.to_json())
    elif output.check:
        for check in found.report.health:
            print(check.line())
    elif output.html is None:
        _show(found, output.limit)
    return found.is_healthy or not output.check


def _write(file: Path, found: Inspection) -> None:
    root = found.facts.uri.removeprefix("file://")
    if file.resolve().is_relative_to(Path(root).resolve()):
        raise InspectError(
            f"--html {file} is inside the table's folder",
            "choose a file outside it: hudilab inspect TABLE --html FILE",
        )
    try:
        file.write_text(found.to_html(), encoding="utf-8")
    except OSError as error:
        raise InspectError(
            f"cannot write {file}: {error.strerror}",
            "choose another file: hudilab inspect TABLE --html FILE",
        ) from None
    print(f"wrote {file}", file=sys.stderr)


def _show(found: Inspection, limit: int) -> None:
    from rich.console import Console

    from hudi_inspect.text import view

    # A file or pipe has no width: use one that fits every column.
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    console.print(view(found, limit, console.width))
