"""Where each second goes: one batch of the append path, and the start, as tables and a picture.

Usage: python benchmarks/phases.py [--load ROWSxWARMxCOUNTED] [--set KEY=VALUE]... [--picture FILE]
Of the counted batches the one with the median time is shown: phases of Spark's progress, Hudi's
commit (requested to completed), and each Spark job with the text that Hudi gives it.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from peers import measure


class Bar(NamedTuple):
    """A phase of a batch, in milliseconds since the batch's start."""

    kind: str
    name: str
    start: float
    end: float


def seconds(text: str) -> float:
    """Epoch seconds of a progress timestamp or an instant."""
    if text.isdecimal():
        return datetime.strptime(text + "000+0000", "%Y%m%d%H%M%S%f%z").timestamp()
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC).timestamp()


def bars(batch: dict[str, Any], commit: dict[str, Any], jobs: list[dict[str, Any]]) -> list[Bar]:
    """What happened in a batch, in the order of its start."""
    begin, whole = seconds(batch["at"]), batch["triggerExecution"]
    saved = whole - batch["commitOffsets"]
    written = saved - batch["addBatch"]
    drawn = [
        Bar("Spark", "plan the batch, write-ahead log", 0, written),
        Bar("Spark", "foreachBatch: the write", written, saved),
        Bar("Spark", "commit log of the checkpoint", saved, whole),
    ]
    requested_at = (seconds(commit["instant"]) - begin) * 1000
    drawn.append(
        Bar(
            "Hudi",
            "requested to completed",
            requested_at,
            requested_at + commit["requested_to_completed"],
        )
    )
    for job in jobs:
        start, end = ((job[key] - begin) * 1000 for key in ("start", "end"))
        if 0 <= start <= whole:
            drawn.append(
                Bar(
                    "job", f"{job['name'].partition(':')[0][:60]}, {job['tasks']} tasks", start, end
                )
            )
    return sorted(drawn, key=lambda bar: (bar.start, -bar.end))


def picture(bars: list[Bar], title: str, file: Path) -> None:
    """The bars from above to below, as they began."""
    colors = {"Spark": "lightgrey", "Hudi": "tab:orange", "job": "tab:blue"}
    figure, axes = plt.subplots(figsize=(10, 0.28 * len(bars) + 1))
    for row, bar in enumerate(bars):
        axes.barh(row, bar.end - bar.start, left=bar.start, color=colors[bar.kind])
    axes.set_yticks(range(len(bars)), [bar.name for bar in bars], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("ms since the batch began")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", default="hudi_append")
    parser.add_argument("--load", default="10x8x11")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    options = ["--loads", arguments.load, "--watch"]
    measured = measure(arguments.peer, options + [f"--set={change}" for change in arguments.set])
    load = measured["loads"][arguments.load]
    first, counted = load["batches"][0], load["batches"][load["warm"] :]
    batch = sorted(counted, key=lambda timed: timed["triggerExecution"])[len(counted) // 2]
    commit = load["hudi"][batch["batch"]]
    shown = bars(batch, commit, measured["jobs"])
    print("| the start | seconds since the process began |\n|---|---|")
    print(f"| Python's imports done | {measured['imported_s']:.2f} |")
    print(f"| session open | {measured['session_s']:.2f} |")
    print(f"| first batch committed | {measured['first_commit_s']:.2f} |")
    print(f"| (of these, the first batch) | {first['triggerExecution'] / 1000:.2f} |\n")
    print(f"| a batch of {batch['rows']} rows | from ms | to ms | ms |\n|---|---|---|---|")
    for kind, name, start, end in shown:
        print(f"| {kind}: {name} | {start:.0f} | {end:.0f} | {end - start:.0f} |")
    if arguments.picture:
        title = f"{batch['rows']} rows, batch {batch['batch']}: {batch['triggerExecution']} ms"
        picture(shown, title, arguments.picture)


if __name__ == "__main__":
    main()
