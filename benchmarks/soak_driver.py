"""The driver of a soak: one part, from its checkpoint to its end; `soak.py` starts and kills it.

Usage: soak_driver.py PEER --home DIR --batches N --life NUMBER
Appends a line of JSON for each batch to DIR/batches.jsonl. At the end it compares the table with
the generator and prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_peer import (
    KEY,
    LAB,
    ORDERING,
    PARTITIONS,
    SEED,
    cpu_seconds,
    jvm_pid,
    memory_mb,
    on_disk,
    places,
    session,
    spread,
    start,
    wait,
)

from hudilab.generate import sensor_readings, sensor_stream

LOAD = "soak"
LEAST, MOST = 10, 1_000  # rows a batch
KEYS = 20_000  # an upsert writes these keys in turn: from the 21st batch on most rows are updates
PATIENCE = 6 * 3600  # seconds, for all batches of one life


def soaking(readings: DataFrame, peer: str) -> DataFrame:
    """Of each thousand readings the first 10 to 1,000, few more often than many."""
    number = F.col("reading_id")
    batch = F.floor(number / MOST)
    drawn = F.pmod(F.xxhash64(F.lit(SEED).cast("long"), batch), F.lit(10_000)) / 10_000
    size = F.floor(F.lit(LEAST) * F.pow(F.lit(MOST / LEAST), drawn)) + 1
    kept = spread(readings).where(number % MOST < size)
    return kept if peer == "hudi_append" else kept.withColumn("reading_id", number % KEYS)


def expected(spark: SparkSession, peer: str, batches: int) -> DataFrame:
    """What the table holds at the end: of each key, the newest row."""
    rows = sensor_readings(spark, batches * MOST, sensors=PARTITIONS, seed=SEED)
    newest = F.max_by(F.struct("temperature", ORDERING), ORDERING).alias("newest")
    kept = soaking(rows, peer).groupBy(*KEY).agg(newest)
    return kept.select(*KEY, "newest.temperature", f"newest.{ORDERING}")


class Records:
    """Writes a line for each batch as it ends."""

    def __init__(self, file: Path, table: Path, query: Any, jvm: int, life: int) -> None:
        self._file, self._table, self._query, self._life = file, table, query, life
        self._processes = {"jvm": jvm, "python": os.getpid()}
        self._done, self._spent = 0, 0.0

    def look(self, done: int) -> None:
        if done == self._done:
            return
        # Reading the last thousand after each batch would take longer than the batch.
        last = self._query.lastProgress
        new = [last] if last["batchId"] == self._done else self._query.recentProgress
        new = [progress for progress in new if progress["batchId"] >= self._done]
        spent = cpu_seconds(self._processes["jvm"])
        state = self._state()
        if self._spent:  # what a driver spends before its first batch ends is no batch's
            state["cpu_s"] = (spent - self._spent) / len(new)
        with self._file.open("a", encoding="utf-8") as out:
            for progress in new:
                seconds = progress["durationMs"]["triggerExecution"] / 1000
                record = {"batch": progress["batchId"], "life": self._life, "seconds": seconds}
                out.write(json.dumps(record | state) + "\n")
        self._done, self._spent = done, spent

    def _state(self) -> dict[str, float]:
        files = on_disk(self._table)
        state: dict[str, float] = {
            "files": files["data_files"] + files["other_files"],
            "timeline_files": len(list(self._table.glob(".hoodie/timeline/**/*"))),
        }
        for name, process in self._processes.items():
            state[f"{name}_mb"] = memory_mb(process, "VmRSS")
            state[f"{name}_descriptors"] = len(list(Path(f"/proc/{process}/fd").iterdir()))
        return state


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=[*LAB])
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--life", type=int, required=True)
    arguments = parser.parse_args()
    peer, home, batches = arguments.peer, arguments.home, arguments.batches
    spark = session(peer, home)
    pid = jvm_pid(spark)
    sizes = {"rows_per_batch": MOST, "rows": batches * MOST, "sensors": PARTITIONS}
    rows = soaking(sensor_stream(spark, seed=SEED, **sizes), peer)
    table, _ = places(peer, home, LOAD)
    query = start(spark, peer, rows, home, LOAD, batches)
    records = Records(home / "batches.jsonl", table, query, pid, arguments.life)
    wait(query, batches, records.look, PATIENCE)
    wanted = expected(spark, peer, batches)
    stored = spark.read.format("hudi").load(str(table)).select(wanted.columns)
    result = {
        "rows": stored.count(),
        "lost": wanted.exceptAll(stored).count(),
        "twice": stored.exceptAll(wanted).count(),
    }
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
