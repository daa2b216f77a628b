"""The library stays readable: short modules, short functions, few files in a folder."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hudilab

LIB = Path(hudilab.__file__).parent
MODULE, FUNCTION, FOLDER = 300, 50, 14  # lines, lines with signature and docstring, files


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """The name and the lines of each function, decorators left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def too_long(folder: Path) -> list[str]:
    """What breaks a limit, each with its size."""
    found, files = [], sorted(folder.rglob("*.py"))
    for file in files:
        name, text = file.relative_to(folder).as_posix(), file.read_text("utf-8")
        if (lines := len(text.splitlines())) > MODULE:
            found.append(f"{name} has {lines} lines")
        for function, lines in functions(ast.parse(text)):
            if lines > FUNCTION:
                found.append(f"{name}: {function} has {lines} lines")
    for parent, count in Counter(file.parent for file in files).items():
        if count > FOLDER:
            found.append(f"{parent.relative_to(folder).as_posix()}/ has {count} files")
    return found


def test_modules_functions_and_folders_are_small() -> None:
    assert len(list(LIB.rglob("*.py"))) > 70
    assert too_long(LIB) == []


def test_each_limit_is_checked(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    for number in range(FOLDER):
        (room / f"{number}.py").write_text("")
    (room / "0.py").write_text("x = 1\n" * MODULE)
    body = "    pass\n" * (FUNCTION - 1)
    (room / "1.py").write_text(f"@cache\ndef f():\n{body}")
    assert too_long(tmp_path) == []
    (room / "more.py").write_text("")
    (room / "0.py").write_text("x = 1\n" * (MODULE + 1))
    (room / "1.py").write_text(f"class A:\n  async def f():\n{body}    pass\n")
    assert too_long(tmp_path) == [
        "room/0.py has 301 lines",
        "room/1.py: f has 51 lines",
        "room/ has 15 files",
    ]
