"""Notebook parameters: the parameters cell is read strictly, and texts become its types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from cases import read_cases
from nbformat.v4 import new_code_cell, new_notebook

from hudilab.errors import ParameterError
from hudilab.generate import check_sizes
from hudilab_cli.parameters import defaults, parse

CASES = read_cases(__file__)
KNOWN = {"rows": 5, "share": 0.5, "name": "a", "quick": True}
NAMES = "available parameters: name, quick, rows, share"


def notebook(folder: Path, *sources: str) -> Path:
    path = folder / "nb.ipynb"
    cells = [new_code_cell(source, metadata={"tags": ["parameters"]}) for source in sources]
    nbformat.write(new_notebook(cells=[new_code_cell("x = 1"), *cells]), path)
    return path


def refused(call: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(ParameterError) as caught:
        call(*arguments, **named)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_literals_of_four_types(tmp_path: Path) -> None:
    source = 'rows = 5_000\nseed = -5\nshare = -0.5\nname = ""  # why\n\nquick = False'
    values = defaults(notebook(tmp_path, source))
    assert values == {"rows": 5000, "seed": -5, "share": -0.5, "name": "", "quick": False}
    assert [type(value) for value in values.values()] == [int, int, float, str, bool]


@pytest.mark.parametrize("sources", [(), ("a = 1", "a = 2"), ("a = 1", "b = 2", "c = 3")])
def test_exactly_one_cell(tmp_path: Path, sources: tuple[str, ...]) -> None:
    assert refused(defaults, notebook(tmp_path, *sources)) == (
        f"nb.ipynb has {len(sources)} cells tagged parameters; tag exactly one"
    )


@pytest.mark.parametrize("line", CASES["no literals"])
def test_anything_but_a_literal_is_refused(tmp_path: Path, line: str) -> None:
    assert refused(defaults, notebook(tmp_path, f"a = 1\n{line}")) == (
        "nb.ipynb: line 2 of the parameters cell is not NAME = number, string, True or False; "
        "move other code to another cell"
    )


@pytest.mark.parametrize("text", CASES["no notebooks"])
def test_a_file_that_is_no_notebook(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nb.ipynb"
    path.write_text(text)
    message = refused(defaults, path)
    assert message.startswith("nb.ipynb is not a valid notebook (")
    assert message.endswith("); fix the file")


def test_a_notebook_that_cannot_be_read(tmp_path: Path) -> None:
    assert refused(defaults, tmp_path) == (
        f"cannot read {tmp_path} (Is a directory); make it readable, or choose another notebook"
    )


def test_a_cell_that_is_not_python(tmp_path: Path) -> None:
    assert refused(defaults, notebook(tmp_path, "a = 1\nb = = 2")) == (
        "nb.ipynb: line 2 of the parameters cell is not valid Python (invalid syntax); fix the "
        "syntax"
    )


@pytest.mark.parametrize(("name", "text", "value"), CASES["values"])
def test_a_text_becomes_the_default_s_type(name: str, text: str, value: object) -> None:
    values = parse([(name, text)], KNOWN, "nb")
    assert values == {name: value}
    assert type(values[name]) is type(KNOWN[name])


@pytest.mark.parametrize(("name", "text", "problem"), CASES["misfits"])
def test_a_text_that_does_not_fit(name: str, text: str, problem: str) -> None:
    assert refused(parse, [(name, text)], KNOWN, "nb") == f"nb: {problem}; {NAMES}"


def test_all_problems_in_one_error() -> None:
    given = [("rows", "5"), ("rows", "6"), ("none", "1"), ("quick", "no")]
    assert refused(parse, given, KNOWN, "nb") == (
        "nb: rows is given twice; unknown parameter 'none'; quick='no' is not true or false; "
        f"{NAMES}"
    )


REMEDY = "change it in the parameters cell or with -p NAME VALUE"


def sizes(**changed: Any) -> dict[str, Any]:
    return {"rows": 10, "batches": 2, "sensors": 3} | changed


def test_sizes_that_a_stream_can_have() -> None:
    check_sizes(**sizes())
    check_sizes(**sizes(rows=1, batches=1, sensors=1, seed=-5, trigger_seconds=0))
    check_sizes(**sizes(batches=10, sensors=1_000_000, seed=2**63 - 1, trigger_seconds=0.5))


@pytest.mark.parametrize(("changed", "problem"), CASES["bad sizes"])
def test_sizes_that_none_can_have(changed: dict[str, Any], problem: str) -> None:
    assert refused(check_sizes, **sizes(**changed)) == f"{problem}; {REMEDY}"


@pytest.mark.parametrize("seconds", ["nan", "inf"])
def test_a_trigger_that_is_no_number(seconds: str) -> None:
    problem = f"trigger_seconds={seconds} is not 0 or a positive number"
    assert refused(check_sizes, **sizes(trigger_seconds=float(seconds))) == f"{problem}; {REMEDY}"
