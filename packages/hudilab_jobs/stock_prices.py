"""Stream stock prices from one Kafka topic to another and into a Hudi table.

Run `python -m hudilab_jobs.stock_prices`, or the same file with spark-submit; `--help` lists the
options. Unreadable messages go to the dead-letter topic. The table contains each price exactly
once, and the topic at least once. With `--available-now`, the job ends after the existing messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import KafkaError, StreamError
from hudilab.paths import TableLocation
from hudilab.settings import Settings
from hudilab.table import TableSpec
from hudilab_jobs import AsyncServices, RunId, TableType, short_errors
from hudilab_jobs.kafka.connection import access
from hudilab_jobs.kafka.topics import TopicIdentity, check_topics
from hudilab_jobs.prices import ORDERING, RECORD_KEY, outgoing, read_prices
from hudilab_jobs.settings import load_settings, topics
from hudilab_spark.metastore import catalog_of
from hudilab_spark.session import close_session, open_session
from hudilab_spark.signals import stop_on_signal
from hudilab_spark.streams import run_until_end
from hudilab_spark.warehouse import prepare

PREVIEW = 5
TABLE_TYPE = "COPY_ON_WRITE"


@short_errors()
def command(  # noqa: PLR0913 - Typer makes an option of each
    available_now: Annotated[
        bool, typer.Option(help="Process the messages available now, then exit.")
    ] = False,
    trigger_seconds: Annotated[float, typer.Option(help="Seconds between micro-batches.")] = 1.0,
    rows_per_batch: Annotated[
        int, typer.Option(help="Maximum number of messages per micro-batch.")
    ] = 100_000,
    run_id: RunId = "",
    fail_on_data_loss: Annotated[
        bool, typer.Option(help="Stop if unread messages have been deleted.")
    ] = True,
    table_type: TableType = TABLE_TYPE,
    async_services: AsyncServices = True,
) -> None:
    """Stream stock prices to a topic and to a Hudi table."""
    settings = load_settings()
    consumer, producer = topics(settings)
    reader, writer = (access(group, settings.home) for group in (consumer, producer))
    check_topics(reader, [consumer.topic_name])
    check_topics(writer, [producer.topic_name, producer.dead_letter_topic_name])
    location = prepare(settings, run_id=run_id, table=producer.table_name)
    groups = ["core", "kafka", *(["msk"] if reader.iam or writer.iam else [])]
    spark = open_session(settings, app="stock_prices", groups=groups, names=False)
    trigger = {"processingTime": f"{trigger_seconds} seconds"}
    try:
        write(
            spark,
            settings,
            location,
            {"availableNow": True} if available_now else trigger,
            rows_per_batch=rows_per_batch,
            fail_on_data_loss=fail_on_data_loss,
            table_type=table_type,
            async_services=async_services,
        )
    finally:
        close_session(spark)


def write(  # noqa: PLR0913 - the job's options
    spark: SparkSession,
    settings: Settings,
    location: TableLocation,
    trigger: Mapping[str, Any],
    *,
    rows_per_batch: int = 100_000,
    fail_on_data_loss: bool = True,
    table_type: str = TABLE_TYPE,
    async_services: bool = True,
) -> None:
    """Run both streams to their end; if one fails, the other continues.

    Raises:
        LabError: A stream failed.
    """
    consumer, producer = topics(settings)
    reader, writer = (access(group, settings.home) for group in (consumer, producer))
    spec = table_spec(location, table_type)
    messages = (
        spark.readStream.format("kafka")
        .options(**reader.read_options())
        .option("subscribe", consumer.topic_name)
        .option("startingOffsets", consumer.startup_mode.removesuffix("-offset"))
        .option("failOnDataLoss", fail_on_data_loss)
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .load()
    )
    read_prices(messages).createOrReplaceTempView(consumer.table_name)
    rows = spark.table(consumer.table_name)
    topic = TopicIdentity(spark, reader, consumer.topic_name)
    sink = ExactlyOnceSink(spark, spec, location, topic, async_services=async_services)
    catalog = catalog_of(spark, settings, spec, location)
    write_batch = catalog.after(_previewed(sink, settings.runtime == "LOCAL"))
    to_topic = (
        outgoing(rows, producer.topic_name, producer.dead_letter_topic_name)
        .writeStream.format("kafka")
        .options(**writer.spark_options())
        .option("checkpointLocation", location.checkpoint_of("to_topic"))
    )
    to_table = (
        rows.where("reason IS NULL")
        .select(*RECORD_KEY, "price", "topic", "partition", ORDERING)
        .writeStream.foreachBatch(write_batch)
        .option("checkpointLocation", location.checkpoint)
    )
    queries = [stream.trigger(**trigger).start() for stream in (to_topic, to_table)]
    _await_end(queries, consumer.topic_name)
    sink.close()
    catalog.register()


def _await_end(queries: Sequence[StreamingQuery], topic: str) -> None:
    """Run the streams to their end; raise KafkaError if unread messages were deleted."""
    try:
        with stop_on_signal() as signals:
            run_until_end(queries, signals)
    except StreamError as error:
        loss = re.search(r"OffsetOutOfRange.*?(?=;)|some data may have been missed", str(error))
        if loss is None:
            raise
        raise KafkaError(
            f"unread messages of topic {topic!r} were deleted ({loss[0]})",
            "keep them longer (retention.ms), and resume without them with --no-fail-on-data-loss",
        ) from None


def _previewed(sink: ExactlyOnceSink, is_shown: bool) -> Callable[[DataFrame, int], None]:
    """Return the sink's writer, which shows each batch's first rows if `is_shown`."""

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        if is_shown:
            batch.select(*RECORD_KEY, "price").show(PREVIEW, truncate=False)
        sink.write_batch(batch, batch_id)

    return write_batch


def table_spec(location: TableLocation, table_type: str = TABLE_TYPE) -> TableSpec:
    """Return the table of lesson 20: upserts, one file group per ticker."""
    return TableSpec(
        name=location.name,
        record_key=RECORD_KEY,
        partition=("ticker",),
        ordering=ORDERING,
        table_type=table_type,
        operation="upsert",
        buckets=1,
    )


if __name__ == "__main__":
    typer.run(command)
