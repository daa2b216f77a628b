"""The driver of a soak: one part, from its checkpoint to its end; `soak.py` starts and kills it.

Usage: soak_driver.py PEER --home DIR --batches N --life NUMBER
Appends a line of JSON for each batch to DIR/batches.jsonl. At the end it compares the table with
the generator and prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_peer import (
    KEY,
    LAB,
    ORDERING,
    PARTITIONS,
    SEED,
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
        self._processes = {"jvm": psutil.Process(jvm), "python": psutil.Process()}
        self._done = 0

    def look(self, done: int) -> None:
        if done == self._done:
            return
        # Reading the last thousand after each batch would take longer than the batch.
        last = self._query.lastProgress
        new = [last] if last["batchId"] == self._done else self._query.recentProgress
        new = [progress for progress in new if progress["batchId"] >= self._done]
        state = self._state()
        with self._file.open("a", encoding="utf-8") as out:
            for progress in new:
                seconds = progress["durationMs"]["triggerExecution"] / 1000
                record = {"batch": progress["batchId"], "life": self._life, "seconds": seconds}
                out.write(json.dumps(record | state) + "\n")
        self._done = done

    def _state(self) -> dict[str, float]:
        state: dict[str, float] = {
            "files": sum(path.is_file() for path in self._table.rglob("*")),
            "timeline_files": len(list(self._table.glob(".hoodie/timeline/**/*"))),
        }
        for name, process in self._processes.items():
            state[f"{name}_mb"] = process.memory_info().rss / 1e6
            state[f"{name}_descriptors"] = process.num_fds()
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
    jvm: Any = spark._jvm
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
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
