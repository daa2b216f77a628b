"""Run thousands of micro-batches, kill the driver again and again, and look for what grows.

Usage: python benchmarks/soak.py [--appends N] [--upserts N] [--kill-every N] [--seed N]
    [--most RATIO] [--json FILE]
The appends and the upserts (MERGE_ON_READ) are two parts, each with a driver of its own, with the
ledger and the table services on. About every so many batches the driver is killed (kill -9) at a
seeded moment, and started again. A new driver has a new JVM: to see memory grow, kill nothing, with
--kill-every 0. At the end each table is compared with its generator. Prints medians by fifths of
the batches, and the last fifth's ratio to the second; exits with 1 if a ratio is above --most, or a
row is lost, twice or wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from comparison import Figures, add_file, check_file, table, write
from peers import fetch_jars
from spark_peer import PROJECT

sys.path.append(str(PROJECT / "tests"))
from running import start_program, wait_while_running

PARTS = {"appends": "hudi_append", "upserts": "hudi_upsert_mor"}
# Key, what it is in the table, digits.
FIGURES: Figures = {
    "seconds": ("s a batch", 2),
    "files": ("files", 0),
    "timeline_files": ("timeline files", 0),
    "jvm_mb": ("JVM, MB", 0),
    "python_mb": ("Python, MB", 0),
    "jvm_descriptors": ("open files of the JVM", 0),
    "python_descriptors": ("open files of Python", 0),
}
FIFTHS = 5
PATIENCE = 3600  # seconds, from one kill to the next; the last life has six times as long


class Part:
    """The batches of one part, in a folder of its own, whatever kills its driver."""

    def __init__(self, name: str, batches: int, home: Path) -> None:
        self.name, self.batches, self.home = name, batches, home

    def run(self, kill_every: int, moments: random.Random) -> dict[str, Any]:
        """Run to the end; the result of the comparison, the kills and a record of each batch."""
        kills, shortest = 0, kill_every // 2 + 1
        # Not after as many batches each time: services run every tenth and twentieth batch.
        while kill_every and (more := moments.randrange(shortest, 3 * shortest)) < self.left():
            self.live_until(self.done() + more, kills, moments.uniform(0.0, 1.5))
            kills += 1
            print(f"{self.name}: kill {kills} at batch {self.done()}", file=sys.stderr, flush=True)
        return {"kills": kills, **self.finish(kills), "batches": self.records()}

    def live_until(self, batch: int, life: int, delay: float) -> None:
        """Start the driver, wait until it has done a batch, wait a moment, and kill it."""
        driver = self.start(life)
        try:
            what = f"batch {batch} of the {self.name}"
            wait_while_running(driver, lambda: self.done() >= batch, PATIENCE, what)
            time.sleep(delay)
        finally:
            end(driver)

    def finish(self, life: int) -> dict[str, Any]:
        """Let the driver end by itself; what it found when it compared."""
        driver = self.start(life)
        try:
            out, err = driver.communicate(timeout=6 * PATIENCE)
        finally:
            end(driver)
        if driver.returncode:
            raise SystemExit(f"{self.name} failed: {err[-2000:]}; fix it before you soak again")
        return dict(json.loads(out.splitlines()[-1]))

    def start(self, life: int) -> subprocess.Popen[str]:
        script = str(Path(__file__).with_name("soak_driver.py"))
        sizes = ["--batches", str(self.batches), "--life", str(life), "--home", str(self.home)]
        env = {"HUDILAB_HOME": str(self.home), "RUNTIME_ENV": "", "IS_LOCAL": ""}
        return start_program(script, PARTS[self.name], *sizes, env=env, cwd=str(self.home))

    def records(self) -> list[dict[str, Any]]:
        file = self.home / "batches.jsonl"
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        # After the last batch, the stream runs empty ones until it is stopped.
        recorded = [record for record in map(json.loads, lines) if record["batch"] < self.batches]
        return sorted(recorded, key=lambda record: int(record["batch"]))

    def left(self) -> int:
        return self.batches - self.done()

    def done(self) -> int:
        """How many batches are recorded as done."""
        return max((record["batch"] + 1 for record in self.records()), default=0)


def end(driver: subprocess.Popen[str]) -> None:
    """Kill Python and the JVM at once, if they still run."""
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()


def fifths(records: list[dict[str, Any]], key: str) -> list[float]:
    """The median of each fifth of the batches."""
    size = len(records) // FIFTHS
    parts = [records[at * size : (at + 1) * size] for at in range(FIFTHS)]
    return [statistics.median(record[key] for record in part if key in record) for part in parts]


def growth(records: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For each figure, the medians of the fifths, and the last one's ratio to the second."""
    results = {}
    for key in FIGURES:
        medians = fifths(records, key)
        results[key] = {"fifths": medians, "ratio": medians[-1] / medians[1]}
    return results


def markdown(name: str, part: dict[str, Any]) -> str:
    """The table that a person reads."""
    head = [f"{len(part['batches'])} {name}, {part['kills']} kills"]
    lines = [[*head, *(f"fifth {number}" for number in range(1, FIFTHS + 1)), "last to second"]]
    for key, figure in part["growth"].items():
        text, digits = FIGURES[key]
        cells = [f"{value:,.{digits}f}" for value in figure["fifths"]]
        lines.append([text, *cells, f"**{figure['ratio']:.2f}**"])
    return table(lines)


def problems(name: str, part: dict[str, Any], most: float) -> list[str]:
    """What is wrong with a part, in words."""
    losses = [f"{name}: {part[kind]} rows {kind}" for kind in ("lost", "twice") if part[kind]]
    for key, figure in part["growth"].items():
        if figure["ratio"] > most:
            losses.append(f"{name}: {FIGURES[key][0]} grew to {figure['ratio']:.2f} times")
    return losses


def checked() -> argparse.Namespace:
    """The arguments; ends the program if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--appends", type=int, default=2000, help="batches; 0 leaves them out")
    parser.add_argument("--upserts", type=int, default=500, help="batches; 0 leaves them out")
    parser.add_argument(
        "--kill-every",
        type=int,
        default=50,
        help="batches from kill to kill, half to one and a half of these; 0: none",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the moments of the kills")
    parser.add_argument("--most", type=float, default=1.2, help="the greatest ratio that passes")
    add_file(parser)
    arguments = parser.parse_args()
    for name in PARTS:
        if 0 != getattr(arguments, name) < 3 * FIFTHS:
            parser.error(f"--{name} must be {3 * FIFTHS} or more, or 0")
    if not arguments.appends and not arguments.upserts:
        parser.error("--appends and --upserts are both 0; give one of them")
    if arguments.kill_every < 0:
        parser.error("--kill-every must be 0 or more")
    if not arguments.most > 0:
        parser.error("--most must be more than 0")
    check_file(parser, arguments)
    return arguments


def main() -> int:
    arguments = checked()
    # So that a run that is cut short leaves no driver behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    fetch_jars([])
    moments, parts = random.Random(arguments.seed), dict[str, Any]()
    for name in PARTS:
        if batches := getattr(arguments, name):
            with tempfile.TemporaryDirectory() as home:
                part = Part(name, batches, Path(home)).run(arguments.kill_every, moments)
            parts[name] = part | {"growth": growth(part["batches"])}
            print(markdown(name, parts[name]))
            print(f"\nrows {part['rows']}, lost {part['lost']}, twice {part['twice']}\n")
            write(arguments.json, {"arguments": vars(arguments), "parts": parts})
    wrong = [text for name, part in parts.items() for text in problems(name, part, arguments.most)]
    print("\n".join(wrong) or "nothing is lost, nothing is twice, nothing grows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
