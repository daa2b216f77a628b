"""Two tables from one query, beside a query for each: seconds, processor and memory.

Usage: python benchmarks/tables.py [--messages N] [--rounds N]
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
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
from changes import cpu_s, memory_mb

from hudi_inspect import inspect
from hudilab_cli.servers.kafka import start_broker, stop_broker
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import create_topics
from hudilab_jobs.settings import load_settings

TABLES = ("orders", "customers")
BATCHES = 10
ROOT = Path(__file__).resolve().parents[1]


def fill(broker: Access, messages: int) -> None:
    """Send JSON messages of different keys to a topic for each table."""
    create_topics(broker, dict.fromkeys(TABLES, 3))
    for table in TABLES:
        rows = (json.dumps({"id": n, "amount": n % 100}).encode() for n in range(messages))
        produce(broker, table, ((None, row) for row in rows))


def configure(folder: Path, servers: str, messages: int) -> None:
    """Write a pipeline for each table, and one of both."""
    (folder / "pipelines").mkdir(parents=True)
    shutil.copy(ROOT / "conf" / "application_properties.json", folder)
    for table in TABLES:
        keys = {
            "source.format": "kafka",
            "bootstrap.servers": servers,
            "topic.name": table,
            "startup.mode": "earliest-offset",
            "messages.per.batch": str(messages * len(TABLES) // BATCHES),
            "source.schema": "id INT, amount INT",
            "table.name": table,
            "record.key": "id",
            "ordering": "amount",
        }
        (folder / "pipelines" / f"{table}.json").write_text(json.dumps(keys))
    (folder / "pipelines" / "both.json").write_text(json.dumps({"tables": ", ".join(TABLES)}))


def run(home: Path, conf: Path, names: tuple[str, ...], messages: int) -> dict[str, float]:
    """Run programs side by side until all messages are stored; return what it took."""
    hudilab = str(Path(sys.executable).with_name("hudilab"))
    env = os.environ | {"HUDILAB_HOME": str(home), "HUDILAB_CONF": str(conf)}
    began, memory, spent = time.monotonic(), dict[int, float](), dict[int, float]()
    command = [hudilab, "stream", "--available-now"]
    programs = [
        subprocess.Popen([*command, name], env=env, stdout=subprocess.DEVNULL) for name in names
    ]
    while running := [program for program in programs if program.poll() is None]:
        for pid in (program.pid for program in running):
            with suppress(psutil.NoSuchProcess):
                memory[pid] = max(memory.get(pid, 0), memory_mb(pid))
                spent[pid] = max(spent.get(pid, 0), cpu_s(pid))
        time.sleep(0.2)
    seconds = time.monotonic() - began
    if failed := [program.args for program in programs if program.returncode]:
        raise SystemExit(f"failed: {failed}")
    rows = [inspect(str(home / "warehouse" / "lab" / table)).table.rows for table in TABLES]
    shutil.rmtree(home / "warehouse")
    if rows != [messages] * len(TABLES):
        raise SystemExit(f"not every message is stored: {rows}")
    return {"seconds": seconds, "CPU s": sum(spent.values()), "MB": sum(memory.values())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=20_000, help="of each table")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = replace(load_settings(env={}), home=Path(folder, "kafka"))
        broker = start_broker(settings).access()
        try:
            fill(broker, arguments.messages)
            configure(Path(folder, "conf"), broker.servers, arguments.messages)
            ways = {"one query": ("both",), "a query each": TABLES}
            rounds = [
                {
                    way: run(settings.home, Path(folder, "conf"), names, arguments.messages)
                    for way, names in ways.items()
                }
                for n in range(arguments.rounds)
            ]
        finally:
            stop_broker(settings)
    for way in ways:
        medians = {
            figure: statistics.median(result[way][figure] for result in rounds)
            for figure in rounds[0][way]
        }
        print(way, ", ".join(f"{value:,.1f} {figure}" for figure, value in medians.items()))


if __name__ == "__main__":
    main()
