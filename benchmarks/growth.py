"""What a batch costs after 500 commits: time, files and metadata of the append path as it grows.

Usage: python benchmarks/growth.py [--commits N] [--json FILE] [--picture FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
from peers import measure

PEER = "hudi_append"


def table(load: dict[str, Any], commits: int) -> list[tuple[str, list[str]]]:
    """Rows for windows of fifty commits: milliseconds, and the files at the window's end."""
    times = [batch["triggerExecution"] for batch in load["batches"]]
    starts = sorted({10, *range(100, commits - 50, 100), commits - 50})
    rows = []
    for start in starts:
        window = times[start : start + 50]
        files = next(state for state in reversed(load["files"]) if state["batch"] <= start + 50)
        rows.append(
            (
                f"{start} - {start + 50}",
                [
                    f"{statistics.median(window):.0f}",
                    f"{statistics.mean(window):.0f}",
                    f"{max(window)}",
                    *(str(files[key]) for key in ("data_files", "timeline_files", "other_files")),
                    f"{files['other_bytes'] / 1e6:.2f}",
                ],
            )
        )
    return rows


def picture(load: dict[str, Any], file: Path) -> None:
    """Above: a dot a batch. Below: the files."""
    figure, (above, below) = plt.subplots(2, 1, figsize=(9, 5), sharex=True)
    numbers = [batch["batch"] for batch in load["batches"]]
    above.plot(numbers, [batch["triggerExecution"] for batch in load["batches"]], ".", ms=3)
    above.set_yscale("log")
    above.set_ylabel("ms a batch")
    for key, name in (
        ("data_files", "data files"),
        ("timeline_files", "timeline files"),
        ("other_files", "all other files"),
    ):
        below.plot(
            [state["batch"] for state in load["files"]], [state[key] for state in load["files"]]
        )
        below.annotate(name, (load["files"][-1]["batch"], load["files"][-1][key]), fontsize=8)
    below.set_ylabel("files")
    below.set_xlabel("commits")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path)
    arguments = parser.parse_args()
    if arguments.commits < 150:
        parser.error("--commits must be 150 or more")
    name = f"10x0x{arguments.commits}"
    load = measure(PEER, ["--loads", name, "--watch"])["loads"][name]
    print(
        "| commits | median ms | mean ms | max ms | data files | timeline files "
        "| all other files | MB of these |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for window, cells in table(load, arguments.commits):
        print(f"| {window} | {' | '.join(cells)} |")
    times = [batch["triggerExecution"] for batch in load["batches"]]
    for what, figure in (("median", statistics.median), ("mean", statistics.mean)):
        ratio = figure(times[-50:]) / figure(times[10:60])
        print(f"last 50 to commits 10 - 60, {what}: {ratio:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(load) + "\n", encoding="utf-8")
    if arguments.picture:
        picture(load, arguments.picture)


if __name__ == "__main__":
    main()
