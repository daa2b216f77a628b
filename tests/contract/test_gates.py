"""The tools behind the gates fail on samples that must fail, each for its own reason."""

from __future__ import annotations

import json
from pathlib import Path

import gates
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


def test_ten_slices_hold_each_deep_test_once() -> None:
    """So that each runs again within ten runs of CI."""
    seconds = json.loads(slices.SECONDS.read_text("utf-8"))
    found = slices.slices(list(seconds), seconds)
    assert sorted(test for parts in found for part in parts for test in part) == sorted(seconds)
    assert len(found) <= 10
    assert all(slices.takes(parts, seconds) <= slices.LONGEST for parts in found)
