"""The benchmarks refuse bad arguments before they measure, and run to their end."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import updates
from updates_peer import PEERS as SPARK_PEERS

ROOT = Path(__file__).resolve().parents[3]
# Below a file, where no folder can be: an argument that is not refused must not start a benchmark.
NOWHERE = f"{__file__}/x.json"
NO_FOLDER = f"{__file__} is not a directory; make it first"
ONE_PEER = ["parquet", "--home", __file__, "--started", "0"]


def benchmark(script: str, *arguments: str, timeout: int) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / script), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "arguments", "text"),
    [
        ("peers", ["--peers", "parquet,hudi"], "no peer hudi; peers are parquet, delta, iceberg, "),
        ("peers", ["--rounds", "0"], "--rounds must be 1 or more"),
        ("peers", ["--json", NOWHERE], NO_FOLDER),
        ("updates", ["--peers", "delta"], "no peer delta; peers are hudi_upsert_mor, "),
        ("updates", ["--rounds", "0"], "--rounds must be 1 or more"),
        ("updates", ["--json", NOWHERE], NO_FOLDER),
        ("updates", ["--loads", "1m"], "no load '1m'; write TABLE_BATCH_UPDATES such as 1m_100"),
        (
            "updates",
            ["--peers", "flink_hudi_upsert", "--loads", "1m_10_100"],
            "flink_hudi_upsert writes whole hundreds of rows, to all partitions: 1m_10_100",
        ),
        ("profile_updates", ["--peer", "delta_merge"], "invalid choice: 'delta_merge'"),
        ("profile_updates", ["--json", NOWHERE], NO_FOLDER),
        ("profile_updates", ["--loads", "1m"], "no load '1m'; write TABLE_BATCH_UPDATES such as"),
        ("soak", ["--appends", "14"], "--appends must be 15 or more, or 0"),
        (
            "soak",
            ["--appends", "0", "--upserts", "0"],
            "--appends and --upserts are both 0; give one of them",
        ),
        ("soak", ["--kill-every", "-1"], "--kill-every must be 0 or more"),
        ("soak", ["--most", "0"], "--most must be more than 0"),
        ("soak", ["--picture", NOWHERE], NO_FOLDER),
        (
            "spark_peer",
            [*ONE_PEER, "--set", "metadata=false"],
            "--set metadata=false: write hoodie.KEY=VALUE or spark.KEY",
        ),
        (
            "spark_peer",
            [*ONE_PEER, "--loads", "10k,1M"],
            "no load 1M; loads are heartbeat, 10k, 100k, 1m, or ROWSxWARMxCOUNTED",
        ),
    ],
)
def test_a_bad_argument(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    arguments: list[str],
    text: str,
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{script}.py", *arguments])
    with pytest.raises(SystemExit) as caught:
        import_module(script).main()
    assert caught.value.code == 2
    assert text in capsys.readouterr().err


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


@pytest.mark.deep
def test_a_round_of_updates(tmp_path: Path) -> None:
    """Each peer compares its table with its generator."""
    file = tmp_path / "updates.json"
    loads = ["--loads", "100k_1k_80_one,100k_10k_20", "--json", str(file)]
    done = benchmark("updates.py", "--rounds", "1", *loads, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(file.read_text())["loads"]
    assert set(report["100k_10k_20"]) == set(updates.PEERS)
    assert set(report["100k_1k_80_one"]) == set(SPARK_PEERS)
