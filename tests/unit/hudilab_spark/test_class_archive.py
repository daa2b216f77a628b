"""When an archive of classes is used, when it is made again, and what is said when it cannot be."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from classes import recording_options, write_classes

from hudilab_spark.class_archive import CLASSES, make_archive
from hudilab_spark.java import (
    ARCHIVE,
    Java,
    archive_options,
    class_path,
    find_java,
    with_archive,
)

CORE = "/jars/core/hudi.jar"


def test_core_and_spark_come_first_on_every_class_path() -> None:
    core, kafka = Path(CORE), Path("/jars/kafka/clients.jar")
    first, spark = class_path([core]).split(":")
    assert (first, Path(spark).name) == (CORE, "*")
    assert class_path([core, kafka]) == class_path([kafka, core]) == f"{first}:{spark}:{kafka}"


@pytest.mark.parametrize(
    ("folder", "quoted"), [("lab", "lab"), ('o\'brien, it "is"', 'o\'brien, it \\"is\\"')]
)
def test_a_jvm_is_pointed_to_the_archive(tmp_path: Path, folder: str, quoted: str) -> None:
    archive = tmp_path / folder / "classes.jsa"
    assert (archive_options(archive), with_archive("-Xss4m", archive)) == ([], "-Xss4m")
    archive.parent.mkdir()
    archive.touch()
    options = ["-Xshare:auto", "-Xlog:cds=off", f"-XX:SharedArchiveFile={archive}"]
    assert archive_options(archive) == options
    given = with_archive("-Xss4m", archive)
    last = f'"-XX:SharedArchiveFile={tmp_path}/{quoted}/classes.jsa"'
    assert given == f'-Xss4m "-Xshare:auto" "-Xlog:cds=off" {last}'
    assert with_archive(given, archive) == given


def test_a_colon_in_the_path_would_name_two_archives(tmp_path: Path) -> None:
    (tmp_path / "a:b").touch()
    assert archive_options(tmp_path / "a:b") == []


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    (tmp_path / "core").mkdir()
    (tmp_path / CLASSES).write_bytes(gzip.compress(b"java/lang/Object\n"))
    return tmp_path


def without(problem: str) -> str:
    return (
        f"core: Java cannot archive classes ({problem}); sessions still work, but start a few "
        "seconds slower; try again with: hudilab jars core"
    )


def test_a_java_that_is_not_there_or_fails_and_no_list_of_classes(jars: Path) -> None:
    java = jars / "java" / "bin" / "java"
    gone = "No such file or directory: "
    assert make_archive(jars, [], Java(jars / "java", 17, "")) == without(f"{gone}{java}")
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'Error: no room' >&2\nexit 1\n")
    java.chmod(0o755)
    assert make_archive(jars, [], Java(jars / "java", 17, "")) == without("Error: no room")
    assert list((jars / "core").iterdir()) == []
    (jars / CLASSES).unlink()
    assert make_archive(jars, [], find_java()) == without(f"{gone}{jars}/{CLASSES}")


def test_what_a_jvm_loaded_becomes_the_list(tmp_path: Path) -> None:
    listed, out = tmp_path / "classes.txt", tmp_path / CLASSES
    options = recording_options(listed)
    assert options.startswith(f"-XX:DumpLoadedClassList={listed} ")
    assert with_archive(options, tmp_path / ARCHIVE) == options
    listed.write_text(
        "# a comment\nb/B\n@lambda-proxy b/B\na/A\na/A\nc/C id: 1 super: 0 source: c.jar\n"
    )
    assert write_classes(listed, out) == 3
    assert gzip.decompress(out.read_bytes()) == b"a/A\nb/B\n@lambda-proxy b/B\n"


@pytest.mark.parametrize("folder", ["a b", "jürgen", "50%"])
def test_no_archive_is_made_where_java_would_not_find_its_classes(
    tmp_path: Path, folder: str
) -> None:
    jars = tmp_path / folder
    (jars / "core").mkdir(parents=True)
    line = make_archive(jars, [], Java(jars / "java", 17, ""))
    assert line is not None
    assert line.startswith(f"core: no archive of classes: Java 17 finds none for jars in {jars}, ")
    assert list((jars / "core").iterdir()) == []
