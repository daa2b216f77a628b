"""Archive the classes that Spark and Hudi load, so that a JVM maps them instead of parsing jars.

This is Java's class data sharing. An archive is valid for a single Java and class path, and other
JVMs ignore it.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from hudilab.errors import as_typed
from hudilab_spark.java import ARCHIVE, Java, class_path, complaint, run_quietly, spark_home

# The classes that a stream, an upsert, a compaction and a query load, from tools/classes.py. Java
# skips classes that are missing from the jars.
CLASSES = "classes.txt.gz"
DUMP_SECONDS = 300.0  # usually 10


def is_shared(folder: Path) -> bool:
    """Return whether Java finds the archived classes of jars in this folder.

    Java compares a jar's URL, with a blank as `%20`, with the paths in the archive.
    """
    return quote(str(folder), safe="/-_.!~*'()&=+$,:@") == str(folder)


def make_archive(jars_dir: Path, core: Sequence[Path], java: Java) -> str | None:
    """Write `jars/core/classes.jsa`, unless it exists for this Java and these jars of core.

    Return a line about the new archive or the failure, which only delays the start of sessions;
    None if the archive exists.
    """
    if not is_shared(jars_dir):
        return (
            f"core: no archive of classes: Java 17 finds none for jars in {jars_dir}, because of "
            "its blanks or letters outside ASCII; sessions still work, but start a few seconds "
            "slower"
        )
    archive, note = jars_dir / ARCHIVE, (jars_dir / ARCHIVE).with_suffix(".json")
    started = time.monotonic()
    try:
        made_for = json.dumps(_inputs(core, java, jars_dir / CLASSES))
        if archive.is_file() and note.is_file() and note.read_text("utf-8") == made_for:
            return None
        note.unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".classes-") as name:
            half, classes = Path(name, "classes.jsa"), Path(name, "classes.txt")
            classes.write_bytes(gzip.decompress((jars_dir / CLASSES).read_bytes()))
            if problem := _dump(java, class_path(core), classes, half):
                return _without(problem)
            half.replace(archive)
        note.write_text(made_for, encoding="utf-8")
    except OSError as error:
        return _without(f"{error.strerror}: {error.filename}")
    size, seconds = archive.stat().st_size / 1e6, time.monotonic() - started
    return f"core: {archive.name}, an archive of classes, {size:.0f} MB in {seconds:.1f} s"


def _without(problem: str) -> str:
    return as_typed(
        f"core: Java cannot archive classes ({problem}); sessions still work, but start a few "
        "seconds slower; try again with: hudilab jars core"
    )


def _inputs(core: Sequence[Path], java: Java, classes: Path) -> list[list[object]]:
    """Return the inputs of the archive, which a JVM compares by path, size and time."""
    libraries = sorted((spark_home() / "jars").glob("*.jar"))
    files = [java.home / "lib" / "modules", *core, *libraries, classes]
    stats = [(file, file.stat()) for file in files if file.is_file()]
    return [[str(file), about.st_size, about.st_mtime_ns] for file, about in stats]


def _dump(java: Java, path: str, classes: Path, archive: Path) -> str:
    """Run Java's dump; return the problem, or an empty string."""
    command = [
        *(str(java.home / "bin" / "java"), "-Xshare:dump", "-Xlog:disable", "-Xlog:all=error"),
        *(f"-XX:SharedClassListFile={classes}", f"-XX:SharedArchiveFile={archive}", "-cp", path),
    ]
    try:
        done = run_quietly(command, timeout=DUMP_SECONDS)
    except subprocess.TimeoutExpired:
        return f"Java did not finish within {DUMP_SECONDS:.0f} s"
    if done.returncode or not archive.is_file():
        return complaint(done.stdout + done.stderr)
    return ""
