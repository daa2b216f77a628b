"""One of two writers of a table, for tests whose clocks differ: apart.py HOME FIRST [alone].

It says in HOME that its session is ready, waits for the file `go`, and upserts six batches, from
the reading FIRST on; the third waits for the file `on`. Prints as JSON: the table, batches
(committed), problem (why it ended early).
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hudi_sink.commits import SERVICES, Commits
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import LabError
from hudilab.generate import readings_table, sensor_stream
from hudilab.paths import locate
from hudilab.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain

PER_BATCH, BATCHES = 20, 6
COMPACT = {"hoodie.compact.inline.max.delta.commits": "2"}


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.05)


def main(home: Path, first: int, *, shared: bool) -> None:
    spark = open_session(load_settings(), app=f"apart{first}")
    sizes = {"rows": BATCHES * PER_BATCH, "sensors": 1, "seed": 5}
    rows = sensor_stream(spark, rows_per_batch=PER_BATCH, **sizes)
    moved = rows.withColumn("reading_id", F.col("reading_id") + first)
    spec = readings_table(table_type="MERGE_ON_READ", operation="upsert", buckets=1)
    place = locate("warehouse", "lab", "readings", is_local=True, home=home)
    location = replace(place, checkpoint=f"{place.checkpoint}_{first}")
    (home / f"ready{first}").touch()
    wait_for(home / "go")
    problem, query = "", None
    try:
        source = sizes | {"first": first}
        sink = ExactlyOnceSink(spark, spec, location, source, BATCHES, shared=shared, extra=COMPACT)

        def write(batch: DataFrame, number: int) -> None:
            if number == 2:
                wait_for(home / "on")
            sink.write_batch(batch, number)

        stream = moved.writeStream.foreachBatch(write)
        query = stream.option("checkpointLocation", location.checkpoint).start()
        drain(query, batches=BATCHES, deadline=300)
    except LabError as error:
        problem = str(error)
    own = {
        commit.metadata.batch
        for commit in Commits(spark, location.table).newest_first()
        if query and commit.metadata and commit.metadata.query == str(query.id)
        if commit.operation not in SERVICES
    }
    print(json.dumps({"table": location.table, "batches": len(own), "problem": problem}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), shared=sys.argv[3:] != ["alone"])
