"""Deep tests in slices of at most 20 minutes: each run of CI takes one, after `make test`.

`tests/deep_seconds.json` has the seconds of each deep test and long lesson; a test that isn't in it
counts as 10. `tests/deep_waiting.txt` has those that no slice runs yet, with the reason.

Without an argument, it runs the slice whose turn it is: every 200 minutes comes the next one. So
whoever starts CI at least that often runs all slices in order, and nothing has to be stored between
two runs. A number runs that slice. `--list` prints all slices, and `--record REPORT...` writes the
seconds of JUnit reports into the file.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from bisect import bisect
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from xml.etree import ElementTree

import gates

ROOT = gates.ROOT
SECONDS = ROOT / "tests" / "deep_seconds.json"
WAITING = ROOT / "tests" / "deep_waiting.txt"
LONGEST = 20 * 60  # seconds of a slice
PARTS = 6  # of a slice's tests without servers
UNKNOWN = 10.0  # seconds of a test that has not been timed
TURN = 200 * 60  # seconds until the next slice
# Tests that start servers, on ports that only one of them can have: they follow one another.
SERVERS = ("tests/services/", "tests/containers/", "tests/notebooks/", "notebooks/")


def deep_tests() -> list[str]:
    """The ids of all deep tests, then the long lessons."""
    command = [sys.executable, "-m", "pytest", "tests", "-m", "deep", "--collect-only", "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    tests = [line for line in done.stdout.splitlines() if line.startswith("tests/")]
    return [*tests, *gates.lessons(gates.LONG)]


def waiting(tests: Sequence[str]) -> dict[str, str]:
    """The tests that no slice runs yet, with the reason: `start of an id: reason` a line."""
    found: dict[str, str] = {}
    for line in WAITING.read_text("utf-8").splitlines():
        start, colon, reason = line.partition(": ")
        if line.startswith("#") or not line.strip():
            continue
        those = [test for test in tests if test.startswith(start)]
        if not (colon and reason and those):
            sys.exit(f"{WAITING.name}: no deep test starts with {start!r}, or a reason is missing")
        found |= dict.fromkeys(those, reason)
    return found


def cut(
    tests: Sequence[str], seconds: Mapping[str, float], shares: Sequence[float]
) -> list[list[str]]:
    """The tests in parts, in their order; each takes about its share of the seconds."""
    parts: list[list[str]] = [[] for _ in shares]
    whole, before = sum(seconds[test] for test in tests), 0.0
    ends = [end / sum(shares) * whole for end in accumulate(shares)][:-1]
    for test in tests:
        parts[bisect(ends, before + seconds[test] / 2)].append(test)
        before += seconds[test]
    return parts


def slices(tests: Sequence[str], known: Mapping[str, float]) -> list[list[list[str]]]:
    """The fewest slices of at most `LONGEST` each.

    A slice has its tests that start servers, then the others in parts: whichever of two lanes ends
    takes the next part.
    """
    seconds = {test: known.get(test, UNKNOWN) for test in tests}
    with_servers = [test for test in tests if test.startswith(SERVERS)]
    others = [test for test in tests if not test.startswith(SERVERS)]
    if tests and seconds[longest := max(tests, key=seconds.__getitem__)] > LONGEST:
        sys.exit(f"{longest} takes {seconds[longest]:.0f} s, longer than a slice may")
    for number in range(1, len(tests) + 1):
        firsts = cut(with_servers, seconds, [1] * number)
        # All slices take the same time: one with long tests of servers has fewer others.
        mean = sum(seconds.values()) / number
        shares = [max(mean - sum(seconds[test] for test in first), 1) for first in firsts]
        found = []
        for first, second in zip(firsts, cut(others, seconds, shares), strict=True):
            parts = cut(second, seconds, [1] * PARTS)
            # The longest first, so that both lanes end at about the same time.
            parts.sort(key=lambda part: -sum(seconds[test] for test in part))
            found.append([first, *parts])
        if all(takes(parts, seconds) <= LONGEST for parts in found):
            return found
    return []


def takes(parts: Sequence[Sequence[str]], known: Mapping[str, float]) -> float:
    """The seconds of a slice."""
    lanes = [0.0, 0.0]
    for part in parts:
        lanes.sort()
        lanes[0] += sum(known.get(test, UNKNOWN) for test in part)
    return max(lanes)


def by_folder(part: Sequence[str], number: int) -> dict[str, tuple[str, ...]]:
    """Gates that run the tests of one folder each, as `make test` does, of the part of a number."""
    command = (*gates.PYTEST, "--durations=0", *gates.GOLDEN, "-m", "deep or not deep")
    folders = groupby(part, key=lambda test: "/".join(test.split("/")[:-1][:2]))
    return {f"{folder} of part {number}": (*command, *those) for folder, those in folders}


def parts(report: Path) -> list[tuple[float, str]]:
    """Seconds and name of each test, or notebook cell, in a JUnit report of pytest."""
    cases = ElementTree.parse(report).iter("testcase")
    return [
        (float(case.get("time", 0)), f"{case.get('classname')}::{case.get('name')}")
        for case in cases
    ]


def record(reports: Sequence[str]) -> None:
    """Write the seconds of JUnit reports into the file, and drop tests that are gone."""
    known, tests = json.loads(SECONDS.read_text("utf-8")), deep_tests()
    taken: dict[str, float] = {}
    for report in reports:
        for seconds, name in parts(Path(report)):
            module, _, test = name.partition("::")
            file = module.replace(".", "/")
            is_cell = file.startswith("notebooks/")
            key = f"{file.removesuffix('/ipynb')}.ipynb" if is_cell else f"{file}.py::{test}"
            taken[key] = taken.get(key, 0) + seconds if is_cell else seconds
    known |= {test: round(seconds, 1) for test, seconds in taken.items()}
    lines = [f"{json.dumps(test)}: {known[test]}" for test in sorted(tests) if test in known]
    SECONDS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def main(*given: str) -> int:
    """The exit code of the slice that was run."""
    parser = argparse.ArgumentParser(prog="slices.py", description=__doc__)
    parser.add_argument("number", nargs="?", type=int, help="the slice to run, from 1 on")
    parser.add_argument("--list", action="store_true", help="print all slices, and run none")
    parser.add_argument("--record", nargs="+", help="write the seconds of these JUnit reports")
    options = parser.parse_args(given)
    if options.record:
        record(options.record)
        return 0
    tests, known = deep_tests(), json.loads(SECONDS.read_text("utf-8"))
    left = waiting(tests)
    parts = slices([test for test in tests if test not in left], known)
    if not (count := len(parts)):
        print(f"each deep test waits ({WAITING.name})")
        return 0
    turn = int(time.time() // TURN) % count + 1
    chosen = options.number or turn
    if not 1 <= chosen <= count:
        parser.error(f"there are slices 1 to {count}")
    for number, found in enumerate(parts, 1):
        if options.list or number == chosen:
            mark = ", whose turn it is" if number == turn else ""
            tests_of, minutes = sum(map(len, found)), takes(found, known) / 60
            print(f"slice {number} of {count}{mark}: {tests_of} tests, {minutes:.0f} minutes")
            for part in found:
                files = dict.fromkeys(test.partition("::")[0] for test in part)
                print(f"  {', '.join(files)}")
    print(f"in no slice: {len(left)} of {len(tests)} deep tests and long lessons ({WAITING.name})")
    if options.list:
        return 0
    named = [by_folder(part, n) for n, part in enumerate(parts[chosen - 1], 1)]
    for of_part in named:
        gates.GATES.update(of_part)
    with_servers = named[0]
    gates.AFTER.update({later: (earlier,) for earlier, later in pairwise(with_servers)})
    run = gates.Run()
    run.gates([name for of_part in named for name in of_part])
    return run.code


if __name__ == "__main__":
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    # As in gates.py: a shell starts background jobs with SIGINT ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main(*sys.argv[1:]))
