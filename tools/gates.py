"""The gates of `make test`, each with its seconds; stops at the first failure.

Two gates run at a time, and each prints its output when it ends. Gates that start no Spark come
first, and the book comes after the notebooks that it shows. The longest notebooks are left to
`make test-deep`. `--quick` runs what starts no Spark. `--gate NAME` runs one gate and passes it all
further arguments. `--lesson 03` runs one notebook and compares its results with those in git.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Condition, Lock
from typing import BinaryIO

from hudilab_spark.environment import JAVA_OPTIONS
from hudilab_spark.java import FAST_START

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("lib", "packages", "tests", "tools", "notebooks", "benchmarks", "docker", "book")
PYTEST = ("pytest", "-q", "-rs", "--durations=5")
GOLDEN = ("--nbval-lax",)  # pyproject.toml has the other options
# The book shows the notebooks as these gates ran them.
KEPT = ("-p", "tools.keep_executed", "--executed-to", "dist/executed")
CURRICULUM, LATER = "golden cells", "golden cells of later lessons"
WITH_SERVERS, LONG = "golden cells with servers", "golden cells of long lessons"


def lessons(gate: str) -> list[str]:
    """The notebooks whose golden cells a gate compares."""
    notebooks = sorted((ROOT / "notebooks").glob("*.ipynb"))
    return [str(path.relative_to(ROOT)) for path in notebooks if gate_of(path) == gate]


@cache
def gate_of(notebook: Path) -> str:
    """The gate that compares a notebook's golden cells, by the tags in its metadata."""
    tags = json.loads(notebook.read_text("utf-8"))["metadata"].get("tags", ())
    if "long" in tags or "servers" in tags:
        return LONG if "long" in tags else WITH_SERVERS
    return CURRICULUM if notebook.name < "12" else LATER


GATES: dict[str, tuple[str, ...]] = {
    "lint": ("ruff", "check", *SOURCES),
    "format": ("ruff", "format", "--check", *SOURCES),
    "types": ("mypy",),
    "unit tests": (*PYTEST, "tests/unit"),
    "notebook contract": (*PYTEST, "tests/contract"),
    "Spark tests": (*PYTEST, "tests/spark"),
    "services": (*PYTEST, "tests/services"),
    "crashes": (*PYTEST, "tests/crash"),
    "notebooks": (*PYTEST, "tests/notebooks"),
    **{
        gate: (*PYTEST, *GOLDEN, *KEPT, *lessons(gate))
        for gate in (CURRICULUM, LATER, WITH_SERVERS, LONG)
    },
    "book": (*PYTEST, "tests/book"),
}
# Two gates run at a time: whichever ends takes the next one that may begin.
QUICK = ("unit tests", "lint", "format", "types", "notebook contract")
SLOW = ("services", "Spark tests", CURRICULUM, LATER, WITH_SERVERS, "notebooks", "book", "crashes")
# A gate begins after these: what needs Java after what doesn't, the book after its lessons. Gates
# that start servers on their usual ports follow each other, as two brokers cannot have one port.
AFTER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SLOW, QUICK[1:]),
    WITH_SERVERS: ("services",),
    "book": (CURRICULUM, LATER, WITH_SERVERS),
}


class Run:
    """One run of gates; `code` is the exit code of the first gate that failed, else 0."""

    def __init__(self, arguments: Sequence[str] = (), *, at_once: bool = False) -> None:
        """arguments: passed to each gate; at_once: show its output while it runs."""
        self.code = 0
        self._arguments, self._at_once = arguments, at_once
        self._lock, self._running = Lock(), set[subprocess.Popen[bytes]]()

    def gates(self, names: Sequence[str]) -> None:
        """Run the gates, two at a time and in this order, until one fails."""
        left, done = list(names), set[str]()
        changed = Condition()

        def work() -> None:
            while True:
                with changed:
                    while self.code == 0 and left and not (name := ready()):
                        changed.wait()
                    if self.code or not left:
                        return
                    left.remove(name)
                try:
                    self._gate(name)
                finally:
                    with changed:
                        done.add(name)
                        changed.notify_all()

        def ready() -> str:
            wanted = {*names} - done
            return next((name for name in left if not wanted & {*AFTER.get(name, ())}), "")

        with ThreadPoolExecutor(2) as threads:
            for worker in [threads.submit(work) for _ in range(2)]:
                worker.result()

    def _gate(self, name: str) -> None:
        command, number = (*GATES[name], *self._arguments), [*GATES].index(name) + 1
        head = f"== {number}/{len(GATES)} {name}: {' '.join(command)}"
        if self._at_once:
            print(f"\n{head}", flush=True)
        started = time.monotonic()
        # A home of its own: no gate reads, or deletes, what a user wrote to .lab.
        with tempfile.TemporaryDirectory() as home:
            log = Path(home, "gate.log")
            with log.open("wb") as file:
                to = None if self._at_once else file
                env = {"HUDILAB_HOME": home, JAVA_OPTIONS: FAST_START}
                # As in an activated environment: remedies name `hudilab` without its path.
                env["PATH"] = os.pathsep.join((f"{sys.prefix}/bin", os.environ.get("PATH", "")))
                code = self._wait([sys.executable, "-m", *command], env, to)
            printed = log.read_text(encoding="utf-8", errors="replace")
        seconds = time.monotonic() - started
        with self._lock:
            if self.code:
                return  # another gate failed first and stopped this one
            if not self._at_once:
                print(f"\n{head}\n{printed.rstrip()}", flush=True)
            if code:
                print(f"== {name} FAILED after {seconds:.1f} s (exit code {code})", flush=True)
                for process in self._running:
                    process.send_signal(signal.SIGINT)  # so that it stops its servers
            else:
                print(f"== {name} passed in {seconds:.1f} s", flush=True)
            self.code = code

    def _wait(self, command: list[str], env: dict[str, str], to: BinaryIO | None) -> int:
        null, env = subprocess.DEVNULL, os.environ | env
        running = subprocess.Popen(command, cwd=ROOT, env=env, stdin=null, stdout=to, stderr=to)
        with self._lock:
            self._running.add(running)
        try:
            return int(running.wait())
        finally:
            with self._lock:
                self._running.discard(running)


def main(*given: str) -> int:
    """The exit code of the first gate that fails, else 0."""
    parser = argparse.ArgumentParser(prog="gates.py", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="run only what starts no Spark")
    parser.add_argument("--gate", choices=[*GATES], help="run only this gate")
    parser.add_argument("--lesson", help="run only the notebook whose name starts with this")
    options, arguments = parser.parse_known_args(given)
    if arguments and not options.gate:
        parser.error(f"{' '.join(arguments)} applies to one gate; choose it with --gate NAME")
    # A shell starts background jobs with SIGINT ignored; the gates would inherit that and run on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    begun = time.monotonic()
    if options.lesson:
        numbered = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
        chosen = [path for path in numbered if path.name.startswith(options.lesson)]
        if len(chosen) != 1:
            names = ", ".join(path.stem for path in numbered)
            parser.error(
                f"{len(chosen)} notebooks start with {options.lesson!r}; choose one of: {names}"
            )
        GATES[CURRICULUM] = (*PYTEST, *GOLDEN, *KEPT, str(chosen[0].relative_to(ROOT)))
        options.gate = CURRICULUM
    if options.gate:
        run = Run(arguments, at_once=True)
        run.gates([options.gate])
        return run.code
    run, wanted = Run(), QUICK if options.quick else (*QUICK, *SLOW)
    run.gates(wanted)
    if run.code:
        return run.code
    print(f"\nhudilab: {len(wanted)} gates passed in {time.monotonic() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    sys.exit(main(*sys.argv[1:]))
