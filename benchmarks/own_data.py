"""Compare `hudilab load` with Spark's own Parquet write, and `hudilab stream` with code by hand.

Usage: python benchmarks/own_data.py [--rounds N] [--peers a,b,...] [--rows N] [--json FILE]
`parquet` and `load` write the same rows (ten million), in the same partitions and order, into an
empty folder; `by_hand` and `stream` write a year of flights, a file a month, in which each
twentieth flight is corrected a month later. Each peer starts in a fresh process, another one first
each round. Prints a Markdown table. A table that is not what its source says ends the run.
"""

from __future__ import annotations

import argparse
import tempfile
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
from own_data_peer import PEERS

FIGURES: Figures = {"seconds": ("s", 1), "rows_per_s": ("rows/s", 0), "peak_mb": ("peak MB", 0)}
LIMIT = 3600  # seconds, for one peer of one round
BASE = {"load": "parquet", "stream": "by_hand"}


def figures(measured: dict[str, Any]) -> dict[str, float]:
    """The figures of one round of one peer; a row counts each time that it is sent."""
    return {
        "seconds": measured["seconds"],
        "rows_per_s": measured["sent"] / measured["seconds"],
        "peak_mb": sum(measured["peak"].values()),
    }


def summary(measured: Measured) -> dict[str, Any]:
    """Medians, spread, and the ratio to the peer that each one is compared with."""
    by_peer = {
        peer: [figures(measured_round) for measured_round in rounds]
        for peer, rounds in measured.items()
    }
    result: dict[str, Any] = {}
    for peer, rounds in by_peer.items():
        result[peer] = middle_and_spread(rounds) | {"rows": measured[peer][0]["rows"]}
        if BASE.get(peer) in by_peer:
            result[peer]["ratio"] = ratios(rounds, by_peer[BASE[peer]])["rows_per_s"]
    return result


def markdown(peers: dict[str, Any], rounds: int) -> str:
    """The table that a person reads."""
    head = [f"{rounds} rounds", "rows in the table", *(text for text, _ in FIGURES.values())]
    lines = [[*head, "rows/s to the other's"]]
    for peer, medians in peers.items():
        cells = [spread_cell(medians, key, digits) for key, (_, digits) in FIGURES.items()]
        ratio = f"{medians['ratio']:.2f}" if "ratio" in medians else ""
        lines.append([f"`{peer}`", f"{medians['rows']:,}", *cells, ratio])
    return table(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS, rounds=3)
    parser.add_argument("--rows", type=int, default=10_000_000, help="that are loaded")
    arguments = parser.parse_args()
    names = chosen(parser, arguments, PEERS)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as data:
        script = "own_data_peer.py"
        for kind in sorted({PEERS[peer] for peer in names}):
            run_script(kind, [script, kind, data, "--rows", str(arguments.rows)], LIMIT)

        def measure(peer: str) -> dict[str, Any]:
            return run_script(peer, [script, peer, data], LIMIT)

        for _, measured in rounds_of(names, arguments.rounds, measure, figures):
            result = summary(measured)
            write(arguments.json, {"rounds": arguments.rounds, "peers": result})
    print(markdown(result, arguments.rounds), flush=True)


if __name__ == "__main__":
    main()
