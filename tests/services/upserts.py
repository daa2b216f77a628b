"""Upserts with a metadata table: upserts.py TABLE COMMITS CLOSING; prints each commit's number.

CLOSING is yes for the options with which a table on S3 leaves no connection open, else no.
"""

import sys

from hudi_sink.metadata import closing_options
from hudilab.generate import readings_table, sensor_readings
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session

table, commits, closing = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "yes"
spark = open_session(load_settings())
options = readings_table(operation="upsert", buckets=1).write_options(
    {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        **(closing_options(table) if closing else {}),
    }
)
readings = sensor_readings(spark, 200, sensors=5, seed=7)
for number in range(commits):
    readings.write.format("hudi").options(**options).mode("append").save(table)
    print(number + 1, flush=True)
print(spark.read.format("hudi").load(table).count(), "rows")
spark.stop()
