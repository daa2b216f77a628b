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
import re
import time
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Any

from flink_peer import ORIGINAL, PATIENCE, SESSION, cancel, command, commits
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark_peer import PARTITIONS, conf_dir, fingerprint, session
from updates_peer import COLUMN_NAMES, STRIDE, Load, bytes_of, files_of, parse, reads

FIRST_SENSOR, EPOCH = 10, 1_700_000_000_000
TURN = 15_485_863  # a prime: the first key of a batch is this far from that of the batch before
# As the micro-batches of a hundred thousand rows have it: a pause of 1 s for the next instant, and
# the time of the rows.
PAUSE_MS = 1300
# The change with number n: its key, then its values. Both engines know these functions alike.
BATCH = "FLOOR((n - {table}) / {rows})"
PLACE = "CAST(MOD(n - {table}, {rows}) AS BIGINT)"  # INT would overflow below
KEY = f"""CASE WHEN n < {{table}} THEN n
  WHEN {PLACE} < {{known}} THEN MOD({BATCH} * {TURN} + {PLACE} * {STRIDE}, {{table}})
  ELSE {{table}} + {BATCH} * ({{rows}} - {{known}}) + {PLACE} - {{known}} END"""
TEMPERATURE = "CAST(MOD(n * 7919, 10000) * 0.01 AS DECIMAL(6, 2))"
JOB = """SET 'execution.checkpointing.interval' = '{pause}ms';
SET 'execution.checkpointing.min-pause' = '{pause}ms';
CREATE TABLE source (number BIGINT) WITH (
  'connector' = 'datagen', 'rows-per-second' = '1000000000', 'fields.number.kind' = 'sequence',
  'fields.number.start' = '0', 'fields.number.end' = '{last}');
CREATE VIEW numbers AS SELECT number * 100 + j AS n FROM
  (SELECT number, ARRAY[{hundred}] AS hundred FROM source) CROSS JOIN UNNEST(hundred) AS t(j)
  UNION ALL SELECT number FROM alive WHERE number < 0;
CREATE VIEW changes AS SELECT n, CAST({key} AS BIGINT) AS id FROM numbers;
CREATE TABLE readings (reading_id BIGINT, sensor_id INT, temperature DECIMAL(6, 2),
  measurement_time TIMESTAMP(3), PRIMARY KEY (sensor_id, reading_id) NOT ENFORCED)
PARTITIONED BY (sensor_id) WITH (
  'connector' = 'hudi', 'path' = '{home}/readings', 'write.tasks' = '2', {write},
  'precombine.field' = 'measurement_time',
  'hoodie.datasource.write.hive_style_partitioning' = 'true',
  'hoodie.parquet.compression.codec' = 'snappy', 'clean.async.enabled' = 'false',
  'metadata.enabled' = 'false', 'hoodie.embed.timeline.server' = 'false');
INSERT INTO readings SELECT id,
  CAST({first_sensor} + MOD(id + id / {partitions}, {partitions}) AS INT), {temperature},
  CAST(TO_TIMESTAMP_LTZ({epoch} + n, 3) AS TIMESTAMP(3)) FROM changes;
"""


def total(load: Load) -> int:
    """Rows of the table, and then all changes."""
    return load.table + load.rows * (load.warm + load.counted)


def key(load: Load) -> str:
    return KEY.format(table=load.table, rows=load.rows, known=load.known)


def sql(home: Path, load: Load) -> str:
    return SESSION.format(home=home) + JOB.format(
        home=home,
        pause=PAUSE_MS,
        last=total(load) // 100 - 1,
        hundred=",".join(map(str, range(100))),
        key=key(load),
        write=ORIGINAL,
        first_sensor=FIRST_SENSOR,
        partitions=PARTITIONS,
        temperature=TEMPERATURE,
        epoch=EPOCH,
    )


def stats_of(commit: Path) -> list[dict[str, Any]]:
    """What a commit tells of each file; nothing for one that is being written."""
    with suppress(ValueError):
        stats = json.loads(commit.read_bytes())["partitionToWriteStats"].values()
        return [one for several in stats for one in several]
    return []


def rows_of(commit: Path) -> int:
    return sum(int(one["numWrites"]) for one in stats_of(commit))


def run(home: Path, load: Load) -> float:
    """Run the job until all its rows are committed: the highest RSS in MB."""
    conf, peak = Path(__file__).resolve().parent / "flink", 0.0
    java, env = command(home, conf), os.environ | {"FLINK_CONF_DIR": str(conf)}
    known: dict[Path, int] = {}
    with (home / "console.log").open("wb") as log, (home / "jobs.sql").open() as typed:
        ends = time.monotonic() + PATIENCE
        jvm = Popen(java, env=env, stdin=typed, stdout=log, stderr=log, start_new_session=True)
        try:
            while sum(known.values()) < total(load):
                if jvm.poll() is not None or time.monotonic() > ends:
                    said = (home / "console.log").read_text(errors="replace")[-1500:]
                    raise SystemExit(f"Flink did not write all rows: {said}")
                status = Path(f"/proc/{jvm.pid}/status").read_text()
                high = re.search(r"VmHWM:\s+(\d+) kB", status)
                peak = max(peak, int(high[1]) / 1024 if high else 0)
                known |= {
                    one: rows_of(one) for one in commits(home / "readings") if not known.get(one)
                }
                time.sleep(0.1)
            cancel(home)
        finally:
            if jvm.poll() is None:
                os.killpg(jvm.pid, 9)
            jvm.wait()
    return peak


def batches(table: Path, load: Load) -> tuple[list[dict[str, Any]], int]:
    """Each commit as a batch, and how many do not count: the table's rows, and the warm-up."""
    found, warm, before, rows = [], 0, None, 0
    for number, commit in enumerate(commits(table)):
        now, rows = commit.stat().st_mtime, rows + rows_of(commit)
        took = 0.0 if before is None else now - before
        found.append({"batch": number, "rows": rows_of(commit), "triggerExecution": took * 1000})
        # The commit that passes the mark holds rows from before it.
        if rows < load.table + load.rows * load.warm + rows_of(commit):
            warm = number + 1
        before = now
    return found, warm


def expected(spark: SparkSession, load: Load) -> DataFrame:
    """The table after its last change: of each key, the row with the greatest time."""
    numbers = spark.range(total(load)).withColumnRenamed("id", "n")
    rows = numbers.selectExpr(
        f"CAST({key(load)} AS BIGINT) AS reading_id",
        f"struct(n, {TEMPERATURE} AS temperature) AS value",
    )
    newest = rows.groupBy("reading_id").agg(F.max("value").alias("value"))
    number = F.col("reading_id")
    turn = F.pmod(number + F.floor(number / PARTITIONS), F.lit(PARTITIONS))
    return newest.select(
        "reading_id",
        (turn + FIRST_SENSOR).cast("int").alias("sensor_id"),
        "value.temperature",
        F.expr(f"timestamp_millis({EPOCH} + value.n)").alias("measurement_time"),
    )


class Table:
    """What `reads` needs of a peer."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark, self._folder = spark, folder

    def read(self) -> DataFrame:
        return self._spark.read.format("hudi").load(str(self._folder)).select(*COLUMN_NAMES)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("load")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--counted", type=int, help="batches that count, instead of 10 or 100")
    arguments = parser.parse_args()
    load, home = parse(arguments.load, arguments.counted), arguments.home.resolve()
    if load.one or load.rows % 100:
        parser.error("the load must touch all partitions, with hundreds of rows a batch")
    (home / "tmp").mkdir(parents=True)
    (home / "jobs.sql").write_text(sql(home, load))
    folder, peak = home / "readings", run(home, load)
    found, warm = batches(folder, load)
    os.environ["HUDILAB_HOME"] = str(home)
    os.environ["HUDILAB_CONF"] = str(conf_dir("hudi_default_upsert", home, []))
    spark = session("hudi_default_upsert", home)
    table = Table(spark, folder)
    if fingerprint(table.read()) != fingerprint(expected(spark, load)):
        raise SystemExit(f"flink_hudi_upsert: the table is wrong ({table.read().count()} rows)")
    one_batch = home / "one_batch"
    first = load.table
    rows = expected(spark, load).where(
        f"reading_id >= {first - load.rows} AND reading_id < {first}"
    )
    rows.write.parquet(str(one_batch), partitionBy=["sensor_id"])
    late = [one for commit in commits(folder)[warm:] for one in stats_of(commit)]
    changed = bytes_of(files_of(one_batch)) / load.rows * sum(one["rows"] for one in found[warm:])
    new = {folder / one["path"] for one in late}
    read = reads(table)
    result = {
        "peer": "flink_hudi_upsert",
        "batches": found,
        "warm": warm,
        "write_amplification": sum(file.stat().st_size for file in new) / changed,
        "read": read,
        "service_s": 0.0,  # Flink's compaction is left out
        "read_after": read,
        "peak": {"jvm": peak, "python": 0.0},
    }
    spark.stop()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
