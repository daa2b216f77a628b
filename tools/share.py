"""The share of each lesson's code cells that use only Spark, Hudi and Python, not the lab.

`python tools/share.py [NOTEBOOK...]` prints it. A cell uses the lab if it imports from one of
its packages, uses a name imported from there, or uses `lab`, which `start` returns. The strict
count also leaves out cells that use an object the lab made, such as a table's spec or place.
Parameter cells, check cells and the cleanup cell do not count.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import nbformat

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = {"parameters", "check", "cleanup"}
LIBRARY, LAB = ("hudilab", "hudi_"), "lab"
FACE = re.compile(r"hudi\w+\.\w+$|hudilab_lessons\.plots|hudilab_cli\.servers\.")
# What calls of the lab return is the lab's own, except what belongs to Spark or to Python.
NOT_OWN = {"spark", "readings", "settings"}


class Share(NamedTuple):
    """What `share` counts in a lesson."""

    cells: int  # code cells that count
    without: int  # of these, cells that do not use the lab
    strictly: int  # of these, cells that use no object made by the lab either
    names: int  # names that the lesson imports from the lab
    rooms: int  # of these, names that are neither of the face nor of the pictures or servers


def share(notebook: Path) -> Share:
    """Count a lesson's code cells, those without the lab, and the names it imports from it."""
    nb = nbformat.read(notebook, as_version=4)
    imported, rooms, made = set[str](), set[str](), set[str]()
    cells = without = strictly = 0
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        tree = ast.parse(cell.source)
        here = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(LIBRARY)
            for alias in node.names
        }
        imported |= here.keys()
        rooms |= {name for name, path in here.items() if not FACE.match(path) or _is_module(path)}
        used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        lab = bool(here or used & (imported | {LAB}))
        made |= _made(tree, imported | made | {LAB}) - NOT_OWN
        if not LEFT_OUT & set(cell.metadata.get("tags", ())):
            cells, without = cells + 1, without + (not lab)
            strictly += not lab and not used & made
    return Share(cells, without, strictly, len(imported), len(rooms))


def _is_module(path: str) -> bool:
    files = (ROOT / root / f"{path.replace('.', '/')}.py" for root in ("lib", "packages"))
    return path != "hudilab_lessons.plots" and any(file.exists() for file in files)


def _made(tree: ast.AST, makers: set[str]) -> set[str]:
    """The names that a cell assigns to the result of a call of one of the makers."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called: ast.expr = node.value.func
            while isinstance(called, ast.Attribute):
                called = called.value
            if isinstance(called, ast.Name) and called.id in makers:
                targets = [name for target in node.targets for name in ast.walk(target)]
                names |= {name.id for name in targets if isinstance(name, ast.Name)}
    return names


def main(*given: str) -> None:
    """Print a line for each lesson."""
    lessons = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    heads = f"{'without the lab':>17}{'strictly':>10}{'names':>7}{'rooms':>7}"
    print(f"{'lesson':28}{'cells':>6}{heads}")
    for path in [Path(name) for name in given] or lessons:
        counted = share(path)
        shares = [f"{count / counted.cells:.2f}" for count in (counted.without, counted.strictly)]
        print(
            f"{path.stem:28}{counted.cells:>6}{shares[0]:>17}{shares[1]:>10}{counted.names:>7}{counted.rooms:>7}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
