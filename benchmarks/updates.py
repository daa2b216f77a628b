"""Compare updates: the lab's upserts, and MERGE INTO of Iceberg.

Usage: python benchmarks/updates.py [--rounds N] [--peers a,b,...] [--loads a,b,...]
    [--json FILE]
A load is TABLE_BATCH_UPDATES: 1m_100k_80 streams batches of 100,000 rows into a table of a million,
and 80 of 100 rows change keys that it has.
Each round starts every peer in a fresh process, another one first each time. Prints a Markdown
table for each load; the file is written after each round. A peer whose table is not what its
generator says has no figures: the run ends.
"""

from __future__ import annotations

import argparse
import statistics
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
from peers import GROUPS, fetch_jars
from updates_peer import LOADS, PEERS

FIGURES: Figures = {
    "rows_per_s": ("rows/s", 0),
    "batch_s": ("s a batch, median", 2),
    "slowest": ("slowest batch to median", 1),
    "read_s": ("s to read a column", 2),
    "read_after_s": ("s after table services", 2),
}
LIMIT = 3600  # seconds, for one peer of one round


def figures(measured: dict[str, Any]) -> dict[str, float]:
    """The figures of one round of one peer."""
    counted = measured["batches"]
    times = [batch["triggerExecution"] / 1000 for batch in counted]
    return {
        # All batches, with those that also compact or clean, and what ran on beside the last.
        "rows_per_s": sum(batch["rows"] for batch in counted)
        / (sum(times) + counted[-1].get("beside", 0) / 1000),
        "batch_s": statistics.median(times),
        "slowest": max(times) / statistics.median(times),
        "read_s": measured["read_s"],
        "read_after_s": measured["read_after_s"],
    }


def summary(measured: Measured) -> dict[str, Any]:
    """Medians, spread and ratios to the others within a round: what goes into the JSON file."""
    by_peer = {
        peer: [figures(measured_round) for measured_round in rounds]
        for peer, rounds in measured.items()
    }
    result: dict[str, Any] = {}
    for peer, rounds in by_peer.items():
        medians = middle_and_spread(rounds)
        for other in (name for name in by_peer if name != peer):
            medians[f"ratio_to_{other}"] = ratios(rounds, by_peer[other])
        result[peer] = medians
    return result


def markdown(load: str, peers: dict[str, Any], rounds: int) -> str:
    """The table that a person reads."""
    lines = [[f"{load}, {rounds} rounds", *(text for text, _ in FIGURES.values())]]
    for peer, medians in peers.items():
        cells = [spread_cell(medians, key, digits) for key, (_, digits) in FIGURES.items()]
        lines.append([f"`{peer}`", *cells])
    return table(lines)


def groups(peers: Sequence[str]) -> list[str]:
    """The groups of jars that these peers need beside core."""
    return sorted({GROUPS[PEERS[peer]] for peer in peers if PEERS[peer] in GROUPS})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS, rounds=3)
    parser.add_argument("--loads", default=",".join(LOADS), help="of " + ",".join(LOADS))
    arguments = parser.parse_args()
    names = chosen(parser, arguments, PEERS)
    loads = named(parser, "load", arguments.loads, LOADS)
    fetch_jars(groups(names))
    result: dict[str, Any] = {}
    for load in loads:

        def measure(peer: str, load: str = load) -> dict[str, Any]:
            return run_script(peer, ["updates_peer.py", peer, load], LIMIT)

        for _, measured in rounds_of(names, arguments.rounds, measure, figures, f"{load} "):
            result[load] = summary(measured)
            write(arguments.json, {"rounds": arguments.rounds, "loads": result})
        print(markdown(load, result[load], arguments.rounds) + "\n", flush=True)


if __name__ == "__main__":
    main()
