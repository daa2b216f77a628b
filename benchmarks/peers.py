"""Compare the lab's way into Hudi with other sinks, and with Hudi's own defaults, in one run.

Usage: python benchmarks/peers.py [--rounds N] [--peers a,b,...] [--json FILE] [--picture FILE]
Each round starts every peer in a fresh process, one after the other, in another order each time.
Prints a Markdown table: medians of the rounds, their spread, and ratios to Parquet in the same
round; the files are written after each round. A peer whose table is not what its generator says
has no figures: the run ends.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from spark_peer import LAB, PROJECT, SPARK_PEERS

from hudilab.runtime.java.fetch import fetch

FLINK = "flink_hudi"
PEERS = (*SPARK_PEERS, FLINK)
GROUPS = {"delta": "delta", "iceberg": "iceberg", FLINK: "flink"}
# Key, what it is in the table, digits.
FIGURES = {
    "rows_per_s": ("rows/s, batches of 100,000", 0),
    "rows_per_s_10k": ("rows/s, batches of 10,000", 0),
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


def run_script(peer: str, command: Sequence[str], limit: float) -> dict[str, Any]:
    """Run a script of this folder with a home of its own, for `limit` seconds at most."""
    script, *arguments = command
    with tempfile.TemporaryDirectory() as home:
        program = str(Path(__file__).resolve().parent / script)
        done = subprocess.run(
            [sys.executable, program, *arguments, "--home", home],
            cwd=home,
            env=os.environ | {"RUNTIME_ENV": "", "IS_LOCAL": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{peer} failed: {done.stderr[-2000:]}; fix it before you measure")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def figures(found: dict[str, Any]) -> dict[str, float]:
    """The figures of one round of one peer."""
    if "loads" not in found:
        return {key: found[key] for key in FIGURES if key in found}
    result = {"first_commit_s": found["first_commit_s"], "peak_rss_mb": sum(found["peak"].values())}
    for name, load in found["loads"].items():
        counted = load["batches"][load["warm"] :]
        times = [batch["triggerExecution"] for batch in counted]
        if name == "heartbeat":
            result["heartbeat_ms"] = statistics.median(times)
        else:
            # All batches, with those that also compact or clean.
            rate = sum(batch["rows"] for batch in counted) / sum(times) * 1000
            result["rows_per_s" if name == "100k" else f"rows_per_s_{name}"] = rate
    return result


def phases(rounds: list[dict[str, Any]], load: str) -> dict[str, float]:
    """Median milliseconds of each phase of a batch, over all counted batches of all rounds.

    The phases of Spark's progress (triggerExecution is the whole), and for Hudi what lies between
    the instants requested and completed, which is a part of addBatch.
    """
    found: dict[str, list[float]] = {}
    for one in (each["loads"][load] for each in rounds):
        for batch in one["batches"][one["warm"] :]:
            for key in set(batch) - {"batch", "rows", "at"}:
                found.setdefault(key, []).append(batch[key])
        for commit in one.get("hudi", [])[one["warm"] : len(one["batches"])]:
            found.setdefault("hudi_commit", []).append(commit["requested_to_completed"])
    return {key: statistics.median(values) for key, values in sorted(found.items())}


def details(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Phases, files, bytes and processor seconds a batch; for Flink, its jobs."""
    last = rounds[-1]
    if "loads" not in last:
        jobs = {
            name: job
            | {"rows_per_s": statistics.median(one["jobs"][name]["rows_per_s"] for one in rounds)}
            for name, job in last["jobs"].items()
        }
        return {"versions": last["versions"], "jobs": jobs}
    a_batch = {}
    for name, load in last["loads"].items():
        keys = ("data_files", "data_bytes", "other_files", "other_bytes")
        a_batch[name] = {key: round(load[key] / len(load["batches"]), 1) for key in keys}
        cpu = statistics.median(one["loads"][name]["cpu_s_a_batch"] for one in rounds)
        a_batch[name]["cpu_s"] = round(cpu, 2)
    return {"phases_ms": {name: phases(rounds, name) for name in last["loads"]}, "a_batch": a_batch}


def summary(measured: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Medians, spread and ratios of all peers: what goes into the JSON file."""
    by_peer = {peer: [figures(found) for found in rounds] for peer, rounds in measured.items()}
    result: dict[str, Any] = {}
    for peer, rounds in by_peer.items():
        one = middle_and_spread(rounds)
        for base in ("parquet", "hudi_default_insert", "hudi_default_upsert", FLINK):
            if base in by_peer and base != peer:
                one[f"ratio_to_{base}"] = ratios(rounds, by_peer[base])
        one |= details(measured[peer])
        result[peer] = one
    return result


def middle_and_spread(rounds: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The median of each figure, and its lowest and highest value."""
    one: dict[str, Any] = {key: statistics.median(r[key] for r in rounds) for key in rounds[0]}
    spread = {key: [min(r[key] for r in rounds), max(r[key] for r in rounds)] for key in one}
    return one | {"spread": spread}


def ratios(
    rounds: Sequence[dict[str, float]], others: Sequence[dict[str, float]]
) -> dict[str, float]:
    """For each figure that both have, the median of the ratios within a round.

    Nothing is compared with a figure of 0, such as the services of a peer that has none.
    """
    pairs = list(zip(rounds, others, strict=True))
    return {
        key: statistics.median(mine[key] / other[key] for mine, other in pairs)
        for key in rounds[0]
        if all(other.get(key) for other in others)
    }


def spread_cell(one: dict[str, Any], key: str, digits: int) -> str:
    """The median in bold, and the spread."""
    low, high = one["spread"][key]
    return f"**{one[key]:,.{digits}f}** ({low:,.{digits}f} - {high:,.{digits}f})"


def table(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first line is its head."""
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *rest])


def markdown(peers: dict[str, Any], rounds: int) -> str:
    """The table that a person reads."""
    ratio = "ratio_to_parquet"
    head = [f"{rounds} rounds, {os.cpu_count()} cores"]
    lines = [head + [text for text, _ in FIGURES.values()]]
    for peer, one in peers.items():
        row = [f"`{peer}`"]
        for key, (_, digits) in FIGURES.items():
            if key not in one:
                row.append("-")
                continue
            text = spread_cell(one, key, digits)
            if ratio in one and key in one[ratio]:
                text += f", {one[ratio][key]:.2f} x"
            row.append(text)
        lines.append(row)
    return table(lines)


def bars(axes: Axes, peers: dict[str, Any], key: str, ours: Collection[str]) -> None:
    """A bar with its spread for each peer that has the figure, the lab's own in blue."""
    names = [peer for peer in peers if key in peers[peer]]
    values = [peers[peer][key] for peer in names]
    spread = [peers[peer]["spread"][key] for peer in names]
    low = [value - low for value, (low, _) in zip(values, spread, strict=True)]
    high = [high - value for value, (_, high) in zip(values, spread, strict=True)]
    colors = ["tab:blue" if name in ours else "lightgrey" for name in names]
    axes.barh(names, values, xerr=[low, high], color=colors, ecolor="grey")
    axes.spines[["top", "right"]].set_visible(False)


def picture(peers: dict[str, Any], file: Path) -> None:
    """Bars for the three figures that a user feels, with their spread."""
    shown = [("rows_per_s", "rows/s, batches of 100,000"), ("heartbeat_ms", "ms, batch of 10")]
    shown.append(("first_commit_s", "s to the first commit"))
    figure, all_axes = plt.subplots(1, 3, figsize=(12, 0.45 * len(peers) + 1.2), sharey=True)
    for axes, (key, title) in zip(all_axes, shown, strict=True):
        bars(axes, peers, key, LAB)
        axes.set_title(title, fontsize=10)
    all_axes[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def add_arguments(parser: argparse.ArgumentParser, peers: Collection[str], rounds: int) -> None:
    """Add the arguments that every comparison has; `chosen` checks them."""
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--peers", default=",".join(peers), help="of " + ",".join(peers))
    add_files(parser)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name files to write; `check_files` checks them."""
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--picture", type=Path, help="draw them into this PNG")


def check_files(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End the program if a file's folder is not there."""
    for file in (arguments.json, arguments.picture):
        if file is not None and not file.resolve().parent.is_dir():
            parser.error(f"{file.resolve().parent} is not a directory; make it first")


def chosen(
    parser: argparse.ArgumentParser, arguments: argparse.Namespace, peers: Collection[str]
) -> list[str]:
    """The peers asked for, in the order of `peers`; ends the program if an argument is wrong."""
    asked = arguments.peers.split(",")
    if unknown := [peer for peer in asked if peer not in peers]:
        parser.error(f"no peer {', '.join(unknown)}; peers are {', '.join(peers)}")
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    check_files(parser, arguments)
    return [peer for peer in peers if peer in asked]


def fetch_jars(groups: Sequence[str]) -> None:
    """Fetch group core and these groups, silently."""
    fetch(PROJECT / "jars", ["core", *groups], say=lambda line: None)


def turns(peers: Sequence[str], number: int) -> Iterator[str]:
    """The peers of a round: another one begins each, so that none always follows the same one."""
    shift = number % len(peers)
    yield from (*peers[shift:], *peers[:shift])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser, PEERS, rounds=5)
    arguments = parser.parse_args()
    asked = chosen(parser, arguments, PEERS)
    fetch_jars([group for peer, group in GROUPS.items() if peer in asked])
    measured: dict[str, list[dict[str, Any]]] = {peer: [] for peer in asked}
    for number in range(arguments.rounds):
        for peer in turns(asked, number):
            measured[peer].append(measure(peer))
            said = {key: round(value, 1) for key, value in figures(measured[peer][-1]).items()}
            print(f"round {number + 1} {peer} {said}", file=sys.stderr, flush=True)
        # After each round, so that a run that is cut short has not been for nothing.
        peers = summary(measured)
        if arguments.json:
            about = {"rounds": number + 1, "cores": os.cpu_count(), "peers": peers}
            arguments.json.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        if arguments.picture:
            picture(peers, arguments.picture)
    print(markdown(peers, arguments.rounds))


if __name__ == "__main__":
    main()
