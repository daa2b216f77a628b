"""Bronze and silver as a process that tests kill: two streams, the second one of changes.

Usage: silver.py TABLE_TYPE ROWS BATCHES; the place is HUDILAB_HOME's. Readings, corrections and
deletes go to bronze; its change images go to silver. At the end it compares bronze with the
generator and silver with bronze, and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from hudi_sink.commits import Commits
from hudi_sink.files import exists
from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain
from hudilab_spark.warehouse import prepare

SIZES = {"sensors": 3, "seed": 7}
CHANGES = {
    "hoodie.datasource.query.type": "incremental",
    "hoodie.datasource.query.incremental.format": "cdc",
}
IMAGE = "reading_id BIGINT, sensor_id INT, temperature DOUBLE, measurement_time BIGINT"
COLUMNS = ["reading_id", "sensor_id", "temperature", "measurement_time"]


def exact(readings: DataFrame) -> DataFrame:
    """Readings as bronze stores them: a DECIMAL would be lost in a change image."""
    flag = F.lit(None).cast("boolean").alias("_hoodie_is_deleted")
    temperature = F.col("temperature").cast("double").alias("temperature")
    return readings.select("reading_id", "sensor_id", temperature, "measurement_time", flag)


def changed(readings: DataFrame) -> DataFrame:
    """Of ten readings, one warmer and newer, one older (it loses), one deleted."""
    kind = F.col("reading_id") % 10
    seconds = F.expr("make_interval(0,0,0,0,0,0, IF(reading_id % 10 = 1, -1, 1))")
    return (
        exact(readings.where(kind < 3))
        .withColumn("temperature", F.col("temperature") + 500)
        .withColumn("measurement_time", F.col("measurement_time") + seconds)
        .withColumn("_hoodie_is_deleted", F.when(kind == 2, F.lit(True)))
    )


def images_to_rows(images: DataFrame) -> DataFrame:
    """The last change of each key, as one upsert."""
    row = F.from_json(F.expr("IF(op = 'd', before, after)"), IMAGE)
    newest = Window.partitionBy("row.sensor_id", "row.reading_id").orderBy(F.desc("ts_ms"))
    last = images.withColumn("row", row).withColumn("n", F.row_number().over(newest))
    moment = F.timestamp_micros("row.measurement_time").alias("measurement_time")
    flag = F.when(F.expr("op = 'd'"), F.lit(True)).alias("_hoodie_is_deleted")
    return last.where("n = 1").select(
        "row.reading_id", "row.sensor_id", "row.temperature", moment, flag
    )


def bronze_stream(
    spark: SparkSession, location: TableLocation, kind: str, rows: int, batches: int
) -> Any:
    spec = readings_table(
        name=location.name, table_type=kind, operation="upsert", buckets=1, cdc=True
    )
    per_batch = -(-rows // batches)
    sizes = {"rows_per_batch": per_batch, "rows": rows, **SIZES}
    again = sensor_stream(spark, first=-per_batch, **sizes)
    source = exact(sensor_stream(spark, **sizes)).union(changed(again))
    sink = ExactlyOnceSink(spark, spec, location, {"rows": rows, **SIZES}, batches)
    return source.writeStream.foreachBatch(sink.write_batch)


def silver_stream(
    spark: SparkSession, bronze: TableLocation, location: TableLocation, kind: str
) -> Any:
    spec = readings_table(
        name=location.name,
        table_type=kind,
        operation="upsert",
        buckets=1,
        merge_mode="COMMIT_TIME_ORDERING",
    )
    sink = ExactlyOnceSink(spark, spec, location, {"bronze": bronze.table})
    images = spark.readStream.format("hudi").options(**CHANGES).load(bronze.table)

    def write(batch: DataFrame, number: int) -> None:
        sink.write_batch(images_to_rows(batch), number)

    return images.writeStream.foreachBatch(write)


def start(stream: DataStreamWriter, location: TableLocation, **trigger: Any) -> StreamingQuery:
    stream = stream.option("checkpointLocation", location.checkpoint)
    return (stream.trigger(**trigger) if trigger else stream).start()


def difference(first: DataFrame, other: DataFrame) -> tuple[int, int]:
    first, other = first.select(COLUMNS), other.select(COLUMNS)
    return first.exceptAll(other).count(), other.exceptAll(first).count()


def main(kind: str, rows: int, batches: int) -> None:
    settings = load_settings()
    spark = open_session(settings, app="silver")
    bronze, silver = prepare(settings), prepare(settings, table="silver")
    filling = start(bronze_stream(spark, bronze, kind, rows, batches), bronze)
    while filling.isActive and not exists(spark, f"{bronze.table}/.hoodie/hoodie.properties"):
        time.sleep(0.1)
    following = start(silver_stream(spark, bronze, silver, kind), silver)
    drain(filling, batches=batches, deadline=600)
    following.stop()
    drain(
        start(silver_stream(spark, bronze, silver, kind), silver, availableNow=True), deadline=600
    )

    readings = sensor_readings(spark, rows, **SIZES)
    touched = readings.where(f"reading_id < {-(-rows // batches) * (batches - 1)}")
    won = changed(touched).where("reading_id % 10 = 0")
    kept = exact(readings).join(touched.where("reading_id % 10 IN (0, 2)"), "reading_id", "anti")
    stored, copy = (spark.read.format("hudi").load(location.table) for location in (bronze, silver))
    stamps = [commit.metadata for commit in Commits(spark, silver.table).newest_first()]
    times = Counter(stamp.batch for stamp in stamps if stamp)
    result = {
        "bronze": difference(kept.select(COLUMNS).union(won.select(COLUMNS)), stored),
        "silver": difference(stored, copy),
        "rows": copy.count(),
        "deleted": touched.where("reading_id % 10 = 2").count(),
        "silver batches": len(times),
        "written twice": sum(count > 1 for count in times.values()),
    }
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
