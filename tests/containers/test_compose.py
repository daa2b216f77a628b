"""The whole compose file: its pages, every lesson in it, what survives `down`, and kills."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from chromium import MISSING, find_chromium, launched
from containers.engine import ROOT, Compose
from kernels import connected

pytestmark = pytest.mark.deep
ENTRY = "/opt/hudilab/docker/entrypoint.sh"
# They write on the cluster to S3, read it without Spark, use Kafka, and list the objects.
LESSONS = ("02_write_hudi_stream", "03_inspect_table", "20_kafka_stock_prices", "30_s3_warehouse")
PATIENCE = 1800.0  # seconds for a lesson: five Java processes share this machine
ROWS, BATCHES = 3_000, 30

# Compares a job's table with the generator: rows that are lost, and that are there twice.
EXACT = f"""
from hudilab import load_settings, sensor_readings
from hudilab_spark import open_session
from hudilab_spark.warehouse import prepare
settings = load_settings()
place = prepare(settings, run_id="RUN")
spark = open_session(settings, app="exact")
table = spark.read.format("hudi").load(place.table)
expected = sensor_readings(spark, {ROWS}, sensors=5, seed=7)
table = table.select(expected.columns)
print("exact:", expected.exceptAll(table).count(), table.exceptAll(expected).count())
"""
PRICES = """
from hudilab import load_settings
from hudilab_spark import open_session
from hudilab_spark.warehouse import prepare
settings = load_settings()
place = prepare(settings, run_id="RUN", table="stock_prices")
spark = open_session(settings, app="prices")
table = spark.read.format("hudi").load(place.table)
print("prices:", table.count(), table.select("_hoodie_record_key").distinct().count())
"""

# Interrupts each process of a job, as Ctrl-C does; the image has no `pkill`.
INTERRUPT = """
import os, pathlib, signal, sys
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    words = (folder / "cmdline").read_bytes().split(b"\\0")
    if folder.name != str(os.getpid()) and sys.argv[1].encode() in words:
        os.kill(int(folder.name), signal.SIGINT)
"""


def page(compose: Compose, port: int, path: str = "/") -> tuple[int, str]:
    address = f"http://127.0.0.1:{compose.ports[port]}{path}"
    try:
        with urlopen(address, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, ""


def in_lab(compose: Compose, *words: str) -> str:
    return compose.run("jupyterlab", ENTRY, *words, timeout=PATIENCE)


def printed(compose: Compose, script: str, name: str, run: str) -> str:
    """The line that a script prints after its name."""
    text = in_lab(compose, "python", "-c", script.replace("RUN", run))
    matches = re.findall(rf"(?m)^{name}: (.+)$", text)
    assert matches, text[-3000:]
    return str(matches[0])


def test_each_page_answers(compose: Compose, token: str) -> None:
    _, master = page(compose, 8080, "/json/")
    assert master.count('"state" : "ALIVE"') == 2
    for port, title in ((8081, "Spark Worker"), (8082, "Spark Worker"), (18080, "History Server")):
        status, text = page(compose, port)
        assert (status, title in text) == (200, True), port
    assert page(compose, 9000)[0] in (200, 403)
    assert page(compose, 8888, "/api/contents")[0] == 403
    status, text = page(compose, 8888, f"/api/contents?token={token}")
    assert (status, "02_write_hudi_stream.ipynb" in text) == (200, True)


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_runs_to_its_end(compose: Compose, lesson: str) -> None:
    started = time.monotonic()
    text = in_lab(compose, "hudilab", "run", lesson)
    print(f"\n{lesson}: {time.monotonic() - started:.0f} s")
    assert text.endswith("exit code 0"), text[-3000:]


def test_a_lesson_in_a_browser(compose: Compose, token: str) -> None:
    """Cell by cell, as a reader does: Shift+Enter, to the last cell that Run All would reach."""
    if not find_chromium():
        pytest.skip(MISSING)
    address = f"http://127.0.0.1:{compose.ports[8888]}"
    with launched() as browser:
        lab = browser.new_page(viewport={"width": 1400, "height": 1000})
        lab.goto(f"{address}/lab/tree/01_generate_data.ipynb?token={token}")
        lab.wait_for_selector(".jp-NotebookPanel .jp-Cell", timeout=120_000)
        ends = time.monotonic() + 120
        while not connected(address, token, "01_generate_data.ipynb"):
            assert time.monotonic() < ends, "no kernel"
            time.sleep(0.5)
        lab.locator(".jp-Cell").first.click()
        for _ in range(12):
            lab.keyboard.press("Shift+Enter")
        lab.wait_for_selector(".jp-OutputArea-output", timeout=300_000)
        lab.wait_for_selector('[data-status="idle"]', timeout=300_000)
        errors = lab.locator(".jp-OutputArea-output[data-mime-type*=stderr], .jp-RenderedError")
        folder = ROOT / ".lab" / "screenshots"
        folder.mkdir(parents=True, exist_ok=True)
        lab.screenshot(path=folder / "container-01.png")
        assert errors.count() == 0


def job(compose: Compose, log: Path, *words: str) -> subprocess.Popen[bytes]:
    name = compose.container("jupyterlab")
    with log.open("wb") as out:
        return subprocess.Popen(
            [compose.engine.name, "exec", name, ENTRY, "python", "-m", *words],
            stdout=out,
            stderr=subprocess.STDOUT,
        )


def end(compose: Compose, module: str, running: subprocess.Popen[bytes]) -> None:
    """Interrupt a job in its container and wait for its end."""
    text = compose.run("jupyterlab", "/opt/hudilab/.venv/bin/python", "-c", INTERRUPT, module)
    assert text.endswith("exit code 0"), text
    running.wait(timeout=300)


def wait_for(condition: Callable[[], bool], what: str, log: Path) -> None:
    ends = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < ends, f"{what}: {log.read_text(errors='replace')[-2000:]}"
        time.sleep(0.5)


def last_batch(compose: Compose, table: str) -> int:
    """The newest batch that a stream has committed, as the table says."""
    text = in_lab(compose, "hudilab", "inspect", "--json", f"s3://hudilab/warehouse/{table}")
    return max(map(int, re.findall(r'"last_batch": (\d+)', text)), default=-1)


@pytest.mark.kills
@pytest.mark.parametrize("service", ["spark-worker-1", "s3"])
def test_a_kill_in_the_middle_of_a_stream(compose: Compose, tmp_path: Path, service: str) -> None:
    run, log = f"kill_{service.partition('-')[0]}", tmp_path / "job.log"
    table = f"run-{run}/lab/sensor_readings"
    sizes = ("--rows", str(ROWS), "--batches", str(BATCHES), "--sensors", "5", "--seed", "7")
    writer = job(compose, log, "hudilab_jobs.sensor_readings", *sizes, "--run-id", run)
    try:
        wait_for(lambda: last_batch(compose, table) >= 1, "no batch", log)
        compose.engine("kill", "--signal=KILL", compose.container(service))
        assert writer.poll() is None, "the stream ended before the kill"
        time.sleep(3)
        compose.engine("start", compose.container(service))
        compose.wait(service)
        code = writer.wait(timeout=600)
        if code:  # it said why and ended; a second start resumes
            print(log.read_text(errors="replace")[-500:])
            writer = job(compose, log, "hudilab_jobs.sensor_readings", *sizes, "--run-id", run)
            assert writer.wait(timeout=600) == 0, log.read_text()[-3000:]
    finally:
        writer.kill()
    assert printed(compose, EXACT, "exact", run) == "0 0"


@pytest.mark.kills
def test_a_kill_of_the_broker(compose: Compose, tmp_path: Path) -> None:
    producer_log, writer_log = tmp_path / "producer.log", tmp_path / "writer.log"
    table = "run-broker/lab/stock_prices"
    writer = job(compose, writer_log, "hudilab_jobs.stock_prices", "--run-id", "broker")
    producer = job(compose, producer_log, "hudilab_jobs.stock_producer", "--wait-seconds", "1")
    try:
        wait_for(lambda: last_batch(compose, table) >= 1, "no batch", writer_log)
        compose.engine("kill", "--signal=KILL", compose.container("kafka"))
        time.sleep(3)
        compose.engine("start", compose.container("kafka"))
        compose.wait("kafka")
        seen = last_batch(compose, table)
        going_on = "the stream does not go on"
        wait_for(lambda: last_batch(compose, table) > seen + 1, going_on, writer_log)
        end(compose, "hudilab_jobs.stock_producer", producer)
        end(compose, "hudilab_jobs.stock_prices", writer)
    finally:
        producer.kill()
        writer.kill()
    (sent,) = re.findall(r"acknowledged=(\d+)", producer_log.read_text())
    rest = job(
        *(compose, tmp_path / "rest.log", "hudilab_jobs.stock_prices"),
        *("--run-id", "broker", "--available-now"),
    )
    assert rest.wait(timeout=600) == 0
    rows, keys = map(int, printed(compose, PRICES, "prices", "broker").split())
    assert rows == keys >= int(sent)


def test_what_is_there_after_down_and_up(compose: Compose) -> None:
    sizes = ("--rows", "600", "--batches", "2", "--run-id", "kept")
    assert in_lab(compose, "python", "-m", "hudilab_jobs.sensor_readings", *sizes).endswith("0")
    compose.run("jupyterlab", "touch", "/opt/hudilab/notebooks/mine.ipynb")
    compose.down(volumes=False)
    compose.up()
    again = in_lab(compose, "python", "-m", "hudilab_jobs.sensor_readings", *sizes)
    assert "rows=600 commits=2" in again
    assert "mine.ipynb" in compose.run("jupyterlab", "ls", "/opt/hudilab/notebooks")
    topics = ("--bootstrap-server", "kafka:19092", "--list")
    topics_listed = compose.run("kafka", "/opt/kafka/bin/kafka-topics.sh", *topics)
    assert {"stocks-in", "stocks-out", "stocks-dead"} <= set(topics_listed.split())
