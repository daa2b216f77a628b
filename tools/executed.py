"""Notebooks as they ran, with all outputs: the book shows these; git keeps only some of them.

tools/keep_executed.py keeps those that nbval runs.
"""

from __future__ import annotations

import platform
import re
import tempfile
from importlib.metadata import version
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from hudilab_spark.jars import read_lock
from hudilab_spark.java import find_java

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = "hudilab_versions"  # a key of the notebook's metadata


def save(nb: NotebookNode, path: Path, home: Path) -> None:
    """Write a notebook that ran with this home: versions added, paths of this machine shortened."""
    nb.metadata[VERSIONS] = versions()
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            if "text" in output:
                output.text = shortened(output.text, home)
            for kind, data in output.get("data", {}).items():
                if isinstance(data, str) and not kind.startswith("image/p"):
                    output.data[kind] = shortened(data, home)
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half")  # an interrupted run leaves the older one
    nbformat.write(nb, half)
    half.replace(path)


def shortened(text: str, home: Path) -> str:
    """A text with `/...` for the folders of one machine."""
    folders = {str(path_text) for path in (home, ROOT) for path_text in (path, path.resolve())}
    for folder in sorted(folders, key=len, reverse=True):
        text = text.replace(folder, "/...")
    text = text.replace(f"{Path.home()}/", "~/")  # before the folder that it may be in
    temporary = re.escape(tempfile.gettempdir())
    return re.sub(rf"{temporary}/[\w.-]+", "/...", text)


def versions() -> dict[str, str]:
    """What runs a notebook here: Python, Spark, Hudi, Java."""
    [hudi] = [
        jar.coordinate.split(":")[2]
        for jar in read_lock(ROOT / "jars" / "jars.lock")["core"]
        if ":hudi-spark" in jar.coordinate
    ]
    java = find_java()
    release = java.home / "release"
    text = release.read_text("utf-8") if release.is_file() else ""
    java_version = re.search(r'JAVA_VERSION="(.+?)"', text)
    return {
        "Python": platform.python_version(),
        "Spark": version("pyspark"),
        "Hudi": hudi,
        "Java": java_version[1] if java_version else str(java.version),
    }


def same(first: NotebookNode, other: NotebookNode) -> bool:
    """Whether two notebooks have the same cells, whatever their outputs."""
    parts = [
        [(cell.cell_type, cell.source, cell.metadata.get("tags", [])) for cell in nb.cells]
        for nb in (first, other)
    ]
    return parts[0] == parts[1]
