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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from spark_peer import LAB, PROJECT, SPARK_PEERS

from hudilab.config import load_settings
from hudilab.java import find_java
from hudilab.operations.fetch import fetch

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
    with tempfile.TemporaryDirectory() as home:
        folder = Path(__file__).resolve().parent
        command = [sys.executable, str(folder / "flink_peer.py"), "--home", home]
        if peer != FLINK:
            command = [sys.executable, str(folder / "spark_peer.py"), peer, "--home", home]
            command += ["--started", repr(time.time())]
        done = subprocess.run(
            [*command, *options],
            cwd=home,
            env=os.environ | {"RUNTIME_ENV": "", "IS_LOCAL": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"{peer} failed: {done.stderr[-2000:]}; mend it before you measure")
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
        keys = [key for key in FIGURES if key in rounds[0]]
        one: dict[str, Any] = {key: statistics.median(r[key] for r in rounds) for key in keys}
        one["spread"] = {
            key: [min(r[key] for r in rounds), max(r[key] for r in rounds)] for key in keys
        }
        for base in ("parquet", "hudi_default_insert", "hudi_default_upsert", FLINK):
            if base in by_peer and base != peer:
                pairs = list(zip(rounds, by_peer[base], strict=True))
                one[f"ratio_to_{base}"] = {
                    key: statistics.median(mine[key] / other[key] for mine, other in pairs)
                    for key in keys
                    if key in pairs[0][1]
                }
        one |= details(measured[peer])
        result[peer] = one
    return result


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
            low, high = one["spread"][key]
            text = f"**{one[key]:,.{digits}f}** ({low:,.{digits}f} - {high:,.{digits}f})"
            if ratio in one and key in one[ratio]:
                text += f", {one[ratio][key]:.2f} x"
            row.append(text)
        lines.append(row)
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def picture(peers: dict[str, Any], file: Path) -> None:
    """Bars for the three figures that a user feels, with their spread."""
    shown = [("rows_per_s", "rows/s, batches of 100,000"), ("heartbeat_ms", "ms, batch of 10")]
    shown.append(("first_commit_s", "s to the first commit"))
    figure, all_axes = plt.subplots(1, 3, figsize=(12, 0.45 * len(peers) + 1.2), sharey=True)
    for axes, (key, title) in zip(all_axes, shown, strict=True):
        names = [peer for peer in peers if key in peers[peer]]
        values = [peers[peer][key] for peer in names]
        spread = [peers[peer]["spread"][key] for peer in names]
        low = [value - low for value, (low, _) in zip(values, spread, strict=True)]
        high = [high - value for value, (_, high) in zip(values, spread, strict=True)]
        colors = ["tab:blue" if name in LAB else "lightgrey" for name in names]
        axes.barh(names, values, xerr=[low, high], color=colors, ecolor="grey")
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0].invert_yaxis()
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default=",".join(PEERS), help="of " + ",".join(PEERS))
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--picture", type=Path, help="draw the bars into this PNG")
    arguments = parser.parse_args()
    asked = arguments.peers.split(",")
    if unknown := [peer for peer in asked if peer not in PEERS]:
        parser.error(f"no peer {', '.join(unknown)}; peers are {', '.join(PEERS)}")
    if arguments.rounds < 1:
        parser.error("--rounds must be 1 or more")
    for file in (arguments.json, arguments.picture):
        if file is not None and not file.resolve().parent.is_dir():
            parser.error(f"{file.resolve().parent} is not a directory; make it first")
    settings = load_settings()
    groups = ["core", *(group for peer, group in GROUPS.items() if peer in asked)]
    java = find_java().home
    fetch(PROJECT / "jars", groups, java, cache=settings.home / "ivy", say=lambda line: None)
    measured: dict[str, list[dict[str, Any]]] = {peer: [] for peer in PEERS if peer in asked}
    for number in range(arguments.rounds):
        # Another peer begins each round, so that none always follows the same one.
        shift = number % len(measured)
        for peer in [*list(measured)[shift:], *list(measured)[:shift]]:
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
