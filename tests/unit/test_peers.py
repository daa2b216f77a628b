"""The comparison's arithmetic, and what it refuses before it measures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import peers
import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"parquet", "delta", "iceberg", "hudi_default_insert", "hudi_default_upsert"}
NAMES |= {"hudi_append", "hudi_upsert_cow", "hudi_upsert_mor", "flink_hudi"}


def found(ms: int, first: float = 4.0) -> dict[str, Any]:
    """What one peer prints: two batches that do not count, then two that do."""
    batches = [
        {"batch": n, "rows": 100, "at": "x", "triggerExecution": time, "addBatch": time - 1}
        for n, time in enumerate([9000, 9000, ms, 3 * ms])
    ]
    load = {"batches": batches, "warm": 2, "cpu_s_a_batch": 0.5, "data_files": 8}
    load |= {"data_bytes": 800, "other_files": 4, "other_bytes": 40}
    peak = {"jvm": 900.0, "python": 100.0}
    loads = {"heartbeat": load, "100k": load}
    return {"first_commit_s": first, "peak": peak, "loads": loads}


def benchmark(script: str, *arguments: str, timeout: int = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_the_names_of_the_peers() -> None:
    assert set(peers.PEERS) == NAMES


def test_figures_count_no_warm_up() -> None:
    assert peers.figures(found(100)) == {
        "first_commit_s": 4.0,
        "peak_rss_mb": 1000.0,
        "heartbeat_ms": 200.0,
        "rows_per_s": 500.0,  # 200 rows in 400 ms: slow batches count
    }


def test_medians_spread_and_ratios_within_a_round() -> None:
    measured = {
        "parquet": [found(100), found(200), found(400)],
        "hudi_append": [found(200, 6.0), found(200, 6.0), found(400, 8.0)],
    }
    result = peers.summary(measured)
    append = result["hudi_append"]
    assert append["rows_per_s"] == 250.0
    assert append["spread"]["rows_per_s"] == [125.0, 250.0]
    # Round by round 0.5, 1 and 1; the ratio of the medians would be 1, too, of the means not.
    assert append["ratio_to_parquet"]["rows_per_s"] == 1.0
    assert append["ratio_to_parquet"]["first_commit_s"] == 1.5
    assert "ratio_to_parquet" not in result["parquet"]
    assert result["parquet"]["phases_ms"]["100k"] == {"addBatch": 349.0, "triggerExecution": 350.0}
    assert append["a_batch"]["100k"]["data_files"] == 2.0
    table = peers.markdown(result, 3).splitlines()
    assert table[0].startswith("| 3 rounds, ")
    assert "**250** (125 - 250), 1.00 x" in table[3]
    assert table[3].count("|") == table[0].count("|") == 7


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--peers", "parquet,hudi"], "no peer hudi; peers are parquet, delta, iceberg, "),
        (["--rounds", "0"], "--rounds must be 1 or more"),
        (["--json", "/no/such/x.json"], "/no/such is not a directory; make it first"),
    ],
)
def test_a_bad_argument(arguments: list[str], text: str) -> None:
    done = benchmark("peers.py", *arguments)
    assert done.returncode == 2
    assert text in done.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--set", "metadata=false"], "--set metadata=false: write hoodie.KEY=VALUE or spark.KEY"),
        (["--loads", "10k,1M"], "no load 1M; loads are heartbeat, 10k, 100k, or ROWSxWARMxCOUNTED"),
    ],
)
def test_a_bad_argument_of_one_peer(tmp_path: Path, arguments: list[str], text: str) -> None:
    fixed = ["parquet", "--home", str(tmp_path), "--started", "0"]
    done = benchmark("spark_peer.py", *fixed, *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.deep
def test_a_round_of_two(tmp_path: Path) -> None:
    file = tmp_path / "peers.json"
    two = ["--rounds", "1", "--json", str(file), "--peers", "parquet,hudi_append"]
    done = benchmark("peers.py", *two, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "| `hudi_append` | **" in done.stdout
    assert '"hudi_append": {' in file.read_text()
