"""One Spark sink of the comparison, in a process of its own; `peers.py` starts it.

Usage: spark_peer.py PEER --home DIR --started EPOCH_SECONDS [--loads NAME,NAME]
Prints a line of JSON: what each load cost, batch by batch. Every table is compared with the
generator before its figures are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudilab.generate import FIRST_SENSOR, sensor_readings, sensor_stream

PROJECT = Path(__file__).resolve().parent.parent
PARTITIONS, SEED = 10, 42
KEY, ORDERING = ("sensor_id", "reading_id"), "measurement_time"
PATIENCE = 1200  # seconds, for a whole load
TUNED = {
    "hudi_append": ("COPY_ON_WRITE", "bulk_insert"),
    "hudi_upsert_cow": ("COPY_ON_WRITE", "upsert"),
    "hudi_upsert_mor": ("MERGE_ON_READ", "upsert"),
    "hudi_insert_mor": ("MERGE_ON_READ", "insert"),
}
# The same writes with `TableSpec(tuned=False)`: the sink's, with Hudi's defaults.
UNTUNED = {f"{peer}_untuned": TUNED[peer] for peer in ("hudi_append", "hudi_upsert_mor")}
LAB = TUNED | UNTUNED
DEFAULTS = {"hudi_default_insert": "insert", "hudi_default_upsert": "upsert"}
HUDI = (*DEFAULTS, *LAB)
# Inserts into merge on read are only compared on S3.
SPARK_PEERS = ("parquet", "delta", "iceberg", *(peer for peer in HUDI if peer != "hudi_insert_mor"))


class Load(NamedTuple):
    """`rows` a batch; `warm` batches come first and are not counted, `counted` ones follow."""

    rows: int
    warm: int
    counted: int


USUAL = ("heartbeat", "100k")  # the largest only if asked for: minutes for a slow peer
LOADS = {"heartbeat": Load(10, 4, 10), "100k": Load(100_000, 5, 10), "1m": Load(1_000_000, 2, 6)}
# Batches of seconds need fewer of them for the same certainty.
SLOW = ("delta", *DEFAULTS, "hudi_upsert_cow")
SLOW_LOADS = {"heartbeat": Load(10, 2, 3), "100k": Load(100_000, 2, 3)}


def spread(readings: DataFrame) -> DataFrame:
    """Sensors in turn instead of drawn: a batch of ten rows touches all ten partitions too.

    The turn moves by one every ten readings, or each task would see every second sensor only.
    """
    number = F.col("reading_id")
    turn = F.pmod(number + F.floor(number / PARTITIONS), F.lit(PARTITIONS))
    sensor = (turn + FIRST_SENSOR).cast("int")
    return readings.withColumn("sensor_id", sensor)


def conf_dir(peer: str, home: Path) -> Path:
    """A copy of the lab's conf directory; for other peers without Hudi's lines or our tuning."""
    copy = home / "conf"
    shutil.copytree(PROJECT / "conf", copy)
    if peer not in LAB:
        (copy / "hudi-defaults.conf").write_text("")
    if peer not in HUDI:
        file = copy / "spark-defaults.conf"
        lines = file.read_text().splitlines()
        kept = [line for line in lines if not re.search("hudi|hoodie", line, re.IGNORECASE)]
        file.write_text("\n".join(kept))
    return copy


def session(peer: str, home: Path) -> SparkSession:
    """The lab's own session for Hudi; for the others the same settings without Hudi's."""
    from hudilab_jobs.settings import load_settings
    from hudilab_spark.conf import needed, older_names, session_settings
    from hudilab_spark.session import open_session

    settings = load_settings()
    if peer in HUDI:
        return open_session(settings, app=peer)
    from hudilab_spark.jars import verify
    from hudilab_spark.java import find_java

    os.environ |= older_names() | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_CONF_DIR": os.environ["HUDILAB_CONF"],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "HUDILAB_LOG_FILE": str(home / "spark.log"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": os.environ.get("HUDILAB_JAVA_OPTIONS", ""),
    }
    jars = verify(PROJECT / "jars", needed(settings))[1:]
    jars += [] if peer == "parquet" else verify(PROJECT / "jars", [peer])
    builder = SparkSession.builder.appName(peer)
    for key, value in session_settings(settings, jars).items():
        builder = builder.config(key, value)
    builder = builder.config("spark.sql.warehouse.dir", str(home / "spark-warehouse"))
    catalog = "spark.sql.catalog.spark_catalog"
    extensions = "spark.sql.extensions"
    if peer == "delta":
        builder = builder.config(extensions, "io.delta.sql.DeltaSparkSessionExtension")
        builder = builder.config(catalog, "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    if peer == "iceberg":
        iceberg = "org.apache.iceberg.spark"
        builder = builder.config(
            extensions, f"{iceberg}.extensions.IcebergSparkSessionExtensions"
        ).config("spark.sql.catalog.bench", f"{iceberg}.SparkCatalog")
        builder = builder.config("spark.sql.catalog.bench.type", "hadoop")
        builder = builder.config("spark.sql.catalog.bench.warehouse", f"{home}/iceberg")
    return builder.getOrCreate()


def start(
    spark: SparkSession, peer: str, rows: DataFrame, home: Path | str, load: str, n: int
) -> Any:
    """Start the peer's stream as its documentation, or the lab's notebook, writes it."""
    table, checkpoint = f"{home}/{load}", f"{home}/checkpoint-{load}"
    stream = rows.writeStream.option("checkpointLocation", checkpoint)
    if peer in LAB:
        return start_lab(spark, peer, rows, load, n)
    if peer == "parquet" or peer == "delta":
        return stream.format(peer).partitionBy("sensor_id").option("path", table).start()
    if peer == "iceberg":
        spark.sql(
            f"CREATE TABLE bench.lab.t_{load} (reading_id bigint, sensor_id int, temperature "
            "decimal(6,2), measurement_time timestamp) USING iceberg PARTITIONED BY (sensor_id)"
        )
        fan_out = stream.format("iceberg").option("fanout-enabled", "true")
        return fan_out.outputMode("append").toTable(f"bench.lab.t_{load}")
    options = {
        "hoodie.table.name": "readings",
        "hoodie.datasource.write.recordkey.field": ",".join(KEY),
        "hoodie.datasource.write.partitionpath.field": "sensor_id",
        "hoodie.table.ordering.fields": ORDERING,
        "hoodie.datasource.write.operation": DEFAULTS[peer],
        "path": table,
    }
    return stream.format("hudi").options(**options).outputMode("append").start()


def start_lab(spark: SparkSession, peer: str, rows: DataFrame, load: str, batches: int) -> Any:
    """The write path of notebook 02."""
    from hudi_sink.sink import ExactlyOnceSink
    from hudilab.table import TableSpec
    from hudilab_jobs.settings import load_settings
    from hudilab_spark.warehouse import prepare

    location = prepare(load_settings(), run_id=load)
    table_type, operation = LAB[peer]
    spec = TableSpec(
        name=location.name,
        record_key=KEY,
        partition=("sensor_id",),
        ordering=ORDERING,
        table_type=table_type,
        operation=operation,
        buckets=1 if operation == "upsert" else None,
        tuned=peer in TUNED,
    )
    sink = ExactlyOnceSink(spark, spec, location, {"seed": SEED, "load": load}, batches)
    stream = rows.writeStream.foreachBatch(sink.write_batch)
    return stream.option("checkpointLocation", location.checkpoint).start()


def places(peer: str, home: Path, load: str) -> tuple[Path, Path]:
    """The table's folder and the checkpoint's, on the disk."""
    if peer in LAB:
        base = home / "warehouse" / f"run-{load}"
        name = Path("lab") / "sensor_readings"
        return base / name, base / "_checkpoints" / name
    table = home / "iceberg" / "lab" / f"t_{load}" if peer == "iceberg" else home / load
    return table, home / f"checkpoint-{load}"


def wait(
    query: Any,
    batches: int,
    look: Callable[[int], None] = lambda done: None,
    patience: float = PATIENCE,
) -> list[dict[str, Any]]:
    """The progress of each batch, when all are done; `look` gets the number done, very often."""
    ends = time.monotonic() + patience
    while query.lastProgress is None or query.lastProgress["batchId"] < batches - 1:
        if not query.isActive:
            raise SystemExit(f"the stream ended: {query.exception()}")
        if time.monotonic() > ends:
            raise SystemExit(f"no end after {patience} s")
        time.sleep(0.02)
        look(query.lastProgress["batchId"] + 1 if query.lastProgress else 0)
    query.stop()
    return [
        {"rows": p["numInputRows"], "triggerExecution": p["durationMs"]["triggerExecution"]}
        for p in query.recentProgress
        if p["batchId"] < batches
    ]


def fingerprint(rows: DataFrame) -> list[Any]:
    """Rows and the sum of all rows' hashes for each sensor: equal for equal tables only."""
    columns = ["reading_id", "sensor_id", "temperature", "measurement_time"]
    mixed = F.xxhash64(*columns).cast("decimal(38,0)")
    return rows.groupBy("sensor_id").agg(F.count("*"), F.sum(mixed)).orderBy("sensor_id").collect()


def check(spark: SparkSession, peer: str, table: Path | str, load: str, rows: int) -> None:
    """Refuse a table that is not what the generator says."""
    kind = "hudi" if peer in HUDI else peer
    target = f"bench.lab.t_{load}" if peer == "iceberg" else str(table)
    got = fingerprint(spark.read.format(kind).load(target))
    expected = fingerprint(spread(sensor_readings(spark, rows, sensors=PARTITIONS, seed=SEED)))
    if got != expected:
        counts = sum(row[1] for row in got), rows
        raise SystemExit(f"{peer}, {load}: the table is wrong, {counts[0]} rows, {counts[1]} asked")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=SPARK_PEERS)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--started", type=float, required=True)
    parser.add_argument("--loads", default=",".join(USUAL))
    arguments = parser.parse_args()
    peer, home = arguments.peer, arguments.home
    os.environ |= {"HUDILAB_HOME": str(home), "HUDILAB_CONF": str(conf_dir(peer, home))}
    spark = session(peer, home)
    result: dict[str, Any] = {"loads": {}}
    loads = LOADS | (SLOW_LOADS if peer in SLOW else {})
    for name in arguments.loads.split(","):
        load = loads[name]
        batches = load.warm + load.counted
        rows = load.rows * batches
        stream = spread(
            sensor_stream(spark, rows_per_batch=load.rows, sensors=PARTITIONS, seed=SEED, rows=rows)
        )
        table, checkpoint = places(peer, home, name)
        query = start(spark, peer, stream, home, name, batches)
        result["loads"][name] = wait(query, batches)[load.warm :]
        if "first_commit_s" not in result:
            first = (checkpoint / "commits" / "0").stat().st_mtime
            result["first_commit_s"] = first - arguments.started
        check(spark, peer, table, name, rows)
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
