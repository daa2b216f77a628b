"""Parse and validate stock prices from Kafka; route invalid messages to the dead-letter topic."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

RECORD_KEY = "ticker", "event_time"  # of the Hudi table
# Of two prices for the same time, the later message is right. The offset orders a key's messages,
# because they are in the same partition.
ORDERING = "offset"
MAX_BYTES = 100_000  # of a value; the brokers' own limit is about a million
KEPT_BYTES = 1000  # of a key or a long value in a dead letter


def read_prices(source: DataFrame) -> DataFrame:
    """Parse the values of Kafka's rows; `reason` is the problem of an invalid row, else null.

    A price with more than two decimals is invalid, not rounded. Source: Spark 3.5 `from_json`.

    Returns:
        The rows with event_time TIMESTAMP, ticker STRING, price DECIMAL(10,2), reason STRING.
    """
    value, key = F.col("value").cast("string"), F.col("key").cast("string")
    shape = "event_time STRING, ticker STRING, price DOUBLE"
    rows = source.withColumn("parsed", F.from_json(value, shape)).withColumn(
        "fields", F.json_object_keys(value)
    )
    pattern = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z?$"
    columns = {
        "event_time": F.when(
            F.col("parsed.event_time").rlike(pattern),
            F.expr("try_cast(parsed.event_time AS TIMESTAMP)"),
        ),
        "ticker": F.col("parsed.ticker"),
        "price": F.col("parsed.price").cast("decimal(10,2)"),
    }
    checks = _checks(key, **columns)
    reasons = [F.when(is_wrong, reason) for is_wrong, reason in checks]
    rows = rows.withColumn("reason", F.coalesce(*reasons))
    for name, column in columns.items():
        rows = rows.withColumn(name, F.when(F.col("reason").isNull(), column))
    return rows.drop("parsed", "fields")


def _checks(
    key: Column, *, event_time: Column, ticker: Column, price: Column
) -> list[tuple[Column, str | Column]]:
    """Return the conditions on invalid messages, in the order of the checks, with the reasons."""
    return [
        (F.col("value").isNull(), "value is null"),
        (F.col("key").isNull(), "key is null"),
        (
            F.length("key") > KEPT_BYTES,
            F.format_string(f"key has %d bytes, more than {KEPT_BYTES}", F.length("key")),
        ),
        (
            F.length("value") > MAX_BYTES,
            F.format_string(f"value has %d bytes, more than {MAX_BYTES}", F.length("value")),
        ),
        (F.col("fields").isNull(), "value is not a JSON object"),
        *(
            (~F.array_contains("fields", name), f"field {name} is missing")
            for name in ("event_time", "ticker", "price")
        ),
        (event_time.isNull(), "event_time is not a time like 2026-01-01T00:00:00.000"),
        (~F.coalesce(ticker.rlike("^[A-Z][A-Z0-9.-]{0,9}$"), F.lit(False)), "ticker is invalid"),
        # Spark parses the texts "NaN" and "Infinity" as numbers.
        (
            ~F.coalesce(F.abs("parsed.price") < float("inf"), F.lit(False)),
            "price is not a number",
        ),
        (
            F.coalesce(price.cast("double") != F.col("parsed.price"), F.lit(True)),
            "price has more than two decimals or eight digits before them",
        ),
        (
            ~F.coalesce(F.get_json_object(key, "$.ticker") == ticker, F.lit(False)),
            "key does not match the value's ticker",
        ),
    ]


def outgoing(rows: DataFrame, topic: str, dead_letter_topic: str) -> DataFrame:
    """Route rows of `read_prices` to `topic`, or with their reason to the dead-letter topic.

    Returns:
        The columns of Kafka's sink: topic, key and value (unchanged, or the first 1000 bytes),
        headers (null, or a dead letter's reason, topic, partition and offset).
    """
    value, dead = F.col("value"), F.col("reason").isNotNull()
    header = [
        F.struct(F.lit(name).alias("key"), F.col(name).cast("string").cast("binary").alias("value"))
        for name in ("reason", "topic", "partition", "offset")
    ]
    start = F.expr(f"substring(value, 1, {KEPT_BYTES})")
    return rows.select(
        F.when(dead, F.array(*header)).alias("headers"),
        F.when(dead, F.lit(dead_letter_topic)).otherwise(F.lit(topic)).alias("topic"),
        F.expr(f"substring(key, 1, {KEPT_BYTES})").alias("key"),
        F.when(F.length(value) > MAX_BYTES, start).otherwise(value).alias("value"),
    )
