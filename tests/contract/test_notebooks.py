"""Every notebook keeps the contract."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract import checks
from papermill import inspect_notebook

from hudilab_cli.parameters import defaults

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def test_the_notebooks_are_here() -> None:
    numbers = [path.name[:2] for path in NOTEBOOKS if path.name[0].isdigit()]
    assert numbers[:5] == ["00", "01", "02", "03", "10"]
    assert len(set(numbers)) == len(numbers)
    assert FOLDER / "_template.ipynb" in NOTEBOOKS
    assert len(NOTEBOOKS) == len(numbers) + 1


@pytest.mark.parametrize("rule", checks.RULES)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_keeps_the_contract(path: Path, rule: str) -> None:
    assert list(checks.RULES[rule](path, checks.read(path))) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_papermill_shows_type_and_help_of_each_parameter(path: Path) -> None:
    shown = inspect_notebook(path)
    known = defaults(path)
    assert list(shown) == list(known)
    for name, value in known.items():
        assert shown[name]["inferred_type_name"] == type(value).__name__, name
        assert len(shown[name]["help"]) > 10, name
