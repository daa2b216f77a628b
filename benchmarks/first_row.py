"""How long a learner waits: JupyterLab, a session, a first write, and the first row, in a browser.

Usage: python benchmarks/first_row.py [--rounds N] [--headless NN ...] [--json FILE]
Lesson 02 up to its first table of rows, opened by `make lab`; beside it a notebook of plain PySpark
that has the same jars and writes as many rows with the options that Hudi needs, opened by
`jupyter lab`. In turn, each in a home of its own, with a Chromium that runs cell after cell.
With --headless, `hudilab run` of these lessons instead, and papermill of the plain notebook.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import nbformat
from comparison import table
from nbformat import v4
from spark_peer import PROJECT

sys.path.append(str(PROJECT / "tests"))
from chromium import launched
from playwright.sync_api import Browser

from hudilab_cli.servers.process import free_port
from hudilab_spark.jars import verify
from hudilab_spark.java import find_java
from hudilab_spark.waiting import wait_for

LESSON = PROJECT / "notebooks" / "02_write_hudi_stream.ipynb"
STEPS = ("JupyterLab answers", "the notebook is open", "the session is there", "the first row")
PATIENCE = 180  # seconds, for each step
PLAIN_NAME = "plain PySpark"
PLAIN = (
    """
from pyspark.sql import SparkSession, functions as F
spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.driver.extraClassPath", {jars!r})
    .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
    .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
    .getOrCreate()
)
""",
    """
batch = spark.range(1000).select(
    F.col("id").alias("reading_id"),
    (10 + F.col("id") % 11).cast("int").alias("sensor_id"),
    F.rand(42).alias("temperature"),
    F.current_timestamp().alias("measurement_time"),
)
batch.write.format("hudi").options(**{options!r}).mode("append").save({path!r})
""",
    """
table = spark.read.format("hudi").load({path!r})
table.orderBy("reading_id").limit(3).toPandas()
""",
)
OPTIONS = {
    "hoodie.table.name": "sensor_readings",
    "hoodie.datasource.write.recordkey.field": "sensor_id,reading_id",
    "hoodie.datasource.write.partitionpath.field": "sensor_id",
    "hoodie.table.ordering.fields": "measurement_time",
    "hoodie.datasource.write.operation": "bulk_insert",
}


def plain(home: Path) -> Path:
    """The notebook of a reader without the lab."""
    jars = ":".join(str(jar) for jar in verify(PROJECT / "jars", ["core"]))
    given = {"jars": jars, "path": f"file://{home}/table", "options": OPTIONS}
    cells = [v4.new_code_cell(text.strip().format(**given)) for text in PLAIN]
    file = home / "notebooks" / "plain.ipynb"
    file.parent.mkdir()
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), file)
    return file


def environment(home: Path) -> dict[str, str]:
    """What both notebooks need, and a home of their own."""
    own = {"HUDILAB_HOME": str(home), "JAVA_HOME": str(find_java().home)}
    return os.environ | own | {"RUNTIME_ENV": "", "IS_LOCAL": ""}


class Server:
    """A JupyterLab of its own, which stops with the `with` block."""

    def __init__(self, home: Path, *, lab: bool) -> None:
        port = free_port()
        self.token, self.address = secrets.token_hex(8), f"http://127.0.0.1:{port}"
        given = ["--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
        given += [f"--IdentityProvider.token={self.token}"]
        plain = [sys.executable, "-m", "jupyter", "lab", f"--notebook-dir={home}/notebooks", *given]
        self._process = subprocess.Popen(
            ["make", "lab", f"ARGS={' '.join(given)}"] if lab else plain,
            cwd=PROJECT,
            env=environment(home) | {"JUPYTER_CONFIG_DIR": str(home / "config")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(60)

    def api(self, what: str) -> Any:
        """What the server says, or None while it does not answer."""
        try:
            with urlopen(f"{self.address}/api/{what}?token={self.token}", timeout=5) as answer:
                return json.load(answer)
        except (URLError, ConnectionError, TimeoutError):
            return None

    def idle(self) -> bool:
        """Whether the one kernel has nothing to do."""
        sessions = self.api("sessions") or []
        return [session["kernel"]["execution_state"] for session in sessions] == ["idle"]


def seconds(browser: Browser, with_lab: bool) -> list[float]:
    """Seconds from the command to each of the steps."""
    with tempfile.TemporaryDirectory() as name:
        home, begun = Path(name), time.monotonic()
        notebook = LESSON if with_lab else plain(home)
        with Server(home, lab=with_lab) as server:
            wait_for(lambda: server.api("status"), PATIENCE, STEPS[0])
            durations = [time.monotonic() - begun]
            page = browser.new_page(viewport={"width": 1280, "height": 1100})
            page.goto(f"{server.address}/lab/tree/{notebook.name}?token={server.token}&reset")
            page.locator(".jp-NotebookPanel .jp-CodeCell").first.wait_for(timeout=60_000)
            wait_for(server.idle, PATIENCE, STEPS[1])
            durations.append(time.monotonic() - begun)
            page.locator(".jp-NotebookPanel .jp-Cell").first.click()
            page.keyboard.press("Escape")
            for cell in nbformat.read(notebook, 4).cells:
                page.keyboard.press("Shift+Enter")
                if cell.cell_type != "code":
                    continue
                time.sleep(0.2)  # until the kernel has begun
                wait_for(server.idle, PATIENCE, cell.source)
                if "start(" in cell.source or "getOrCreate" in cell.source:
                    durations.append(time.monotonic() - begun)
                if 'read.format("hudi")' in cell.source:
                    page.locator(".jp-OutputArea table td").first.wait_for(timeout=20_000)
                    durations.append(time.monotonic() - begun)
                    break
            page.close()
    return durations


def headless(lesson: str) -> float:
    """Seconds of a lesson by `hudilab run`, or of the plain notebook by papermill."""
    with tempfile.TemporaryDirectory() as name:
        command = [str(Path(sys.executable).with_name("hudilab")), "run", lesson]
        if lesson == PLAIN_NAME:
            papermill = [sys.executable, "-m", "papermill"]
            command = [*papermill, str(plain(Path(name))), f"{name}/executed.ipynb"]
        env, begun = environment(Path(name)), time.monotonic()
        subprocess.run(command, env=env, check=True, capture_output=True)
        return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--headless", nargs="+", metavar="NN", default=[])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    steps = ("the end",) if arguments.headless else STEPS
    durations: dict[str, list[list[float]]] = {
        who: [] for who in (*(arguments.headless or ["lesson 02"]), PLAIN_NAME)
    }
    with nullcontext() if arguments.headless else launched() as browser:
        for _ in range(arguments.rounds):
            for who, rounds in durations.items():
                took = seconds(browser, who != PLAIN_NAME) if browser else [headless(who)]
                rounds.append(took)
                print(who, *(f"{duration:.1f}" for duration in took), file=sys.stderr, flush=True)
    lines = [["seconds until", *durations]]
    for at, step in enumerate(steps):
        medians = [
            statistics.median(measured_round[at] for measured_round in rounds)
            for rounds in durations.values()
        ]
        lines.append([step, *(f"{median:.1f}" for median in medians)])
    print(table(lines))
    if arguments.json:
        arguments.json.write_text(json.dumps(durations) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
