"""The size of each lesson and the minutes that it takes.

The main text is everything but the sections of the exercises. Of its code, folded cells do not
count: they prove, check, solve or sum up. A reader takes a minute for 180 words or six lines of
code; parameters and imports are run, not read. An easy exercise takes five minutes, a medium one
eight, a hard one twelve, and a prediction two. How long the cells run is measured: see `RUN`.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from nbformat import NotebookNode

GRADE = re.compile(r"\*(Easy|Medium|Hard)(?:, (find the mistake|design|write it yourself))?\.\*")
MINUTES = {"Easy": 5, "Medium": 8, "Hard": 12}
PREDICTION, WORDS_A_MINUTE, LINES_A_MINUTE = 2, 180, 6
# Minutes that all cells of a lesson run on two cores, rounded up; `make test` prints the seconds.
# fmt: off
RUN = {
    "00": 1, "01": 1, "02": 1, "03": 1,
    "10": 2, "11": 2, "12": 2, "13": 1, "14": 1, "15": 1, "16": 2, "17": 2,
    "20": 2, "21": 3, "22": 2,
    "30": 1, "31": 2, "32": 1, "33": 2, "34": 1, "35": 2, "36": 2,
    "40": 6, "41": 2,
    "90": 1,
}
# fmt: on
NOT_TAUGHT = {"proof", "check", "solution", "result"}
MANY_NAMES = re.compile(r"(?m)^ *from [\w.]+ import \([^)]*\)$")
IMPORT = re.compile(r"(from|import) ")


class Measure(NamedTuple):
    """What `measure` counts in the main text of a lesson."""

    words: int
    lines: int  # of code, without blank lines
    silent: list[str]  # first lines of cells without a result, right after another such cell
    without: int  # cells without a result, with imports and the start of the session
    cells: int  # of code, without parameters, predictions, and what isn't taught
    read: int  # minutes
    exercises: int  # minutes


def tags(cell: NotebookNode) -> set[str]:
    """The tags of a cell or a notebook."""
    return set(cell.metadata.get("tags", ()))


def main_text(nb: NotebookNode) -> list[NotebookNode]:
    """The cells of all sections but those of the exercises."""
    cells, inside = [], True
    for cell in nb.cells:
        heads = re.findall(r"(?m)^## (.*)$", cell.source) if cell.cell_type == "markdown" else ()
        for head in heads:
            inside = not head.startswith(("Exercise", "Solutions"))
        # What follows the last exercise is no part of it.
        if inside or tags(cell) & {"result", "cleanup"}:
            cells.append(cell)
    return cells


def lines_of(source: str) -> int:
    """Lines of code; a blank one does not count, and an import is one line."""
    return sum(bool(line.strip()) for line in MANY_NAMES.sub("import", source).splitlines())


def words_of(cell: NotebookNode) -> int:
    """Words that a reader reads in a text cell: no code blocks, no targets of links."""
    text = re.sub(r"(?s)```.*?```|<[^>]+>", "", cell.source)
    return len(re.findall(r"\w[\w'.-]*", re.sub(r"\]\([^)]*\)", "]", text)))


def without_imports(cell: NotebookNode) -> str:
    """The source of a code cell without its imports, which nobody reads word by word."""
    lines = MANY_NAMES.sub("import x", cell.source).splitlines()
    return "\n".join(line for line in lines if not IMPORT.match(line)).strip()


def measure(nb: NotebookNode) -> Measure:
    """Measure one lesson."""
    main = main_text(nb)
    words = sum(words_of(cell) for cell in main if cell.cell_type == "markdown")
    taught = [cell for cell in main if cell.cell_type == "code" and not tags(cell) & NOT_TAUGHT]
    steps = [(cell, without_imports(cell)) for cell in taught if "parameters" not in tags(cell)]
    read = sum(lines_of(source) for _, source in steps)
    # The last steps give the result and clean up.
    results = [step for step in steps if not tags(step[0]) & {"prediction", "cleanup"}]
    kept = ["keep_output" in tags(cell) for cell, _ in results]
    shown = [cell for cell, source in results if source][1:]  # the first step opens the session
    silent = ["keep_output" not in tags(cell) for cell in shown]
    again = [
        cell.source.partition("\n")[0]
        for cell, before, now in zip(shown[1:], silent, silent[1:], strict=False)
        if before and now
    ]
    text = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    graded = [MINUTES[grade] for grade, _ in GRADE.findall(text)]
    predictions = sum("prediction" in tags(cell) for cell in nb.cells) // 2
    lines = sum(lines_of(cell.source) for cell in taught)
    return Measure(
        words,
        lines,
        again,
        kept.count(False),
        len(kept),
        math.ceil(words / WORDS_A_MINUTE + read / LINES_A_MINUTE),
        sum(graded) + PREDICTION * predictions,
    )
