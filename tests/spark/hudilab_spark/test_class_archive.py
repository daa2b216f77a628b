"""The archive of classes: a session uses it, and Java makes it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from hudilab.settings import project_root
from hudilab_spark.class_archive import CLASSES, is_shared, make_archive
from hudilab_spark.jars import verify
from hudilab_spark.java import ARCHIVE, class_path, find_java

JARS = project_root() / "jars"
pytestmark = pytest.mark.skipif(
    not is_shared(JARS), reason="Java finds no archived classes of jars in such a path"
)
HUDI = "org.apache.hudi.common.table.HoodieTableMetaClient"


@pytest.mark.skipif(not psutil.LINUX, reason="only Linux lists the files that a process maps")
def test_a_session_maps_the_archive(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    process = psutil.Process(int(jvm.java.lang.ProcessHandle.current().pid()))
    assert str(JARS / ARCHIVE) in {region.path for region in process.memory_maps()}


def loaded(archive: Path, path: str) -> str:
    """Where a JVM that must use the archive finds a class of Hudi."""
    java = [str(find_java().home / "bin" / "java"), "-Xshare:on", "-Xlog:class+load"]
    done = subprocess.run(
        [*java, f"-XX:SharedArchiveFile={archive}", "-cp", path, HUDI],
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = [line for line in done.stdout.splitlines() if f" {HUDI} source: " in line]
    return line.partition(" source: ")[2]


def test_the_archive_is_made_for_these_jars() -> None:
    core = verify(JARS, ["core"])
    assert make_archive(JARS, core, find_java()) is None  # what set-up made fits
    assert loaded(JARS / ARCHIVE, class_path(core)) == "shared objects file"
    more = f"{class_path(core)}:{JARS / 'more.jar'}"
    assert loaded(JARS / ARCHIVE, more) == "shared objects file"


@pytest.mark.deep
def test_java_makes_the_archive_again_for_other_jars(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    core = [tmp_path / "core" / jar.name for jar in verify(JARS, ["core"])]
    for jar in core:
        jar.symlink_to(JARS / "core" / jar.name)
    (tmp_path / CLASSES).symlink_to(JARS / CLASSES)
    line = make_archive(tmp_path, core, find_java())
    assert line is not None
    assert line.startswith("core: classes.jsa, an archive of classes, ")
    assert loaded(tmp_path / ARCHIVE, class_path(core)) == "shared objects file"
    assert make_archive(tmp_path, core, find_java()) is None
    core[0].unlink()
    core[0].write_bytes((JARS / "core" / core[0].name).read_bytes())
    assert make_archive(tmp_path, core, find_java()) is not None
