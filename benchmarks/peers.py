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
    named,
    ratios,
    rounds_of,
    run_script,
    spread_cell,
    table,
    write,
)
from spark_peer import LOADS, PROJECT, SPARK_PEERS, USUAL

from hudilab_spark.fetch import fetch

FLINK = "flink_hudi"
PEERS = (*SPARK_PEERS, FLINK)
GROUPS = {"delta": "delta", "iceberg": "iceberg", FLINK: "flink"}
FIGURES: Figures = {
    "rows_per_s": ("rows/s, batches of 100,000", 0),
    "rows_per_s_1m": ("rows/s, batches of 1,000,000", 0),
    "heartbeat_ms": ("ms, batch of 10", 0),
    "first_commit_s": ("s to the first commit", 1),
}
RATIO = "ratio_to_parquet"
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
    result = {"first_commit_s": measured["first_commit_s"]}
    for name, counted in measured["loads"].items():
        times = [batch["triggerExecution"] for batch in counted]
        if name == "heartbeat":
            result["heartbeat_ms"] = statistics.median(times)
        else:
            # All batches, with those that also compact or clean.
            rate = sum(batch["rows"] for batch in counted) / sum(times) * 1000
            result["rows_per_s" if name == "100k" else f"rows_per_s_{name}"] = rate
    return result


def summary(measured: Measured) -> dict[str, Any]:
    """Medians, spread and ratios of all peers: what goes into the JSON file."""
    by_peer = {
        peer: [figures(measured_round) for measured_round in rounds]
        for peer, rounds in measured.items()
    }
    result: dict[str, Any] = {}
    for peer, rounds in by_peer.items():
        medians = middle_and_spread(rounds)
        if "parquet" in by_peer and peer != "parquet":
            medians[RATIO] = ratios(rounds, by_peer["parquet"])
        result[peer] = medians
    return result


def markdown(peers: dict[str, Any], rounds: int) -> str:
    """The table that a person reads."""
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
            if key in medians.get(RATIO, {}):
                text += f", {medians[RATIO][key]:.2f} x"
            row.append(text)
        lines.append(row)
    return table(lines)


def fetch_jars(groups: Sequence[str]) -> None:
    """Fetch group core and these groups, silently."""
    fetch(PROJECT / "jars", ["core", *groups], say=lambda line: None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS, rounds=5)
    parser.add_argument("--loads", default=",".join(USUAL), help="of " + ",".join(LOADS))
    arguments = parser.parse_args()
    names = chosen(parser, arguments, PEERS)
    loads = named(parser, "load", arguments.loads, LOADS)
    fetch_jars([group for peer, group in GROUPS.items() if peer in names])
    peers: dict[str, Any] = {}

    def measured_peer(peer: str) -> dict[str, Any]:
        return measure(peer, () if peer == FLINK else ["--loads", ",".join(loads)])

    for number, measured in rounds_of(names, arguments.rounds, measured_peer, figures):
        peers = summary(measured)
        write(arguments.json, {"rounds": number, "peers": peers})
    print(markdown(peers, arguments.rounds))


if __name__ == "__main__":
    main()
