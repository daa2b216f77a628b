"""The checkers themselves: each rule is shown a notebook that breaks it, and it alone."""

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
FACT, PROMPT, EXERCISE, CHECK, SOLUTION, SUMMARY, CLEANUP = range(6, 13)
Change = Callable[[NotebookNode], object]


def source(number: int, text: str) -> Change:
    return lambda nb: nb.cells[number].update(source=text)


def replace(number: int, old: str, new: str) -> Change:
    def change(nb: NotebookNode) -> None:
        assert old in nb.cells[number].source
        nb.cells[number].source = nb.cells[number].source.replace(old, new)

    return change


def tagged(number: int, *tags: str) -> Change:
    return lambda nb: nb.cells[number].metadata.update(tags=list(tags))


def printed(number: int, text: str, name: str = "stdout") -> Change:
    return lambda nb: nb.cells[number].update(outputs=[new_output("stream", name=name, text=text)])


def bare(number: int) -> Change:
    return lambda nb: nb.cells[number].update(outputs=[], metadata=nbformat.from_dict({}))


def both(*changes: Change) -> Change:
    return lambda nb: [change(nb) for change in changes]


def added(number: int, text: str, *tags: str) -> Change:
    cell = new_code_cell(text, metadata={"tags": list(tags)} if tags else {})
    return lambda nb: nb.cells.insert(number, cell)


FIGURE = "plt.show() and the tag keep_output alone go together"
PREDICTION = "each cell tagged prediction is followed by one tagged prediction and check"
OF_CHECK = "the last line of 'product = Exercise("
SIZES = "sensors=0 is less than 1; change it in the parameters cell or with -p NAME VALUE"
BROKEN: list[tuple[str, Change, str]] = [
    (
        "title",
        replace(SECTION, "Look", "# More\n\nLook"),
        "2 H1 headings; exactly one, in the first cell",
    ),
    ("title", source(TITLE, "99"), "0 H1 headings; exactly one, in the first cell"),
    ("title", source(TITLE, "# 99 A sample"), "no sentence below the title"),
    ("title", replace(TITLE, "99", "98"), "the title does not begin with 99"),
    ("contract", replace(CONTRACT, "**Goals**", ""), "the second cell has no '**Goals**'"),
    ("contract", replace(CONTRACT, "| Needs", "| Wants"), "the second cell has no '| Needs |'"),
    ("goals", replace(CONTRACT, "- add", "- sub\n- add"), "2 goals and 1 sections for them"),
    ("goals", source(SECTION, "## Add two numbers"), "no text below '## Add two numbers'"),
    (
        "goals",
        source(SUMMARY, "## Summary\n\nAll done."),
        "the last section is not a Summary that ends in its Sources",
    ),
    (
        "goals",
        source(SUMMARY, "## Sums\n\nSources: none."),
        "1 goals and 2 sections for them\n"
        "the last section is not a Summary that ends in its Sources",
    ),
    (
        "parameters",
        tagged(PARAMETERS),
        "the first code cell is not tagged parameters\n"
        "99_sample.ipynb has 0 cells tagged parameters; tag exactly one",
    ),
    (
        "parameters",
        tagged(SESSION, "parameters"),
        "99_sample.ipynb has 2 cells tagged parameters; tag exactly one",
    ),
    (
        "parameters",
        replace(PARAMETERS, "= 5", "= 5 + 5"),
        "99_sample.ipynb: line 1 of the parameters cell is not NAME = number, string, True or "
        "False; move other code to another cell",
    ),
    ("parameters", replace(PARAMETERS, "sensors = 1", "sensors = 0"), SIZES),
    ("parameters", replace(PARAMETERS, "run_id", "name"), 'no parameter run_id = ""'),
    ("parameters", replace(PARAMETERS, '""', '"AWS"'), 'no parameter run_id = ""\nno parameter ru'),
    (
        "imports",
        source(IMPORTS, "from types import SimpleNamespace\nprint(5)"),
        "the second code cell is not imports and nothing else",
    ),
    (
        "ordered",
        source(SESSION, "few = table.limit(3)"),
        "limit without orderBy in the cell 'few = table.limit(3)'",
    ),
    ("imports", source(SESSION, "from os import *"), "star import: from os import *"),
    (
        "imports",
        source(SESSION, "def f():\n    import os\n    from math import *"),
        "star import: from math import *",
    ),
    (
        "servers",
        source(SESSION, "from hudilab_cli.servers.kafka import find_broker"),
        "imports hudilab_cli.servers without the tag 'servers' in the notebook's metadata",
    ),
    (
        "servers",
        lambda nb: nb.metadata.update(tags=["servers"]),
        "has the tag 'servers' in its metadata, but does not import hudilab_cli.servers",
    ),
    (
        "size",
        source(SESSION, "\n\n".join(f"a{n} = {n}" for n in range(16))),
        "16 lines in the cell 'a0 = 0', 15 at most",
    ),
    (
        "size",
        both(
            *(source(number, "\n".join("abcdefghi")) for number in (SESSION, FACT, EXERCISE)),
            source(IMPORTS, "\n".join(f"import {name}" for name in "abcdefghi")),
        ),
        "the median of lines a cell is 7, 6 at most",
    ),
    (
        "size",
        lambda nb: nb.cells.extend(new_markdown_cell("More.") for _ in range(68)),
        "81 cells, 80 at most; split the lesson, or join cells of one step",
    ),
    (
        "size",
        both(*(added(CHECK + 2, "rows") for _ in range(38))),
        "46 cells of code, 45 at most; split the lesson, or join cells of one step",
    ),
    (
        "facts",
        both(bare(FACT), tagged(FACT, *sorted(checks.GOLDEN))),
        'fact cell \'print("sum", rows + ba',
    ),
    ("facts", lambda nb: nb.cells[FACT].update(execution_count=None), 'fact cell \'print("sum", '),
    ("facts", bare(FACT), "no cell tagged nbval-check-output outside the exercises"),
    (
        "facts",
        both(bare(FACT), tagged(FACT, "nbval-check-output")),
        "fact cell 'print(\"sum\", rows + batches)' is not tagged keep_output\nfact cell",
    ),
    ("figures", added(FACT, "plt.show()"), f"cell 'plt.show()': {FIGURE}"),
    (
        "figures",
        added(FACT, "print(1)", "keep_output"),
        f"print(1)': {FIGURE}\nfigure cell 'print(",
    ),
    (
        "figures",
        added(FACT, "plt.show()", "keep_output"),
        "figure cell 'plt.show()' does not hold one picture; run make golden",
    ),
    (
        "figures",
        both(
            added(FACT, "plt.show()", "keep_output"),
            lambda nb: nb.cells[FACT].update(
                outputs=[new_output("display_data", data={"image/png": "aaaa"})]
            ),
        ),
        "figure 'plt.show()' has no alternative text: give it a title, and run make golden",
    ),
    *(
        ("exercises", change, "an exercise is not followed by its check and its solution at once")
        for change in (
            lambda nb: nb.cells.insert(CHECK, new_code_cell("pass")),
            lambda nb: nb.cells.insert(SOLUTION, new_code_cell("pass")),
            lambda nb: nb.cells.insert(CHECK, nb.cells.pop(SOLUTION)),
        )
    ),
    ("exercises", replace(PROMPT, "*Hint: ", ""), "an exercise has no prompt with a *Hint: before"),
    (
        "exercises",
        replace(PROMPT, "*Easy.* ", ""),
        "an exercise does not say whether it is *Easy.*, *Medium.* or *Hard.*",
    ),
    (
        "exercises",
        lambda nb: nb.cells[SOLUTION].metadata.pop("jupyter"),
        "a solution's source is not hidden",
    ),
    # A check that lets the starter pass, shows more than its verdict, or says nothing.
    ("exercises", printed(CHECK, "right: 5\n"), OF_CHECK),
    ("exercises", printed(CHECK, "not yet: add\nFalse\n"), OF_CHECK),
    ("exercises", both(bare(CHECK), tagged(CHECK, "check")), OF_CHECK),
    (
        "exercises",
        printed(SOLUTION, "not yet: add\n"),
        "the last line of 'assert product.accepts(rows * batches)' is not 'right: '",
    ),
    (
        "exercises",
        tagged(EXERCISE),
        "no exercise\nan exercise is not followed by its check and its solution at once",
    ),
    (
        "exercises",
        lambda nb: nb.cells.__delitem__(slice(EXERCISE, SUMMARY)),
        "no exercise",
    ),
    # A prediction that nothing checks, and a check of a prediction that nobody made.
    ("exercises", tagged(SESSION, "prediction"), PREDICTION),
    (
        "exercises",
        tagged(CHECK, "prediction", "check", *checks.GOLDEN),
        f"{PREDICTION}\nan exercise is not followed by its check and its solution at once",
    ),
    (
        "progress",
        replace(CHECK, "product.check", "Exercise(7, 'count', name=\"product\")\nproduct.check"),
        "2 exercises have the name 'product'",
    ),
    (
        "progress",
        replace(CHECK, "product.check", "Exercise(7, 'count')\nproduct.check"),
        "1 of 2 exercises have no name",
    ),
    (
        "progress",
        replace(SOLUTION, "accepts", "check"),
        "a solution is checked as if it were an answer: assert product.check(rows * batches)",
    ),
    (
        "progress",
        added(FACT, 'spark = open_session(settings, app="98_sample")'),
        "the session's name is 98_sample, not 99_sample",
    ),
    ("cleanup", tagged(CLEANUP), "0 cells tagged cleanup; exactly one, the last code cell"),
    (
        "cleanup",
        added(CLEANUP + 1, "pass"),
        "1 cells tagged cleanup; exactly one, the last code cell",
    ),
    ("cleanup", source(CLEANUP, "pass"), "the cleanup cell does not stop the session"),
    ("spelling", tagged(SESSION, "raises-exception"), "unknown tag raises-exception"),
    ("spelling", tagged(SESSION, "nbval-skip"), "unknown tag nbval-skip"),
    ("spelling", source(SESSION, "%run utils.py"), "not plain Python: %run utils.py"),
    ("spelling", source(SESSION, "if rows:\n    !ls"), "not plain Python: !ls"),
    ("spelling", source(SESSION, 'a = "/tmp/t"'), "a path of one machine in 'a = \"/tmp/t\"'"),
    (
        "outputs",
        printed(SESSION, "hello\n"),
        "cell 'spark = SimpleNamespace(stop=lambda: print(\"stopped\"))' has an output and is not "
        "tagged keep_output; run make golden",
    ),
    ("outputs", printed(FACT, "at 20260101000000000_x.commit"), "keeps an instant"),
    ("outputs", printed(FACT, "26/01/01 WARN Utils: address"), "keeps a warning"),
    ("outputs", printed(FACT, "x.py:3: FutureWarning: old"), "keeps a warning"),
    ("outputs", printed(FACT, "Traceback (most recent call last):\n"), "keeps a traceback"),
    ("outputs", printed(FACT, "log /var/log/x.log"), "keeps an absolute path"),
    ("outputs", printed(FACT, "in file:///x/y"), "keeps an absolute path"),
    ("outputs", printed(FACT, "in /tmp"), "keeps an absolute path"),
    ("outputs", printed(FACT, "sum 7", name="stderr"), "keeps an error, or lines of stderr"),
    (
        "outputs",
        lambda nb: nb.cells[FACT].update(
            outputs=[new_output("execute_result", data={"text/html": "<b>/home/x</b>"})]
        ),
        "keeps an absolute path",
    ),
    (
        "outputs",
        lambda nb: nb.cells[FACT].update(
            outputs=[new_output("error", ename="E", evalue="", traceback=[])]
        ),
        "keeps an error, or lines of stderr",
    ),
    ("links", replace(CONTRACT, "good.ipynb", "gone.ipynb#x"), "the link gone.ipynb#x leads nowh"),
    *(
        ("pictures", replace(SUMMARY, "Sources", f"{picture}\n\nSources"), text)
        for picture, text in (
            ("![A picture of sums](sum.svg)", "sum.svg is not a PNG file below the notebook's"),
            ("![A picture of sums](../sum.png)", "../sum.png is not a PNG file below the noteb"),
            ("![A picture of sums](https://x.y/sum.png)", "/sum.png is not a PNG file below the"),
            ("![sums](sum.png)", "the picture sum.png has no alternative text"),
            ('<img src="sum.png" alt="A picture of sums">', "a picture as HTML"),
        )
    ),
    ("metadata", lambda nb: nb.update(nbformat_minor=4), "format 4.4, not 4.5"),
    (
        "metadata",
        lambda nb: nb.metadata.update(papermill={}),
        "the notebook's metadata is not what make golden writes",
    ),
    (
        "metadata",
        lambda nb: nb.cells[FACT].metadata.update(execution={}),
        "a cell has metadata 'execution'",
    ),
]


@pytest.mark.parametrize(("rule", "change", "text"), BROKEN)
def test_a_rule_finds_what_breaks_it(tmp_path: Path, rule: str, change: Change, text: str) -> None:
    path = tmp_path / "99_sample.ipynb"
    (tmp_path / "good.ipynb").write_bytes(GOOD.read_bytes())
    for picture in ("sum.png", "sum.svg", "../sum.png"):
        (tmp_path / picture).touch()
    nb = checks.read(GOOD)
    change(nb)
    path.write_text(nbformat.writes(nb))
    found = checks.broken(path)
    assert list(found) == [rule]
    expected = text.split("\n")
    assert len(found[rule]) == len(expected)
    assert all(part in have for part, have in zip(expected, found[rule], strict=True))


def test_the_good_sample_breaks_nothing_and_every_rule_has_a_bad_one() -> None:
    assert checks.broken(GOOD) == {}
    assert {rule for rule, _, _ in BROKEN} == set(checks.RULES)


@pytest.mark.parametrize(
    "text",
    [
        "rows 5000 and 20260101 and 202601010000000001",
        "sensor_id=10/, a/b/c, 1/2, </td></tr>, s3a://bucket/key, http://127.0.0.1:4040/jobs/",
        "org.apache.hudi.exception.TableNotFoundException",
        "WARNED, warn",
    ],
)
def test_harmless_outputs_pass(text: str) -> None:
    nb = checks.read(GOOD)
    printed(FACT, text)(nb)
    assert list(checks.unkept(nb)) == []
