"""The whole compose file: its pages, lessons in it, and what survives `down`."""

from __future__ import annotations

import time
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from containers.engine import Compose

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


def test_what_is_there_after_down_and_up(compose: Compose) -> None:
    sizes = ("--rows", "600", "--batches", "2", "--run-id", "kept")
    assert in_lab(compose, "python", "-m", "hudilab_jobs.sensor_readings", *sizes).endswith("0")
    compose.run("jupyterlab", "touch", "/home/hudilab/lab/notebooks/mine.ipynb")
    compose.down(volumes=False)
    compose.up()
    again = in_lab(compose, "python", "-m", "hudilab_jobs.sensor_readings", *sizes)
    assert "rows=600 commits=2" in again
    assert "mine.ipynb" in compose.run("jupyterlab", "ls", "/home/hudilab/lab/notebooks")
    topics = ("--bootstrap-server", "kafka:19092", "--list")
    topics_listed = compose.run("kafka", "/opt/kafka/bin/kafka-topics.sh", *topics)
    assert {"stocks-in", "stocks-out", "stocks-dead"} <= set(topics_listed.split())
