"""How the write grows: rows a second with more executors.

Usage: python benchmarks/scale.py [--counts 1,2,4] [--rounds N] [--json FILE]
Starts a Spark standalone cluster with as many workers of one core each, and writes to this disk.
Each measurement has a process, a home and servers of its own; each table is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from comparison import turns

from hudilab.generate import readings_table
from hudilab_cli.servers.cluster import start_cluster, stop_cluster
from hudilab_jobs import sensor_readings
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.warehouse import prepare

SENSORS, SEED = 10, 1
BATCH, WARM, COUNTED = 100_000, 4, 8


def write(executors: int) -> list[int]:
    """Notebook 02's stream on a cluster of executors of one core; milliseconds of each batch."""
    settings = replace(load_settings("DOCKER"), is_local=True, warehouse_path="warehouse")
    with ExitStack() as servers:
        servers.callback(stop_cluster, settings)
        cluster = start_cluster(settings, workers=executors, cores=1, memory="1g")
        os.environ["SPARK_MASTER_URL"] = cluster.master
        spark = open_session(settings, app="scale")
        batches = WARM + COUNTED
        rows = BATCH * batches
        location = prepare(settings)
        spec = readings_table(name=location.name, tuned=True)
        sizes = {"rows": rows, "batches": batches, "sensors": SENSORS, "seed": SEED}
        query = sensor_readings.write(spark, location, spec, sizes)
        stored_rows = spark.read.format("hudi").load(location.table).count()
        if stored_rows != rows:
            raise SystemExit(f"the table has {stored_rows} rows, not {rows}")
        times = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress]
        spark.stop()
        return times[:batches]


def rate(executors: int) -> float:
    """Rows a second of a run in a process of its own, without its first batches."""
    with tempfile.TemporaryDirectory() as home:
        conf = Path(home, "conf")
        shutil.copytree(load_settings(env={}).conf_dir, conf)
        file = conf / "docker" / "spark-defaults.conf"
        # The last line of a key counts.
        file.write_text(f"{file.read_text()}\nspark.cores.max {executors}\n")
        taken = ("RUNTIME_ENV", "IS_LOCAL", "SPARK_MASTER_URL")
        env = {name: word for name, word in os.environ.items() if name not in taken}
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(executors)],
            env=env | {"HUDILAB_HOME": home, "HUDILAB_CONF": str(conf)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{executors} executors ended with code {done.returncode}")
        times: list[int] = json.loads(done.stdout.splitlines()[-1])[WARM:]
        return BATCH * len(times) / sum(times) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--counts", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(write(arguments.one)))
        return
    counts = arguments.counts.split(",")
    rates: dict[str, list[float]] = {count: [] for count in counts}
    for number in range(arguments.rounds):
        for count in turns(counts, number):
            rates[count].append(rate(int(count)))
    print("| executors of one core | rows/s, median | lowest | highest | to the first |")
    print("|---|---|---|---|---|")
    for count, measured in rates.items():
        pairs = zip(measured, rates[counts[0]], strict=True)
        ratio = statistics.median(own / base for own, base in pairs)
        figures = (statistics.median(measured), min(measured), max(measured))
        print(f"| {count} | {' | '.join(f'{figure:,.0f}' for figure in figures)} | {ratio:.2f} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(rates) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
