"""Every notebook through `hudilab run`: from another directory, in an odd home, in other sizes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from running import HUDILAB, run_program

PROJECT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(path.stem for path in (PROJECT / "notebooks").glob("[0-9]*.ipynb"))
STREAMS = {
    name: "writeStream" in (PROJECT / "notebooks" / f"{name}.ipynb").read_text("utf-8")
    for name in NOTEBOOKS
}
SECRET = "canary-4711-secret"
# Notebooks that have these parameters run with them; what one lacks would be refused.
TOGETHER = {"02_write_hudi_stream", "03_inspect_table"}
# Those that run with their exercises on a cluster, in tests/services/test_cluster_jobs.py.
ON_CLUSTER = {
    "10_update_delete_merge",
    "11_merge_on_read",
    "13_table_services",
    "12_indexes",
    "20_kafka_stock_prices",
    "32_change_a_stream",
    "33_crash_and_repair",
    "34_two_writers",
}


def hudilab(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    env = {"HUDILAB_HOME": str(home), "RUNTIME_ENV": "", "IS_LOCAL": ""}
    env["AWS_SECRET_ACCESS_KEY"] = SECRET
    done = run_program(HUDILAB, *arguments, env=env, cwd=home, timeout=400)
    kept = [path for path in home.rglob("*") if path.suffix in (".ipynb", ".html", ".log")]
    texts = [done.stdout, done.stderr, *(path.read_text("utf-8", "replace") for path in kept)]
    assert not any(SECRET in text for text in texts), "a secret of the environment was repeated"
    for file in home.glob("services/s3/credentials"):
        made = re.findall(r"secret_access_key = (\w+)", file.read_text())
        assert len(made) == 1
        assert not any(made[0] in text for text in texts), "the secret key of S3 was repeated"
    return done


@pytest.fixture
def odd_home(tmp_path: Path) -> Iterator[Path]:
    """A home whose path means something else to SQL, to a shell and in a URI."""
    home = tmp_path / "o'brien jürgen"
    home.mkdir()
    yield home
    # Nothing was written at the escaped form of the path.
    assert [path.name for path in tmp_path.iterdir()] == [home.name]


@pytest.mark.deep
@pytest.mark.parametrize("name", sorted(set(NOTEBOOKS) - TOGETHER - ON_CLUSTER))
def test_a_notebook_runs_alone(odd_home: Path, name: str) -> None:
    done = hudilab(odd_home, "run", name, "--exercises", "--out", "out dir")
    # Hudi's upgrade loses the commits of a table in such a folder; its catalog doesn't find one.
    if name.startswith(("35", "36")):
        assert "has a blank, # or %" in done.stderr
        return
    assert done.returncode == 0, done.stderr[-2000:]
    (log,) = re.findall(rf"^{name}\.ipynb: log (.+)$", done.stdout, re.MULTILINE)
    assert "ResolveWriteToStream" in Path(log).read_text("utf-8") or not STREAMS[name]
    others = {path.name for path in (odd_home / "logs").iterdir()} - {Path(log).name}
    # What a lesson submits is a program of its own, with a log of its own.
    assert {other.partition("-")[0] for other in others} <= {
        "sensor_readings",
        "faults_victim",
        "changing_own",
        "mine",
    }
    assert kept(odd_home / "out dir") == {f"{name}.ipynb", f"{name}.html"}


def kept(folder: Path) -> set[str]:
    """The files that the runner has left; a page has the lesson, not only its head."""
    assert all(page.stat().st_size > 100_000 for page in folder.glob("*.html"))
    return {file.name for file in folder.iterdir()}


def sizes(rows: int, batches: int) -> list[str]:
    text = f"-p rows {rows} -p batches {batches} -p sensors 3 -p seed -5 -p run_id t1"
    return text.split()


# 02 makes a commit for every batch, also when the last ones are empty.
@pytest.mark.parametrize(
    ("table_type", "rows", "batches", "more"),
    [
        ("MERGE_ON_READ", 9, 4, ()),
        pytest.param("MERGE_ON_READ", 11, 8, ("--exercises",), marks=pytest.mark.deep),
        pytest.param("COPY_ON_WRITE", 1234, 4, ("--exercises",), marks=pytest.mark.deep),
    ],
)
def test_write_and_inspect_with_other_sizes(
    odd_home: Path, table_type: str, rows: int, batches: int, more: tuple[str, ...]
) -> None:
    given = (*sizes(rows, batches), "-p", "table_type", table_type)
    done = hudilab(odd_home, "run", *more, *sorted(TOGETHER), *given, "--out", "out dir")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == (
        f"hudilab: rows={rows} commits={batches} partitions=3 "
        f"table=file://{odd_home}/warehouse/run-t1/lessons/sensor_readings"
    )
    out = odd_home / "out dir"
    assert kept(out) == {f"{name}.{kind}" for name in TOGETHER for kind in ("ipynb", "html")}


@pytest.mark.deep
@pytest.mark.parametrize("name", ["02_write_hudi_stream", "03_inspect_table"])
def test_a_table_whose_first_commits_are_archived(tmp_path: Path, name: str) -> None:
    many = ("-p", "rows", "100", "-p", "batches", "50", "-p", "sensors", "1")
    done = hudilab(tmp_path, "run", name, *many)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (" commits=50 " in done.stdout) == name.startswith("02")  # 03 prints no such line
    timelines = (tmp_path / "warehouse" / "lessons").glob("sensor_readings*/.hoodie/timeline")
    assert any(len(list(timeline.glob("*_*.commit"))) < 50 for timeline in timelines)


def test_a_failing_notebook_names_cell_cause_and_log_and_is_kept(tmp_path: Path) -> None:
    (tmp_path / "warehouse").touch()
    done = hudilab(tmp_path, "run", "02")
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    executed = tmp_path / "executed" / "02_write_hudi_stream.ipynb"
    assert re.fullmatch(
        r"hudilab: 02_write_hudi_stream\.ipynb: cell \d+ failed at 'sizes = .+': "
        rf"PathError: warehouse.path: {tmp_path}/warehouse exists but is not a directory; move it, "
        r"or set warehouse.path to another directory; "
        rf"see the log {tmp_path}/logs/02_write_hudi_stream-\w+-\d+\.log "
        rf"and the executed notebook {re.escape(str(executed))}",
        line,
    )
    assert any(cell.get("outputs") for cell in nbformat.read(executed, as_version=4).cells)
    assert (tmp_path / "warehouse").read_bytes() == b""
