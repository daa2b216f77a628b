"""The gates of `make test`, cheapest first, each with its seconds; stops at the first failure.

At the end: what running all notebooks once takes, and the ten slowest tests and cells.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
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


def main() -> int:
    """The exit code of the first gate that fails, else 0."""
    begun, found, curriculum = time.monotonic(), list[tuple[float, str]](), 0.0
    for number, (name, command) in enumerate(GATES.items(), start=1):
        print(f"\n== {number}/{len(GATES)} {name}: {' '.join(command)}", flush=True)
        started = time.monotonic()
        # A home of its own: no gate reads, or deletes, what a user wrote to .lab.
        with tempfile.TemporaryDirectory() as home:
            report = Path(home, "report.xml")
            reported = ("--junitxml", str(report)) if command[0] == "pytest" else ()
            code = subprocess.run(
                [sys.executable, "-m", *command, *reported],
                cwd=ROOT,
                env=os.environ | {"HUDILAB_HOME": home},
                stdin=subprocess.DEVNULL,
                check=False,
            ).returncode
            found += parts(report)
            if name == CURRICULUM:
                curriculum = sum(seconds for seconds, _ in parts(report))
        seconds = time.monotonic() - started
        if code:
            print(f"== {name} FAILED after {seconds:.1f} s (exit code {code})", flush=True)
            return code
        print(f"== {name} passed in {seconds:.1f} s", flush=True)
    notebooks = len(list((ROOT / "notebooks").glob("*.ipynb")))
    print(
        f"\nthe curriculum: {notebooks} notebooks run in {curriculum:.0f} s; slowest of all parts:"
    )
    print("\n".join(slowest(found)))
    print(f"\nhudilab: {len(GATES)} gates passed in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
