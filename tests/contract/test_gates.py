"""The tools behind the gates fail on samples that must fail, each for its own reason."""

from __future__ import annotations

import json
from pathlib import Path

import gates
import pytest
import slices

ROOT = Path(__file__).resolve().parents[2]


def test_each_gate_is_run_once() -> None:
    assert sorted([*gates.QUICK, *gates.SLOW, gates.LONG]) == sorted(gates.GATES)
    golden = [gate for gate in gates.GATES if gate.startswith("golden cells")]
    notebooks = [notebook for gate in golden for notebook in gates.lessons(gate)]
    here = (ROOT / "notebooks").glob("*.ipynb")
    assert sorted(notebooks) == sorted(f"notebooks/{path.name}" for path in here)
    deep = (ROOT / "Makefile").read_text().partition("\ntest-deep:")[2].partition("\n\n")[0]
    assert f'--gate "{gates.LONG}"' in deep


def test_slices_hold_each_deep_test_once() -> None:
    tests = [f"tests/spark/test_{n // 10}.py::test_{n}" for n in range(90)]
    tests += [f"tests/services/test_{n // 10}.py::test_{n}" for n in range(30)]
    seconds = {test: 60.0 for test in tests if not test.endswith("5")}
    found = slices.slices(tests, seconds)
    assert sorted(test for parts in found for part in parts for test in part) == sorted(tests)
    assert len(found) == 3
    for parts in found:
        assert slices.takes(parts, seconds) <= slices.LONGEST
        assert all(test.startswith(slices.SERVERS) for test in parts[0])
        for part in parts:
            assert part == [test for test in tests if test in part], "in order, for the fixtures"
    assert slices.slices([], {}) == []
    with pytest.raises(SystemExit, match="test_7 takes 1201 s"):
        slices.slices(["tests/spark/test_0.py::test_7"], {"tests/spark/test_0.py::test_7": 1201})


def test_ten_slices_are_enough() -> None:
    """So that each deep test runs again within ten runs of CI."""
    seconds = json.loads(slices.SECONDS.read_text("utf-8"))
    assert len(slices.slices(list(seconds), seconds)) <= 10
