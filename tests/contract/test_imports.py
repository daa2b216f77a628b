"""Each package that a program imports is declared in pyproject.toml, not only there by chance."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SOURCES = ("lib", "packages")
TOOLS = ("tests", "tools", "benchmarks", "docker", "book")


def names(requirements: list[str]) -> set[str]:
    found = (re.match(r"[\w.-]+", text) for text in requirements)
    return {str(canonicalize_name(match[0])) for match in found if match}


def declared() -> tuple[set[str], set[str]]:
    """What a user installs, and what the work on the lab adds."""
    project = PYPROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    for_users = {name for requirements in lists for name in names(requirements)}
    groups = PYPROJECT["dependency-groups"].values()
    return for_users, {name for requirements in groups for name in names(requirements)}


def imported(folders: tuple[str, ...]) -> dict[str, set[str]]:
    """Each module of another package, with the files that import it, also in functions."""
    files = [file for folder in folders for file in sorted((ROOT / folder).rglob("*.py"))]
    own = {file.stem for file in files} | {file.parent.name for file in files}
    output: dict[str, set[str]] = {}
    for file in files:
        if "bad" in file.parts:  # samples that must fail their checker
            continue
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            modules = []
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                modules = [node.module]
            for module in modules:
                top = module.partition(".")[0]
                if top not in sys.stdlib_module_names and not top.startswith(("hudilab", "hudi_")):
                    output.setdefault(top, set()).add(str(file.relative_to(ROOT)))
    return {module: files for module, files in output.items() if module not in own}


def test_every_import_is_declared() -> None:
    for_users, for_work = declared()
    packages = packages_distributions()
    undeclared = {}
    for folders, known in ((SOURCES, for_users), (TOOLS, for_users | for_work)):
        modules = imported(folders)
        assert len(modules) > 10
        for module, files in modules.items():
            providers = {str(canonicalize_name(name)) for name in packages.get(module, [module])}
            if not providers & known:
                undeclared[module] = sorted(files)
    assert undeclared == {}
