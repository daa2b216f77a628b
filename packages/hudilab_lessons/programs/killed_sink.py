"""The stream of lesson 33, which pauses where a kill should hit it.

Its job is JSON on standard input. It pauses within the commit of batch `in`, or between the commit
of batch `after` and Spark's own record of the batch.
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import readings_table, sensor_stream
from hudilab.paths import TableLocation
from hudilab.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain


def main() -> None:
    """Run the stream."""
    job = json.load(sys.stdin)
    spark = open_session(load_settings(job["runtime"]), app="faults_victim")
    location = TableLocation(**job["location"])
    spec, batches = readings_table(name="faults"), job["source"]["batches"]
    # Without a sort mode, a sink on S3 reads all rows before its first write.
    extra = {"hoodie.bulkinsert.sort.mode": "NONE"}
    sink = ExactlyOnceSink(spark, spec, location, job["source"], batches, extra=extra)

    def write_batch(batch: DataFrame, number: int) -> None:
        if number == job["in"]:  # the last row takes ten minutes
            last = (number + 1) * job["stream"]["rows_per_batch"] - 1
            hang = F.udf(lambda reading: time.sleep(600) if reading == last else reading, "long")
            batch = batch.withColumn("reading_id", hang("reading_id"))
        sink.write_batch(batch, number)
        if number == job["after"]:  # committed by Hudi, not recorded by Spark
            time.sleep(600)

    stream = sensor_stream(spark, **job["stream"]).writeStream.foreachBatch(write_batch)
    query = stream.option("checkpointLocation", location.checkpoint).start()
    drain(query, batches=batches, deadline=600)


if __name__ == "__main__":
    main()
