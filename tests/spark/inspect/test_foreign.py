"""Tables that Hudi makes in all its ways, and the lab does not: right, or said to be unknown."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from hudilab.errors import InspectError
from hudilab.inspect import Inspection, inspect

pytestmark = pytest.mark.deep

WRITE = "hoodie.datasource.write."
KEYGEN, PARTITION = f"{WRITE}keygenerator.class", f"{WRITE}partitionpath.field"
OPERATION, KEY = f"{WRITE}operation", f"{WRITE}recordkey.field"
GEN = "org.apache.hudi.keygen."
MOR = {f"{WRITE}table.type": "MERGE_ON_READ"}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
HIVE, ENCODED = (
    {f"{WRITE}hive_style_partitioning": "true"},
    {f"{WRITE}partitionpath.urlencode": "true"},
)
COMPACT = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLEAN = {"hoodie.clean.max.commits": "1", "hoodie.clean.commits.retained": "1"}
ARCHIVE = CLEAN | {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
BARE = {"hoodie.populate.meta.fields": "false"}
VERSIONS = {
    number: {"hoodie.write.table.version": str(number), "hoodie.write.auto.upgrade": "false"}
    for number in (6, 8)
}
FORMAT = "hoodie.table.base.file.format"
COLUMNS = (
    "id",
    "concat('name ', id) AS name",
    "element_at(array('Oslo', 'a b', 'x'), int(id % 3) + 1) AS city",
    "element_at(array('NO', 'SE'), int(id % 2) + 1) AS land",
    "date_add(date'2026-01-01', int(id % 2)) AS day",
    "timestamp'2026-01-01 10:30:00' + make_interval(0, 0, 0, int(id % 2)) AS at",
    "unix_timestamp(timestamp'2026-01-01 10:30:00') + 86400 * (id % 2) AS seconds",
    "element_at(array('a/b', 'c', 'd=e'), int(id % 3) + 1) AS path",
    "id / 2 AS price",
    "1L AS ts",
)
DEFAULTS = {
    KEY: "id",
    PARTITION: "city",
    "hoodie.table.ordering.fields": "ts",
    OPERATION: "upsert",
    "hoodie.compact.inline": "false",
}
_names = count()


class Foreign(NamedTuple):
    """A table: options beyond the defaults (an empty value removes one), and what is done to it.

    A step is SQL, with the table's name and path in braces, or an operation of the writer on the
    rows from one number to another, with options of its own.
    """

    options: Mapping[str, str]
    steps: tuple[Any, ...] = (("upsert", 0, 90), ("upsert", 60, 120))


class Steps:
    """A table and what is done to it."""

    def __init__(self, spark: SparkSession, home: Path, foreign: Foreign) -> None:
        self.spark, self.path, self.name = spark, home / "t", f"foreign_{next(_names)}"
        given = DEFAULTS | {"hoodie.table.name": self.name} | dict(foreign.options)
        self.options = {key: value for key, value in given.items() if value}
        for step in foreign.steps:
            if isinstance(step, str):
                self.sql(step)
            else:
                self.write(*step)

    def rows(self, first: int, last: int) -> DataFrame:
        return self.spark.range(first, last, 1, 1).selectExpr(*COLUMNS)

    def write(self, operation: str, first: int, last: int, more: Mapping[str, str] = {}) -> None:
        options = self.options | {OPERATION: operation} | dict(more)
        rows = self.rows(first, last)
        rows.write.format("hudi").options(**options).mode("append").save(str(self.path))

    def sql(self, text: str) -> list[Any]:
        name = f"{self.name}_{next(_names)}"
        if "{table}" in text and "CREATE TABLE" not in text:
            self.spark.catalog.createTable(name, path=str(self.path), source="hudi")
        return list(self.spark.sql(text.format(table=name, path=self.path)).collect())


def unlike(table: Steps) -> list[str]:
    """What `inspect` says otherwise than Spark and Hudi's procedures; unknown is like anything."""
    found, its = inspect(str(table.path)), []
    report, spark = found.report, table.spark

    def compare(what: str, mine: object, theirs: object) -> None:
        if mine != theirs:
            its.append(f"{what}: {mine}, but Spark says {theirs}")

    rows = spark.read.format("hudi").load(str(table.path))
    total = rows.count()
    if report.table.rows is not None:
        compare("rows", report.table.rows, total)
    try:
        compare("counted", inspect(str(table.path), count=True).report.table.rows, total)
    except InspectError as error:
        its.append(f"unknown to hudi-rs: {error}")
    timeline = table.sql("CALL show_timeline(table => '{table}', limit => 10000)")
    compare(
        "timeline",
        sorted((one.time, one.action, one.state) for one in found.events),
        sorted((row.instant_time, row.action, row.state) for row in timeline),
    )
    slices = table.sql(
        "CALL show_fsview_latest(table => '{table}', limit => 10000, include_in_flight => true)"
    )
    compare(
        "slices",
        sorted(
            (s.partition, s.group, s.base_bytes, len(s.logs), s.log_bytes)
            for s in found.facts.latest()
        ),
        sorted(
            (
                row.partition,
                row.file_id,
                row.data_file_size,
                row.num_delta_files,
                row.total_delta_file_size,
            )
            for row in slices
        ),
    )
    commits = table.sql("CALL show_commits(table => '{table}', limit => 10000)")
    compare("commits", _written(found), {r.commit_time: r.total_records_written for r in commits})
    compare("partitions", report.table.partitions, _partitions(rows, table))
    for each in found.partitions:
        if each.rows is not None and "_hoodie_partition_path" in rows.columns:
            here = rows.where(rows["_hoodie_partition_path"] == each.path).count()
            compare(f"rows of {each.path}", each.rows, here)
    str(found), found.to_json(), found.to_html()
    return its


def _written(found: Inspection) -> dict[str, int | None]:
    return {
        one.time: found.instant(one).rows_written
        for one in found.events
        if found.facts.commit_of(one) is not None
    }


def _partitions(rows: DataFrame, table: Steps) -> int:
    if (
        "_hoodie_partition_path" in rows.columns
        and not rows.where("_hoodie_partition_path IS NULL").count()
    ):
        return rows.select("_hoodie_partition_path").distinct().count()
    fields = [name for name in table.options.get(PARTITION, "").split(",") if name]
    return rows.select(*(name.partition(":")[0] for name in fields)).distinct().count()


def keygen(name: str, partition: str = "city", key: str = "id", **more: str) -> dict[str, str]:
    return {KEYGEN: f"{GEN}{name}KeyGenerator", PARTITION: partition, KEY: key} | more


TIMED = {
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
}
LATER = (("upsert", 0, 90), ("upsert", 60, 120), ("delete", 0, 20))
TABLES = {
    "simple key": Foreign(keygen("Simple"), LATER),
    "complex key": Foreign(keygen("Complex", "land,city", "id,name"), LATER),
    "timestamp": Foreign(keygen("TimestampBased", "seconds") | TIMED, LATER),
    "custom key": Foreign(keygen("Custom", "city:simple,seconds:timestamp") | TIMED, LATER),
    "no key": Foreign({KEY: "", OPERATION: "insert"}, (("insert", 0, 90), ("insert", 60, 120))),
    "no key, bulk": Foreign({KEY: ""}, (("bulk_insert", 0, 90), ("bulk_insert", 60, 120))),
    "no partition": Foreign(keygen("Nonpartitioned", ""), LATER),
    "no partition, MOR": Foreign(keygen("Nonpartitioned", "") | MOR, LATER),
    "no meta fields": Foreign(BARE, (("bulk_insert", 0, 90), ("insert", 90, 120))),
    "no meta fields, upsert": Foreign(BARE | {"hoodie.index.type": "SIMPLE"}, LATER),
    "no meta fields, MOR": Foreign(BARE | MOR | {"hoodie.index.type": "SIMPLE"}, LATER),
    "three levels": Foreign(keygen("Complex", "land,city,day"), LATER),
    "three levels, hive": Foreign(keygen("Complex", "land,city,day") | HIVE, LATER),
    "three levels, hive, encoded": Foreign(
        keygen("Complex", "land,city,at") | HIVE | ENCODED, LATER
    ),
    "encoded slashes": Foreign(keygen("Simple", "path") | ENCODED),
    "slashes": Foreign(keygen("Simple", "path")),
    "dropped columns": Foreign(HIVE | {f"{WRITE}drop.partition.columns": "true"}),
    "date": Foreign(keygen("Simple", "day"), LATER),
    "timestamp column": Foreign(keygen("Simple", "at") | HIVE | ENCODED, LATER),
    "orc": Foreign({FORMAT: "ORC", "hoodie.base.file.format": "ORC"}, LATER),
    "version 6": Foreign(VERSIONS[6], LATER),
    "version 6, MOR": Foreign(VERSIONS[6] | MOR, LATER),
    "version 6, MOR, compacted": Foreign(
        VERSIONS[6] | MOR | BUCKETS, (*LATER, ("upsert", 0, 40, COMPACT), ("upsert", 0, 10))
    ),
    "version 8": Foreign(VERSIONS[8], LATER),
    "version 8, MOR": Foreign(VERSIONS[8] | MOR | BUCKETS, LATER),
    "parquet logs": Foreign(MOR | BUCKETS | {"hoodie.logfile.data.block.format": "parquet"}, LATER),
    "avro logs": Foreign(MOR | BUCKETS | {"hoodie.logfile.data.block.format": "avro"}, LATER),
    "only logs": Foreign(MOR | BUCKETS, (("upsert", 0, 90),)),
    "compaction pending": Foreign(
        MOR | BUCKETS,
        (
            *LATER,
            "CALL run_compaction(table => '{table}', op => 'schedule', options => "
            "'hoodie.compact.inline.max.delta.commits=1')",
            ("upsert", 30, 60),
        ),
    ),
    "clustering pending": Foreign(
        {},
        (
            ("bulk_insert", 0, 90),
            ("bulk_insert", 90, 120),
            "CALL run_clustering(table => '{table}', op => 'schedule')",
            ("bulk_insert", 120, 150),
        ),
    ),
    "clustered": Foreign(
        {},
        (
            ("bulk_insert", 0, 90),
            ("bulk_insert", 90, 120),
            "CALL run_clustering(table => '{table}', op => 'scheduleAndExecute')",
            ("bulk_insert", 120, 150),
        ),
    ),
    "clustered, MOR": Foreign(
        MOR,
        (*LATER, "CALL run_clustering(table => '{table}', op => 'scheduleAndExecute')"),
    ),
    "overwritten partitions": Foreign({}, (*LATER, ("insert_overwrite", 0, 10))),
    "overwritten table": Foreign({}, (*LATER, ("insert_overwrite_table", 0, 2))),
    "overwritten table, MOR": Foreign(MOR, (*LATER, ("insert_overwrite_table", 0, 2))),
    "dropped partition": Foreign(HIVE, (*LATER, "ALTER TABLE {table} DROP PARTITION (city='x')")),
    "truncated": Foreign({}, (*LATER, "TRUNCATE TABLE {table}")),
    "truncated and written": Foreign({}, (*LATER, "TRUNCATE TABLE {table}", ("upsert", 0, 5))),
    "all deleted": Foreign({}, (("upsert", 0, 30), ("delete", 0, 30))),
    "all deleted, MOR": Foreign(MOR, (("upsert", 0, 30), ("delete", 0, 30))),
    "archived": Foreign(ARCHIVE, tuple(("upsert", 10 * n, 10 * n + 60) for n in range(9))),
    "archived, MOR": Foreign(
        ARCHIVE | MOR | COMPACT, tuple(("upsert", 10 * n, 10 * n + 60) for n in range(9))
    ),
    "archived, version 6": Foreign(
        ARCHIVE | VERSIONS[6], tuple(("upsert", 10 * n, 10 * n + 60) for n in range(9))
    ),
    "column stats": Foreign(
        {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    ),
    "record index": Foreign(
        {
            "hoodie.metadata.enable": "true",
            "hoodie.metadata.global.record.level.index.enable": "true",
            "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        }
    ),
    "consistent hashing": Foreign(
        MOR | {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING"}
    ),
    "empty batch": Foreign({}, (("upsert", 0, 0),)),
    "SQL": Foreign(
        {PARTITION: "city"},
        (
            "CREATE TABLE {table} (id BIGINT, price DOUBLE, city STRING) USING hudi TBLPROPERTIES "
            "(primaryKey='id', type='mor') PARTITIONED BY (city) LOCATION '{path}'",
            "INSERT INTO {table} VALUES (1, 1.0, 'Oslo'), (2, 2.0, 'a b'), (3, 3.0, NULL)",
            "UPDATE {table} SET price = 5 WHERE id = 2",
            "DELETE FROM {table} WHERE id = 1",
        ),
    ),
    "SQL, no key": Foreign(
        {PARTITION: ""},
        (
            "CREATE TABLE {table} (id BIGINT, price DOUBLE) USING hudi LOCATION '{path}'",
            "INSERT INTO {table} VALUES (1, 1.0), (1, 1.0)",
            "UPDATE {table} SET price = 5 WHERE id = 1",
        ),
    ),
    "no commit": Foreign(
        {PARTITION: ""},
        ("CREATE TABLE {table} (id BIGINT, price DOUBLE) USING hudi LOCATION '{path}'",),
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_right_or_unknown(spark: SparkSession, tmp_path: Path, name: str) -> None:
    assert unlike(Steps(spark, tmp_path, TABLES[name])) == []
