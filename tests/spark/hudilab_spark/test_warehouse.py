"""Files of a disk through Hadoop's FileSystem."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from hudi_sink.files import FileInfo, exists, list_files
from hudilab.errors import TableError
from hudilab.paths import TableLocation, locate
from hudilab.settings import Settings, load_settings
from hudilab_spark.warehouse import LESSONS, reset


def test_all_files_are_listed_with_their_sizes(spark: SparkSession, tmp_path: Path) -> None:
    sizes = {"a": 1, "b c/100%/.hidden": 2, "b c/_x/d": 3, ".hoodie/timeline/1.commit": 0}
    for name, size in sizes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    (tmp_path / "empty" / "folder").mkdir(parents=True)
    files_listed = list_files(spark, f"file://{tmp_path}")
    assert list_files(spark, f"file://{tmp_path}/empty") == []
    assert list_files(spark, f"file://{tmp_path}/nowhere") == []
    assert files_listed == [
        FileInfo(name, size, (tmp_path / name).stat().st_mtime_ns // 1_000_000)
        for name, size in sorted(sizes.items())
    ]
    assert list_files(spark, f"file://{tmp_path}/b c") == [
        FileInfo(file.path.removeprefix("b c/"), file.size, file.modified_ms)
        for file in files_listed
        if file.path.startswith("b c/")
    ]


def test_a_folder_is_listed_while_a_writer_deletes_in_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    stop = Event()

    def churn() -> None:
        while not stop.is_set():
            for number in range(20):
                (tmp_path / f"markers/{number}").mkdir(parents=True)
                (tmp_path / f"markers/{number}/file").write_bytes(b"x")
            shutil.rmtree(tmp_path / "markers")

    (tmp_path / "kept").write_bytes(b"x")
    writer = Thread(target=churn)
    writer.start()
    numbers: set[int] = set()
    try:
        while len(numbers) < 10:  # it has met the writer, at different moments
            files = list_files(spark, f"file://{tmp_path}")
            assert "kept" in [file.path for file in files]
            numbers.add(len(files))
    finally:
        stop.set()
        writer.join()


def test_checksums_are_no_files_and_links_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name in ("a", ".a.crc", ".b"):
        (tmp_path / "real" / name).write_bytes(b"x")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/folder").symlink_to(tmp_path / "real")
    files_listed = list_files(spark, f"file://{tmp_path}/linked")
    assert [file.path for file in files_listed] == ["folder/.b", "folder/a"]


def test_a_folder_that_may_not_be_read_is_an_error(spark: SparkSession) -> None:
    user = os.geteuid()  # permission bits stop everybody but root: act as another user
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        (Path(name) / "closed").mkdir(0o000)
        try:
            os.seteuid(user or 65534)
            with pytest.raises(PermissionError, match="closed"):
                list_files(spark, f"file://{name}")
        finally:
            os.seteuid(user)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return replace(load_settings("LOCAL", {}), home=tmp_path)


def written(home: Path, database: str) -> TableLocation:
    """A place with a file where its table is, and one where its checkpoint is."""
    location = locate("warehouse", database, "readings", is_local=True, home=home)
    for uri in (location.table, location.checkpoint):
        folder = Path(uri.removeprefix("file://"))
        folder.mkdir(parents=True)
        (folder / "kept").touch()
    return location


def left(home: Path) -> int:
    return len(list(home.rglob("kept")))


def test_a_lesson_resets_its_own_tables(
    spark: SparkSession, settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    location = written(settings.home, LESSONS)
    half = locate("warehouse", LESSONS, "half", is_local=True, home=settings.home)
    Path(half.checkpoint.removeprefix("file://")).mkdir(parents=True)
    second, other = location.checkpoint_of("archive"), f"{location.checkpoint}_of_others"
    for checkpoint in (second, other):
        Path(checkpoint.removeprefix("file://")).mkdir(parents=True)
    absent = locate("warehouse", LESSONS, "absent", is_local=True, home=settings.home)
    reset(spark, settings, location, half, absent)
    assert left(settings.home) == 0
    assert not exists(spark, half.checkpoint)
    assert not exists(spark, second)
    assert exists(spark, other)
    where = f"reset in {location.warehouse}/lessons: "
    assert capsys.readouterr().out == f"{where}readings, half\n"
    reset(spark, settings, location)
    assert capsys.readouterr().out == f"{where}nothing, no table of this lesson is there\n"


def test_a_lesson_resets_no_table_of_a_job_and_then_no_other(
    spark: SparkSession, settings: Settings
) -> None:
    own, job = written(settings.home, LESSONS), written(settings.home, "lab")
    text = f"{job.table} was not deleted: it is not a lesson's table"
    with pytest.raises(TableError, match=f"^{re.escape(text)}.*lessons"):
        reset(spark, settings, own, job)
    assert left(settings.home) == 4


def test_a_lesson_resets_nothing_on_aws(spark: SparkSession, settings: Settings) -> None:
    location = written(settings.home, LESSONS)
    with pytest.raises(TableError) as caught:
        reset(spark, replace(settings, runtime="AWS", is_local=False), location)
    assert str(caught.value) == (
        f"{location.table} already exists, and lessons delete nothing in a warehouse on AWS; use a "
        "new run_id: -p run_id NAME"
    )
    assert left(settings.home) == 2
