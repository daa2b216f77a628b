"""Tables that Hudi makes in all its ways, and the lab does not: right, or said to be unknown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from running import finish, start_program
from spark.programs import foreign
from spark.programs.foreign import TABLES, counts_of, make
from unit.hudi_inspect.tables import unlike

from hudi_inspect import inspect
from hudi_inspect.errors import InspectError
from hudilab.settings import project_root
from hudilab_spark.fetch import fetch

pytestmark = pytest.mark.deep
OLDER = ("hudi_0_15", "hudi_1_0", "hudi_1_1")
# What older releases make, too; the others ask for options or procedures that came later.
ITS_TABLES = (
    "simple key",
    "complex key",
    "no key",
    "no partition, MOR",
    "three levels, hive, encoded",
    "bootstrapped, metadata only, and written",
    "avro logs",
    "clustered",
    "overwritten table",
    "all deleted, MOR",
    "archived",
    "archived, MOR",
    "consistent hashing",
)


def wrong_in(path: Path, answers: dict[str, Any]) -> list[str]:
    """What `inspect` reports otherwise than Spark, also when hudi-rs counts the rows."""
    wrong = unlike(path, answers)
    try:
        counted = inspect(str(path), count=True).table.rows
    except InspectError as error:
        print(f"hudi-rs: {error}")
    else:
        if counted != answers["rows"]:
            wrong.append(f"counted: {counted}, but Spark says {answers['rows']}")
    return wrong


@pytest.mark.parametrize("name", [name for name in TABLES if name != "hfile"])
def test_a_table_is_right_or_unknown(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = make(spark, tmp_path, name)
    assert wrong_in(table.path, counts_of(table)) == []


def test_base_files_that_spark_does_not_read(spark: SparkSession, tmp_path: Path) -> None:
    table = inspect(str(make(spark, tmp_path, "hfile").path)).table
    assert (table.rows, table.partitions) == (90, 3)


@pytest.mark.network
@pytest.mark.parametrize("release", OLDER)
def test_tables_of_older_releases(tmp_path: Path, release: str) -> None:
    (jar,) = fetch(project_root() / "jars", [release], say=lambda line: None)
    running = start_program(foreign.__file__, str(jar), str(tmp_path), *ITS_TABLES, env={})
    report = json.loads(finish(running, 1200).splitlines()[-1])
    unmade = {name: theirs["error"] for name, theirs in report.items() if "error" in theirs}
    wrong = {
        name: problems
        for name, theirs in report.items()
        if name not in unmade and (problems := wrong_in(tmp_path / name / "t", theirs))
    }
    assert wrong == {}
    assert unmade == {}


@pytest.mark.network
def test_tables_of_flink(spark: SparkSession, tmp_path: Path) -> None:
    """Flink 1.17 with Hudi 0.14: appends, and the original's upserts into MERGE_ON_READ."""
    fetch(project_root() / "jars", ["flink"], say=lambda line: None)
    peer = project_root() / "benchmarks" / "flink_peer.py"
    few = ("--rows", "5000", "--heartbeat-batches", "5")
    finish(start_program(str(peer), "--home", str(tmp_path), *few, env={}), 900)
    tables = sorted(path.parent for path in tmp_path.glob("*/.hoodie"))
    assert {"append", "original"} <= {path.name for path in tables}
    for path in tables:
        read = spark.read.format("hudi").load(f"file://{path}")
        snapshot, counted = (inspect(str(path), count=count).table for count in (False, True))
        partitions = read.select("_hoodie_partition_path").distinct().count()
        assert (counted.rows, snapshot.partitions) == (read.count(), partitions), path.name
        assert snapshot.rows in (None, counted.rows), path.name
