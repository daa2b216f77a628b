"""A stream whose table services run beside it, as a process of its own, so that tests can hang it.

Usage: beside.py WAREHOUSE. At the end it compares the table with the generator, and fails if they
differ.
"""

from __future__ import annotations

import sys

from pyspark.sql import functions as F

from hudi_sink import service_schedule as policy
from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import locate
from hudilab.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain

ROWS, KEYS, BATCHES, SIZES = 60_000, 90_000, 8, {"sensors": 3, "seed": 5}


def main(warehouse: str) -> None:
    policy.COMPACT_EVERY, policy.SMALL_LOG = 3, 0
    settings = load_settings()
    spark = open_session(settings, app="beside")
    location = locate(warehouse, "lab", "readings", is_local=True, home=settings.home)
    spec = readings_table(table_type="MERGE_ON_READ", operation="upsert", buckets=1)
    key = F.col("reading_id") % KEYS
    rows = sensor_stream(spark, rows_per_batch=ROWS, rows=ROWS * BATCHES, **SIZES)
    sink = ExactlyOnceSink(spark, spec, location, SIZES, BATCHES, async_services=True)
    stream = rows.withColumn("reading_id", key).writeStream.foreachBatch(sink.write_batch)
    query = stream.option("checkpointLocation", location.checkpoint).start()
    drain(query, batches=BATCHES, deadline=600)
    sink.close()

    last = F.max_by(F.struct("temperature", "measurement_time"), "measurement_time").alias("last")
    readings = sensor_readings(spark, ROWS * BATCHES, **SIZES).withColumn("reading_id", key)
    wanted = readings.groupBy("sensor_id", "reading_id").agg(last)
    wanted = wanted.select("sensor_id", "reading_id", "last.*")
    table = spark.read.format("hudi").load(location.table).select(wanted.columns)
    wrong = wanted.exceptAll(table).count(), table.exceptAll(wanted).count()
    spark.stop()
    sys.exit(f"lost, twice: {wrong}" if any(wrong) else 0)


if __name__ == "__main__":
    main(sys.argv[1])
