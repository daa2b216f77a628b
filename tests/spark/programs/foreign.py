"""Tables that Hudi makes in all its ways, and what Spark says of them.

As a program it makes them with another release of Hudi: foreign.py JAR HOME NAME...; it prints one
line of JSON, what Spark says of each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from hudilab_spark.java import find_java

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
    "element_at(array('_under', '.dot', 'x.parquet'), int(id % 3) + 1) AS odd",
    "string(date_add(date'2026-01-01', int(id % 2))) AS text",
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
    without: str = ""  # a column


class Steps:
    """A table and what is done to it."""

    def __init__(self, spark: SparkSession, home: Path, foreign: Foreign) -> None:
        self.spark, self.path, self.name = spark, home / "t", f"foreign_{next(_names)}"
        given = DEFAULTS | {"hoodie.table.name": self.name} | dict(foreign.options)
        self.without = foreign.without
        self.options = {key: value for key, value in given.items() if value}
        for step in foreign.steps:
            if isinstance(step, str):
                self.sql(step)
            else:
                self.write(*step)

    def rows(self, first: int, last: int) -> DataFrame:
        return self.spark.range(first, last, 1, 1).selectExpr(*COLUMNS).drop(self.without)

    def write(
        self, operation: str, first: int, last: int, more: Mapping[str, str] | None = None
    ) -> None:
        options = self.options | {OPERATION: operation} | dict(more or {})
        rows, mode = self.rows(first, last), "append"
        if operation == "bootstrap":
            source = self.path.with_name("source")
            self.spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
            rows.write.partitionBy("city").parquet(str(source))
            options["hoodie.bootstrap.base.path"] = str(source)
            rows, mode = rows.limit(0), "overwrite"
        rows.write.format("hudi").options(**options).mode(mode).save(str(self.path))

    def sql(self, text: str) -> list[Any]:
        name = f"{self.name}_{next(_names)}"
        if "{table}" in text and "CREATE TABLE" not in text:
            self.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{self.path}'")
        if "{before}" in text or "{last}" in text:
            commits = self.sql("CALL show_commits(table => '{table}')")
            *_, before, last = sorted(row.commit_time for row in commits)
            text = text.replace("{before}", before).replace("{last}", last)
        try:
            return list(self.spark.sql(text.format(table=name, path=self.path)).collect())
        except Exception as error:
            # Hudi 1.2 empties the table, and then fails to read it.
            if "TRUNCATE" in text and "No schema found" in str(error):
                return []
            raise


def counts_of(table: Steps) -> dict[str, Any]:
    """What Spark and Hudi's procedures say of a table, as plain values."""
    where = "table => '{table}', limit => 10000"
    try:
        counts = said_by_query(table)
        slices = table.sql(f"CALL show_fsview_latest({where}, include_in_flight => true)")
    except Exception as error:  # a truncated table has no schema until the next write
        if "No schema found" in str(error) or "does not contains schema" in str(error):
            return {"rows": 0, "partitions": 0, "by_partition": {}, "slices": []}
        raise
    sizes = ("data_file_size", "num_delta_files", "total_delta_file_size")
    timeline = table.sql(f"CALL show_timeline({where})")
    commits = table.sql(f"CALL show_commits({where})")
    return counts | {
        "commits": {row.commit_time: row.total_records_written for row in commits},
        "partitions": len({row.partition for row in slices}),
        "slices": sorted(
            [row.partition, row.file_id, *(row[name] for name in sizes)] for row in slices
        ),
        "timeline": sorted([row.instant_time, row.action, row.state] for row in timeline),
    }


def said_by_query(table: Steps) -> dict[str, Any]:
    """What every release can say."""
    # With it, Hudi 1.2 cannot read the partition columns of ORC files.
    table.spark.conf.set("spark.sql.orc.enableVectorizedReader", "false")
    rows = table.spark.read.format("hudi").load(str(table.path))
    figures: dict[str, Any] = {"rows": rows.count(), "by_partition": {}}
    if "_hoodie_partition_path" in rows.columns:
        counts = rows.groupBy("_hoodie_partition_path").count().collect()
        figures["by_partition"] = {row[0]: row[1] for row in counts if row[0] is not None}
    return figures


def keygen(name: str, partition: str = "city", key: str = "id", **more: str) -> dict[str, str]:
    return {KEYGEN: f"{GEN}{name}KeyGenerator", PARTITION: partition, KEY: key} | more


TIMED = {
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
}
LATER = (("upsert", 0, 90), ("upsert", 60, 120), ("delete", 0, 20))
DAYS = {
    "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
    "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
    "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
}
AVRO = {
    "hoodie.write.record.merge.custom.implementation.classes": (
        "org.apache.hudi.common.model.HoodieAvroRecordMerger"
    )
}
BOOT = "org.apache.hudi.client.bootstrap.selector."
PROVIDER = {
    "hoodie.bootstrap.full.input.provider": (
        "org.apache.hudi.bootstrap.SparkParquetBootstrapDataProvider"
    )
}
SELECTOR = "hoodie.bootstrap.mode.selector"
SAVED = "CALL create_savepoint(table => '{table}', commit_time => '{before}')"
BACK = "CALL rollback_to_savepoint(table => '{table}', instant_time => '{before}')"
UNDO = "CALL rollback_to_instant(table => '{table}', instant_time => '{last}')"
# Spark cannot read it.
HFILE = Foreign(
    {FORMAT: "HFILE", f"{WRITE}row.writer.enable": "false", "hoodie.metadata.enable": "false"}
    | AVRO,
    (("bulk_insert", 0, 90),),
)
ORC = {FORMAT: "ORC", f"{WRITE}row.writer.enable": "false", "hoodie.metadata.enable": "false"}
TABLES = {
    "orc": Foreign(ORC | AVRO, LATER, without="day"),
    "orc, MOR": Foreign(ORC | AVRO | MOR | BUCKETS, LATER, without="day"),
    "simple key": Foreign(keygen("Simple"), LATER),
    "complex key": Foreign(keygen("Complex", "land,city", "id,name"), LATER),
    "timestamp": Foreign(keygen("TimestampBased", "seconds") | TIMED, LATER),
    "custom key": Foreign(keygen("Custom", "city:simple,text:timestamp") | DAYS, LATER),
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
    "odd values": Foreign(keygen("Simple", "odd"), LATER),
    "odd values, MOR": Foreign(keygen("Simple", "odd") | HIVE | MOR | BUCKETS, LATER),
    "bootstrapped, metadata only": Foreign(
        {SELECTOR: f"{BOOT}MetadataOnlyBootstrapModeSelector"}, (("bootstrap", 0, 90),)
    ),
    "bootstrapped, metadata only, and written": Foreign(
        {SELECTOR: f"{BOOT}MetadataOnlyBootstrapModeSelector"},
        (("bootstrap", 0, 90), ("upsert", 60, 120)),
    ),
    "bootstrapped, metadata only, MOR": Foreign(
        MOR | {SELECTOR: f"{BOOT}MetadataOnlyBootstrapModeSelector"},
        (("bootstrap", 0, 90), ("upsert", 60, 120)),
    ),
    "bootstrapped, full records": Foreign(
        PROVIDER | {SELECTOR: f"{BOOT}FullRecordBootstrapModeSelector"},
        (("bootstrap", 0, 90), ("upsert", 60, 120)),
    ),
    "savepoint": Foreign({}, (*LATER, SAVED)),
    "savepoint, and back": Foreign({}, (*LATER, SAVED, BACK, ("upsert", 0, 5))),
    "savepoint, and back, MOR": Foreign(MOR, (*LATER, SAVED, BACK, ("upsert", 0, 5))),
    "rolled back": Foreign({}, (*LATER, UNDO)),
    "rolled back, MOR": Foreign(MOR | BUCKETS, (*LATER, UNDO)),
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


def main(jar: Path, home: Path, names: list[str]) -> None:
    os.environ |= {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ |= {"PYSPARK_PYTHON": sys.executable}
    os.environ.pop("SPARK_CONF_DIR", None)
    builder = SparkSession.builder.master("local[2]").appName("foreign")
    hudi = "org.apache.spark.sql.hudi"
    for key, value in {
        "spark.driver.extraClassPath": str(jar),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": f"{hudi}.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": f"{hudi}.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    results: dict[str, Any] = {}
    for name in names:
        at = home / name
        at.mkdir(parents=True)
        try:
            results[name] = said_by_query(Steps(spark, at, TABLES[name]))
        except Exception as error:  # this release cannot make it
            results[name] = {"error": " ".join(str(error).split())[:300]}
    spark.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
