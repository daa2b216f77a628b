"""Tables that Hudi makes in all its ways, and what Spark says of them.

As a program it makes them with another release of Hudi: foreign.py JAR HOME NAME...; it prints one
line of JSON, what Spark says of each.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hudilab_spark.java import find_java
from hudilab_spark.warehouse import sql_path

CASES: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
# Name -> options and steps by name or as they are; without steps, two upserts.
TABLES: dict[str, dict[str, Any]] = CASES["tables"]
WRITE = "hoodie.datasource.write."
PARTITION, KEY, OPERATION = (
    f"{WRITE}partitionpath.field",
    f"{WRITE}recordkey.field",
    f"{WRITE}operation",
)
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
    "hoodie.compact.inline": "false",
}
_names = count()


class Steps:
    """A table and what is done to it.

    Options are names of groups in foreign.json, or beyond them; an empty value removes a default.
    A step is a name there, SQL with the table's name and path in braces, or an operation of the
    writer on the rows from one number to another, with options of its own.
    """

    def __init__(
        self, spark: SparkSession, path: Path, *options: str | Mapping[str, str], without: str = ""
    ) -> None:
        self.spark, self.path, self.name = spark, path, f"foreign_{next(_names)}"
        given = DEFAULTS | {"hoodie.table.name": self.name} | resolved(options)
        self.options = {key: value for key, value in given.items() if value}
        self.without = without  # a column

    def do(self, *steps: Any) -> None:
        for step in steps:
            if not isinstance(step, str):
                self.write(*step)
            elif step in CASES["steps"]:
                self.do(*CASES["steps"][step])
            else:
                self.sql(step)

    def rows(self, first: int, last: int) -> DataFrame:
        return self.spark.range(first, last, 1, 1).selectExpr(*COLUMNS).drop(self.without)

    def write(self, operation: str, first: int, last: int, *more: str | Mapping[str, str]) -> None:
        options = self.options | {OPERATION: operation} | resolved(more)
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
            location = sql_path(self.spark, f"file://{self.path}")
            self.spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{location}'")
        if "{before}" in text or "{last}" in text:
            commits = self.call("show_commits")
            *_, before, last = sorted(row.commit_time for row in commits)
            text = text.replace("{before}", before).replace("{last}", last)
        try:
            return list(self.spark.sql(text.format(table=name, path=self.path)).collect())
        except Exception as error:
            # Hudi 1.2 empties the table, and then fails to read it.
            if "TRUNCATE" in text and "No schema found" in str(error):
                return []
            raise

    def call(self, procedure: str, given: str = "limit => 1000000") -> list[Any]:
        return self.sql(f"CALL {procedure}(table => '{{table}}', {given})")


def resolved(options: Iterable[str | Mapping[str, str]]) -> dict[str, str]:
    """The options themselves, of groups by name and of others."""
    groups = CASES["options"]
    return {
        key: value
        for some in options
        for key, value in (groups[some] if isinstance(some, str) else some).items()
    }


def make(spark: SparkSession, home: Path, name: str) -> Steps:
    """Make a table of foreign.json in a folder."""
    case = TABLES[name]
    given = {
        key: case[field] for field, key in (("key", KEY), ("partition", PARTITION)) if field in case
    }
    table = Steps(
        spark, home / "t", *case.get("options", ()), given, without=case.get("without", "")
    )
    table.do(*case.get("steps", ["UPSERTS"]))
    return table


def counts_of(table: Steps) -> dict[str, Any]:
    """What Spark and Hudi's procedures say of a table, as plain values."""
    try:
        counts = said_by_query(table)
        slices = table.call("show_fsview_latest", "limit => 1000000, include_in_flight => true")
    except Exception as error:  # a truncated table has no schema until the next write
        if "No schema found" in str(error) or "does not contains schema" in str(error):
            return {"rows": 0, "partitions": 0, "by_partition": {}, "slices": []}
        raise
    sizes = ("data_file_size", "num_delta_files", "total_delta_file_size")
    timeline = table.call("show_timeline")
    commits = table.call("show_commits")
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


def main(jar: Path, home: Path, names: list[str]) -> None:
    os.environ |= {"JAVA_HOME": str(find_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}
    os.environ |= {"PYSPARK_PYTHON": sys.executable}
    os.environ.pop("SPARK_CONF_DIR", None)
    hudi = "org.apache.spark.sql.hudi"
    settings: dict[str, Any] = {
        "spark.driver.extraClassPath": str(jar),
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": f"{hudi}.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": f"{hudi}.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(home / "warehouse"),
        "spark.ui.enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("foreign")
    spark = builder.config(map=settings).getOrCreate()
    results: dict[str, Any] = {}
    for name in names:
        at = home / name
        at.mkdir(parents=True)
        try:
            results[name] = said_by_query(make(spark, at, name))
        except Exception as error:  # this release cannot make it
            results[name] = {"error": " ".join(str(error).split())[:300]}
    spark.stop()
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
