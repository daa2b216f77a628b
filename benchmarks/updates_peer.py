"""One way to update a table, in a process of its own; `updates.py` starts it.

Usage: updates_peer.py PEER LOAD --home DIR
Writes a table, then streams batches of updates and new rows into it, reads it, runs the peer's own
table services and reads it again. Prints a line of JSON. The table is compared with the generator
before its figures are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_peer import (
    KEY,
    ORDERING,
    PARTITIONS,
    SEED,
    conf_dir,
    fingerprint,
    session,
    spread,
    wait,
)

from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab_jobs.settings import load_settings
from hudilab_spark.warehouse import prepare, sql_path

# Peer -> the peer of spark_peer.py whose session it uses.
PEERS = {
    "hudi_upsert_mor": "hudi_upsert_mor",
    "hudi_upsert_mor_async": "hudi_upsert_mor",
    "hudi_upsert_cow": "hudi_upsert_cow",
    "iceberg_merge_cow": "iceberg",
    "iceberg_merge_mor": "iceberg",
}
TYPES = {
    "hudi_upsert_mor": "MERGE_ON_READ",
    "hudi_upsert_mor_async": "MERGE_ON_READ",
    "hudi_upsert_cow": "COPY_ON_WRITE",
}
STRIDE = 7_368_787  # a prime: no row of a table of another size is picked twice in a batch
# Batches that do not count: up to the first compaction, whose code the JVM compiles then.
WARM = 13
CHUNK = 1_000_000  # rows that are loaded at once
COLUMNS = "reading_id bigint, sensor_id int, temperature decimal(6,2), measurement_time timestamp"
JOIN = "t.sensor_id = s.sensor_id AND t.reading_id = s.reading_id"
MERGE = f"""MERGE INTO {{}} t USING changes s ON {JOIN}
WHEN MATCHED AND s.{ORDERING} >= t.{ORDERING} THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *"""


class Load(NamedTuple):
    """`table` rows first; then batches of `rows`, of which `updates` percent are known keys."""

    table: int
    rows: int
    updates: int
    counted: int  # batches, after WARM others

    @property
    def fills(self) -> int:
        """The stream's first batches write the table instead."""
        return -(-self.table // CHUNK)

    @property
    def known(self) -> int:
        """Rows of a batch whose keys are in the table from the start."""
        return self.rows * self.updates // 100


LOADS = {
    "1m_100k_80": Load(1_000_000, 100_000, 80, 20),
    "4m_10k_80": Load(4_000_000, 10_000, 80, 40),
    # Small batches are compacted rarely, and one compaction has to count.
    "1m_10_100": Load(1_000_000, 10, 100, 100),
}


def changes(readings: DataFrame, load: Load, skipped: int = 0) -> DataFrame:
    """Turn readings 0, 1, ... into changes of a table: each batch changes a key once."""
    number = F.col("reading_id") - skipped * load.rows
    batch = F.floor(number / load.rows)
    location = number - batch * load.rows
    size = F.lit(load.table).cast("long")
    first = F.pmod(F.xxhash64(batch), size)
    picked = F.pmod(first + location * STRIDE, size)
    new = batch * (load.rows - load.known) + location - load.known + load.table
    key = F.when(location < load.known, picked).otherwise(new)
    later = F.expr(f"timestampadd(MILLISECOND, {load.table * 100}L, measurement_time)")
    return spread(readings.withColumn("measurement_time", later).withColumn("reading_id", key))


def base(spark: SparkSession, load: Load, chunk: int | None = None) -> DataFrame:
    """The table before its first change, or the chunk of it with this number."""
    first, last = 0, load.table
    if chunk is not None:
        first, last = chunk * CHUNK, min((chunk + 1) * CHUNK, load.table)
    return spread(sensor_readings(spark, last, sensors=PARTITIONS, seed=SEED, first=first))


def expected(spark: SparkSession, load: Load) -> DataFrame:
    """The table after its last change: of each key, the row with the greatest time."""
    first = load.rows * load.fills
    last = first + load.rows * (WARM + load.counted)
    readings = sensor_readings(spark, last, sensors=PARTITIONS, seed=SEED + 1, first=first)
    both = base(spark, load).unionByName(changes(readings, load, load.fills))
    newest = F.max_by(F.struct("temperature", "measurement_time"), ORDERING).alias("newest")
    return both.groupBy(*KEY).agg(newest).select(*KEY, "newest.*")


class Peer:
    """A table of the lab; `Iceberg` replaces what it does differently."""

    def __init__(self, spark: SparkSession, peer: str, load: Load) -> None:
        self.spark, self.load, self.peer = spark, load, peer
        self.location = prepare(load_settings(), run_id="updates")
        self.create()

    def create(self) -> None:
        """Create the table, or what writes to it."""
        spec = readings_table(
            name=self.location.name,
            table_type=TYPES[self.peer],
            operation="upsert",
            buckets=1,
            tuned=True,
        )
        self.sink = ExactlyOnceSink(
            *(self.spark, spec, self.location, {"seed": SEED}),
            async_services=self.peer.endswith("async"),
        )

    def end(self) -> None:
        """Wait for what runs beside the stream."""
        self.sink.close()

    def fill(self, rows: DataFrame, number: int) -> None:
        """Write rows of the table as it is before its first change."""
        self.write(rows, number)

    def write(self, batch: DataFrame, number: int) -> None:
        """Write a batch of changes; `foreachBatch` calls it."""
        self.sink.write_batch(batch, number)

    def tidy(self) -> None:
        """Run the table services that make reads fast."""
        if TYPES[self.peer] == "MERGE_ON_READ":
            path = sql_path(self.spark, self.location.table)
            for operation in ("schedule", "execute"):
                self.spark.sql(
                    f"CALL run_compaction(op => '{operation}', path => '{path}', "
                    "options => 'hoodie.compact.inline.max.delta.commits=1')"
                ).collect()

    def read(self) -> DataFrame:
        """The table now."""
        return self.spark.read.format("hudi").load(self.location.table).select(*COLUMN_NAMES)


class Iceberg(Peer):
    """Iceberg, whose update is MERGE INTO."""

    name = "bench.lab.readings"

    def create(self) -> None:
        mode = "copy-on-write" if self.peer.endswith("cow") else "merge-on-read"
        # Deletion vectors, which need version 3, are what merge-on-read is best at.
        version = 3 if mode == "merge-on-read" else 2
        self.spark.sql(
            f"CREATE TABLE {self.name} ({COLUMNS}) USING iceberg PARTITIONED BY (sensor_id) "
            f"TBLPROPERTIES ('format-version' = '{version}', 'write.merge.mode' = '{mode}', "
            "'write.parquet.compression-codec' = 'snappy')"
        )

    def end(self) -> None:
        """Nothing runs beside the stream."""

    def fill(self, rows: DataFrame, number: int) -> None:
        rows.writeTo(self.name).append()

    def write(self, batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("changes")
        batch.sparkSession.sql(MERGE.format(self.name))

    def tidy(self) -> None:
        self.spark.sql(
            "CALL bench.system.rewrite_data_files(table => 'lab.readings', options => "
            "map('delete-file-threshold', '1', 'min-input-files', '2'))"
        )

    def read(self) -> DataFrame:
        # The catalogs of the stream's session and of this one have caches of their own.
        self.spark.catalog.refreshTable(self.name)
        return self.spark.table(self.name).select(*COLUMN_NAMES)


COLUMN_NAMES = [column.split()[0] for column in COLUMNS.split(", ")]


def seconds(action: Callable[[], Any]) -> float:
    begun = time.monotonic()
    action()
    return time.monotonic() - begun


def read_seconds(read: Callable[[], DataFrame]) -> float:
    """Seconds to read a column of the table: the median of three reads after a first one."""

    def query() -> None:
        read().groupBy("sensor_id").agg(F.avg("temperature")).collect()

    query()
    return statistics.median(seconds(query) for _ in range(3))


def check(peer: Peer) -> None:
    """Refuse a table that is not what the generator says."""
    if fingerprint(peer.read()) != fingerprint(expected(peer.spark, peer.load)):
        raise SystemExit(f"{peer.peer}: the table is wrong ({peer.read().count()} rows)")


def stream(peer: Peer) -> list[dict[str, Any]]:
    """Fill the table and stream the load; Spark's record of each batch."""
    load = peer.load

    def write(batch: DataFrame, number: int) -> None:
        if number >= load.fills:
            peer.write(batch, number)
            return
        peer.fill(base(batch.sparkSession, load, number), number)
        if number == load.fills - 1:
            peer.tidy()

    batches = load.fills + WARM + load.counted
    readings = sensor_stream(
        peer.spark,
        rows_per_batch=load.rows,
        sensors=PARTITIONS,
        seed=SEED + 1,
        rows=load.rows * batches,
    )
    changed = changes(readings, load, load.fills).writeStream.foreachBatch(write)
    query = changed.option("checkpointLocation", peer.location.checkpoint).start()
    # Spark's own number of rows is misleading: MERGE reads a batch twice.
    progress = [batch | {"rows": load.rows} for batch in wait(query, batches)]
    # What is left of the services counts, too.
    progress[-1]["beside"] = round(seconds(peer.end) * 1000)
    return progress


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("load", choices=LOADS)
    parser.add_argument("--home", type=Path, required=True)
    arguments = parser.parse_args()
    load, home = LOADS[arguments.load], arguments.home
    kind = PEERS[arguments.peer]
    os.environ["HUDILAB_HOME"] = str(home)
    os.environ["HUDILAB_CONF"] = str(conf_dir(kind, home))
    if kind == "iceberg":
        # Its readers' direct buffers, of many small files, outgrow 2 GB: the default, as the heap.
        inherited = os.environ.get("HUDILAB_JAVA_OPTIONS", "")
        os.environ["HUDILAB_JAVA_OPTIONS"] = f"{inherited} -XX:MaxDirectMemorySize=6g"
    spark = session(kind, home)
    table_of = Iceberg if kind == "iceberg" else Peer
    peer = table_of(spark, arguments.peer, load)
    result: dict[str, Any] = {"batches": stream(peer)[load.fills + WARM :]}
    check(peer)
    result["read_s"] = read_seconds(peer.read)
    peer.tidy()
    result["read_after_s"] = read_seconds(peer.read)
    check(peer)
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
