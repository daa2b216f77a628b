"""The original's table under updates, for `updates.py`: Flink SQL upserts into Hudi on local disk.

Usage: flink_updates_peer.py LOAD --home DIR [--counted N]
One job writes the table's first rows, then the changes of LOAD (see updates_peer.py), without a
pause: so the state, which is Flink's index, knows every key. DataGen has no batches; a commit takes
what arrived since the last checkpoint, and stands for a batch. Spark compares the table with its
formula and reads it. Prints a line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from flink_peer import (
    EPOCH,
    JOB,
    ORIGINAL,
    PAUSE_MS,
    SESSION,
    STEADY,
    commits,
    fixed,
    run,
    stats_of,
    written,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_peer import PARTITIONS, conf_dir, fingerprint, session, spread
from updates_peer import COLUMN_NAMES, STRIDE, Load, bytes_of, files_of, parse, reads

TURN = 15_485_863  # a prime: the first key of a batch is this far from that of the batch before
# The key of the change with number n. Both engines know these functions alike.
BATCH = "FLOOR((n - {table}) / {rows})"
PLACE = "CAST(MOD(n - {table}, {rows}) AS BIGINT)"  # INT would overflow below
KEY = f"""CAST(CASE WHEN n < {{table}} THEN n
  WHEN {PLACE} < {{known}} THEN MOD({BATCH} * {TURN} + {PLACE} * {STRIDE}, {{table}})
  ELSE {{table}} + {BATCH} * ({{rows}} - {{known}}) + {PLACE} - {{known}} END AS BIGINT)"""


def total(load: Load) -> int:
    """Rows of the table, and then all changes."""
    return load.table + load.rows * (load.warm + load.counted)


def key(load: Load) -> str:
    return KEY.format(table=load.table, rows=load.rows, known=load.known)


def sql(home: Path, load: Load) -> str:
    numbers = f"({STEADY.format(name='readings')}) AS numbers(n)"
    own: dict[str, object] = {
        "name": "readings",
        "ids": f"SELECT {key(load)} AS id, n FROM {numbers}",
        "number": "n",
    }
    own |= {"write": ORIGINAL, "pace": 10**9, "last": total(load) // 100 - 1}
    job = JOB.format(every=PAUSE_MS, pause=PAUSE_MS, on=True, **own, **fixed(home, PARTITIONS))
    return SESSION.format(home=home) + job


def has(table: Path, rows: int) -> bool:
    """Whether so many rows are committed."""
    with suppress(ValueError):  # a commit that is being written
        return bool(sum(stat["numWrites"] for stat in written(table)) >= rows)
    return False


def batches(table: Path, load: Load) -> tuple[list[dict[str, Any]], int]:
    """Each commit as a batch, and how many do not count: the table's rows, and the warm-up."""
    files = commits(table)
    ends = [file.stat().st_mtime * 1000 for file in files]
    times = [0.0, *(end - start for start, end in pairwise(ends))]
    rows = [sum(stat["numWrites"] for stat in stats_of(file)) for file in files]
    counted = [
        {"batch": number, "rows": count, "triggerExecution": took}
        for number, (count, took) in enumerate(zip(rows, times, strict=True))
    ]
    # The commit that passes the mark holds rows from before it.
    mark = load.table + load.rows * load.warm
    return counted, sum(sum(rows[:number]) < mark for number in range(len(rows)))


def expected(spark: SparkSession, load: Load) -> DataFrame:
    """The table after its last change: of each key, the row with the greatest time."""
    numbers = spark.range(total(load)).withColumnRenamed("id", "n")
    changes = numbers.selectExpr(f"{key(load)} AS reading_id", "n")
    newest = changes.groupBy("reading_id").agg(F.max("n").alias("n"))
    rows = newest.selectExpr(
        "reading_id",
        "CAST(MOD(n * 7919, 10000) * 0.01 AS DECIMAL(6, 2)) AS temperature",
        f"timestamp_millis({EPOCH} + n) AS measurement_time",
    )
    return spread(rows).select(*COLUMN_NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("load")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--counted", type=int, help="batches that count, instead of the load's own")
    arguments = parser.parse_args()
    load, home = parse(arguments.load, arguments.counted), arguments.home.resolve()
    if not load.in_hundreds:
        parser.error("the load must touch all partitions, with hundreds of rows a batch")
    (home / "tmp").mkdir(parents=True)
    (home / "jobs.sql").write_text(sql(home, load))
    folder = home / "readings"
    _, peak = run(home, lambda: has(folder, total(load)))
    counted, warm = batches(folder, load)
    os.environ["HUDILAB_HOME"] = str(home)
    os.environ["HUDILAB_CONF"] = str(conf_dir("hudi_default_upsert", home, []))
    spark = session("hudi_default_upsert", home)

    def read() -> DataFrame:
        return spark.read.format("hudi").load(str(folder)).select(*COLUMN_NAMES)

    if fingerprint(read()) != fingerprint(expected(spark, load)):
        raise SystemExit(f"flink_hudi_upsert: the table is wrong ({read().count()} rows)")
    one_batch = home / "one_batch"
    new_rows = F.col("reading_id").between(load.table - load.rows, load.table - 1)
    expected(spark, load).where(new_rows).write.parquet(str(one_batch), partitionBy=["sensor_id"])
    late = [stat for commit in commits(folder)[warm:] for stat in stats_of(commit)]
    changed = (
        bytes_of(files_of(one_batch)) / load.rows * sum(batch["rows"] for batch in counted[warm:])
    )
    new = {folder / stat["path"] for stat in late}
    seconds = reads(read)
    result = {
        "peer": "flink_hudi_upsert",
        "batches": counted,
        "warm": warm,
        "write_amplification": sum(file.stat().st_size for file in new) / changed,
        "read": seconds,
        "service_s": 0.0,  # Flink's compaction is left out
        "read_after": seconds,
        "peak": {"jvm": peak, "python": 0.0},
    }
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
