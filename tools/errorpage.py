"""The book's page of error messages, made of what the gates' tests provoked.

Each run of pytest with `--errors-to FILE` (tests/errorindex.py) leaves a file: the areas of the
lab in the page's order, each with its errors and the tests that provoke them.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
EMPTY = """# Error messages

Every error of the lab is one line: what failed, a semicolon, and what to do. This page lists them
once the tests have provoked them: run `make test`, then `make book`.
"""
HEAD = """# Error messages

Every error of the lab is one line: what failed, a semicolon, and what to do. This page lists
{count} of them by area, each as a test provokes it: your names, paths and numbers will differ. The
last column links to the test, which shows the cause.
"""
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
        return f"| {code} | [{self.test.replace('_', ' ')}]({self.file}) |"


def page(folder: Path) -> str:
    """The page of all records in a folder; errors that differ in values only are one row.

    What tests provoked that have been moved or deleted since is left out.
    """
    areas, rows = dict[str, None](), dict[tuple[str, str], Row]()
    for file in sorted(folder.glob("*.json")):
        titles, found = load(file)
        areas |= dict.fromkeys(titles)
        for row in filter(is_there, found):
            rows[row.key] = min(row, rows.get(row.key, row))
    if not rows:
        return EMPTY
    text = HEAD.format(count=len(rows))
    for title in areas:
        if lines := sorted((str(row) for row in rows.values() if row.area == title), key=str.lower):
            text += f"\n## {title}\n\n| you see | test |\n|---|---|\n" + "\n".join(lines) + "\n"
    return text


def is_there(row: Row) -> bool:
    """Whether a row's test still exists."""
    return row.test in tests_of(ROOT / row.file)


@cache
def tests_of(file: Path) -> frozenset[str]:
    """The names of a file's tests, without `test_`; none if there is no such file."""
    text = file.read_text("utf-8") if file.exists() else ""
    return frozenset(re.findall(r"(?m)^def test_(\w+)\(", text))


def load(file: Path) -> tuple[list[str], list[Row]]:
    """The areas and the errors of a record."""
    found = json.loads(file.read_text("utf-8"))
    return [*found], [Row(title, **row) for title, rows in found.items() for row in rows]


def save(file: Path, areas: list[str], rows: list[Row]) -> None:
    """Write a record; a reader sees the old one or the new one."""
    found: dict[str, list[dict[str, str]]] = {title: [] for title in areas}
    for row in sorted(set(rows)):
        found[row.area].append({"text": row.text, "file": row.file, "test": row.test})
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1), encoding="utf-8")
    new.replace(file)
