"""The benchmarks run to their end."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


def benchmark(script: str, *arguments: str, timeout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.deep
def test_a_small_soak(tmp_path: Path) -> None:
    """Kills lose nothing and repeat nothing; these batches are too few to say what grows."""
    file = tmp_path / "soak.json"
    few = ["--appends", "15", "--upserts", "15", "--kill-every", "6", "--most", "100"]
    done = benchmark("soak.py", *few, "--json", str(file), timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    for part in json.loads(file.read_text())["parts"].values():
        assert (part["lost"], part["twice"]) == (0, 0)
        assert part["kills"] >= 1
        numbers = [batch["batch"] for batch in part["batches"]]
        assert numbers == sorted(set(numbers))
        # A kill can come between a batch's end and its record.
        assert len(numbers) >= 15 - part["kills"]


@pytest.mark.deep
def test_a_round_of_two(tmp_path: Path) -> None:
    file = tmp_path / "peers.json"
    two = ["--rounds", "1", "--json", str(file), "--peers", "parquet,hudi_append"]
    done = benchmark("peers.py", *two, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "| `hudi_append` | **" in done.stdout
    assert '"hudi_append": {' in file.read_text()
