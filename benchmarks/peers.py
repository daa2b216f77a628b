"""Compare the lab's way into Hudi with other sinks, and with Hudi's own defaults, in one run.

Usage: python benchmarks/peers.py [--rounds N] [--peers a,b,...] [--loads a,b,...]
    [--json FILE]
Each round starts every peer in a fresh process, one after the other, in another order each time.
Prints a Markdown table: medians of the rounds, their spread, and ratios to Parquet in the same
round; the file is written after each round. A peer whose table is not what its generator says
has no figures: the run ends.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from typing import Any

from comparison import (
    Figures,
    Measured,
    add_arguments,
    chosen,
    middle_and_spread,
    ratios,
    rounds_of,
    run_script,
    spread_cell,
    table,
    write,
)
from spark_peer import LOADS, PROJECT, SPARK_PEERS

from hudilab_spark.fetch import fetch

FLINK = "flink_hudi"
PEERS = (*SPARK_PEERS, FLINK)
GROUPS = {"delta": "delta", "iceberg": "iceberg", FLINK: "flink"}
FIGURES: Figures = {
    "rows_per_s": ("rows/s, batches of 100,000", 0),
    "rows_per_s_10k": ("rows/s, batches of 10,000", 0),
    "rows_per_s_1m": ("rows/s, batches of 1,000,000", 0),
    "heartbeat_ms": ("ms, batch of 10", 0),
    "first_commit_s": ("s to the first commit", 1),
    "peak_rss_mb": ("peak MB", 0),
}
LIMIT = 1800  # seconds, for one peer of one round


def measure(peer: str, options: Sequence[str] = ()) -> dict[str, Any]:
    """One peer in a process and a folder of its own; what it printed."""
    if peer == FLINK:
        return run_script(peer, ["flink_peer.py", *options], LIMIT)
    started = ["--started", repr(time.time())]
    return run_script(peer, ["spark_peer.py", peer, *started, *options], LIMIT)


def figures(measured: dict[str, Any]) -> dict[str, float]:
    """The figures of one round of one peer."""
    if "loads" not in measured:
        return {key: measured[key] for key in FIGURES if key in measured}
    result = {
        "first_commit_s": measured["first_commit_s"],
        "peak_rss_mb": sum(measured["peak"].values()),
    }
    for name, load in measured["loads"].items():
        counted = load["batches"][load["warm"] :]
        times = [batch["triggerExecution"] for batch in counted]
        if name == "heartbeat":
            result["heartbeat_ms"] = statistics.median(times)
        else:
            # All batches, with those that also compact or clean.
            rate = sum(batch["rows"] for batch in counted) / sum(times) * 1000
            result["rows_per_s" if name == "100k" else f"rows_per_s_{name}"] = rate
    return result


def details(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Files, bytes and processor seconds a batch; for Flink, its jobs."""
    last = rounds[-1]
    if "loads" not in last:
        jobs = {
            name: job
            | {
                "rows_per_s": statistics.median(
                    measured_round["jobs"][name]["rows_per_s"] for measured_round in rounds
                )
            }
            for name, job in last["jobs"].items()
        }
        return {"versions": last["versions"], "jobs": jobs}
    a_batch = {}
    for name, load in last["loads"].items():
        keys = ("data_files", "data_bytes", "other_files", "other_bytes")
        a_batch[name] = {key: round(load[key] / len(load["batches"]), 1) for key in keys}
        cpu = statistics.median(
            measured_round["loads"][name]["cpu_s_a_batch"] for measured_round in rounds
        )
        a_batch[name]["cpu_s"] = round(cpu, 2)
    return {"a_batch": a_batch}


def summary(measured: Measured) -> dict[str, Any]:
    """Medians, spread and ratios of all peers: what goes into the JSON file."""
    by_peer = {
        peer: [figures(measured_round) for measured_round in rounds]
        for peer, rounds in measured.items()
    }
    result: dict[str, Any] = {}
    for peer, rounds in by_peer.items():
        medians = middle_and_spread(rounds)
        for base in ("parquet", "hudi_default_insert", "hudi_default_upsert", FLINK):
            if base in by_peer and base != peer:
                medians[f"ratio_to_{base}"] = ratios(rounds, by_peer[base])
        medians |= details(measured[peer])
        result[peer] = medians
    return result


def markdown(peers: dict[str, Any], rounds: int) -> str:
    """The table that a person reads."""
    ratio = "ratio_to_parquet"
    head = [f"{rounds} rounds, {os.cpu_count()} cores"]
    shown = {
        key: FIGURES[key]
        for key in FIGURES
        if any(key in figures_of_peer for figures_of_peer in peers.values())
    }
    lines = [head + [text for text, _ in shown.values()]]
    for peer, medians in peers.items():
        row = [f"`{peer}`"]
        for key, (_, digits) in shown.items():
            if key not in medians:
                row.append("-")
                continue
            text = spread_cell(medians, key, digits)
            if ratio in medians and key in medians[ratio]:
                text += f", {medians[ratio][key]:.2f} x"
            row.append(text)
        lines.append(row)
    return table(lines)


def fetch_jars(groups: Sequence[str]) -> None:
    """Fetch group core and these groups, silently."""
    fetch(PROJECT / "jars", ["core", *groups], say=lambda line: None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS, rounds=5)
    parser.add_argument("--loads", default=",".join(LOADS), help="1m too; see spark_peer.py")
    arguments = parser.parse_args()
    names = chosen(parser, arguments, PEERS)
    fetch_jars([group for peer, group in GROUPS.items() if peer in names])
    peers: dict[str, Any] = {}

    def measured_peer(peer: str) -> dict[str, Any]:
        return measure(peer, () if peer == FLINK else ["--loads", arguments.loads])

    for number, measured in rounds_of(names, arguments.rounds, measured_peer, figures):
        peers = summary(measured)
        write(arguments.json, {"rounds": number, "peers": peers})
    print(markdown(peers, arguments.rounds))


if __name__ == "__main__":
    main()
