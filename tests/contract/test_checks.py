"""Each rule finds a notebook that breaks it, and it alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest
from contract import checks
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output

GOOD = Path(__file__).with_name("good.ipynb")
TITLE, CONTRACT, PARAMETERS, IMPORTS, SESSION, SECTION = range(6)
FACT, PROMPT, _EXERCISE, CHECK, _SOLUTION, SUMMARY, CLEANUP = range(6, 13)
Change = Callable[[NotebookNode], object]


def source(number: int, text: str) -> Change:
    return lambda nb: nb.cells[number].update(source=text)


def replace(number: int, old: str, new: str) -> Change:
    def change(nb: NotebookNode) -> None:
        assert old in nb.cells[number].source
        nb.cells[number].source = nb.cells[number].source.replace(old, new)

    return change


def printed(number: int, text: str) -> Change:
    output = new_output("stream", name="stdout", text=text)
    return lambda nb: nb.cells[number].update(outputs=[output])


def added(number: int, text: str) -> Change:
    return lambda nb: nb.cells.insert(number, new_code_cell(text))


BROKEN: list[tuple[str, Change, str]] = [
    ("title", replace(TITLE, "# 99", "# 98"), "the title does not begin with 99"),
    ("contract", replace(CONTRACT, "**Goals**", ""), "the second cell has no '**Goals**'"),
    ("goals", replace(CONTRACT, "- add", "- sub\n- add"), "2 goals and 1 sections for them"),
    (
        "parameters",
        replace(PARAMETERS, "sensors = 1", "sensors = 0"),
        "sensors=0 is less than 1; change it in the parameters cell or with -p NAME VALUE",
    ),
    ("imports", source(SESSION, "from os import *"), "star import: from os import *"),
    (
        "servers",
        source(SESSION, "from hudilab_cli.servers.kafka import find_broker"),
        "imports hudilab_cli.servers without the tag 'servers' in the notebook's metadata",
    ),
    (
        "size",
        lambda nb: nb.cells.extend(new_markdown_cell("") for _ in range(100)),
        "113 cells, 110 at most",
    ),
    ("facts", lambda nb: nb.cells[FACT].update(execution_count=None), "has no execution count"),
    (
        "ordered",
        source(SESSION, "few = table.limit(3)"),
        "limit without orderBy in the cell 'few = table.limit(3)'",
    ),
    (
        "figures",
        added(FACT, "plt.show()"),
        "cell 'plt.show()': plt.show() and the tag keep_output alone go together",
    ),
    (
        "exercises",
        replace(PROMPT, "<details>", ""),
        "an exercise has no prompt with a <details><summary>Hint</summary> before it",
    ),
    ("exercises", printed(CHECK, "right: 5\n"), "the last line of 'product = Exercise("),
    ("exercises", source(_EXERCISE, "answer = 5"), "does not end in answer = None"),
    ("exercises", source(_SOLUTION, "answer = 5"), "a solution has an output, or asserts nothing"),
    ("exercises", lambda nb: nb.cells[CHECK].metadata.pop("jupyter"), "is not hidden"),
    ("proofs", replace(FACT, "print", "assert rows\nprint"), "an assert in the cell 'assert rows'"),
    (
        "results",
        lambda nb: [nb.cells.insert(FACT, new_code_cell(text)) for text in ("b = 2", "a = 1")],
        "the cell 'b = 2' has no kept output",
    ),
    ("own_calls", replace(FACT, "print", "spark._jvm\nprint"), "an internal of Spark in the cell"),
    (
        "exercises",
        lambda nb: nb.cells.insert(CHECK, new_code_cell("pass")),
        "an exercise is not followed by its check and its solution at once",
    ),
    (
        "progress",
        replace(CHECK, "product.check", "Exercise(7, 'count')\nproduct.check"),
        "1 of 2 exercises have no name",
    ),
    (
        "progress",
        replace(CHECK, "multiply them", "product"),
        "the exercise below the heading 'multiply them' has the name 'product'",
    ),
    ("cleanup", source(CLEANUP, "pass"), "the cleanup cell does not close the lesson"),
    ("spelling", source(SESSION, "%run utils.py"), "not plain Python: %run utils.py"),
    ("outputs", printed(FACT, "at 20260101000000000_x.commit"), "keeps an instant"),
    ("outputs", printed(FACT, "26/01/01 WARN Utils: address"), "keeps a warning"),
    ("outputs", printed(FACT, "in file:///x/y"), "keeps an absolute path"),
    ("links", replace(CONTRACT, "good.ipynb", "gone.ipynb#x"), "the link gone.ipynb#x leads nowh"),
    (
        "pictures",
        replace(SUMMARY, "Sources", "![sums](sum.png)\n\nSources"),
        "the picture sum.png has no alternative text",
    ),
    ("metadata", lambda nb: nb.update(nbformat_minor=4), "format 4.4, not 4.5"),
]


@pytest.mark.parametrize(("rule", "change", "text"), BROKEN)
def test_a_rule_finds_what_breaks_it(tmp_path: Path, rule: str, change: Change, text: str) -> None:
    path = tmp_path / "99_sample.ipynb"
    (tmp_path / "good.ipynb").write_bytes(GOOD.read_bytes())
    (tmp_path / "sum.png").touch()
    nb = checks.read(GOOD)
    change(nb)
    path.write_text(nbformat.writes(nb))
    broken = checks.broken(path)
    assert list(broken) == [rule]
    (problem,) = broken[rule]
    assert text in problem


def test_the_good_sample_breaks_nothing_and_every_rule_has_a_bad_one() -> None:
    assert checks.broken(GOOD) == {}
    assert {rule for rule, _, _ in BROKEN} == set(checks.RULES)
