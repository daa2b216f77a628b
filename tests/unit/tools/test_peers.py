"""The soak runs to its end; the commands of benchmarks/README.md run in a fresh clone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.deep
def test_a_small_soak(tmp_path: Path) -> None:
    """Kills lose nothing and repeat nothing; these batches are too few to say what grows."""
    file = tmp_path / "soak.json"
    few = ["--appends", "15", "--upserts", "15", "--kill-every", "6", "--most", "100"]
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "soak.py"), *few, "--json", str(file)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    for part in json.loads(file.read_text())["parts"].values():
        assert (part["lost"], part["twice"]) == (0, 0)
        assert part["kills"] >= 1
        numbers = [batch["batch"] for batch in part["batches"]]
        assert numbers == sorted(set(numbers))
        # A kill can come between a batch's end and its record.
        assert len(numbers) >= 15 - part["kills"]
