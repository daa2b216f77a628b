"""The gates of `make test`, cheapest first, each with its seconds; stops at the first failure."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("lib", "tests", "tools", "notebooks", "benchmarks")
PYTEST = ("pytest", "-q")
GOLDEN = ("--nbval-lax", "--nbval-current-env", "--nbval-sanitize-with", "tests/nbval_sanitize.cfg")
GATES: dict[str, tuple[str, ...]] = {
    "lint": ("ruff", "check", *SOURCES),
    "format": ("ruff", "format", "--check", *SOURCES),
    "types": ("mypy", "--strict", "lib"),
    "unit tests": (*PYTEST, "tests/unit"),
    "notebook contract": (*PYTEST, "tests/contract"),
    "Spark tests": (*PYTEST, "tests/spark"),
    "notebooks": (*PYTEST, "tests/notebooks"),
    "golden cells": (*PYTEST, *GOLDEN, "notebooks"),
}


def main() -> int:
    """The exit code of the first gate that fails, else 0."""
    begun = time.monotonic()
    for number, (name, command) in enumerate(GATES.items(), start=1):
        print(f"\n== {number}/{len(GATES)} {name}: {' '.join(command)}", flush=True)
        started = time.monotonic()
        # A home of its own: no gate reads, or deletes, what a user wrote to .lab.
        with tempfile.TemporaryDirectory() as home:
            code = subprocess.run(
                [sys.executable, "-m", *command],
                cwd=ROOT,
                env=os.environ | {"HUDILAB_HOME": home},
                stdin=subprocess.DEVNULL,
                check=False,
            ).returncode
        seconds = time.monotonic() - started
        if code:
            print(f"== {name} FAILED after {seconds:.1f} s (exit code {code})", flush=True)
            return code
        print(f"== {name} passed in {seconds:.1f} s", flush=True)
    print(f"\nhudilab: {len(GATES)} gates passed in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main())
