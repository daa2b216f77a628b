"""docs/work.md: its two programs run as they stand there, are killed, and leave each row once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from running import kill

ROOT = Path(__file__).resolve().parents[3]
PAGE_TEXT = (ROOT / "docs" / "work.md").read_text("utf-8")
CORE = ",".join(map(str, sorted((ROOT / "jars" / "core").glob("*bundle*.jar"))))
FILES, ROWS = 4, 500
ONCE = {
    'trigger(processingTime="60 seconds")': "trigger(availableNow=True)",
    "maxFilesPerTrigger=100": "maxFilesPerTrigger=1",
}
pytestmark = pytest.mark.deep


def blocks(kind: str) -> list[str]:
    return re.findall(rf"(?ms)^```{kind}\n(.*?)^```$", PAGE_TEXT)


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
def script(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The page's commands, with this folder's data, and the jar that is already on the disk."""
    (tmp_path / "stream.py").write_text(programs()[request.param], "utf-8")
    (tmp_path / "hudi.properties").write_text(blocks("properties")[0], "utf-8")
    fill(tmp_path / "readings")
    (commands,) = blocks("sh")
    here = {r"--packages \S+": f"--jars {CORE}", "/data/": f"file://{tmp_path}/"}
    if request.param == "ledger":
        (install,) = re.findall(r"`(pip install pyspark==\S+ path/to/checkout)`", PAGE_TEXT)
        here["(?m)^pip install .*"] = install.replace("path/to/checkout", str(ROOT))
    for old, new in here.items():
        assert re.search(old, commands)
        commands = re.sub(old, new, commands)
    return commands


@pytest.fixture
def fresh_shell(tmp_path: Path, spark: SparkSession) -> dict[str, str]:
    """The environment of a login whose first `python3` has no pyspark."""
    tools, python = tmp_path / "bin", Path(sys.base_prefix, "bin", "python3")
    tools.mkdir()
    for name in ("python3", "python3.11"):
        (tools / name).symlink_to(python)
    jvm: Any = spark._jvm
    passed = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_")
    return {name: os.environ[name] for name in os.environ if name.upper().startswith(passed)} | {
        "HOME": str(Path.home()),
        "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin",
        "JAVA_HOME": str(jvm.java.lang.System.getProperty("java.home")),
    }


def start(script: str, shell: dict[str, str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(
            ["bash", "-e", "-c", f"if python3 -c 'import pyspark'; then exit 1; fi\n{script}"],
            env=shell,
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@pytest.mark.network
def test_a_program_of_the_page_is_killed_and_has_each_row_once(
    script: str, fresh_shell: dict[str, str], tmp_path: Path, spark: SparkSession
) -> None:
    log, table = tmp_path / "log", tmp_path / "lake" / "readings"
    first = start(script, fresh_shell, tmp_path)
    deadline = time.monotonic() + 600
    # In the second batch: Hudi has announced its commit. `wait_for` might look too late.
    while len(list((table / ".hoodie" / "timeline").glob("*commit.inflight"))) < 2:
        assert first.poll() is None, log.read_text("utf-8")
        assert time.monotonic() < deadline
        time.sleep(0.01)
    kill(first)
    second = start(script, fresh_shell, tmp_path)
    assert second.wait(timeout=600) == 0, log.read_text("utf-8")

    sent = spark.read.csv(
        str(tmp_path / "readings"),
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
    if "hoodie.table.name" in (tmp_path / "stream.py").read_text("utf-8"):
        rejected = spark.read.json(f"{tmp_path}/lake/readings_rejected")
    else:
        rejected = spark.read.format("hudi").load(f"{table}_quarantine")
    assert rejected.count() == FILES
