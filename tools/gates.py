"""The gates of `make test`, cheapest first, each with its seconds; stops at the first failure.

Those that need no JVM come one after the other. The others share the two cores of a small machine:
two at a time, and what one prints is shown when it has ended. At the end: what running all
notebooks once takes, and the ten slowest tests and cells.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import BinaryIO
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("lib", "tests", "tools", "notebooks", "benchmarks", "docker")
PYTEST = ("pytest", "-q")
GOLDEN = ("--nbval-lax", "--nbval-current-env", "--nbval-sanitize-with", "tests/nbval_sanitize.cfg")
CURRICULUM = "golden cells"
GATES: dict[str, tuple[str, ...]] = {
    "lint": ("ruff", "check", *SOURCES),
    "format": ("ruff", "format", "--check", *SOURCES),
    "types": ("mypy", "--strict", "lib"),
    "unit tests": (*PYTEST, "tests/unit"),
    "notebook contract": (*PYTEST, "tests/contract"),
    "Spark tests": (*PYTEST, "tests/spark"),
    "services": (*PYTEST, "tests/services"),
    "crashes": (*PYTEST, "tests/crash"),
    "notebooks": (*PYTEST, "tests/notebooks"),
    CURRICULUM: (*PYTEST, *GOLDEN, "notebooks"),
}
QUICK = ("lint", "format", "types", "unit tests", "notebook contract")
# Servers at their usual ports are in one lane: two brokers cannot have the same one.
LANES = (("services", CURRICULUM), ("Spark tests", "crashes", "notebooks"))


def parts(report: Path) -> list[tuple[float, str]]:
    """Seconds and name of each test, or notebook cell, in a JUnit report of pytest."""
    if not report.exists():
        return []
    cases = ElementTree.parse(report).iter("testcase")
    return [
        (float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}")
        for case in cases
    ]


def slowest(found: list[tuple[float, str]], count: int = 10) -> list[str]:
    """A line for each of the slowest, the slowest first."""
    return [f"{seconds:8.1f} s  {name}" for seconds, name in sorted(found, reverse=True)[:count]]


class Run:
    """One run of gates; `code` is that of the first that has failed, else 0."""

    def __init__(self) -> None:
        self.code, self.found = 0, dict[str, list[tuple[float, str]]]()
        self._lock, self._running = Lock(), set[subprocess.Popen[bytes]]()

    def gates(self, names: tuple[str, ...], *, at_once: bool) -> None:
        """Run these one after the other; `at_once`: show what they print while they run."""
        for name in names:
            if self.code == 0:
                self._gate(name, at_once=at_once)

    def _gate(self, name: str, *, at_once: bool) -> None:
        number = [*GATES].index(name) + 1
        head = f"\n== {number}/{len(GATES)} {name}: {' '.join(GATES[name])}"
        print(head if at_once else f"{head} (started)", flush=True)
        started = time.monotonic()
        # A home of its own: no gate reads, or deletes, what a user wrote to .lab.
        with tempfile.TemporaryDirectory() as home:
            report, log = Path(home, "report.xml"), Path(home, "gate.log")
            reported = ("--junitxml", str(report)) if GATES[name][0] == "pytest" else ()
            with log.open("wb") as file:
                to = None if at_once else file
                code = self._wait([sys.executable, "-m", *GATES[name], *reported], home, to)
            self.found[name] = parts(report)
            printed = log.read_text(encoding="utf-8", errors="replace")
        became = f"FAILED (exit code {code})" if code else "passed"
        with self._lock:
            if self.code:
                return  # it was stopped because another one has failed
            told = printed and f"{head}\n{printed.rstrip()}\n"
            print(f"{told}== {name} {became} after {time.monotonic() - started:.1f} s", flush=True)
            self.code = code
            others = self._running if code else set()
            for one in others:
                one.send_signal(signal.SIGINT)  # its servers are stopped

    def _wait(self, command: list[str], home: str, to: BinaryIO | None) -> int:
        env = os.environ | {"HUDILAB_HOME": home}
        null = subprocess.DEVNULL
        running = subprocess.Popen(command, cwd=ROOT, env=env, stdin=null, stdout=to, stderr=to)
        with self._lock:
            self._running.add(running)
        try:
            return int(running.wait())
        finally:
            with self._lock:
                self._running.discard(running)


def main() -> int:
    """The exit code of the first gate that fails, else 0."""
    begun, run = time.monotonic(), Run()
    run.gates(QUICK, at_once=True)
    with ThreadPoolExecutor(len(LANES)) as lanes:
        for done in [lanes.submit(run.gates, lane, at_once=False) for lane in LANES]:
            done.result()
    if run.code:
        return run.code
    curriculum = sum(seconds for seconds, _ in run.found[CURRICULUM])
    notebooks = len(list((ROOT / "notebooks").glob("*.ipynb")))
    print(
        f"\nthe curriculum: {notebooks} notebooks run in {curriculum:.0f} s; slowest of all parts:"
    )
    print("\n".join(slowest([part for found in run.found.values() for part in found])))
    print(f"\nhudilab: {len(GATES)} gates passed in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
