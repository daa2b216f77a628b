"""Time `hudilab inspect` against a Spark session that gives the same answer; print a table.

    .venv/bin/python benchmarks/inspect_speed.py [--rounds 5] [--commits 500] [--folder DIR]

There are two tables: five commits written by Spark, and many commits of 20 files each, copied from
the first table's files and commits. Each round runs one process after the other and times it from
start to exit: inspect as JSON, as text and as a page, then a Spark session that queries the
timeline, the commits, the latest slices and the number of rows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

FILES = 20  # per commit

SPARK = """
import sys
from hudilab import load_settings
from hudilab_spark import open_session
from hudilab_spark.warehouse import sql_path
spark = open_session(load_settings(), app="inspect")
table = sql_path(spark, sys.argv[1])
spark.catalog.createTable("looked_at", path=table, source="hudi")
for what in ("show_timeline", "show_commits", "show_fsview_latest"):
    found = spark.sql(f"CALL {what}(table => 'looked_at', limit => 1000000)").collect()
    print(what, len(found))
print("rows", spark.read.format("hudi").load(table).count())
spark.stop()
"""
WRITE = """
import sys
from hudilab import load_settings
from hudilab_spark import open_session
from hudilab.generate import readings_table, sensor_readings
spark = open_session(load_settings(), app="inspect")
spec = readings_table()
for k in range(5):
    rows = sensor_readings(spark, 1000 * (k + 1), sensors=11, seed=42, first=1000 * k)
    rows.write.format("hudi").options(**spec.write_options()).mode("append").save(sys.argv[1])
spark.stop()
"""


def synthesise(model: Path, table: Path, commits: int, files: int = FILES) -> int:
    """Build a table from copies of a real table's files; return its number of rows.

    Names and times in the commits are new; everything else is as Hudi wrote it.
    """
    import fastavro

    timeline = table / ".hoodie" / "timeline"
    (timeline / "history").mkdir(parents=True)
    shutil.copy(model / ".hoodie" / "hoodie.properties", table / ".hoodie")
    commit = min((model / ".hoodie" / "timeline").glob("*_*.commit"))
    reader = fastavro.reader(BytesIO(commit.read_bytes()))
    record: Any = next(reader)
    stats = [
        (part, written_)
        for part, ones in record["partitionToWriteStats"].items()
        for written_ in ones
    ]
    for part, _ in stats:
        (table / part).mkdir(exist_ok=True)
        marker = ".hoodie_partition_metadata"
        shutil.copy(model / part / marker, table / part / marker)
    rows = 0
    for number in range(commits):
        begin, end = f"20260101{number // 3600:02}{number // 60 % 60:02}{number % 60:02}", "000"
        written: dict[str, list[Any]] = {}
        for file in range(files):
            part, stat = stats[file % len(stats)]
            group = f"{number:08x}-{file:04x}-4000-8000-000000000000-0"
            path = f"{part}/{group}_{file}-1-1_{begin}{end}.parquet"
            shutil.copy(model / stat["path"], table / path)
            written.setdefault(part, []).append(stat | {"fileId": group, "path": path})
            rows += stat["numWrites"]
        out = BytesIO()
        fastavro.writer(out, reader.writer_schema, [record | {"partitionToWriteStats": written}])
        for name in (f"{begin}{end}.commit.requested", f"{begin}{end}.inflight"):
            (timeline / name).touch()
        (timeline / f"{begin}{end}_{begin}500.commit").write_bytes(out.getvalue())
    return rows


def run(command: list[str], home: Path) -> tuple[float, float, str]:
    """Run a process; return its seconds, its peak memory in MB and its output."""
    env = os.environ | {"HUDILAB_HOME": str(home)}
    out = home / "out"
    before = time.perf_counter()
    with out.open("wb") as file:
        child = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL, env=env, cwd=home)
        _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - before
    if status:
        raise SystemExit(f"{' '.join(command)} failed with status {status}")
    return took, usage.ru_maxrss / 1024, out.read_text(errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--commits", type=int, default=500)
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="inspect-"))
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    small, large = folder / "small", folder / "large"
    python = sys.executable
    if not small.exists():
        run([python, "-c", WRITE, str(small)], home)
    if not large.exists():
        synthesise(small, large, arguments.commits)
    hudilab = [python, "-c", "from hudilab_cli.cli import main; main()", "inspect"]
    ways: dict[str, Callable[[Path], list[str]]] = {
        "inspect --json": lambda table: [*hudilab, str(table), "--json"],
        "inspect": lambda table: [*hudilab, str(table)],
        "inspect --html": lambda table: [*hudilab, str(table), "--html", str(home / "page.html")],
        "Spark session": lambda table: [python, "-c", SPARK, str(table)],
    }
    print(f"rounds {arguments.rounds}, load {os.getloadavg()[0]:.1f}, cores {os.cpu_count()}")
    for label, table in (("5 commits", small), (f"{arguments.commits} commits", large)):
        times: dict[str, list[float]] = {}
        memory: dict[str, float] = {}
        results: dict[str, str] = {}
        for _ in range(arguments.rounds):
            for way, command in ways.items():
                took, peak, results[way] = run(command(table), home)
                times.setdefault(way, []).append(took)
                memory[way] = max(memory.get(way, 0.0), peak)
        report = json.loads(results["inspect --json"])
        summary = report["table"]
        spark = dict(line.split() for line in results["Spark session"].splitlines()[-4:])
        same = (len(report["instants"]), summary["file_groups"], summary["rows"])
        theirs = tuple(int(spark[n]) for n in ("show_timeline", "show_fsview_latest", "rows"))
        print(
            f"{label}: {summary['files']} files, instants, slices, rows {same}, by Spark {theirs}"
        )
        for way, taken in times.items():
            mid = statistics.median(taken)
            ratio = statistics.median(times["Spark session"]) / mid
            print(f"  {way:<16} {mid:7.2f} s  {memory[way]:6.0f} MB  {ratio:6.1f} times faster")


if __name__ == "__main__":
    main()
