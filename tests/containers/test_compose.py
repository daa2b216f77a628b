"""The whole compose file: its pages, lessons in it, and what survives `down`."""

from __future__ import annotations

import time
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


def page(compose: Compose, port: int, path: str = "/") -> tuple[int, str]:
    address = f"http://127.0.0.1:{compose.ports[port]}{path}"
    try:
        with urlopen(address, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, ""


def in_lab(compose: Compose, *words: str) -> str:
    return compose.run("jupyterlab", ENTRY, *words, timeout=PATIENCE)


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
