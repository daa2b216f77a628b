"""Kafka on this machine: the broker's start, the producer, the way to Hudi, and its latency.

Usage: python benchmarks/kafka.py [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from hudi_inspect import inspect
from hudi_sink.sink import ExactlyOnceSink
from hudilab.settings import Settings
from hudilab_cli.servers.kafka import start_broker, stop_broker
from hudilab_jobs import stock_prices
from hudilab_jobs.generated_prices import Message, price_messages
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import create_topics
from hudilab_jobs.prices import KEY, read_prices
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain
from hudilab_spark.warehouse import prepare

SENT, ROWS, LIMIT, A_SECOND = 200_000, 110_000, 10_000, 100
# Messages are sent for so long; those of the first seconds do not count: the JVM still compiles.
SECONDS, COLD = 90, 30


def start_times(settings: Settings, rounds: int) -> dict[str, list[float]]:
    """Seconds until a broker on no data answers, and its resident memory then, in MB."""
    figures: dict[str, list[float]] = {"ready_s": [], "rss_mb": []}
    for number in range(rounds):
        began = time.monotonic()
        fresh = replace(settings, home=settings.home / f"start{number}")
        broker = start_broker(fresh)
        figures["ready_s"].append(time.monotonic() - began)
        figures["rss_mb"].append(psutil.Process(broker.pid).memory_info().rss / 1e6)
        stop_broker(fresh)
    return figures


def bare(kafka: Access, topic: str, batch: list[Message]) -> None:
    """What the client can do: the same options, nothing counted but the queue."""
    client = Producer(
        kafka.client_options()
        | {"enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 5}
    )
    for message in batch:
        while True:
            try:
                client.produce(topic, message.value, message.key)
                break
            except BufferError:
                client.poll(0.1)
    assert client.flush(60) == 0


def producers(kafka: Access, rounds: int) -> dict[str, list[float]]:
    """Messages a second, of the lab's `produce` and of the bare client, in turn."""
    batch = list(price_messages(SENT, seed=1))
    rates: dict[str, list[float]] = {"lab": [], "bare": []}
    for number in range(rounds):
        ways: list[tuple[str, Callable[..., object]]] = [("lab", produce), ("bare", bare)]
        for name, send in ways if number % 2 else ways[::-1]:
            create_topics(kafka, {"speed": 3}, afresh=True)
            began = time.monotonic()
            send(kafka, "speed", batch)
            rates[name].append(SENT / (time.monotonic() - began))
    return rates


def source(spark: SparkSession, kafka: Access, topic: str, limit: int) -> DataFrame:
    stream = (
        spark.readStream.format("kafka")
        .options(**kafka.spark_options())
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", limit)
    )
    return read_prices(stream.load()).where("reason IS NULL")


def to_hudi(
    spark: SparkSession, settings: Settings, kafka: Access, topic: str, run: str, limit: int
) -> tuple[Any, Any]:
    """The write of lesson 20; the stream's writer, not started, and its place."""
    location = prepare(settings, run_id=run, table="stock_prices")
    spec = stock_prices.table_spec(location)
    sink = ExactlyOnceSink(spark, spec, location, {"topic": topic})
    rows = source(spark, kafka, topic, limit).select(
        *KEY, "price", "partition", "offset", "timestamp"
    )
    writer = rows.writeStream.foreachBatch(sink.write_batch)
    return writer.option("checkpointLocation", location.checkpoint), location


def sinks(
    spark: SparkSession, settings: Settings, kafka: Access, rounds: int
) -> dict[str, list[float]]:
    """Rows a second from Kafka to Hudi and to Parquet, the same batches; the first is not timed."""
    create_topics(kafka, {"rows": 3})
    produce(kafka, "rows", price_messages(ROWS, seed=2))
    rates: dict[str, list[float]] = {"hudi": [], "parquet": []}
    for number in range(rounds + 1):  # the first round warms the JVM
        for name in ("hudi", "parquet") if number % 2 else ("parquet", "hudi"):
            if name == "hudi":
                writer, location = to_hudi(spark, settings, kafka, "rows", f"sink{number}", LIMIT)
                table = location.table
            else:
                home = settings.home / f"parquet{number}"
                table = str(home / "table")
                rows = source(spark, kafka, "rows", LIMIT).select(
                    *KEY, "price", "partition", "offset", "timestamp"
                )
                writer = (
                    rows.writeStream.format("parquet")
                    .partitionBy("ticker")
                    .option("path", table)
                    .option("checkpointLocation", str(home / "checkpoint"))
                )
            query = drain(writer.trigger(availableNow=True).start(), deadline=600)
            counted = query.recentProgress[1:]
            spent = sum(p["durationMs"]["triggerExecution"] for p in counted) / 1000
            if spark.read.format(name).load(table).count() != ROWS:
                raise SystemExit(f"{name}: the table is wrong")
            if number:
                rates[name].append(sum(p["numInputRows"] for p in counted) / spent)
    return rates


def latency(
    spark: SparkSession, settings: Settings, kafka: Access, trigger: str
) -> dict[str, float]:
    """ms from a message's time in Kafka to the end of the commit that holds it, and of a batch."""
    topic = f"slow-{trigger.replace(' ', '-')}"
    create_topics(kafka, {topic: 3})
    writer, location = to_hudi(spark, settings, kafka, topic, topic, LIMIT)
    query = writer.trigger(processingTime=trigger).start()
    total = A_SECOND * SECONDS
    began = time.monotonic()

    def paced() -> Iterator[Message]:
        for number, message in enumerate(price_messages(total, seed=3)):
            time.sleep(max(0.0, began + number / A_SECOND - time.monotonic()))
            yield message

    # One client for all: a client for each message needs longer to start than to send.
    sender = threading.Thread(target=produce, args=(kafka, topic, paced()))
    sender.start()
    sender.join()
    query.processAllAvailable()
    query.stop()
    rows = spark.read.format("hudi").load(location.table)
    frame = rows.selectExpr(
        "_hoodie_commit_time AS requested", "unix_millis(timestamp) AS sent"
    ).toPandas()
    ends = {
        instant.time: instant.completed.timestamp() * 1000
        for instant in inspect(location.table, archived=True).instants
        if instant.completed is not None
    }
    frame = frame[frame["sent"] > frame["sent"].min() + COLD * 1000]
    waited = frame["requested"].map(ends) - frame["sent"]
    if len(rows.head(1)) == 0 or waited.isna().any() or rows.count() != total:
        raise SystemExit("latency: the table is wrong")
    took = [progress["durationMs"]["triggerExecution"] for progress in query.recentProgress]
    batch = statistics.median(took[len(took) * COLD // SECONDS :])
    return {"p50": float(waited.median()), "p95": float(waited.quantile(0.95)), "batch": batch}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        settings = replace(load_settings(), home=Path(home))
        result: dict[str, Any] = {"broker": start_times(settings, arguments.rounds)}
        kafka = start_broker(settings).access()
        try:
            result["producer"] = producers(kafka, arguments.rounds)
            spark = open_session(settings, app="kafka", groups=("core", "kafka"))
            result["sink"] = sinks(spark, settings, kafka, arguments.rounds)
            result["latency_ms"] = {
                trigger: latency(spark, settings, kafka, trigger)
                for trigger in ("0 seconds", "1 second", "5 seconds")
            }
            spark.stop()
        finally:
            stop_broker(settings)
    print("| | median | lowest | highest |\n|---|---|---|---|")
    for group in ("broker", "producer", "sink"):
        for name, values in result[group].items():
            figures = (statistics.median(values), min(values), max(values))
            print(
                f"| {group}: {name} | " + " | ".join(f"{figure:,.1f}" for figure in figures) + " |"
            )
    for group, (ours, other) in {"producer": ("lab", "bare"), "sink": ("hudi", "parquet")}.items():
        pairs = zip(result[group][ours], result[group][other], strict=True)
        ratio = statistics.median(lab / alone for lab, alone in pairs)
        print(f"\n{ours} to {other}: {ratio:.2f}")
    for trigger, times in result["latency_ms"].items():
        print(
            f"latency, trigger {trigger}: p50 {times['p50']:.0f} ms, p95 {times['p95']:.0f} ms, "
            f"a batch {times['batch']:.0f} ms"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
