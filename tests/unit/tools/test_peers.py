"""The comparison's arithmetic, and what it refuses before it measures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import comparison
import peers
import profile_updates
import pytest
import soak
import updates
from updates_peer import PEERS as SPARK_PEERS
from updates_peer import Load, parse

ROOT = Path(__file__).resolve().parents[3]
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


Refusal = Callable[..., str]


@pytest.fixture
def refusal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refusal:
    """Runs a program, in this process, that must refuse its arguments; returns what it prints."""

    def run(script: str, *arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", [f"{script}.py", *arguments])
        with pytest.raises(SystemExit) as caught:
            import_module(script).main()
        assert caught.value.code == 2
        return capsys.readouterr().err

    return run


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
    assert table[3].count("|") == table[0].count("|") == 6  # a load that nobody ran has no column


def test_each_round_begins_with_another_peer_and_is_there_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    order: list[str] = []

    def measure(peer: str) -> dict[str, Any]:
        order.append(peer)
        return {"ms": len(order)}

    rounds = comparison.rounds_of(["a", "b"], 2, measure, dict, "1m ")
    assert next(rounds) == (1, {"a": [{"ms": 1}], "b": [{"ms": 2}]})
    assert order == ["a", "b"]
    assert [number for number, _ in rounds] == [2]
    assert order == ["a", "b", "b", "a"]
    assert capsys.readouterr().err.splitlines()[-1] == "1m round 2 a {'ms': 4}"


COMPARISONS = ("peers", "updates")


@pytest.mark.parametrize(
    ("script", "arguments", "text"),
    [
        ("peers", ["--peers", "parquet,hudi"], "no peer hudi; peers are parquet, delta, iceberg, "),
        ("updates", ["--peers", "delta"], "no peer delta; peers are hudi_upsert_mor, "),
        ("profile_updates", ["--peer", "delta_merge"], "invalid choice: 'delta_merge'"),
        *((script, ["--rounds", "0"], "--rounds must be 1 or more") for script in COMPARISONS),
        *(
            (script, ["--json", "/no/such/x.json"], "/no/such is not a directory; make it first")
            for script in (*COMPARISONS, "profile_updates")
        ),
        ("soak", ["--appends", "14"], "--appends must be 15 or more, or 0"),
        ("soak", ["--upserts", "-1"], "--upserts must be 15 or more, or 0"),
        (
            "soak",
            ["--appends", "0", "--upserts", "0"],
            "--appends and --upserts are both 0; give one of them",
        ),
        ("soak", ["--kill-every", "-1"], "--kill-every must be 0 or more"),
        ("soak", ["--most", "0"], "--most must be more than 0"),
        ("soak", ["--picture", "/no/such/x.png"], "/no/such is not a directory; make it first"),
        *(
            (script, ["--loads", "1m"], "no load '1m'; write TABLE_BATCH_UPDATES such as 1m_100")
            for script in ("updates", "profile_updates")
        ),
    ],
)
def test_a_bad_argument(refusal: Refusal, script: str, arguments: list[str], text: str) -> None:
    assert text in refusal(script, *arguments)


@pytest.mark.parametrize(
    ("stack", "kind"),
    [
        (["java.util.HashMap.put", "com.esotericsoftware.kryo.Kryo.write"], "shuffles"),
        (
            ["org.apache.avro.io.Reader.read", "com.esotericsoftware.kryo.Kryo.read"],
            "rows to Java",
        ),
        (
            ["org.apache.parquet.Read.go", "org.apache.hudi.table.HoodieCompactor.run"],
            "compacting",
        ),
        (["org.apache.spark.sql.catalyst.Tree.map", "org.apache.hudi.index.X.tag"], "Catalyst"),
        (["java.lang.Thread.run"], "all else"),
    ],
)
def test_a_sample_counts_for_its_innermost_frame_that_is_known(stack: list[str], kind: str) -> None:
    assert profile_updates.kind(stack).startswith(kind)


def updated(ms: int, read: float) -> dict[str, Any]:
    """What one peer of the updates prints: a batch that does not count, then two that do."""
    batches = [{"rows": 100, "triggerExecution": time} for time in (9000, ms, 3 * ms)]
    reads = {"one_first": 9.0, "one": read, "all_first": 9.0, "all": 2 * read}
    return {
        "batches": batches,
        "warm": 1,
        "read": reads,
        "service_s": 1.0,
        "read_after": reads,
        "write_amplification": 2.0,
        "peak": {"jvm": 900.0, "python": 100.0},
    }


def test_the_names_of_the_loads_of_updates() -> None:
    assert parse("1m_100k_80") == Load(1_000_000, 100_000, 80, False, 13, 20)
    assert parse("100k_10_100_one") == Load(100_000, 10, 100, True, 13, 100)
    assert parse("1m_10k_20").known == 2_000
    assert parse("1m_10k_20").counted == 40
    with pytest.raises(ValueError, match="no load '1m'; write TABLE_BATCH_UPDATES such as"):
        parse("1m")


def test_flink_writes_whole_hundreds_of_rows_to_all_partitions(refusal: Refusal) -> None:
    assert updates.takes("flink_hudi_upsert", "1m_100k_80")
    assert not updates.takes("flink_hudi_upsert", "1m_10_100")
    assert not updates.takes("flink_hudi_upsert", "1m_100k_80_one")
    assert updates.takes("delta_merge", "1m_10_100")
    error = refusal("updates", "--peers", "flink_hudi_upsert", "--loads", "1m_10_100")
    assert "flink_hudi_upsert writes whole hundreds of rows, to all partitions: 1m_10_100" in error


def test_each_peer_of_updates_has_its_jars() -> None:
    assert updates.groups(list(updates.PEERS)) == ["delta", "flink", "iceberg"]
    assert updates.groups(["flink_hudi_upsert", "iceberg_merge_mor"]) == ["flink", "iceberg"]
    assert updates.groups(["hudi_upsert_mor", "hudi_default_upsert"]) == []


def test_updates_are_compared_within_a_round() -> None:
    measured = {
        "hudi_upsert_mor": [updated(100, 1.0), updated(200, 1.0), updated(100, 1.0)],
        "delta_merge": [updated(400, 0.5), updated(400, 0.5), updated(400, 0.5)],
        "iceberg_merge_cow": [updated(200, 0.5), updated(200, 0.5), updated(800, 0.5)],
    }
    result = updates.summary(measured)
    ours = result["hudi_upsert_mor"]
    assert (ours["rows_per_s"], ours["batch_s"], round(ours["slowest"], 3)) == (500.0, 0.2, 1.5)
    assert ours["spread"]["rows_per_s"] == [250.0, 500.0]
    # Round by round the best of the others is 2, 1 and 4 times slower.
    assert ours["rate_to_best_merge"] == 2.0
    assert ours["ratio_to_delta_merge"]["read_s"] == 2.0
    # Flink's services are left out: they take no time to compare with.
    none = {"flink_hudi_upsert": [updated(100, 1.0) | {"service_s": 0.0}] * 3}
    beside = updates.summary(measured | none)["hudi_upsert_mor"]["ratio_to_flink_hudi_upsert"]
    assert "service_s" not in beside
    assert beside["read_s"] == 1.0
    table = updates.markdown("1m_100k_80", result, 3).splitlines()
    assert table[0].startswith("| 1m_100k_80, 3 rounds | rows/s | ")
    assert "| **500** (250 - 500) | **0.20** (0.20 - 0.40) |" in table[2]
    assert table[2].count("|") == table[0].count("|")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--set", "metadata=false"], "--set metadata=false: write hoodie.KEY=VALUE or spark.KEY"),
        (
            ["--loads", "10k,1M"],
            "no load 1M; loads are heartbeat, 10k, 100k, 1m, or ROWSxWARMxCOUNTED",
        ),
    ],
)
def test_a_bad_argument_of_one_peer(
    refusal: Refusal, tmp_path: Path, arguments: list[str], text: str
) -> None:
    fixed = ["parquet", "--home", str(tmp_path), "--started", "0"]
    assert text in refusal("spark_peer", *fixed, *arguments)
    assert list(tmp_path.iterdir()) == []


def soaked(seconds: list[float], lost: int = 0) -> dict[str, Any]:
    """A part of a soak: a record of each batch."""
    steady = {"files": 9, "timeline_files": 4, "jvm_mb": 900.0, "python_mb": 50.0}
    steady |= {"jvm_descriptors": 300, "python_descriptors": 10}
    batches = [
        {"batch": number, "life": number // 10, "seconds": one, "cpu_s": 0.5, **steady}
        for number, one in enumerate(seconds)
    ]
    del batches[0]["cpu_s"]  # of a driver's first batch it is not known
    part = {"kills": 1, "rows": 100, "lost": lost, "twice": 0, "batches": batches}
    return part | {"growth": soak.growth(batches)}


def test_a_soak_compares_the_last_fifth_with_the_second() -> None:
    steady = soaked([9.0] * 4 + [2.0] * 16)  # the first batches are always slow
    growing = soaked([1.0] * 8 + [2.0] * 12, lost=3)
    assert steady["growth"]["seconds"] == {"fifths": [9.0, 2.0, 2.0, 2.0, 2.0], "ratio": 1.0}
    assert soak.problems("appends", steady, 1.2) == []
    assert soak.problems("appends", growing, 1.2) == [
        "appends: 3 rows lost",
        "appends: s a batch grew to 2.00 times",
    ]
    assert soak.problems("appends", growing, 2.0) == ["appends: 3 rows lost"]
    table = soak.markdown("appends", growing).splitlines()
    assert table[0].startswith("| 20 appends, 1 kills | fifth 1 | fifth 2 |")
    assert table[2] == "| s a batch | 1.00 | 1.00 | 2.00 | 2.00 | 2.00 | **2.00** |"


def test_the_picture_of_a_soak(tmp_path: Path) -> None:
    soak.picture({"appends": soaked([1.0] * 20)}, tmp_path / "soak.png")
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")


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
    found = json.loads(file.read_text())["loads"]
    assert set(found["100k_10k_20"]) == set(updates.PEERS)
    assert set(found["100k_1k_80_one"]) == set(SPARK_PEERS)
