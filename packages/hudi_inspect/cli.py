"""The command: `hudi-inspect`, `python -m hudi_inspect`, and `hudilab inspect`."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hudi_inspect.errors import InspectError, missing_package
from hudi_inspect.snapshot import TableSnapshot, inspect
from hudi_inspect.text import text
from hudi_inspect.units import plain, to_json

ABOUT = "Inspect a Hudi table, read-only and without a JVM: timeline, files, writers, health."
LIMIT, STUCK_AFTER = 15, 10
HELP = {  # of each option, here and in `hudilab inspect`
    "json": "Print the report as JSON.",
    "html": "Write a self-contained HTML page.",
    "check": "Print only the health checks; exit code 1 if one fails.",
    "instant": "Print the whole content of one instant's files.",
    "partition": "Show the file slices of one partition.",
    "since": "Show instants from an instant or ISO 8601 time on.",
    "archived": "Include archived instants.",
    "count": "Count the rows with hudi-rs, which reads the data.",
    "limit": f"Number of instants to show (default: {LIMIT}).",
    "stuck-after": f"Inactivity after which a pending instant is stuck (default: {STUCK_AFTER}).",
}


def main() -> None:
    """Run `hudi-inspect`; an error is a line on stderr, with exit code 1."""
    try:
        code = show(_parser().parse_args(), "hudi-inspect")
        sys.stdout.flush()
    except InspectError as error:
        print(f"hudi-inspect: {error}", file=sys.stderr)
        code = 1
    except BrokenPipeError:  # as in `hudi-inspect TABLE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    sys.exit(code)


def show(options: Namespace, program: str) -> int:
    """Print the report for the options in `HELP`; return the exit code.

    Raises:
        InspectError: The table cannot be inspected, or a package is missing.
    """
    # The report lives until the end of the process, so collecting garbage only costs time.
    gc.disable()
    try:
        snapshot = inspect(
            options.table,
            archived=options.archived,
            count=options.count,
            since=options.since,
            partition=options.partition,
            stuck_after=options.stuck_after * 60.0,
        )
        if options.html is not None:
            _write(options.html, snapshot)
        if options.instant:
            content = snapshot.content(options.instant)
            print(to_json(content))
        elif options.json:
            print(snapshot.to_json())
        elif options.check:
            for check in snapshot.health:
                print(check.line())
        elif options.html is None:
            _show(snapshot, options.limit)
        if options.html or options.instant or options.check:  # whose output lacks the notes
            for note in snapshot.notes:
                print(f"{program}: {plain(note)}", file=sys.stderr)
    except ModuleNotFoundError as error:
        raise missing_package(program, error) from None
    finally:
        gc.enable()
    failed = snapshot.problems or (options.check and not snapshot.is_healthy)
    return 1 if failed else 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="hudi-inspect", description=ABOUT, allow_abbrev=False)
    parser.add_argument("table", metavar="TABLE", help="A path, or a file://, s3:// or s3a:// URI.")

    def add(name: str, **details: Any) -> None:
        parser.add_argument(f"--{name}", help=HELP[name], **details)

    add("json", action="store_true")
    add("html", metavar="FILE", type=Path)
    add("check", action="store_true")
    add("instant", metavar="T", default="")
    add("partition", metavar="PATH", default="")
    add("since", metavar="T", default="")
    add("archived", action="store_true")
    add("count", action="store_true")
    add("limit", metavar="N", type=_from(1), default=LIMIT)
    add("stuck-after", metavar="MINUTES", type=_from(0), default=STUCK_AFTER)
    return parser


def _from(least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from `least` on."""

    def number(text: str) -> int:
        if (value := int(text)) < least:
            raise ArgumentTypeError(f"{value} is less than {least}")
        return value

    return number


def _write(file: Path, snapshot: TableSnapshot) -> None:
    root = snapshot.uri.removeprefix("file://")
    if file.resolve().is_relative_to(Path(root).resolve()):
        raise InspectError(
            f"--html {file} is inside the table's folder",
            "choose a file outside it: hudi-inspect TABLE --html FILE",
        )
    try:
        file.write_text(snapshot.to_html(), encoding="utf-8")
    except OSError as error:
        raise InspectError(
            f"cannot write {file}: {error.strerror}",
            "choose another file: hudi-inspect TABLE --html FILE",
        ) from None
    print(f"wrote {file}", file=sys.stderr)


def _show(snapshot: TableSnapshot, limit: int) -> None:
    # A file or pipe has no width, so use the width of all columns.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 150
    print(text(snapshot, width, limit), end="")
