"""How the write grows: rows a second with more executors, and a batch's cost over 500 commits.

Usage: python benchmarks/scale.py executors [--counts 1,2,4] [--rounds N] [--json FILE]
       python benchmarks/scale.py commits [--places disk,s3] [--commits N] [--json FILE]

The first starts a Spark standalone cluster with as many workers of one core each, and writes to
this disk; the second writes ten rows a batch from one JVM, to this disk and to an S3 server beside
it. Each measurement has a process, a home and servers of its own; each table is counted.
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
from typing import Any

from hudilab.generate import readings_table
from hudilab.settings import Settings
from hudilab_cli.servers.cluster import start_cluster, stop_cluster
from hudilab_cli.servers.s3 import start_s3, stop_s3
from hudilab_jobs import sensor_readings
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.warehouse import prepare

SENSORS, SEED = 10, 1
BATCH, WARM, COUNTED = 100_000, 4, 8
WINDOW = 50


def write(settings: Settings, rows_per_batch: int, batches: int) -> list[int]:
    """Notebook 02's stream; milliseconds of each batch."""
    spark = open_session(settings, app="scale")
    rows = rows_per_batch * batches
    location = prepare(settings)
    spec = readings_table(name=location.name)
    sizes = {"rows": rows, "batches": batches, "sensors": SENSORS, "seed": SEED}
    query = sensor_readings.write(spark, location, spec, sizes)
    stored_rows = spark.read.format("hudi").load(location.table).count()
    if stored_rows != rows:
        raise SystemExit(f"the table has {stored_rows} rows, not {rows}")
    times = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress]
    spark.stop()
    return times[:batches]


def one_cluster(count: int) -> list[int]:
    """Batches of a cluster of `count` executors of one core, which write to this disk."""
    settings = replace(load_settings("DOCKER"), is_local=True, warehouse_path="warehouse")
    with ExitStack() as servers:
        servers.callback(stop_cluster, settings)
        cluster = start_cluster(settings, workers=count, cores=1, memory="1g")
        os.environ["SPARK_MASTER_URL"] = cluster.master
        return write(settings, BATCH, WARM + COUNTED)


def one_place(location: str, commits: int) -> list[int]:
    """Batches of ten rows from one JVM to `place`: disk or s3."""
    settings = load_settings()
    with ExitStack() as servers:
        if location == "s3":
            servers.callback(stop_s3, settings)
            start_s3(settings).use()
            settings = replace(settings, is_local=False, warehouse_path="s3://hudilab/scale")
        return write(settings, 10, commits)


def measured(kind: str, value: str, commits: int) -> list[int]:
    """The same in a process of its own."""
    with tempfile.TemporaryDirectory() as home:
        conf = Path(home, "conf")
        shutil.copytree(load_settings(env={}).conf_dir, conf)
        if kind == "executors":
            file = conf / "docker" / "spark-defaults.conf"
            # The last line of a key counts.
            file.write_text(f"{file.read_text()}\nspark.cores.max {value}\n")
        taken = ("RUNTIME_ENV", "IS_LOCAL", "SPARK_MASTER_URL")
        env = {name: word for name, word in os.environ.items() if name not in taken}
        done = subprocess.run(
            [sys.executable, __file__, "one", kind, value, str(commits)],
            env=env | {"HUDILAB_HOME": home, "HUDILAB_CONF": str(conf)},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{kind} {value} ended with code {done.returncode}")
        times: list[int] = json.loads(done.stdout.splitlines()[-1])
        return times


def executors(counts: list[int], rounds: int) -> dict[str, list[float]]:
    """Rows a second of each count, in another order each round."""
    rates_by_count: dict[str, list[float]] = {str(count): [] for count in counts}
    for number in range(rounds):
        turn = number % len(counts)
        for count in counts[turn:] + counts[:turn]:
            times = measured("executors", str(count), 0)[WARM:]
            rates_by_count[str(count)].append(BATCH * len(times) / sum(times) * 1000)
    print("| executors of one core | rows/s, median | lowest | highest | to the first |")
    print("|---|---|---|---|---|")
    first = rates_by_count[str(counts[0])]
    for name, rates in rates_by_count.items():
        ratio = statistics.median(rate / base for rate, base in zip(rates, first, strict=True))
        figures = (statistics.median(rates), min(rates), max(rates))
        print(f"| {name} | {' | '.join(f'{figure:,.0f}' for figure in figures)} | {ratio:.2f} |")
    return rates_by_count


def commits(places: list[str], count: int) -> dict[str, list[int]]:
    """Milliseconds of each of `count` batches, on disk and on S3."""
    medians = {location: measured("commits", location, count) for location in places}
    starts = sorted({10, *range(100, count - WINDOW, 100), count - WINDOW})
    print(f"| commits | {' | '.join(f'{location}, median ms | mean ms' for location in medians)} |")
    print("|---|" + "---|" * 2 * len(medians))
    for start in starts:
        windows = [times[start : start + WINDOW] for times in medians.values()]
        cells = [f"{f(w):.0f}" for w in windows for f in (statistics.median, statistics.mean)]
        print(f"| {start} - {start + WINDOW} | {' | '.join(cells)} |")
    for location, times in medians.items():
        for name, f in (("median", statistics.median), ("mean", statistics.mean)):
            ratio = f(times[-WINDOW:]) / f(times[10 : 10 + WINDOW])
            print(
                f"{location}: the last {WINDOW} to commits 10 - {10 + WINDOW}, {name}: {ratio:.2f}"
            )
    return medians


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["executors", "commits", "one"])
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--counts", default="1,2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--places", default="disk,s3")
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result: dict[str, Any]
    if arguments.what == "one":
        kind, value, count = arguments.rest
        times = one_cluster(int(value)) if kind == "executors" else one_place(value, int(count))
        print(json.dumps(times))
        return
    if arguments.what == "executors":
        counts = [int(word) for word in arguments.counts.split(",")]
        result = dict(executors(counts, arguments.rounds))
    else:
        result = dict(commits(arguments.places.split(","), arguments.commits))
    if arguments.json:
        arguments.json.write_text(json.dumps(result) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
