"""Modules import downwards only, and the lower levels need neither pyspark nor Java."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hudilab

LIBRARY = Path(__file__).resolve().parents[2] / "lib" / "hudilab"
LEVELS = [
    {"__init__", "errors", "ivy", "locks", "private"},
    {"waiting"},
    {"drivers"},
    {"config", "paths", "tables", "jars", "java", "ledger_rules", "master", "parameters"},
    {"s3", "streams"},
    {"storage", "session", "sources", "kafka", "prices"},
    {"commits", "timeline", "doctor", "repair", "submit", "services"},
    {"ledger"},
    {"plots", "runner", "jobs"},
    {"bundle", "deploy"},
    {"cli"},
]
LEVEL = {module: number for number, modules in enumerate(LEVELS) for module in modules}
FILES = {
    path: path.relative_to(LIBRARY).parts[0].removesuffix(".py") for path in LIBRARY.rglob("*.py")
}
# A package, services or jobs, is one module here: within it, its files may import each other.
MODULES = sorted(set(FILES.values()))


def imported(source: str) -> set[str]:
    """The lab's modules that a source imports, at its top or inside a function, in any form."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            base = f"hudilab.{node.module or ''}".rstrip(".") if node.level else node.module or ""
            names = [f"{base}.{alias.name}" if base == "hudilab" else base for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("hudilab.")}
    return found


def test_every_module_has_a_level() -> None:
    assert sorted(LEVEL) == MODULES
    assert len(MODULES) >= 18


# The package itself names what its modules hold, and loads nothing.
IMPORTING = sorted(set(FILES) - {LIBRARY / "__init__.py"})


@pytest.mark.parametrize("file", IMPORTING, ids=lambda file: file.stem)
def test_a_module_imports_downwards_only(file: Path) -> None:
    module = FILES[file]
    below = {name for name, level in LEVEL.items() if level < LEVEL[module]}
    inside = {module} if file.parent != LIBRARY else set()
    assert imported(file.read_text()) <= below | inside


def test_the_walk_finds_every_form() -> None:
    forms = {
        "import hudilab.jars": {"jars"},
        "import hudilab.jars as j, os": {"jars"},
        "from hudilab import jars, java": {"jars", "java"},
        "from hudilab.jars import fetch": {"jars"},
        "from .jars import fetch": {"jars"},
        "from . import jars": {"jars"},
        "def f():\n    if x:\n        from hudilab.jars import fetch": {"jars"},
        "from pathlib import Path\nimport hudilab": set(),
    }
    assert {source: imported(source) for source in forms} == forms


ALONE = """
import sys
sys.modules["pyspark"] = None  # importing it, or anything below it, is an ImportError now

def hook(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        raise RuntimeError(f"started {arguments}")

sys.addaudithook(hook)
import hudilab.{module}
"""


def alone(module: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", ALONE.replace("{module}", module)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("module", sorted((LEVELS[0] | LEVELS[1]) - {"__init__"}))
def test_the_lower_levels_load_without_pyspark_and_start_nothing(module: str) -> None:
    done = alone(module)
    assert done.returncode == 0, done.stderr


def test_the_public_names_are_loaded_when_they_are_used() -> None:
    names = {name for names in hudilab._MODULES.values() for name in names}
    assert names == set(hudilab.__all__) <= set(dir(hudilab))
    for name in names:
        assert getattr(hudilab, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'hudilab' has no attribute 'nothing'"):
        _ = hudilab.nothing
    done = alone("config\nfrom hudilab import LabError, Place, Settings, TableSpec")
    assert done.returncode == 0, done.stderr


def test_a_higher_level_does_not() -> None:
    assert "ModuleNotFoundError: import of pyspark" in alone("session").stderr
