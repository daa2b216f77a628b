"""A driver that stops at a point of its second batch until a file says go: a driver that hangs.

Usage: driver.py FOLDER POINT...; for each point it writes a table of its own (run_id = the point).
It creates FOLDER/<point>.waiting when it is there, waits for FOLDER/<point>.go, and writes what
became of it to FOLDER/<point>.done.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.generate import readings_table, sensor_stream
from hudilab.settings import load_settings
from hudilab.table import TableSpec
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain
from hudilab_spark.warehouse import prepare

POINTS = ("look", "announce", "commit", "note", "after")
SIZES = {"rows": 80, "batches": 4, "sensors": 2, "seed": 3}


def spec(operation: str) -> TableSpec:
    buckets = 1 if operation == "upsert" else None
    return readings_table(operation=operation, buckets=buckets)


def wait(folder: Path, point: str) -> None:
    (folder / f"{point}.waiting").touch()
    ends = time.monotonic() + 300
    while not (folder / f"{point}.go").exists() and time.monotonic() < ends:
        time.sleep(0.05)


class Hanging(ExactlyOnceSink):
    """A ledger whose second batch (of the point `after`: third) hangs at a point."""

    folder: Path
    point: str

    def write_batch(self, batch: DataFrame, batch_id: int) -> None:
        self.hangs = batch_id == 1
        if self.hangs and self.point == "look":
            wait(self.folder, self.point)
        if self.hangs and self.point == "commit":
            folder, point = str(self.folder), self.point

            @F.udf("long")
            def slowly(number: int) -> int:
                if not Path(folder, f"{point}.go").exists():
                    wait(Path(folder), point)
                return number

            batch = batch.coalesce(1).withColumn("reading_id", slowly("reading_id"))
        super().write_batch(batch, batch_id)
        if self.hangs and self.point == "note":
            wait(self.folder, self.point)
        if batch_id == 2 and self.point == "after":
            wait(self.folder, self.point)

    def fenced(self, batch: DataFrame) -> DataFrame:
        if self.hangs and self.point == "announce":
            wait(self.folder, self.point)
        return super().fenced(batch)


def main(folder: Path, operation: str, points: list[str]) -> None:
    settings = load_settings()
    spark = open_session(settings, app="driver")
    for point in points:
        location = prepare(settings, run_id=point)
        sink = Hanging(spark, spec(operation), location, SIZES, SIZES["batches"])
        sink.folder, sink.point = folder, point
        sizes = {name: SIZES[name] for name in ("rows", "sensors", "seed")}
        rows = sensor_stream(spark, rows_per_batch=20, **sizes)
        stream = rows.writeStream.foreachBatch(sink.write_batch)
        query = stream.option("checkpointLocation", location.checkpoint).start()
        try:
            drain(query, batches=SIZES["batches"], deadline=300)
            became = "finished"
        except StreamError as error:
            became = str(error)
        (folder / f"{point}.done").write_text(became, encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
