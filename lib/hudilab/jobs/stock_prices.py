"""Stock prices from one topic of Kafka to another, and into a Hudi table beside it.

`python -m hudilab.jobs.stock_prices`, or the same file with spark-submit; `--help` lists the
options. Messages that cannot be read go to the dead-letter topic. The table holds each price
exactly once; the topic gets each one at least once. Ends by itself with `--available-now`.
"""

from __future__ import annotations

import re
import signal
import time
from typing import Annotated

import typer
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from hudilab.config import load_settings
from hudilab.errors import KafkaError, StreamError
from hudilab.jobs import one_line
from hudilab.kafka import access, check_topics
from hudilab.ledger import BatchLedger
from hudilab.paths import Place
from hudilab.prices import KEY, ORDERING, outgoing, read_prices
from hudilab.session import open_session
from hudilab.storage import prepare
from hudilab.streams import drain
from hudilab.tables import TableSpec

__all__ = ["run", "table_spec"]

STARTS = {"earliest-offset": "earliest", "latest-offset": "latest"}
PREVIEW = 5


def run(
    *,
    available_now: bool,
    trigger_seconds: float,
    rows_per_batch: int,
    run_id: str,
    fail_on_data_loss: bool,
) -> list[StreamingQuery]:
    """Start both streams and wait for their end; Errors: LabError, before anything is written."""
    settings = load_settings()
    reader, writer = access(settings.consumer), access(settings.producer)
    consumer, producer = settings.consumer, settings.producer
    assert consumer is not None  # access has refused settings without them
    assert producer is not None
    check_topics(reader, [consumer.topic_name])
    check_topics(writer, [producer.topic_name, producer.dead_letter_topic_name])
    place = prepare(settings, run_id=run_id, table=producer.table_name)
    groups = ["core", "kafka", *(["msk"] if reader.iam or writer.iam else [])]
    spark = open_session(settings, app="stock_prices", groups=groups)
    source = (
        spark.readStream.format("kafka")
        .options(**reader.spark_options())
        .option("subscribe", consumer.topic_name)
        .option("startingOffsets", STARTS[consumer.startup_mode])
        .option("failOnDataLoss", fail_on_data_loss)
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
    )
    rows = read_prices(source)
    spec = table_spec(place)
    ledger = BatchLedger(spark, spec, place, {"topic": consumer.topic_name})

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        if settings.runtime == "LOCAL":
            batch.select(*KEY, "price").show(PREVIEW, truncate=False)
        if ledger.done(batch, batch_id):
            return
        options = spec.write_options() | ledger.stamp(batch_id)
        prices = batch.select(*KEY, "price", "topic", "partition", "offset")
        prices.write.format("hudi").options(**options).mode("append").save(place.table)

    trigger: dict[str, bool | str] = {"processingTime": f"{trigger_seconds} seconds"}
    if available_now:
        trigger = {"availableNow": True}
    to_topic = (
        outgoing(rows, producer.topic_name, producer.dead_letter_topic_name)
        .writeStream.format("kafka")
        .options(**writer.spark_options())
        .option("checkpointLocation", f"{place.checkpoint}_to_topic")
        .trigger(**trigger)  # type: ignore[arg-type]
        .start()
    )
    to_table = (
        rows.where("reason IS NULL")
        .writeStream.foreachBatch(write_batch)
        .option("checkpointLocation", place.checkpoint)
        .trigger(**trigger)  # type: ignore[arg-type]
        .start()
    )
    try:
        return _until_end([to_topic, to_table])
    except StreamError as error:
        gone = re.search(r"OffsetOutOfRange.*?(?=;)|some data may have been missed", str(error))
        if gone is None:
            raise
        raise KafkaError(
            f"messages of {consumer.topic_name!r} that were not read yet are gone ({gone[0]}); "
            "keep them longer (retention.ms), and go on without them with --no-fail-on-data-loss"
        ) from None


def table_spec(place: Place) -> TableSpec:
    """The table of notebook 07: upserts, one file group a ticker."""
    return TableSpec(
        name=place.name,
        record_key=KEY,
        partition=("ticker",),
        ordering=ORDERING,
        operation="upsert",
        buckets=1,
    )


def _until_end(queries: list[StreamingQuery]) -> list[StreamingQuery]:
    """Until all have ended, one has failed, or a signal asks for the end."""
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _: asked.append(got))
    while any(query.isActive for query in queries):
        failed = any(not query.isActive and query.exception() for query in queries)
        if asked or failed:
            for query in queries:
                _stop(query)
        time.sleep(0.1)
    for query in queries:
        drain(query, deadline=0)  # tells why, where one has failed
    return queries


def _stop(query: StreamingQuery) -> None:
    """Between two batches, where that comes soon: then nothing is to be repeated."""
    patience = time.monotonic() + 60
    while query.isActive and query.status["isTriggerActive"] and time.monotonic() < patience:
        time.sleep(0.05)
    query.stop()


def command(
    available_now: Annotated[bool, typer.Option(help="What is there now, then end.")] = False,
    trigger_seconds: Annotated[float, typer.Option(help="Seconds between micro-batches.")] = 1.0,
    rows_per_batch: Annotated[int, typer.Option(help="Messages of a micro-batch, at most.")] = (
        100_000
    ),
    run_id: Annotated[str, typer.Option(help="A root of its own below the warehouse.")] = "",
    fail_on_data_loss: Annotated[
        bool, typer.Option(help="Stop when offsets are gone that were not read.")
    ] = True,
) -> None:
    """Stream stock prices to a topic and to a Hudi table."""
    with one_line():
        run(
            available_now=available_now,
            trigger_seconds=trigger_seconds,
            rows_per_batch=rows_per_batch,
            run_id=run_id,
            fail_on_data_loss=fail_on_data_loss,
        )


if __name__ == "__main__":
    typer.run(command)
