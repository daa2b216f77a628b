"""Changes of a database: PostgreSQL, Debezium, Kafka and `hudilab stream`, how fast and how late.

Usage: python benchmarks/changes.py [--changes N] [--rate N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from hudi_inspect import inspect
from hudilab.settings import Settings
from hudilab_cli.servers.connect import start_connect, stop_connect
from hudilab_cli.servers.connectors import register
from hudilab_cli.servers.database import start_database, stop_database
from hudilab_cli.servers.kafka import start_broker, stop_broker
from hudilab_jobs.settings import load_settings
from hudilab_lessons.capture import compare

GROUP = 100  # changes of a transaction: 70 inserts, 20 updates and 10 deletes
CHANGES = (
    "INSERT INTO orders SELECT n, 'web', n % 1000, clock_timestamp() "
    "FROM generate_series({0}, {0} + 69) n",
    "UPDATE orders SET channel = 'app', at = clock_timestamp() WHERE id BETWEEN {0} AND {0} + 19",
    "DELETE FROM orders WHERE id BETWEEN {0} + 60 AND {0} + 69",
)
START = "INSERT INTO orders VALUES (0, 'start', 0, clock_timestamp())"


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process and its children."""
    process = psutil.Process(pid)
    return sum(each.memory_info().rss for each in (process, *process.children(True))) / 1e6


def cpu_s(pid: int) -> float:
    """Return the seconds that a process, its children and ended children have computed."""
    process = psutil.Process(pid)
    return sum(sum(each.cpu_times()[:4]) for each in (process, *process.children(True)))


def servers(settings: Settings) -> tuple[dict[str, int], dict[str, dict[str, float]]]:
    """Start the servers on no data; return their process ids, and their seconds and MB."""
    pids, figures = {}, {}
    starts: dict[str, Callable[[Settings], Any]] = {
        "Kafka": start_broker,
        "PostgreSQL": start_database,
        "Connect": start_connect,
    }
    for name, start in starts.items():
        began = time.monotonic()
        pids[name] = start(settings).pid
        ready = time.monotonic() - began
        figures[name] = {"ready_s": ready, "mb": memory_mb(pids[name])}
    return pids, figures


def watch(pids: dict[str, int], peaks: dict[str, float], stopped: threading.Event) -> None:
    """Keep the highest memory of each process, by the second."""
    while not stopped.wait(1):
        for name, pid in pids.items():
            with suppress(psutil.NoSuchProcess):
                peaks[name] = max(peaks.get(name, 0), memory_mb(pid))


def change(database: Any, first: int, changes: int, rate: int) -> float:
    """Commit changes, `rate` a second or as fast as it goes (0); return the seconds."""
    began = time.monotonic()
    with database.connect() as connection:
        for number in range(changes // GROUP):
            if rate:
                time.sleep(max(0, began + number * GROUP / rate - time.monotonic()))
            with connection.transaction():
                for statement in CHANGES:
                    connection.execute(statement.format(first + 70 * number))
    return time.monotonic() - began


def figures_of(table: str, first: int, took: float, changes: int) -> dict[str, float]:
    """Return how fast the changes reached Kafka and Hudi, and how late each row's newest one."""
    from hudi import HudiTableBuilder

    ends = {
        instant.time: instant.completed.timestamp()
        for instant in inspect(table, archived=True).instants
        if instant.completed is not None
    }
    rows = [
        row
        for batch in HudiTableBuilder.from_base_uri(table).build().read()
        for row in batch.to_pylist()
        if row["id"] >= first
    ]
    began = min(row["at"] for row in rows).timestamp()
    late = [ends[row["_hoodie_commit_time"]] - row["at"].timestamp() for row in rows]
    sent = max(row["kafka_timestamp"] for row in rows).timestamp()
    last = max(ends[row["_hoodie_commit_time"]] for row in rows)
    return {
        "database_s": took,
        "kafka_a_second": changes / (sent - began),
        "hudi_a_second": changes / (last - began),
        "late_p50_s": statistics.median(late),
        "late_p95_s": statistics.quantiles(late, n=20)[-1],
        "late_most_s": max(late),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=1000, help="changes a second of the second run")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # the servers end, too
    with tempfile.TemporaryDirectory() as home:
        settings = replace(load_settings(env={}), home=Path(home))
        try:
            result = measure(settings, arguments.changes, arguments.rate)
        finally:
            for stop in (stop_connect, stop_database, stop_broker):
                stop(settings)
    print("| process | s to start | MB then | MB at most | CPU s |\n|---|---|---|---|---|")
    for name, peak in result["peak_mb"].items():
        start = result["start"].get(name)
        begun = f"{start['ready_s']:.1f} | {start['mb']:,.0f}" if start else "|"
        figures = f"{begun} | {peak:,.0f}"
        print(f"| {name} | {figures} | {result['cpu_s'][name]:.1f} |")
    print(f"\nload of the machine: {result['load']:.1f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


def measure(settings: Settings, changes: int, rate: int) -> dict[str, Any]:
    """Run the changes at once, and a fifth more at a rate, through a stream that waits for them."""
    pids, started = servers(settings)
    broker, database = start_broker(settings), start_database(settings)
    with database.connect() as connection:
        columns = "id int PRIMARY KEY, channel text, amount numeric(10, 2), at timestamptz"
        connection.execute(f"CREATE TABLE orders ({columns})")
        connection.execute(START)
    (topic,) = register(settings, {"table.include.list": "public.orders"})
    pipeline = settings.home / "orders.json"
    keys = {
        "source.format": "kafka",
        "bootstrap.servers": broker.access().servers,
        "topic.name": topic,
        "value.format": "debezium",
        "source.schema": "id INT, channel STRING, amount DECIMAL(10, 2), at TIMESTAMP",
        "table.name": "orders",
        "record.key": "id",
        "tuned": "true",
    }
    pipeline.write_text(json.dumps(keys))
    hudilab = str(Path(sys.executable).with_name("hudilab"))
    command = [hudilab, "stream", str(pipeline), "--json", "--trigger-seconds", "1"]
    stream = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"HUDILAB_HOME": str(settings.home)},
    )
    assert stream.stdout
    reports = [json.loads(stream.stdout.readline())]
    reader = threading.Thread(target=lambda: reports.extend(map(json.loads, stream.stdout or [])))
    reader.start()
    pids["hudilab stream"], stopped, peaks = stream.pid, threading.Event(), dict[str, float]()
    watcher = threading.Thread(target=watch, args=(pids, peaks, stopped))
    watcher.start()
    table, runs = str(settings.home / "warehouse" / "lab" / "orders"), {}
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    try:
        paced = (f"{rate} a second", changes, changes // 5, rate)
        for name, first, count, speed in (("at once", 1, changes, 0), paced):
            # A delete is followed by a tombstone, which is a message but no change.
            messages = count + count // 10 + sum(int(report["rows"]) for report in reports)
            took = change(database, first, count, speed)
            while sum(int(report.get("rows", 0)) for report in reports) < messages:
                time.sleep(0.2)
            runs[name] = figures_of(table, first, took, count)
            figures = (f"{figure} {value:,.1f}" for figure, value in runs[name].items())
            print(f"{name}: {', '.join(figures)}", flush=True)
            with database.connect() as connection:
                counts = compare(connection, {"orders": table}, {})
            if counts[["missing", "extra"]].to_numpy().any():
                raise SystemExit(f"the table is not the database's:\n{counts}")
        spent = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
    finally:
        stopped.set()
        stream.send_signal(signal.SIGINT)
        stream.wait(60)
        watcher.join()
        reader.join()
    load = os.getloadavg()[2]
    return {"start": started, "peak_mb": peaks, "cpu_s": spent, "runs": runs, "load": load}


if __name__ == "__main__":
    main()
