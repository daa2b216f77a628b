"""One way to write rows of your own, in a process of its own; `own_data.py` starts it.

Usage: own_data_peer.py PEER DATA --home DIR [--rows N]
DATA is a folder that the peers share; `rows` and `flights` fill it. Prints a line of JSON. A table
is compared with its source before its figures are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_peer import PROJECT, jvm_pid, peak_mb
from updates_peer import COLUMNS

from hudi_sink import ExactlyOnceSink
from hudilab import TableLocation, TableSpec, load_settings
from hudilab.generate import sensor_readings
from hudilab_jobs.pipelines.runner import opened
from hudilab_lessons.flights import read, states
from hudilab_spark import drain, open_session
from hudilab_spark.warehouse import prepare

NAME = "own"
SENSORS = 10
KEY = {"rows": ("reading_id",), "flights": ("carrier", "flight", "origin", "flight_date")}
LAYOUT = {
    "rows": (("sensor_id",), "measurement_time", "COPY_ON_WRITE", None),
    "flights": (("month",), "event_at", "MERGE_ON_READ", 1),
}
FLIGHTS = (
    "month INT, flight_date DATE, carrier STRING, flight INT, origin STRING, dest STRING, "
    "hour INT, sched_at TIMESTAMP, status STRING, tailnum STRING, dep_delay INT, arr_delay INT, "
    "event_at TIMESTAMP"
)
SCHEMA = {"rows": COLUMNS, "flights": FLIGHTS}
PEERS = {"parquet": "rows", "load": "rows", "by_hand": "flights", "stream": "flights"}


def fill(spark: SparkSession, kind: str, folder: Path, rows: int) -> None:
    """Write the files that the peers read: shuffled readings, or a file of flights each month.

    A month's file also has each twentieth flight of the month before, with a correction.
    """
    if kind == "rows":
        readings = sensor_readings(spark, rows, sensors=SENSORS, seed=42)
        shuffled = readings.repartition(8, "reading_id")
        shuffled = shuffled.sortWithinPartitions(F.xxhash64("reading_id"))
        shuffled.write.parquet(f"file://{folder}")
        return
    folder.mkdir(parents=True)
    happened = states(
        read(spark, folder.parent / "original", f"file://{folder.parent}/store")["flights"]
    ).cache()
    again = happened.where("crc32(concat(carrier, flight, origin, flight_date)) % 20 = 0")
    again = again.selectExpr(
        *(name for name in happened.columns if name not in ("arr_delay", "event_at")),
        "arr_delay + 1 AS arr_delay",
        "event_at + interval 40 days AS event_at",
    ).select(*happened.columns)
    part = folder / "part"
    for month in range(1, 13):
        file = happened.where(f"month = {month}").union(again.where(f"month = {month - 1}"))
        file.coalesce(1).write.mode("overwrite").parquet(f"file://{part}")
        [written] = part.glob("*.parquet")
        written.rename(folder / f"{month:02}.parquet")
        os.utime(folder / f"{month:02}.parquet", (1_700_000_000 + month,) * 2)
    shutil.rmtree(part)


def group(kind: str, folder: Path) -> dict[str, str]:
    """The group of the settings that describes the pipeline."""
    partition, ordering, table_type, buckets = LAYOUT[kind]
    return {
        "source.format": "parquet",
        "source.path": str(folder),
        "source.schema": SCHEMA[kind],
        "files.per.batch": "1",
        "table.name": NAME,
        "table.type": table_type,
        "record.key": ", ".join(KEY[kind]),
        "partition": ", ".join(partition),
        "ordering": ordering,
    } | ({"buckets": str(buckets)} if buckets else {})


def settings_with(home: Path, described: Mapping[str, str]) -> None:
    """Copy the settings, with a pipeline of this group, and name the copy."""
    conf = shutil.copytree(PROJECT / "conf", home / "conf")
    file = conf / "application_properties.json"
    groups = json.loads(file.read_text("utf-8"))
    pipeline_group = {"PropertyGroupId": f"pipeline.{NAME}", "PropertyMap": dict(described)}
    file.write_text(json.dumps([*groups, pipeline_group]), "utf-8")
    os.environ |= {"HUDILAB_CONF": str(conf), "HUDILAB_HOME": str(home)}


@contextmanager
def timed(report: dict[str, Any]) -> Iterator[None]:
    begun = time.monotonic()
    yield
    report["seconds"] = time.monotonic() - begun


def by_hand(spark: SparkSession, folder: Path, location: TableLocation) -> None:
    """The pipeline's batches through a ledger, as a program would write them."""
    partition, ordering, table_type, buckets = LAYOUT["flights"]
    spec = TableSpec(
        name=location.name,
        record_key=KEY["flights"],
        partition=partition,
        ordering=ordering,
        table_type=table_type,
        operation="upsert",
        buckets=buckets,
    )
    sink = ExactlyOnceSink(spark, spec, location, {"folder": str(folder)})
    rows = spark.readStream.schema(FLIGHTS).option("maxFilesPerTrigger", 1)
    stream = rows.parquet(f"file://{folder}").writeStream.foreachBatch(sink.write_batch)
    stream = stream.option("checkpointLocation", location.checkpoint)
    drain(stream.trigger(availableNow=True).start(), deadline=3600)


def sorted_parquet(rows: DataFrame, to: str) -> None:
    """Spark's own write of the same rows, partitions and order, in as many tasks."""
    tasks = rows.sparkSession.sparkContext.defaultParallelism
    layout = ["sensor_id", "reading_id"]
    spread = rows.repartitionByRange(tasks, *layout).sortWithinPartitions(*layout)
    spread.write.partitionBy("sensor_id").parquet(to)


def check(kind: str, source: DataFrame, stored: DataFrame) -> int:
    """Return the number of rows; end the program if a row is lost, twice or an older one."""
    _, ordering, *_ = LAYOUT[kind]
    columns = source.columns
    newest = source.groupBy(*KEY[kind]).agg(F.max_by(F.struct(*columns), ordering).alias("row"))
    digest = F.sum(F.xxhash64(*columns).cast("decimal(38,0)"))
    want = newest.select("row.*").agg(F.count("*"), digest).first()
    have = stored.select(*columns).agg(F.count("*"), digest).first()
    if want != have or have is None:
        raise SystemExit(f"the table has {have}, the source {want}; fix it before you measure")
    return int(have[0])


def pipeline(kind: str, folder: Path, *, initial_load: bool) -> dict[str, Any]:
    """`hudilab load` or `hudilab stream --available-now`, without the start of its session."""
    report: dict[str, Any] = {}
    with opened(load_settings(), NAME, "") as running:
        with timed(report):
            lines = running.write(None, as_json=True, initial_load=initial_load)
            report["batches"] = [json.loads(line) for line in lines]
        stored = running.spark.read.format("hudi").load(running.location.table)
        return report | measured(running.spark, kind, folder, stored)


def program(kind: str, folder: Path, app: str) -> dict[str, Any]:
    """Spark's own write, or the ledger in a program."""
    settings, report = load_settings(), dict[str, Any]()
    spark, location = open_session(settings, app=app), prepare(settings, table=NAME)
    with timed(report):
        if app == "parquet":
            sorted_parquet(files_of(spark, kind, folder), location.table)
        else:
            by_hand(spark, folder, location)
    stored = spark.read.format("parquet" if app == "parquet" else "hudi").load(location.table)
    report |= measured(spark, kind, folder, stored)
    spark.stop()
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=[*PEERS, *SCHEMA])
    parser.add_argument("data", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=0)
    arguments = parser.parse_args()
    peer = arguments.peer
    kind = PEERS.get(peer, peer)
    folder = arguments.data / kind
    settings_with(arguments.home, group(kind, folder))
    report: dict[str, Any] = {}
    if peer in SCHEMA:
        spark = open_session(load_settings(), app=peer)
        fill(spark, kind, folder, arguments.rows)
        spark.stop()
    elif peer in ("load", "stream"):
        report = pipeline(kind, folder, initial_load=peer == "load")
    else:
        report = program(kind, folder, peer)
    print(json.dumps(report))


def files_of(spark: SparkSession, kind: str, folder: Path) -> DataFrame:
    return spark.read.schema(SCHEMA[kind]).parquet(f"file://{folder}")


def measured(spark: SparkSession, kind: str, folder: Path, stored: DataFrame) -> dict[str, Any]:
    """Peak memory before anything is compared, and the rows of source and table."""
    peak = peak_mb(jvm_pid(spark))
    source = files_of(spark, kind, folder)
    return {"peak": peak, "sent": source.count(), "rows": check(kind, source, stored)}


if __name__ == "__main__":
    main()
