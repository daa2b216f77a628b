"""The original's way, for the comparison: Flink SQL, DataGen into Hudi on local disk; one JVM.

Usage: flink_peer.py --home DIR [--heartbeat-batches N] [--rows N]
Jobs: `first` and `warm`; `append`, with a commit about every 100,000 rows as the micro-batches have
it; `original`, the original's own kind of table, checkpointed alike; `heartbeat`. Prints a line of
JSON; the logs of Flink are in DIR. Every table is compared with its formula first.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import Popen
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from hudi import HudiTableBuilder

from hudilab.settings import project_root
from hudilab_spark.jars import verify
from hudilab_spark.java import find_java

PARTITIONS, FIRST_SENSOR, EPOCH = 10, 10, 1_700_000_000_000
PATIENCE = 900  # seconds, for all jobs
WARM = 4  # heartbeats left out, as for Spark
# pyspark's own jars that Flink and Hudi can use: Hadoop, logging, and what flink-dist would hold.
SHARED = "hadoop-client-* log4j-* slf4j-api-* commons-* jsr305-* minlog-* objenesis-* snappy-java-*"
SESSION = """SET 'table.dml-sync' = 'true';
SET 'table.local-time-zone' = 'UTC';
SET 'state.checkpoints.dir' = 'file://{home}/checkpoints';
CREATE TABLE alive (number BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '2',
  'fields.number.kind' = 'sequence', 'fields.number.start' = '0', 'fields.number.end' = '9999');
"""
# Off, in favour of Flink: cleaner, metadata table (Hudi's own default on Flink) and the timeline
# server, which would also listen on all addresses.
JOB = """SET 'execution.checkpointing.interval' = '{every}ms';
SET 'execution.checkpointing.min-pause' = '{pause}ms';
SET 'execution.checkpointing.checkpoints-after-tasks-finish.enabled' = '{on}';
CREATE TABLE source_{name} (number BIGINT, read_at AS PROCTIME()) WITH (
  'connector' = 'datagen', 'rows-per-second' = '{pace}', 'fields.number.kind' = 'sequence',
  'fields.number.start' = '0', 'fields.number.end' = '{last}');
CREATE VIEW numbers_{name} AS SELECT number, MOD(number, 10) AS k, read_at,
  ARRAY[{hundred}] AS hundred FROM source_{name};
CREATE TABLE {name} (reading_id BIGINT, sensor_id INT, temperature DECIMAL(6, 2),
  measurement_time TIMESTAMP(3), PRIMARY KEY (sensor_id, reading_id) NOT ENFORCED)
PARTITIONED BY (sensor_id) WITH (
  'connector' = 'hudi', 'path' = '{home}/{name}', 'write.tasks' = '2', {write},
  'precombine.field' = 'measurement_time',
  'hoodie.datasource.write.hive_style_partitioning' = 'true',
  'hoodie.parquet.compression.codec' = 'snappy', 'clean.async.enabled' = 'false',
  'metadata.enabled' = 'false', 'hoodie.embed.timeline.server' = 'false');
INSERT INTO {name} SELECT id,
  CAST({first_sensor} + MOD(id + id / {partitions}, {partitions}) AS INT),
  CAST(MOD(id * 7919, 10000) * 0.01 AS DECIMAL(6, 2)),
  CAST(TO_TIMESTAMP_LTZ({epoch} + id, 3) AS TIMESTAMP(3)) FROM ({ids});
"""
# COPY_ON_WRITE without clustering takes this as append mode: no index, no shuffle, no merge.
APPEND = "'table.type' = 'COPY_ON_WRITE', 'write.operation' = 'insert'"
# Flink's default operation, upsert, with its default index, in Flink's state. Compaction is left
# out, in favour of Flink; one that is planned, each five commits, hides later rows from hudi-rs.
ORIGINAL = """'table.type' = 'MERGE_ON_READ', 'compaction.schedule.enabled' = 'false',
  'compaction.async.enabled' = 'false'"""
# Append mode cannot beat faster than once in 1.1 s: the first row after a checkpoint waits for the
# next instant in steps of 1 s, a constant of Hudi's. With a bucket index rows are buffered, and the
# instant is asked for at the checkpoint, when it is there: 0.4 s, though with a merge.
BUCKETS = """'table.type' = 'COPY_ON_WRITE', 'write.operation' = 'upsert', 'index.type' = 'BUCKET',
  'hoodie.bucket.index.num.buckets' = '1'"""
# DataGen knows no step below 1 s. Windows that overlap repeat its ten last rows each 0.25 s.
TICKS = """SELECT (1000 * UNIX_TIMESTAMP(CAST(window_end AS STRING))
  + EXTRACT(MILLISECOND FROM window_end)) / 250 * 10 + k AS id FROM TABLE(HOP(
    TABLE numbers_heartbeat, DESCRIPTOR(read_at), INTERVAL '0.250' SECOND, INTERVAL '2' SECOND))
  GROUP BY window_start, window_end, k"""

# A second of each commit of `append` is that wait: the pause between checkpoints is it and the time
# of about 100,000 rows. At an interval of 1 s a commit had only a few rows.
PAUSE_MS = 1300
# A job that ends by itself hangs when a task's rows end with a checkpoint: Hudi commits for the end
# of the input, and starts no instant for the other task. A source without rows keeps it alive until
# it is ended from here. DataGen has the numbers to come in its state: each stands for a hundred
# rows, or checkpoints take up to 1.2 s, not 0.3 s.
STEADY = """SELECT number * 100 + j AS id FROM numbers_{name} CROSS JOIN UNNEST(hundred) AS t(j)
  UNION ALL SELECT number FROM alive WHERE number < 0"""
# The original's. A million rows end before it is over, and the end commits. For that, checkpoints
# after tasks have finished are off, or the end waits for one that waits for an instant (5 minutes).
INTERVAL_MS = 60_000


class Job(NamedTuple):
    """A table with `rows` readings; a `steady` one has commits as it goes."""

    name: str
    rows: int
    write: str = APPEND
    steady: bool = False


def sql(home: Path, jobs: list[Job]) -> str:
    """All jobs; the heartbeat is last, and ended from here when it has beaten enough."""
    hundred = ",".join(map(str, range(100)))
    same: dict[str, object] = {"partitions": PARTITIONS, "first_sensor": FIRST_SENSOR}
    same |= {"epoch": EPOCH, "home": home, "hundred": hundred}
    text = SESSION.format(home=home)
    for name, rows, write, steady in jobs:
        ids, each, every = f"SELECT number AS id FROM numbers_{name}", 1, INTERVAL_MS
        if steady:
            ids, each, every = STEADY.format(name=name), 100, PAUSE_MS
        own = {"name": name, "ids": ids, "write": write, "pace": 10**9, "last": rows // each - 1}
        # The first checkpoint comes at a random time between the pause and the interval.
        text += JOB.format(every=every, pause=every, on=steady, **own, **same)
    own = {"name": "heartbeat", "last": 10 * PATIENCE, "ids": TICKS, "write": BUCKETS, "pace": 10}
    # An interval below the length of a commit: a checkpoint follows the other at once.
    text += "RESET 'state.checkpoints.dir';\n"
    return text + JOB.format(every=100, pause=0, on=False, **own, **same)


def commits(table: Path) -> list[Path]:
    """The completed commits, oldest first."""
    return sorted(table.glob(".hoodie/*commit"))


def written(table: Path) -> list[dict[str, Any]]:
    """The files written, as the commits tell of them."""
    return [stat for commit in commits(table) for stat in stats_of(commit)]


def stats_of(commit: Path) -> list[dict[str, Any]]:
    """What a commit tells of each file.

    Raises:
        ValueError: It is being written.
    """
    partitions = json.loads(commit.read_bytes())["partitionToWriteStats"].values()
    return [stat for stats in partitions for stat in stats]


def check(table: Path, rows: int | None) -> None:
    """Compare every row with its formula."""
    if not commits(table):
        raise SystemExit(f"{table}: no commit; see the logs beside it")
    read = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(table)).build().read())
    read = read.sort_by("reading_id")
    ids = read["reading_id"].to_numpy()
    inserted = sum(stat["numInserts"] for stat in written(table))
    # The heartbeat's ids have the time as their start; each of the ten goes on without a gap.
    ticks = [np.diff(ids[ids % 10 == k]) for k in range(10)]
    gaps = (ids != np.arange(len(ids))).any() if rows else (np.concatenate(ticks) != 10).any()
    cents = pc.cast(pc.multiply(read["temperature"], pa.scalar(100)), pa.int64()).to_numpy()
    times = pc.cast(read["measurement_time"], pa.int64()).to_numpy()
    sensors = FIRST_SENSOR + (ids + ids // PARTITIONS) % PARTITIONS
    folders = {f"sensor_id={FIRST_SENSOR + number}" for number in range(PARTITIONS)}
    problems = {
        "row count": len(ids) != (rows or inserted),
        "reading_id": gaps,
        "sensor_id": (read["sensor_id"].to_numpy() != sensors).any(),
        "temperature": (cents != ids * 7919 % 10_000).any(),
        "measurement_time": (times != EPOCH + ids).any(),
        "partitions": {path.name for path in table.glob("sensor_id=*")} != folders,
    }
    if wrong := [name for name, differs in problems.items() if differs]:
        raise SystemExit(f"{table}: wrong {', '.join(wrong)} ({len(ids)} rows); its time is void")


def command(home: Path, conf: Path) -> list[str]:
    """The SQL client as Flink's own script starts it, with the project's Java and jars."""
    spark = Path(pyspark.__file__).parent / "jars"
    shared = [jar for pattern in SHARED.split() for jar in spark.glob(f"{pattern}.jar")]
    jars = os.pathsep.join(map(str, verify(project_root() / "jars", ["flink"]) + shared))
    # Flink's closure cleaner and Kryo look into these, which Java 17 does not allow by itself.
    java = [f"--add-opens=java.base/java.{name}=ALL-UNNAMED" for name in ("lang", "util")]
    java += ["-Xmx2g", "-Duser.timezone=UTC", f"-Djava.io.tmpdir={home}/tmp", "-cp", jars]
    java += [f"-Dlog.file={home}/flink.log", f"-Dlog4j.configurationFile={conf}/log4j.properties"]
    client = ["org.apache.flink.table.client.SqlClient", "embedded", "-hist", f"{home}/tmp/history"]
    return [str(find_java().home / "bin" / "java"), *java, *client]


def cancel(home: Path) -> None:
    """End the job that runs; each has a cluster of its own."""
    pattern = r"DispatcherRestEndpoint - Rest endpoint listening at (\S+)"
    jobs = f"http://{re.findall(pattern, (home / 'flink.log').read_text())[-1]}/jobs"
    with urlopen(jobs, timeout=60) as answer:
        job = json.load(answer)["jobs"][0]["id"]
    urlopen(Request(f"{jobs}/{job}", method="PATCH"), timeout=60).close()


def run(home: Path, done: Callable[[], bool]) -> float:
    """Run the jobs in jobs.sql until they are done; the start in epoch seconds."""
    conf = Path(__file__).resolve().parent / "flink"
    java, env = command(home, conf), os.environ | {"FLINK_CONF_DIR": str(conf)}
    # Typed in: given as a file, all would end with the first job that is ended from here.
    with (home / "console.log").open("wb") as log, (home / "jobs.sql").open() as typed:
        started = time.time()
        jvm = Popen(java, env=env, stdin=typed, stdout=log, stderr=log, start_new_session=True)
        try:
            while not done():
                if jvm.poll() is not None or time.time() > started + PATIENCE:
                    raise SystemExit(f"Flink did not finish its jobs; see the logs in {home}")
                time.sleep(0.1)
        finally:
            if jvm.poll() is None:
                os.killpg(jvm.pid, 9)
            jvm.wait()
    return started


def beaten(home: Path, jobs: list[Job], enough: int) -> Callable[[], bool]:
    """Whether the heartbeat has `enough` commits; ends each steady job that has its rows."""
    steady = [job for job in jobs if job.steady]

    def done() -> bool:
        with suppress(ValueError):  # a commit that is being written
            stats = written(home / steady[0].name) if steady else []
            if stats and sum(stat["numWrites"] for stat in stats) >= steady[0].rows:
                cancel(home)
                steady.pop(0)
        return len(commits(home / "heartbeat")) >= enough

    return done


def rate(home: Path, job: Job) -> int:
    """Rows a second, from RUNNING to the last commit."""
    log = (home / "flink.log").read_text()
    running = re.findall(rf"(?m)^(\d+) .*source_{job.name}\[.* from INITIALIZING to RUNNING", log)
    last = commits(home / job.name)[-1].stat().st_mtime
    return round(job.rows / (last - int(running[0]) / 1000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--home", type=Path, required=True)
    for name, default in (("heartbeat-batches", 10), ("rows", 1_000_000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    arguments = parser.parse_args()
    home = arguments.home.resolve()
    rows = arguments.rows // 100 * 100
    append = Job("append", rows, steady=True)
    original = Job("original", min(rows, 200_000), ORIGINAL, steady=True)
    jobs = [Job("first", 20), Job("warm", min(rows, 200_000), steady=True), append, original]
    (home / "tmp").mkdir(parents=True)
    (home / "jobs.sql").write_text(sql(home, jobs))
    started = run(home, beaten(home, jobs, WARM + arguments.heartbeat_batches + 1))
    for job in jobs:
        check(home / job.name, job.rows)
    check(home / "heartbeat", None)
    beats = [commit.stat().st_mtime * 1000 for commit in commits(home / "heartbeat")]
    result = {
        "rows_per_s": rate(home, append),
        "heartbeat_ms": round(statistics.median(np.diff(beats)[WARM:])),
        "first_commit_s": round(commits(home / "first")[0].stat().st_mtime - started, 2),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
