"""Who may import whom, what loads without what, and which names programs inside texts import."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).resolve().parents[2]
ROOTS = (ROOT / "lib", ROOT / "packages")
PACKAGES = {file.parent.name: file.parent for root in ROOTS for file in root.glob("*/__init__.py")}
# What needs neither pyspark nor a process, so that settings and remedies work on any machine.
LIGHT = (
    "hudi_sink.metadata",
    "hudi_sink.rules",
    "hudi_sink.schema",
    "hudilab.python_path",
    "hudilab.errors",
    "hudilab.paths",
    "hudilab.settings",
    "hudilab.table",
    "hudilab_cli.submit",
    "hudilab_jobs.kafka.connection",
    "hudilab_spark.class_archive",
    "hudilab_spark.conf",
    "hudilab_spark.environment",
    "hudilab_spark.jars",
    "hudilab_spark.java",
    "hudilab_spark.jvm",
    "hudilab_spark.cluster",
    "hudilab_spark.preflight",
)


ALONE = """
import sys
for name in {blocked}:
    sys.modules[name] = None  # importing it, or anything below it, is an ImportError now

def hook(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        raise RuntimeError(f"started {arguments}")

sys.addaudithook(hook)
import {module}
"""


def alone(module: str, *blocked: str) -> subprocess.CompletedProcess[str]:
    """Import a module in a process of its own that starts no program; `blocked` are not there."""
    text = ALONE.replace("{module}", module).replace("{blocked}", repr(blocked or ("pyspark",)))
    command = [sys.executable, "-c", text]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def modules_of(*packages: str) -> list[str]:
    names = (
        ".".join(file.relative_to(PACKAGES[name].parent).with_suffix("").parts)
        for name in packages
        for file in sorted(PACKAGES[name].rglob("*.py"))
    )
    return [name.removesuffix(".__init__") for name in names]


def test_settings_paths_and_tables_load_without_pyspark_and_start_nothing() -> None:
    done = alone("\nimport ".join(LIGHT))
    assert done.returncode == 0, done.stderr


def test_the_sink_loads_without_the_rest_of_the_lab() -> None:
    modules = modules_of("hudi_sink")
    assert len(modules) > 8
    others = {*PACKAGES} - {"hudilab", "hudi_sink"}
    done = alone("\nimport ".join(modules), *others, "hudilab.settings", "pydantic")
    assert done.returncode == 0, done.stderr


def test_parsing_names_of_files_loads_one_module_of_the_inspector() -> None:
    loaded = "sorted(name for name in sys.modules if name.startswith('hudi'))"
    done = alone(f"hudi_inspect.names\nprint({loaded})")
    assert done.stdout == "['hudi_inspect', 'hudi_inspect.names']\n"


def test_a_package_imports_only_what_is_below_it() -> None:
    """The contracts are in pyproject.toml, [tool.importlinter]."""
    assert lint_imports(str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_a_session_does_not() -> None:
    assert "ModuleNotFoundError: import of pyspark" in alone("hudilab_spark.session").stderr


def test_only_topics_and_senders_need_the_kafka_client() -> None:
    done = alone("hudilab_jobs.kafka.connection", "confluent_kafka")
    assert done.returncode == 0, done.stderr
    done = alone("hudilab_jobs.kafka.sender", "confluent_kafka")
    assert "ModuleNotFoundError: import of confluent_kafka" in done.stderr


FACES = ("hudilab", "hudi_inspect", "hudi_sink", "hudilab_lessons", "hudilab_spark")


@pytest.mark.parametrize("package", FACES)
def test_the_public_names_are_loaded_when_they_are_used(package: str) -> None:
    face = importlib.import_module(package)
    for name in face.__all__:
        assert getattr(face, name).__name__ == name
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = face.nothing


def test_public_names_of_settings_need_no_spark() -> None:
    done = alone("hudilab.settings\nfrom hudilab import LabError, TableLocation, TableSpec")
    assert done.returncode == 0, done.stderr


IMPORT = re.compile(r"^\W*from (hudi(?:lab|_)[\w.]*) import \(?((?:\w+(?:, )?)+)", re.MULTILINE)
TEXTS = [
    path
    for folder in ("tests", "benchmarks", "notebooks", "docs")
    for path in sorted((ROOT / folder).rglob("*.*"))
    if path.suffix in {".py", ".ipynb", ".md"} and path.name != Path(__file__).name
] + [ROOT / "README.md"]


def test_programs_inside_texts_import_what_exists() -> None:
    """Tests start programs that they hold as text, which no type checker reads."""
    output = {
        (module, name)
        for path in TEXTS
        for module, names in IMPORT.findall(path.read_text("utf-8"))
        for name in names.split(", ")
        if name
    }
    assert ("hudi_sink.files", "list_files") in output
    modules = set(modules_of(*PACKAGES))
    missing = [
        f"{module}.{name}"
        for module, name in sorted(output)
        if not hasattr(importlib.import_module(module), name) and f"{module}.{name}" not in modules
    ]
    assert missing == []
