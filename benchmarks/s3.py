"""Seconds, requests and dollars of a commit on S3: the lab's tables and other sinks, in one run.

Usage: python benchmarks/s3.py [--peers a,b,...] [--delays 0,15,50] [--rounds N] [--batches N]
    [--json FILE]
Starts the lab's S3 server and before it a proxy, which delays each request by these milliseconds.
A batch has ten rows in ten partitions. Each round starts each peer in a fresh process with a store
of its own, and after four batches counts `--batches` with each delay. Prints Markdown tables: the
median seconds of a batch, its requests and their price, and what the requests are for. A peer
whose table is not what its generator says has no figures: the run ends.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from comparison import Measured, add_arguments, chosen, rounds_of, table, write
from peers import fetch_jars
from s3_proxy import Request, running_proxy
from spark_peer import PARTITIONS, SEED, TUNED, check, conf_dir, session, spread, start

from hudilab.generate import sensor_stream
from hudilab_cli.servers.s3 import BUCKET, start_s3, stop_s3
from hudilab_jobs.settings import load_settings

OTHERS = ("parquet", "iceberg", "delta")
PEERS = (*TUNED, *OTHERS)
LOAD, ROWS, WARM = "small", 10, 4
# Dollars for a thousand requests: Amazon S3 Standard, us-east-1, 2026. DELETE costs nothing.
PRICES = {"PUT": 0.005, "COPY": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004}
METHODS = (*PRICES, "DELETE")
MINUTES = 60 * 24 * 30  # of a month
# What a request is for, by its key; the first pattern that matches counts.
PURPOSES = {
    "checkpoint": r"_?checkpoints?[-/]",
    "markers": r"\.hoodie/\.temp",
    "hoodie.properties": r"\.hoodie/hoodie\.properties",
    "timeline": r"\.hoodie/timeline",
    "other .hoodie": r"\.hoodie(/|$)",
    "partition metadata": r"\.hoodie_partition_metadata",
    "log": r"(_delta_log|_spark_metadata|/metadata)(/|$)",
    "data files": r"\.(parquet|log\.[^/]*)/?$",
    "folders": "",
}


def purpose(key: str) -> str:
    """What a request for this key or prefix is for."""
    return next(name for name, pattern in PURPOSES.items() if re.search(pattern, key))


def dollars(requests: Counter[str]) -> float:
    """What these requests cost, by their methods."""
    return sum(PRICES.get(method, 0) * count for method, count in requests.items()) / 1000


def run_peer(peer: str, home: Path, batches: int) -> None:
    """A peer's stream in this process; prints a line of JSON with the milliseconds of each batch.

    The line comes as soon as the batch is done, so that the parent can change the delay.
    """
    os.environ |= {"HUDILAB_HOME": str(home), "HUDILAB_CONF": str(conf_dir(peer, home))}
    os.environ |= {"IS_LOCAL": "false", "HUDILAB_WAREHOUSE": f"s3://{BUCKET}/lab"}
    spark = session(peer, home)
    rows = ROWS * batches
    stream = sensor_stream(spark, rows_per_batch=ROWS, sensors=PARTITIONS, seed=SEED, rows=rows)
    base = f"s3a://{BUCKET}/{peer}"
    if peer == "iceberg":
        spark.conf.set("spark.sql.catalog.bench.warehouse", base)
    query = start(spark, peer, spread(stream), base, LOAD, batches)
    done = -1
    while done < batches - 1:
        last = query.lastProgress
        if last is not None and done < last["batchId"] < batches:
            done, took = last["batchId"], last["durationMs"]
            print(json.dumps({"ms": took["triggerExecution"]}), flush=True)
        if not query.isActive:
            raise SystemExit(f"the stream ended: {query.exception()}")
        time.sleep(0.01)
    query.stop()
    lab = f"s3a://{BUCKET}/lab/run-{LOAD}/lab/sensor_readings"
    check(spark, peer, lab if peer in TUNED else f"{base}/{LOAD}", LOAD, rows)
    spark.stop()


def measure(peer: str, delays: list[float], batches: int) -> dict[str, Any]:
    """One peer, with a store and a proxy of its own: seconds and requests of its batches."""
    # The first batch with another delay has begun without it, and is not counted.
    every = batches + 1
    total = WARM + every * len(delays)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        store, home = Path(folder, "store"), Path(folder, "home")
        home.mkdir()
        settings = replace(load_settings(env={}), home=store)
        server = start_s3(settings)
        with ExitStack() as stack, running_proxy(server.endpoint, BUCKET) as proxy:
            stack.callback(stop_s3, settings)
            command = [sys.executable, __file__, "--run", peer, "--home", str(home)]
            command += ["--batches", str(total)]
            environment = os.environ | server.env() | {"AWS_ENDPOINT_URL_S3": proxy.endpoint}
            took, marks = list[float](), list[int]()
            with subprocess.Popen(
                command, env=environment, cwd=folder, stdout=subprocess.PIPE, text=True
            ) as child:
                assert child.stdout is not None
                for line in child.stdout:
                    if not line.startswith("{"):
                        continue
                    took.append(json.loads(line)["ms"] / 1000)
                    marks.append(len(proxy.requests))
                    phase = max(0, len(took) - WARM) // every
                    proxy.delay = delays[min(phase, len(delays) - 1)] / 1000
            if child.returncode or len(took) != total:
                raise SystemExit(f"{peer} failed; see the lines above")
            for number, delay in enumerate(delays):
                last = WARM + every * (number + 1)
                first = last - batches
                requests = proxy.requests[marks[first - 1] : marks[last - 1]]
                results[f"{delay:g}"] = counted(requests, took[first:last])
    return results


def counted(requests: list[Request], took: list[float]) -> dict[str, Any]:
    """The figures of the batches that took these seconds, for one batch."""
    batches = len(took)
    methods = Counter(request.method for request in requests)
    purposes = Counter(purpose(request.key) for request in requests)
    return {
        "seconds": statistics.median(took),
        "requests": len(requests) / batches,
        "methods": {name: methods[name] / batches for name in METHODS},
        "purposes": {name: purposes[name] / batches for name in PURPOSES},
        "dollars_a_month": dollars(methods) / batches * MINUTES,
    }


def figures(results: dict[str, Any]) -> dict[str, float]:
    """The figures of one round of one peer that are printed when it is done."""
    seconds = {f"s_{delay}": result["seconds"] for delay, result in results.items()}
    return seconds | {"requests": next(iter(results.values()))["requests"]}


def summary(measured: Measured) -> dict[str, Any]:
    """For each peer and delay the round of the median seconds."""
    return {
        peer: {
            delay: sorted((results[delay] for results in rounds), key=itemgetter("seconds"))[
                len(rounds) // 2
            ]
            for delay in rounds[0]
        }
        for peer, rounds in measured.items()
    }


def markdown(peers: dict[str, Any]) -> str:
    """The tables that a person reads."""
    delays = list(next(iter(peers.values())))
    head = ["peer", *(f"s, {delay} ms" for delay in delays), "requests", *METHODS]
    lines = [[*head, "dollars a month, a batch a minute"]]
    purposes = [["requests for", *(f"`{peer}`" for peer in peers)]]
    for peer, by_delay in peers.items():
        first = by_delay[delays[0]]
        seconds = [f"**{by_delay[delay]['seconds']:.2f}**" for delay in delays]
        methods = [f"{first['methods'][name]:.0f}" for name in METHODS]
        money = f"{first['dollars_a_month']:.2f}"
        lines.append([f"`{peer}`", *seconds, f"**{first['requests']:.0f}**", *methods, money])
    for name in PURPOSES:
        row = [f"{by_delay[delays[0]]['purposes'][name]:.0f}" for by_delay in peers.values()]
        purposes.append([name, *row])
    return f"{table(lines)}\n\n{table(purposes)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS, rounds=1)
    parser.add_argument("--delays", default="0,15,50", help="milliseconds that a request waits")
    parser.add_argument("--batches", type=int, default=6, help="counted batches of each delay")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.batches < 1:
        parser.error("--batches must be 1 or more")
    if arguments.run:
        run_peer(arguments.run, arguments.home, arguments.batches)
        return
    try:
        delays = [float(delay) for delay in arguments.delays.split(",")]
    except ValueError:
        parser.error(f"--delays {arguments.delays}: write milliseconds, such as 0,15,50")
    names = chosen(parser, arguments, PEERS)
    fetch_jars(["s3", "s3proxy", *(name for name in names if name in OTHERS[1:])])
    peers: dict[str, Any] = {}

    def measured_peer(peer: str) -> dict[str, Any]:
        return measure(peer, delays, arguments.batches)

    for number, measured in rounds_of(names, arguments.rounds, measured_peer, figures):
        peers = summary(measured)
        write(arguments.json, {"rounds": number, "peers": peers})
    print(markdown(peers))


if __name__ == "__main__":
    main()
