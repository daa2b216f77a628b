"""docs/work.md: its two programs run as they stand there, are killed, and leave each row once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import kill

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "work.md"
CORE = ",".join(map(str, sorted((ROOT / "jars" / "core").glob("*bundle*.jar"))))
FILES, ROWS = 4, 500
ONCE = {
    'trigger(processingTime="60 seconds")': "trigger(availableNow=True)",
    "maxFilesPerTrigger=100": "maxFilesPerTrigger=1",
}
pytestmark = pytest.mark.deep


def blocks(kind: str) -> list[str]:
    return re.findall(rf"(?ms)^```{kind}\n(.*?)^```$", PAGE.read_text("utf-8"))


def programs() -> dict[str, str]:
    """The page's first program; and the same with the ledger, as the page says to make it."""
    plain, _, sink = blocks("python")
    for old, new in ONCE.items():
        assert plain.count(old) == 1
        plain = plain.replace(old, new)
    with_ledger, options = re.subn(r"(?ms)^hudi = \{$.*?^\}$", "", plain)
    with_ledger, writes = re.subn(
        r"(?ms)^def write\(.*?^    rows\.unpersist\(\)$", lambda _: sink, with_ledger
    )
    assert options == writes == 1
    return {"plain": plain, "ledger": with_ledger}


def fill(folder: Path) -> None:
    """Write FILES files of ROWS rows: keys that come again with later values, and one bad row."""
    folder.mkdir()
    for file in range(FILES):
        lines = ["sensor,at,value,sent_at"]
        for row in range(ROWS):
            at = f"2026-01-{1 + row % 3:02}T{row % 24:02}:{row % 60:02}:00Z"
            # Every second key comes in each file, later ones with an older time in the last.
            key = row if row % 2 else row + 1000 * file
            sent = f"2026-02-0{9 - file if row % 4 == 1 else 1 + file}T00:00:00Z"
            lines.append(f"s{key},{at},{file}.5,{sent}")
        lines.append(f"s1,2026-01-01T00:00:00Z,{file},")
        (folder / f"{file}.csv").write_text("\n".join(lines) + "\n", "utf-8")
        os.utime(folder / f"{file}.csv", (1_700_000_000 + file,) * 2)


@pytest.fixture(params=["plain", "ledger"])
def command(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    (tmp_path / "stream.py").write_text(programs()[request.param], "utf-8")
    (tmp_path / "hudi.properties").write_text(blocks("properties")[0], "utf-8")
    fill(tmp_path / "in")
    submit = [str(Path(sys.prefix, "bin", "spark-submit")), "--master", "local[2]"]
    submit += ["--properties-file", str(tmp_path / "hudi.properties"), "--jars", CORE]
    return [*submit, str(tmp_path / "stream.py"), str(tmp_path / "in"), f"file://{tmp_path}/lake"]


def start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("SPARK")}
    environment["PYSPARK_PYTHON"] = sys.executable
    with log.open("ab") as file:
        return subprocess.Popen(
            command, env=environment, stdout=file, stderr=file, start_new_session=True
        )


def test_a_program_of_the_page_is_killed_and_has_each_row_once(
    command: list[str], tmp_path: Path, spark: SparkSession
) -> None:
    log, table = tmp_path / "log", tmp_path / "lake" / "readings"
    first = start(command, log)
    deadline = time.monotonic() + 300
    # In the second batch: Hudi has announced its commit. `wait_for` might look too late.
    while len(list((table / ".hoodie" / "timeline").glob("*commit.inflight"))) < 2:
        assert first.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kill(first)
    second = start(command, log)
    assert second.wait(timeout=300) == 0, log.read_text("utf-8")

    sent = spark.read.csv(
        str(tmp_path / "in"),
        header=True,
        schema="sensor STRING, at TIMESTAMP, value DOUBLE, sent_at TIMESTAMP",
    ).where("sent_at IS NOT NULL")
    newest = (
        sent.groupBy("sensor", "at")
        .agg({"sent_at": "max"})
        .withColumnRenamed("max(sent_at)", "sent_at")
    )
    expected = sent.join(newest, ["sensor", "at", "sent_at"]).select(*sent.columns)
    stored = spark.read.format("hudi").load(str(table)).select(*sent.columns)
    assert sorted(stored.collect()) == sorted(expected.collect())
    assert stored.count() == ROWS // 2 * (1 + FILES)
    if "hoodie.table.name" in Path(command[-3]).read_text("utf-8"):
        rejected = spark.read.json(f"{tmp_path}/lake/readings_rejected")
    else:
        rejected = spark.read.format("hudi").load(f"{table}_quarantine")
    assert rejected.count() == FILES
