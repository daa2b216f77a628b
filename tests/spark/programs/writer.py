"""The stream of notebook 02 as a process of its own, so that tests can kill it.

Usage: writer.py TABLE_TYPE ROWS BATCHES; the place is HUDILAB_HOME's. At the end it compares the
table with the generator and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys

from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain
from hudilab_spark.warehouse import prepare


def main(table_type: str, rows: int, batches: int) -> None:
    settings = load_settings()
    location = prepare(settings)
    spec = readings_table(name=settings.table_name, table_type=table_type)
    spark = open_session(settings, app="writer")
    sizes = {"sensors": 5, "seed": 7}
    readings = sensor_stream(spark, rows_per_batch=-(-rows // batches), rows=rows, **sizes)
    source = {"rows": rows, "batches": batches, **sizes}
    # Merges and cleaning are killed too.
    sink = ExactlyOnceSink(spark, spec, location, source, batches, services_every=5)
    stream = readings.writeStream.foreachBatch(sink.write_batch)
    stream = stream.option("checkpointLocation", location.checkpoint)
    drain(stream.start(), batches=batches, deadline=600)

    expected = sensor_readings(spark, rows, **sizes)
    table = spark.read.format("hudi").load(location.table).select(expected.columns)
    history = spark.sql(
        f"CALL show_timeline(path => '{location.table}', showArchived => true, limit => 100000)"
    ).where("state = 'COMPLETED'")
    parts = table.groupBy("sensor_id").count().orderBy("sensor_id")
    result = {
        "rows": table.count(),
        "lost": expected.exceptAll(table).count(),
        "twice": table.exceptAll(expected).count(),
        "commits": history.where("action IN ('commit', 'deltacommit')").count(),
        "partitions": {row[0]: row[1] for row in parts.collect()},
        "merges": history.where("action = 'replacecommit'").count(),
        "rollbacks": history.where("action = 'rollback'").count(),
    }
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
