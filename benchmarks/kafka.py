"""Kafka on this machine: the way to Hudi, and its latency.

Usage: python benchmarks/kafka.py [--rounds N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from hudilab_jobs.prices import RECORD_KEY, read_prices
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session
from hudilab_spark.streams import drain
from hudilab_spark.warehouse import prepare

ROWS, LIMIT, A_SECOND = 110_000, 10_000, 100
# Messages are sent for so long; those of the first seconds do not count: the JVM still compiles.
SECONDS, COLD = 90, 30


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
    spec = replace(stock_prices.table_spec(location), tuned=True)
    sink = ExactlyOnceSink(spark, spec, location, {"topic": topic})
    rows = source(spark, kafka, topic, limit).select(
        *RECORD_KEY, "price", "partition", "offset", "timestamp"
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
                    *RECORD_KEY, "price", "partition", "offset", "timestamp"
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
        result: dict[str, Any] = {}
        kafka = start_broker(settings).access()
        try:
            spark = open_session(settings, app="kafka", groups=("core", "kafka"))
            result["sink"] = sinks(spark, settings, kafka, arguments.rounds)
            result["latency_ms"] = {
                trigger: latency(spark, settings, kafka, trigger)
                for trigger in ("0 seconds", "1 second")
            }
            spark.stop()
        finally:
            stop_broker(settings)
    print("| | median | lowest | highest |\n|---|---|---|---|")
    rates: dict[str, list[float]] = result["sink"]
    for name, values in rates.items():
        figures = (statistics.median(values), min(values), max(values))
        print(f"| {name}, rows/s | {' | '.join(f'{figure:,.0f}' for figure in figures)} |")
    pairs = zip(rates["hudi"], rates["parquet"], strict=True)
    print(f"\nhudi to parquet: {statistics.median(hudi / other for hudi, other in pairs):.2f}")
    for trigger, times in result["latency_ms"].items():
        print(
            f"latency, trigger {trigger}: p50 {times['p50']:.0f} ms, p95 {times['p95']:.0f} ms, "
            f"a batch {times['batch']:.0f} ms"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
