"""Hudi's timeline server: a plain write starts one for everyone, the sink's batches start none."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import psutil
import pytest
from pyspark.sql import SparkSession
from running import assert_rows, java, readings_at, start_stream

from hudi_sink.sink import ExactlyOnceSink
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab_spark.streams import drain

SIZES = {"sensors": 2, "seed": 5}
DELETES = "/v1/hoodie/marker/dir/delete"


def open_ports(process: psutil.Process) -> set[int]:
    """The ports on which a process listens on all addresses."""
    sockets = [s for s in process.net_connections("inet") if s.status == "LISTEN"]
    return {s.laddr.port for s in sockets if s.laddr.ip in ("0.0.0.0", "::")}


@contextmanager
def watched(spark: SparkSession, act: Callable[[int], None]) -> Iterator[set[int]]:
    """The ports that the JVM opens to all addresses in a `with` block; `act` is called on each."""
    process, seen, over = java(spark), set[int](), threading.Event()
    before = open_ports(process)

    def watch() -> None:
        while not over.wait(0.02):
            for port in open_ports(process) - before - seen:
                seen.add(port)
                act(port)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.mark.deep
def test_a_plain_write_lets_any_program_delete_a_folder(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No password, no check of the path: a request with the path of any folder deletes it."""
    folder, answers = tmp_path / "unrelated", list[bytes]()
    folder.mkdir()
    (folder / "thesis.txt").write_text("three years")

    def delete(port: int) -> None:
        query = urlencode({"markerdirpath": str(folder)})
        request = Request(f"http://127.0.0.1:{port}{DELETES}?{query}", method="POST")
        # The server of the metadata table's own writes answers 404: those write no such markers.
        with suppress(HTTPError), urlopen(request, timeout=30) as answer:
            answers.append(answer.read())

    options = readings_table(record_key=("reading_id",)).write_options()
    with watched(spark, delete) as ports:
        rows = sensor_readings(spark, 60, **SIZES)
        rows.write.format("hudi").options(**options).save(str(tmp_path / "table"))
    assert ports
    assert answers == [b"true"]
    assert not folder.exists()


@pytest.mark.deep
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_batches_of_the_sink_start_none(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    location = readings_at(tmp_path)
    spec = readings_table(table_type=table_type, operation="upsert", buckets=1)
    sink = ExactlyOnceSink(spark, spec, location, SIZES, 3)
    rows = sensor_stream(spark, rows_per_batch=20, rows=60, **SIZES)
    with watched(spark, lambda port: None) as ports:
        drain(start_stream(rows, sink.write_batch, location), batches=3, deadline=300)
    assert ports == set()
    assert_rows(spark, location, sensor_readings(spark, 60, **SIZES))
