"""docs/errors.md: every error of the lab that tests provoke in their own process, as users see it.

`pytest FILES --write-errors` writes what these tests provoke into the page and leaves the other
rows. Without the option, a test that provokes an error that the page lacks fails.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import hudilab
from hudilab.errors import LabError

LIB, ROOT = Path(hudilab.__file__).parent, Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "errors.md"
# An area has the modules whose names start so; the first that fits counts.
AREAS = {
    "Settings and environment": "runtime.settings runtime.groups runtime.reader runtime.doctor",
    "Parameters, notebooks and their runner": "operations.parameters operations.runner "
    "lessons.sizes",
    "Paths": "paths",
    "S3": "runtime.s3",
    "Kafka": "runtime.kafka jobs.stock",
    "Jars and Java": "runtime.java",
    "Sessions": "runtime.session runtime.spark_conf runtime.submitted runtime.cluster.registration",
    "Table specs and schemas": "writer.spec writer.drift writer.guards",
    "Ledger and checkpoint": "writer.ledger writer.rules writer.commits writer.checkpoints "
    "writer.rewind runtime.locks operations.rewind",
    "Streams": "runtime.streams waiting",
    "Reads of the past": "lessons.reads",
    "Tables in the catalog, and lessons": "runtime.places lessons",
    "Table services": "writer.upkeep jobs.tidy",
    "Inspect": "inspect",
    "Cluster, submit and jobs": "runtime.cluster jobs operations.servers.cluster "
    "operations.servers.spark",
    "Servers": "operations.servers runtime.private",
    "Bundle and deploy": "operations.ship",
}
HEAD = """# Error messages

Every error of the lab is one line: what failed, a semicolon, and what to do. This page lists
{count} of them by area, each as a test provokes it: your names, paths and numbers will differ. The
last column links to the test, which shows the cause.
"""
ROW = re.compile(r"^\| (`+ ?)(.*?)( ?`+) \| \[(.*?)\]\(\.\./(tests/\S+\.py)\) \|$", re.MULTILINE)
# What differs from run to run or from machine to machine.
VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|\S*[/\d]\S*")


class Row(NamedTuple):
    """An error's text, and the test that provokes it."""

    area: str
    text: str
    file: str
    test: str

    @property
    def key(self) -> tuple[str, str]:
        """Errors with one key differ in their values only."""
        return self.area, VALUE.sub("_", self.text)

    def __str__(self) -> str:
        text = self.text.replace("|", "\\|")
        code = f"`` {text} ``" if "`" in text else f"`{text}`"
        return f"| {code} | [{self.test.replace('_', ' ')}](../{self.file}) |"


class Errors:
    """What tests provoke, and what the page has."""

    def __init__(self) -> None:
        page = rows_of(PAGE.read_text("utf-8"))
        self.known = {row.key for row in page} | {(row.file, row.test) for row in page}
        self.seen: list[Row] = []
        self.ran: set[tuple[str, str]] = set()
        self._raised = dict[tuple[str, str], None]()
        made = LabError.__init__

        def note(error: LabError, *given: object) -> None:
            made(error, *given)
            file = Path(sys._getframe(1).f_code.co_filename)
            if file.is_relative_to(LIB):  # tests make some too
                self._raised[file.relative_to(LIB).as_posix(), str(error)] = None

        LabError.__init__ = note  # type: ignore[method-assign]

    def during(self, file: str, test: str) -> Iterator[None]:
        """Note what a test provokes."""
        self._raised.clear()
        yield
        self.ran.add((file, test))
        rows = (Row(area(module), plain(text), file, test) for module, text in self._raised)
        self.seen += rows

    def unlisted(self, file: str, test: str) -> list[str]:
        """The errors of a test that the page lacks."""
        mine = [row for row in self.seen if (row.file, row.test) == (file, test)]
        return [row.text for row in mine if not {row.key, (file, test)} & self.known]

    def write(self) -> None:
        """Put what was seen into the page; rows of tests that did not run stay."""
        page = rows_of(PAGE.read_text("utf-8"))
        others = [row for row in page if (row.file, row.test) not in self.ran]
        rows = {row.key: row for row in sorted(self.seen, reverse=True)}
        rows |= {row.key: row for row in reversed(others)}
        text = HEAD.format(count=len(rows))
        for title in AREAS:
            if mine := [row for row in rows.values() if row.area == title]:
                lines = sorted((str(row) for row in mine), key=str.casefold)
                text += f"\n## {title}\n\n| you see | test |\n|---|---|\n" + "\n".join(lines) + "\n"
        PAGE.write_text(text, encoding="utf-8")


def rows_of(page: str) -> list[Row]:
    """The rows of the page."""
    found = []
    for section in page.split("\n## ")[1:]:
        title = section.partition("\n")[0]
        for _, text, _, test, file in ROW.findall(section):
            found.append(Row(title, text.replace("\\|", "|"), file, test.replace(" ", "_")))
    return found


def area(module: str) -> str:
    """The area of a module's file; empty if it has none."""
    name = module.removesuffix(".py").replace("/", ".")
    fits = (title for title, of in AREAS.items() if name.startswith(tuple(of.split())))
    return next(fits, "")


def plain(text: str) -> str:
    """A text without this machine's folders."""
    text = text.replace(f"{sys.prefix}/bin/", "")
    temporary = re.escape(tempfile.gettempdir())
    text = re.sub(rf"{temporary}/pytest-of-\w+/pytest-\d+/[^/\s,;:)']+", "/data", text)
    text = re.sub(rf"{temporary}/\w+", "/data", text)
    return text.replace(str(ROOT), "/lab").replace(str(Path.home()), "~").replace("\n", " ")
