"""A folder of CSV files that another program wrote becomes a table, or is refused in words."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from refusals import refused
from unit.runtime.settings_files import group, load, write

from hudilab.errors import ConfigError, StreamError, TableError
from hudilab.jobs import stream
from hudilab.jobs.pipeline.preview import preview
from hudilab.jobs.pipeline.source import Source
from hudilab.paths import Place
from hudilab.runtime.places import prepare
from hudilab.runtime.settings import load_settings
from hudilab.writer.catalog.register import Catalog
from hudilab.writer.files import exists
from hudilab.writer.spec import TableSpec

SCHEMA = "Station STRING, Day DATE, `Temp C` DOUBLE, seen TIMESTAMP"
SELECT = "SELECT Station AS station, Day AS day, `Temp C` AS celsius, seen FROM source"
ROWS = [
    ("EWR", "2013-01-01", "-3.5", "2013-01-01T06:00:00Z"),
    ("JFK, New York", "2013-01-01", "NA", "2013-01-01T06:00:00Z"),
    ("EWR", "2013-01-02", "0.25", "2013-01-02T06:00:00Z"),
]
LATER = [("EWR", "2013-01-01", "-4", "2013-01-03T00:00:00Z"), ("", "2013-01-04", "1", ROWS[0][3])]


class Own:
    """Someone's folder, and a group that describes it."""

    def __init__(self, spark: SparkSession, home: Path, **changes: str | None) -> None:
        self.spark, self.home, self.folder = spark, home, home / "my data"
        self.folder.mkdir()
        named = {name.replace("_", "."): value for name, value in changes.items()}
        properties = {
            "source.format": "csv",
            "source.path": str(self.folder),
            "source.options": "header=true nullValue=NA",
            "source.schema": SCHEMA,
            "select": SELECT,
            "table.name": "weather",
            "record.key": "station, day",
            "ordering": "seen",
        } | named
        self.file = write(
            home / "conf",
            [group(), group("pipeline.own", {key: one for key, one in properties.items() if one})],
        )

    def put(self, name: str, rows: Sequence[Sequence[str]]) -> None:
        with (self.folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([("Station", "Day", "Temp C", "seen"), *rows])

    def source(self) -> tuple[Source, TableSpec, Place]:
        settings = load(self.home / "conf", HUDILAB_HOME=str(self.home))
        found = settings.pipelines["own"]
        place = prepare(settings, table=found.table_name)
        spec = TableSpec(name=place.name, **found.table())
        return Source(self.spark, settings, "own", found), spec, place

    def check(self) -> list[str]:
        source, spec, place = self.source()
        source.check()
        return [
            line for text in preview(self.spark, source, spec, place) for line in text.splitlines()
        ]

    def run(self) -> list[tuple[Any, ...]]:
        source, spec, place = self.source()
        source.check()
        options = stream.Options(name="own", available_now=True)
        stream._write(self.spark, source, spec, Catalog(self.spark, spec, place, None), options)
        rows = self.spark.read.format("hudi").load(place.table)
        return sorted(
            tuple(row) for row in rows.selectExpr("station", "string(day)", "celsius").collect()
        )


def test_files_become_a_table_and_later_ones_update_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Own(spark, tmp_path, quarantine="true")
    own.put("a.csv", ROWS)
    shown = own.check()
    assert shown[1] == "sample: 3 rows of a.csv, stored as"
    assert any("JFK, New York" in line for line in shown)
    assert shown[-1].endswith("; nothing was written")
    assert not (tmp_path / "warehouse").exists()
    first = [("EWR", "2013-01-01", -3.5), ("EWR", "2013-01-02", 0.25)]
    assert own.run() == [*first, ("JFK, New York", "2013-01-01", None)]
    own.put("b.csv", LATER)
    found = own.run()
    assert ("EWR", "2013-01-01", -4.0) in found
    assert len(found) == 3  # of a key without a station there is no row
    assert "batch 1: 1 row set aside in" in capsys.readouterr().err


def refusal(own: Own, *failed: str, remedy: str, key: str) -> None:
    where = (str(own.file), "group 'pipeline.own'", f"key {key!r}")
    with refused(ConfigError, *where, *failed, remedy=remedy):
        own.check()
    assert not exists(own.spark, f"file://{own.home}/warehouse")


def test_a_folder_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path)
    own.folder.rmdir()
    remedy = "; create it, or name another"
    refusal(own, f"there is no folder file://{own.folder}", remedy=remedy, key="source.path")


def test_a_schema_that_is_missing_is_read_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path, source_schema=None)
    refusal(own, "has no file", remedy='"source.schema": "id BIGINT, ..."', key="source.schema")
    own.put("a.csv", ROWS)
    schema = "Station STRING,Day DATE,`Temp C` DOUBLE,seen TIMESTAMP"
    refusal(own, "(a.csv)", remedy=f'; add "source.schema": "{schema}"', key="source.schema")


def test_a_file_that_does_not_fit_is_named(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path)
    own.put("a.csv", ROWS)
    own.put("b.csv", [("EWR", "today", "warm", "now")])
    os.utime(own.folder / "a.csv", (1, 1))
    remedy = "; fix the key, source.schema, source.options or the file"
    refusal(own, "b.csv", "cannot be read as csv", remedy=remedy, key="source.format")
    with pytest.raises(StreamError, match="resumes from its checkpoint"):
        own.run()


def test_a_query_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path, select="SELECT nothing FROM source")
    own.put("a.csv", ROWS)
    remedy = "; fix the query; it reads the view source"
    refusal(own, "nothing", remedy=remedy, key="select")


def test_a_key_that_the_files_lack(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path, record_key="station, hour")
    own.put("a.csv", ROWS)
    remedy = "; correct the batch or the TableSpec, and start again"
    with refused(TableError, "record_key names hour", remedy=remedy):
        own.check()


def test_rows_that_the_table_refuses_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path, record_key="station")
    own.put("a.csv", [*ROWS, ("NA", *ROWS[0][1:])])
    assert (
        "1 row of the sample would be refused: the record key (station) is null or empty"
        in "\n".join(own.check())
    )


@pytest.mark.deep
def test_the_command(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path)
    own.put("a.csv", ROWS)
    conf = load_settings().conf_dir
    for file in ("spark-defaults.conf", "hudi-defaults.conf", "local/spark-defaults.conf"):
        (tmp_path / "conf" / file).parent.mkdir(exist_ok=True)
        shutil.copy(conf / file, tmp_path / "conf" / file)
    env = {"HUDILAB_HOME": str(tmp_path), "HUDILAB_CONF": str(tmp_path / "conf")}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hudilab.jobs.stream", *words],
            env=os.environ | env,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    missing = run("other")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert "there is no group 'pipeline.other'" in missing.stderr
    for _ in range(2):
        done = run("own", "--available-now")
        assert done.returncode == 0, done.stderr[-3000:]
        assert "hudilab: rows=3 commits=1 table=file://" in done.stdout
