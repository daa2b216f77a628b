"""Three layers of modules: who may import whom, and what loads without Spark and Java."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import hudilab

LIBRARY = Path(__file__).resolve().parents[2] / "lib" / "hudilab"
FILES = sorted(LIBRARY.rglob("*.py"))
# A folder is a layer; the files beside the folders are the core.
MAY_IMPORT = {
    "core": {"core"},
    "lessons": {"core", "lessons"},
    "jobs": {"core", "lessons", "jobs"},
    "operations": {"core", "lessons", "jobs", "operations"},
}
# What needs neither pyspark nor a process, so that settings and remedies work on any machine.
LIGHT = ("config", "errors", "jars", "java", "master", "paths", "private", "schema", "tables")


def layer(module: str) -> str:
    """Return the layer of `name` or `folder.name`, as it follows `hudilab.` in an import."""
    first = module.partition(".")[0]
    return first if first in MAY_IMPORT else "core"


def imported(source: str, package: str = "hudilab") -> set[str]:
    """Return the lab's modules that a source imports, at its top or inside a function."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name.removeprefix("hudilab.") for name in found if name.startswith("hudilab.")}


def test_the_folders_are_the_layers() -> None:
    folders = {path.name for path in LIBRARY.iterdir() if (path / "__init__.py").is_file()}
    assert folders | {"core"} == set(MAY_IMPORT)
    assert len(FILES) > 40


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(LIBRARY)))
def test_a_layer_imports_only_what_it_may(file: Path) -> None:
    if file == LIBRARY / "__init__.py":  # names what the core and the lessons hold, loads nothing
        allowed = MAY_IMPORT["lessons"]
    else:
        path = file.relative_to(LIBRARY)
        allowed = MAY_IMPORT[path.parts[0] if len(path.parts) > 1 else "core"]
    package = ".".join(("hudilab", *file.relative_to(LIBRARY).parts[:-1]))
    wrong = {name for name in imported(file.read_text(), package) if layer(name) not in allowed}
    assert not wrong


def test_the_walk_finds_every_form() -> None:
    forms = {
        "import hudilab.operations.fetch": {"operations.fetch"},
        "import hudilab.operations.fetch as j, os": {"operations.fetch"},
        "from hudilab import jars, lessons": {"jars", "lessons"},
        "from hudilab.operations import fetch": {"operations.fetch"},
        "from .jars import verify": {"lessons.jars.verify"},
        "from . import plots": {"lessons.plots"},
        "from ..operations.fetch import fetch": {"operations.fetch.fetch"},
        "def f():\n    if x:\n        from hudilab.jars import verify": {"jars.verify"},
        "from pathlib import Path\nimport hudilab": set(),
    }
    assert {source: imported(source, "hudilab.lessons") for source in forms} == forms
    assert [layer(name) for name in ("jars.verify", "lessons", "operations.fetch.fetch")] == [
        "core",
        "lessons",
        "operations",
    ]


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


def test_settings_paths_and_tables_load_without_pyspark_and_start_nothing() -> None:
    done = alone("\nimport hudilab.".join(LIGHT))
    assert done.returncode == 0, done.stderr


def test_a_session_does_not() -> None:
    assert "ModuleNotFoundError: import of pyspark" in alone("session").stderr


def test_the_public_names_are_loaded_when_they_are_used() -> None:
    names = {name for names in hudilab._MODULES.values() for name in names}
    assert names == set(hudilab.__all__) <= set(dir(hudilab))
    for name in names:
        assert getattr(hudilab, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'hudilab' has no attribute 'nothing'"):
        _ = hudilab.nothing
    done = alone("config\nfrom hudilab import LabError, Place, Settings, TableSpec")
    assert done.returncode == 0, done.stderr


IMPORT = re.compile(r"^\W*from (hudilab[\w.]*) import \(?((?:\w+(?:, )?)+)", re.MULTILINE)
TEXTS = [
    path
    for folder in ("tests", "benchmarks", "notebooks", "docs")
    for path in sorted((LIBRARY.parents[1] / folder).rglob("*.*"))
    if path.suffix in {".py", ".ipynb", ".md"} and path.name != Path(__file__).name
] + [LIBRARY.parents[1] / "README.md"]


def test_programs_inside_texts_import_what_exists() -> None:
    """Tests start programs that they hold as text, which no type checker reads."""
    found = {
        (module, name)
        for path in TEXTS
        for module, names in IMPORT.findall(path.read_text("utf-8"))
        for name in names.split(", ")
        if name
    }
    assert ("hudilab.storage", "list_files") in found
    modules = {
        ".".join(("hudilab", *file.relative_to(LIBRARY).with_suffix("").parts)) for file in FILES
    }
    modules |= {name.removesuffix(".__init__") for name in modules}
    missing = [
        f"{module}.{name}"
        for module, name in sorted(found)
        if not hasattr(importlib.import_module(module), name) and f"{module}.{name}" not in modules
    ]
    assert missing == []
