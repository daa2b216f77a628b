"""Statements of Hudi's pages in Python: writes and reads of DataFrames, batch and streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

NAME, TYPE, KEY = (
    "hoodie.table.name",
    "hoodie.datasource.write.table.type",
    "hoodie.datasource.write.recordkey.field",
)
PART, ORDER = "hoodie.datasource.write.partitionpath.field", "hoodie.table.ordering.fields"
OPERATION = "hoodie.datasource.write.operation"
LAMPS = {NAME: "lamps", KEY: "lamp", PART: "street", ORDER: "at"}


def _rows(spark: SparkSession, *rows: Any) -> DataFrame:
    return spark.createDataFrame(rows, "lamp INT, watts DOUBLE, at BIGINT, street STRING")


def _write(rows: DataFrame, home: Path, table: str, mode: str = "append", **more: str) -> None:
    options = {**LAMPS, NAME: table} | {name.replace("__", "."): more[name] for name in more}
    rows.write.format("hudi").options(**options).mode(mode).save(f"file://{home}/{table}")


def _read(spark: SparkSession, home: Path, table: str, **options: str) -> DataFrame:
    rows = spark.read.format("hudi").options(**options).load(f"file://{home}/{table}")
    return rows.select("lamp", "watts", "at", "street")


def overwrite(spark: SparkSession, home: Path) -> DataFrame:
    rows = _rows(spark, (1, 10.0, 1, "elm"), (2, 20.0, 1, "elm"), (3, 30.0, 1, "oak"))
    _write(rows, home, "lamps", "overwrite")
    return _read(spark, home, "lamps")


def upsert(spark: SparkSession, home: Path) -> DataFrame:
    _write(_rows(spark, (1, 11.0, 2, "elm"), (4, 40.0, 2, "oak")), home, "lamps")
    return _read(spark, home, "lamps")


def upsert_of_an_older_row(spark: SparkSession, home: Path) -> DataFrame:
    _write(_rows(spark, (1, 99.0, 1, "elm")), home, "lamps")
    return _read(spark, home, "lamps")


def delete(spark: SparkSession, home: Path) -> DataFrame:
    rows = _read(spark, home, "lamps").where("lamp = 2")
    _write(rows, home, "lamps", **{OPERATION: "delete"})
    return _read(spark, home, "lamps")


def delete_by_a_column(spark: SparkSession, home: Path) -> DataFrame:
    rows = _rows(spark, (3, 0.0, 5, "oak")).withColumn(
        "_hoodie_is_deleted", F.expr("nullif(true, false)")
    )
    _write(rows, home, "lamps")
    return _read(spark, home, "lamps")


def insert(spark: SparkSession, home: Path) -> DataFrame:
    _write(_rows(spark, (4, 44.0, 9, "oak")), home, "lamps", **{OPERATION: "insert"})
    return _read(spark, home, "lamps")


def insert_overwrite(spark: SparkSession, home: Path) -> DataFrame:
    _write(_rows(spark, (8, 80.0, 9, "oak")), home, "lamps", **{OPERATION: "insert_overwrite"})
    return _read(spark, home, "lamps")


def insert_overwrite_table(spark: SparkSession, home: Path) -> DataFrame:
    more = {OPERATION: "insert_overwrite_table"}
    _write(_rows(spark, (9, 90.0, 9, "ash")), home, "lamps", **more)
    return _read(spark, home, "lamps")


def bulk_insert(spark: SparkSession, home: Path) -> DataFrame:
    rows = spark.range(1000).selectExpr(
        "int(id) AS lamp", "double(id) AS watts", "0L AS at", "concat('s', id % 3) AS street"
    )
    _write(rows, home, "many", **{OPERATION: "bulk_insert"})
    return _read(spark, home, "many").groupBy("street").agg(F.count("*"), F.sum("watts"))


def delete_partition(spark: SparkSession, home: Path) -> DataFrame:
    more = {
        OPERATION: "delete_partition",
        "hoodie.datasource.write.partitions.to.delete": "s1",
    }
    _write(_rows(spark), home, "many", **more)
    return _read(spark, home, "many").groupBy("street").count()


def time_travel(spark: SparkSession, home: Path) -> DataFrame:
    first = min(file.name[:17] for file in (home / "lamps/.hoodie/timeline").glob("*_*.commit"))
    return _read(spark, home, "lamps", **{"as.of.instant": first})


def incremental(spark: SparkSession, home: Path) -> DataFrame:
    names = sorted(file.name for file in (home / "lamps/.hoodie/timeline").glob("*_*.commit"))
    begin = {"hoodie.datasource.read.begin.instanttime": names[1].partition("_")[2][:17]}
    return _read(spark, home, "lamps", **{"hoodie.datasource.query.type": "incremental"} | begin)


def changes(spark: SparkSession, home: Path) -> DataFrame:
    cdc = {"hoodie.table.cdc.enabled": "true"}
    for watts, at in ((1.0, 1), (2.0, 2)):
        _write(_rows(spark, (1, watts, at, "elm")), home, "cdc", **cdc)
    options = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": "0",
    }
    rows = spark.read.format("hudi").options(**options).load(f"file://{home}/cdc")
    return rows.selectExpr("op", "get_json_object(before, '$.watts') AS was")


def read_optimized(spark: SparkSession, home: Path) -> DataFrame:
    for watts, at in ((1.0, 1), (2.0, 2)):
        _write(_rows(spark, (1, watts, at, "elm")), home, "logs", **{TYPE: "MERGE_ON_READ"})
    return _read(spark, home, "logs", **{"hoodie.datasource.query.type": "read_optimized"})


def snapshot_of_logs(spark: SparkSession, home: Path) -> DataFrame:
    return _read(spark, home, "logs")


def commit_time_ordering(spark: SparkSession, home: Path) -> DataFrame:
    more = {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING", ORDER: ""}
    for watts, at in ((1.0, 5), (2.0, 2)):
        _write(_rows(spark, (1, watts, at, "elm")), home, "latest", **more)
    return _read(spark, home, "latest")


def record_index(spark: SparkSession, home: Path) -> DataFrame:
    more = {
        "hoodie.metadata.global.record.level.index.enable": "true",
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
    }
    _write(_rows(spark, (1, 1.0, 1, "elm"), (2, 2.0, 1, "oak")), home, "global", **more)
    _write(_rows(spark, (1, 3.0, 2, "oak")), home, "global", **more)
    return _read(spark, home, "global").where("lamp = 1")


def bucket_index(spark: SparkSession, home: Path) -> DataFrame:
    more = {
        TYPE: "MERGE_ON_READ",
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "2",
    }
    for watts, at in ((1.0, 1), (2.0, 2)):
        rows = _rows(spark, (1, watts, at, "elm"), (at + 5, watts, at, "elm"))
        _write(rows, home, "buckets", **more)
    return _read(spark, home, "buckets")


def stream_of_files(spark: SparkSession, home: Path) -> DataFrame:
    source = f"file://{home}/incoming"
    for number in range(3):
        rows = _rows(spark, (number, float(number), number, "elm"), (9, 0.5, number, "oak"))
        rows.coalesce(1).write.mode("append").parquet(source)
    stream = spark.readStream.schema(rows.schema).option("maxFilesPerTrigger", "1").parquet(source)
    query = (
        stream.writeStream.format("hudi")
        .options(**{**LAMPS, NAME: "streamed", TYPE: "MERGE_ON_READ"})
        .option("checkpointLocation", f"file://{home}/checkpoint")
        .outputMode("append")
        .trigger(availableNow=True)
        .start(f"file://{home}/streamed")
    )
    query.awaitTermination()
    return _read(spark, home, "streamed")


def stream_of_a_table(spark: SparkSession, home: Path) -> DataFrame:
    query = (
        spark.readStream.format("hudi")
        .load(f"file://{home}/streamed")
        .writeStream.format("memory")
        .queryName("seen")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.table("seen").select("lamp", "watts", "at", "street")


def stream_of_changes(spark: SparkSession, home: Path) -> DataFrame:
    query = (
        spark.readStream.format("hudi")
        .option("hoodie.datasource.query.type", "incremental")
        .option("hoodie.datasource.query.incremental.format", "cdc")
        .load(f"file://{home}/cdc")
        .writeStream.format("memory")
        .queryName("seen_changes")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return spark.table("seen_changes").select("op")


def stream_with_clustering(spark: SparkSession, home: Path) -> DataFrame:
    more = {
        OPERATION: "insert",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "2",
    }
    reader = spark.readStream.schema("lamp INT, watts DOUBLE, at BIGINT, street STRING")
    stream = reader.option("maxFilesPerTrigger", "1").parquet(f"file://{home}/incoming")

    def write(batch: DataFrame, number: int) -> None:
        _write(batch, home, "clustered", **more)

    query = stream.writeStream.foreachBatch(write)
    query = query.option("checkpointLocation", f"file://{home}/checkpoint_clustered")
    query.trigger(availableNow=True).start().awaitTermination()
    return spark.sql(f"CALL show_timeline(path => 'file://{home}/clustered', limit => 50)")
