"""The notebook contract: a rule is a function that yields what is wrong, one text each."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
from contract.measure import RUN, measure, tags
from nbformat import NotebookNode

from hudilab.errors import LabError
from hudilab.generate import check_sizes
from hudilab_cli.parameters import defaults
from hudilab_cli.progress_command import names_in

MAX_CELLS, MAX_CODE = 110, 75
# Of the main text, without the sections of the exercises; real data needs more than the others.
MAX_WORDS = {"40": 1_500, "41": 10_000}
MAX_TAUGHT = {"40": 150}
HINT = "<details><summary>Hint</summary>"
SOLUTIONS = "## Solutions"
GOLDEN = {"keep_output", "nbval-check-output"}
TAGS = GOLDEN | {
    *("parameters", "exercise", "prediction", "check", "solution", "proof", "result", "cleanup"),
}
UNKEPT = {
    "an instant": re.compile(r"(?<!\d)20\d{15}(?!\d)"),
    "a warning": re.compile(r"\bWARN(?:ING)?\b|Warning:"),
    "a traceback": re.compile(r"Traceback \(most recent call last\)"),
    "an absolute path": re.compile(
        r"file:/|(?<![\w.:/<])/[A-Za-z_.][\w.-]*/[\w.-]|(?<![\w.:/<])/(?:tmp|root|home)\b|[A-Z]:\\"
    ),
}
APP = re.compile(r'\b(?:open_session\(settings, app=|start\(\s*)"(\w+)"')
STARTS = re.compile(r"\blab\.service\(|\bservices=")
Problems = Iterator[str]


def read(path: Path) -> NotebookNode:
    """A notebook as it is in git."""
    nb: NotebookNode = nbformat.read(path, as_version=4)
    return nb


def code(nb: NotebookNode) -> list[NotebookNode]:
    """The code cells in order."""
    return [cell for cell in nb.cells if cell.cell_type == "code"]


def texts(cell: NotebookNode) -> Iterator[str]:
    """What a cell's outputs say: printed lines and text forms, no pictures."""
    for output in cell.get("outputs", []):
        yield output.get("text", "")
        for kind, data in output.get("data", {}).items():
            if kind.startswith(("text/", "application/")):
                yield data if isinstance(data, str) else str(data)


def parameters(path: Path, nb: NotebookNode) -> Problems:
    """The first code cell, and no other, is tagged parameters; literals that make sense."""
    cells = code(nb)
    if not cells or "parameters" not in tags(cells[0]):
        yield "the first code cell is not tagged parameters"
    try:
        known = defaults(path)
        sizes = ("rows", "batches", "sensors", "tickers", "seed", "trigger_seconds")
        if {"rows", "batches"} <= known.keys():
            check_sizes(**{name: known[name] for name in sizes if name in known})
    except LabError as error:
        yield str(error)
    else:
        for name in ("run_id", "runtime"):
            if known.get(name, "missing") != "":
                yield f'no parameter {name} = ""'


def minutes(path: Path, nb: NotebookNode) -> Problems:
    """The second cell states the minutes that the lesson takes; those of a run are in `RUN`."""
    if not path.stem[0].isdecimal():
        return
    taught, run = measure(nb), RUN.get(path.name[:2])
    if not run:
        yield "tests/contract/measure.py does not have the minutes that its cells run"
    time = f"| Time | read {taught.read} minutes, run {run}, exercises {taught.exercises} |"
    if time not in nb.cells[1].source:
        yield f"the second cell does not have the line {time}"


def size(path: Path, nb: NotebookNode) -> Problems:
    """At most 110 cells, 75 of them code; the main text within its limits."""
    number, taught = path.name[:2], measure(nb)
    for what, count, most in (
        ("cells", len(nb.cells), MAX_CELLS),
        ("cells of code", len(code(nb)), MAX_CODE),
        ("words of main text", taught.words, MAX_WORDS.get(number, 1_100)),
        ("lines of code in the main text", taught.lines, MAX_TAUGHT.get(number, 110)),
    ):
        if count > most:
            yield f"{count} {what}, {most} at most"


def results(path: Path, nb: NotebookNode) -> Problems:
    """No two steps in a row without a result that git keeps, and one in five cells at most."""
    measured = measure(nb)
    for line in measured.silent:
        yield f"the cell {line!r} has no kept output, and neither has the one before it"
    if measured.without > math.ceil(measured.cells / 5):
        yield f"{measured.without} of {measured.cells} code cells have no kept output"


def servers(path: Path, nb: NotebookNode) -> Problems:
    """Servers are started only by notebooks that have the tag `servers`."""
    starts = any(STARTS.search(cell.source) for cell in code(nb))
    tagged = "servers" in tags(nb)
    if starts and not tagged:
        yield "starts a server without the tag 'servers' in the notebook's metadata"
    if tagged and not starts:
        yield "has the tag 'servers' in its metadata, but starts no server"


def facts(path: Path, nb: NotebookNode) -> Problems:
    """At least one fact cell; each is kept, executed and has something to compare with."""
    compared = [cell for cell in code(nb) if "nbval-check-output" in tags(cell)]
    if all(tags(cell) & {"check", "solution"} for cell in compared):
        yield "no cell tagged nbval-check-output outside the exercises"
    for cell in compared:
        where = repr(cell.source.partition("\n")[0])
        if "keep_output" not in tags(cell):
            yield f"fact cell {where} is not tagged keep_output"
        if not cell.outputs:
            yield f"fact cell {where} has no output; run make golden"
        if cell.execution_count is None:  # nbval passes over such a cell
            yield f"fact cell {where} has no execution count; run make golden"


def ordered(path: Path, nb: NotebookNode) -> Problems:
    """No limit without an order: on a cluster, it returns the rows that happen to come first."""
    for cell in code(nb):
        if ".limit(" in cell.source and "orderBy(" not in cell.source:
            yield f"limit without orderBy in the cell {cell.source.splitlines()[0]!r}"


def figures(path: Path, nb: NotebookNode) -> Problems:
    """A picture is kept and not compared; what is kept and not compared is a picture."""
    for cell in code(nb):
        where = repr(cell.source.partition("\n")[0])
        kept = tags(cell) == {"keep_output"}
        if kept != ("plt.show()" in cell.source):
            yield f"cell {where}: plt.show() and the tag keep_output alone go together"
        if kept and ["image/png" in output.get("data", {}) for output in cell.outputs] != [True]:
            yield f"figure cell {where} does not hold one picture; run make golden"


def exercises(path: Path, nb: NotebookNode) -> Problems:
    """Prompt with a hint, empty starter, folded check; the solutions are at the lesson's end.

    There, no page shows one below its exercise, and each begins with its exercise's name.
    Nobody has answered, so each check has printed that it was not attempted. A prediction is a
    cell of its own, before what it is about; a later cell checks it, and what the lesson shows
    there is its solution.
    """
    cells = nb.cells
    predicted = [tags(cell) for cell in cells if "prediction" in tags(cell)]
    if any(
        ("check" in cell_tags) != bool(n % 2) for n, cell_tags in enumerate([*predicted, set()])
    ):
        yield "each cell tagged prediction is followed by one tagged prediction and check"
    marked = {
        tag: [n for n, cell in enumerate(cells) if tag in tags(cell) - _of_prediction(cell)]
        for tag in ("exercise", "check", "solution")
    }
    starts = marked["exercise"]
    if not starts:
        yield "no exercise"
    if [n + 1 for n in starts] != marked["check"]:
        yield "an exercise is not followed by its check at once"
        return
    first = len(cells) - 1 - len(starts)  # after them comes the cell that cleans up
    if (
        marked["solution"] != [*range(first, len(cells) - 1)]
        or cells[first - 1].source != SOLUTIONS
    ):
        yield f"no {SOLUTIONS!r}, with one solution for each exercise, before the last cell"
        return
    for number, solution in zip(starts, cells[first:-1], strict=True):
        prompt, starter, check = cells[number - 1 : number + 2]
        comments = [f"# {name[0].upper()}{name[1:]}" for name in names_in(check.source)]
        if [solution.source.partition("\n")[0]] != comments:
            yield f"a solution does not begin with its exercise's name, as in {comments}"
        if prompt.cell_type != "markdown" or HINT not in prompt.source:
            yield f"an exercise has no prompt with a {HINT} before it"
        if not re.search(r"(?m)^answer = None\b.*\Z", starter.source):
            yield "the cell of an exercise does not end in answer = None"
        if solution.outputs or "accepts(" not in solution.source:
            yield "a solution has an output, or asserts nothing"
    for cell in cells:
        where = repr(cell.source.partition("\n")[0])
        hidden = cell.metadata.get("jupyter", {}).get("source_hidden")
        if tags(cell) & {"check", "solution", "result"} and not hidden:
            yield f"the source of {where} is not hidden"
        if "check" in tags(cell):
            last = "".join(texts(cell)).splitlines()[-1:]
            if not tags(cell) >= GOLDEN or not last or not last[0].startswith("not attempted"):
                yield f"the last line of {where} is not 'not attempted'"
        elif "prediction" in tags(cell) and not re.search(r"= None\b", cell.source):
            yield f"the prediction {where} does not begin as None"


def _of_prediction(cell: NotebookNode) -> set[str]:
    """The tag that a check of a prediction has in common with a check of an exercise."""
    return {"check"} if "prediction" in tags(cell) else set()


def progress(path: Path, nb: NotebookNode) -> Problems:
    """What `hudilab progress` goes by: a name of each exercise, and the session's as the lesson's.

    A solution asks `accepts`, which records nothing.
    """
    checks = [cell.source for cell in code(nb) if "check" in tags(cell)]
    names = [name for source in checks for name in names_in(source)]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{names.count(name)} exercises have the name {name!r}"
    for cell in code(nb):
        if names and "solution" in tags(cell) and ".check(" in cell.source:
            yield f"a solution is checked as if it were an answer: {cell.source.splitlines()[-1]}"
    for app in [app for cell in code(nb) for app in APP.findall(cell.source)]:
        if path.stem[0].isdecimal() and app != path.stem:
            yield f"the session's name is {app}, not {path.stem}"


def cleanup(path: Path, nb: NotebookNode) -> Problems:
    """The last code cell, and no other, is tagged cleanup and closes the lesson."""
    marked = [cell for cell in code(nb) if "cleanup" in tags(cell)]
    if not marked or marked != code(nb)[-1:]:
        yield f"{len(marked)} cells tagged cleanup; exactly one, the last code cell"
    elif "lab.close(" not in marked[0].source:
        yield "the cleanup cell does not close the lesson"


def spelling(path: Path, nb: NotebookNode) -> Problems:
    """Known tags only, plain Python only, no path of one machine."""
    for cell in nb.cells:
        for tag in sorted(tags(cell) - TAGS):
            yield f"unknown tag {tag}"
        if re.search(r"(?:file://)?/(?:tmp|root|home|Users)/", cell.source):
            yield f"a path of one machine in {cell.source.partition(chr(10))[0]!r}"
    for cell in code(nb):
        for line in re.findall(r"(?m)^\s*[%!].*$", cell.source):
            yield f"not plain Python: {line.strip()}"


def outputs(path: Path, nb: NotebookNode) -> Problems:
    """Outputs in cells tagged keep_output only, and nothing in them that another run changes."""
    for cell in code(nb):
        where = repr(cell.source.partition("\n")[0])
        if cell.outputs and "keep_output" not in tags(cell):
            yield f"cell {where} has an output and is not tagged keep_output; run make golden"
    yield from unkept(nb)


def unkept(nb: NotebookNode) -> Problems:
    """What a kept output must not hold, whatever the notebook."""
    for cell in code(nb):
        if "keep_output" not in tags(cell):
            continue
        where = repr(cell.source.partition("\n")[0])
        for output in cell.outputs:
            if output.output_type == "error" or output.get("name") == "stderr":
                yield f"cell {where} keeps an error, or lines of stderr"
        for what, pattern in UNKEPT.items():
            if any(pattern.search(text) for text in texts(cell)):
                yield f"cell {where} keeps {what}"


def links(path: Path, nb: NotebookNode) -> Problems:
    """Links to files lead somewhere."""
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            for target in re.findall(r"\]\(([^)\s]+)\)", cell.source):
                file = target.partition("#")[0]
                if file and "://" not in file and not (path.parent / file).exists():
                    yield f"the link {target} leads nowhere"


def pictures(path: Path, nb: NotebookNode) -> Problems:
    """A PNG below the notebook's folder: GitHub's preview shows no SVG from a file."""
    for cell in nb.cells:
        if cell.cell_type != "markdown":
            continue
        for target in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", cell.source):
            file = Path(os.path.normpath(path.parent / target))
            if not target.endswith(".png") or ":" in target or path.parent not in file.parents:
                yield f"the picture {target} is not a PNG file below the notebook's folder"


def metadata(path: Path, nb: NotebookNode) -> Problems:
    """The format and the metadata that `make golden` writes, and nothing of one run."""
    if (nb.nbformat, nb.nbformat_minor) != (4, 5):
        yield f"format {nb.nbformat}.{nb.nbformat_minor}, not 4.5"
    # The tags choose the gate that compares the notebook's results.
    kept = {key: value for key, value in nb.metadata.items() if key != "tags"}
    if kept != METADATA or not {*tags(nb)} <= {"servers", "long"}:
        yield "the notebook's metadata is not what make golden writes"
    for cell in nb.cells:
        for key in sorted(set(cell.metadata) - {"tags", "jupyter"}):
            yield f"a cell has metadata {key!r}"


METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "name": "python",
        "nbconvert_exporter": "python",
    },
}
_RULES: tuple[Callable[[Path, NotebookNode], Problems], ...] = (
    *(parameters, servers, minutes, size, results, facts, ordered, figures, exercises, progress),
    *(cleanup, spelling, outputs, links, pictures, metadata),
)
RULES = {rule.__name__: rule for rule in _RULES}
