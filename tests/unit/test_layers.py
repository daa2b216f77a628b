"""Who may import whom, what loads without what, and which names programs inside texts import."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

import hudilab

LIBRARY = Path(__file__).resolve().parents[2] / "lib" / "hudilab"
FILES = sorted(LIBRARY.rglob("*.py"))
# What needs neither pyspark nor a process, so that settings and remedies work on any machine.
LIGHT = (
    "errors",
    "formats",
    "paths",
    "waiting",
    "runtime.cluster.master",
    "runtime.cluster.submit",
    "runtime.environment",
    "runtime.groups",
    "runtime.java.class_archive",
    "runtime.java.find",
    "runtime.java.jars",
    "runtime.java.process",
    "runtime.kafka.connection",
    "runtime.preflight",
    "runtime.private",
    "runtime.reader",
    "runtime.settings",
    "runtime.spark_conf",
    "writer.columns.drift",
    "writer.columns.storable",
    "writer.rules",
    "writer.spec",
)


ALONE = """
import sys
for name in {blocked}:
    sys.modules[name] = None  # importing it, or anything below it, is an ImportError now

def hook(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
        raise RuntimeError(f"started {arguments}")

sys.addaudithook(hook)
import hudilab.{module}
"""


def alone(module: str, *blocked: str) -> subprocess.CompletedProcess[str]:
    """Import a module in a process of its own that starts no program; `blocked` are not there."""
    text = ALONE.replace("{module}", module).replace("{blocked}", repr(blocked or ("pyspark",)))
    command = [sys.executable, "-c", text]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_settings_paths_and_tables_load_without_pyspark_and_start_nothing() -> None:
    done = alone("\nimport hudilab.".join(LIGHT))
    assert done.returncode == 0, done.stderr


def modules_of(room: str) -> str:
    files = sorted((LIBRARY / room).rglob("*.py"))
    assert len(files) > 8
    names = [".".join(file.relative_to(LIBRARY).with_suffix("").parts) for file in files]
    return "\nimport hudilab.".join(names).replace(".__init__", "")


def test_the_writer_loads_without_the_runtime() -> None:
    rooms = ("runtime", "inspect", "lessons", "jobs", "operations")
    done = alone(modules_of("writer"), *(f"hudilab.{room}" for room in rooms), "pydantic")
    assert done.returncode == 0, done.stderr


def test_the_inspector_loads_without_spark_and_the_rest_of_the_lab() -> None:
    rooms = ("runtime", "writer", "lessons", "jobs", "operations")
    blocked = (*(f"hudilab.{room}" for room in rooms), "pyspark", "py4j", "pyarrow", "pandas")
    done = alone(modules_of("inspect"), *blocked)
    assert done.returncode == 0, done.stderr


def test_a_room_imports_only_what_is_below_it() -> None:
    """The contracts are in pyproject.toml, [tool.importlinter]."""
    assert lint_imports(str(LIBRARY.parents[1] / "pyproject.toml"), no_cache=True) == 0


def test_a_session_does_not() -> None:
    assert "ModuleNotFoundError: import of pyspark" in alone("runtime.session").stderr


def test_only_topics_and_senders_need_the_kafka_client() -> None:
    from hudilab.runtime import kafka

    names = {name for names in kafka._MODULES.values() for name in names}
    assert names == set(kafka.__all__) <= set(dir(kafka))
    for name in names:
        assert getattr(kafka, name).__name__ == name
    with pytest.raises(AttributeError, match=r"module '\S+' has no attribute 'x'"):
        _ = kafka.x
    light = "runtime.kafka.connection\nfrom hudilab.runtime.kafka import Access, access, present"
    done = alone(light, "confluent_kafka")
    assert done.returncode == 0, done.stderr
    done = alone("runtime.kafka\nfrom hudilab.runtime.kafka import produce", "confluent_kafka")
    assert "ModuleNotFoundError: import of confluent_kafka" in done.stderr


def test_the_public_names_are_loaded_when_they_are_used() -> None:
    names = {name for names in hudilab._MODULES.values() for name in names}
    assert names == set(hudilab.__all__) <= set(dir(hudilab))
    for name in names:
        assert getattr(hudilab, name).__name__ == name
    with pytest.raises(AttributeError, match="module 'hudilab' has no attribute 'nothing'"):
        _ = hudilab.nothing
    done = alone("runtime.settings\nfrom hudilab import LabError, Place, TableSpec")
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
    assert ("hudilab.writer.files", "list_files") in found
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
