"""Time the warm `make run` and its parts; medians of several runs, each in an empty warehouse.

Usage: python benchmarks/foundation.py [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import nbformat

PROJECT = Path(__file__).resolve().parent.parent


def one_round() -> dict[str, float]:
    """Seconds of one `make run`: the whole, each notebook's cells, and their session cells."""
    with tempfile.TemporaryDirectory() as home:
        started = time.monotonic()
        done = subprocess.run(
            ["make", "--no-print-directory", "run"],
            cwd=PROJECT,
            env=os.environ | {"HUDILAB_HOME": home},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = {"make run": time.monotonic() - started}
        if done.returncode:
            raise SystemExit(f"make run failed: {done.stderr[-2000:]}; fix it before you measure")
        assert done.stdout.splitlines()[-1].startswith("hudilab: rows=5000 commits=5")
        for path in sorted(Path(home, "executed").glob("*.ipynb")):
            seconds |= notebook_seconds(path)
    return seconds


def notebook_seconds(path: Path) -> dict[str, float]:
    """Seconds of an executed notebook's cells in all, and of the cell that opens the session."""
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    durations = [(cell.source, cell.metadata.papermill.duration or 0.0) for cell in cells]
    opening = [duration for source, duration in durations if "open_session(" in source]
    return {
        f"{path.stem}: all cells": sum(duration for _, duration in durations),
        f"{path.stem}: session": sum(opening),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    subprocess.run(["make", "setup"], cwd=PROJECT, check=True, stdout=subprocess.DEVNULL)
    rounds = [one_round() for _ in range(arguments.rounds)]
    table: dict[str, Any] = {}
    print(f"| seconds, {len(rounds)} rounds, {os.cpu_count()} cores | min | median | max |")
    print("|---|---|---|---|")
    for part in rounds[0]:
        values = sorted(phases[part] for phases in rounds)
        table[part] = {
            "min": values[0],
            "median": statistics.median(values),
            "max": values[-1],
        }
        print(f"| {part} | " + " | ".join(f"{value:.1f}" for value in table[part].values()) + " |")
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
