"""The library's size, as a reader and a learner meet it."""

from __future__ import annotations

from pathlib import Path

from code_lines import code_lines

ROOT = Path(__file__).resolve().parents[2]


def test_lib_is_what_each_program_starts_from() -> None:
    """Config, paths, table specs with their write options, generated rows: nothing else."""
    assert [file.parent.name for file in (ROOT / "lib").glob("*/__init__.py")] == ["hudilab"]
    modules = sorted((ROOT / "lib" / "hudilab").glob("*.py"))
    assert len(modules) <= 10
    assert sum(map(code_lines, modules)) <= 1500
    assert len((ROOT / "lib" / "README.md").read_text("utf-8").splitlines()) <= 15
