"""Generate reproducible stock prices as Kafka messages; parse and validate them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

TICKERS = (
    *("AAPL", "ACN", "ADBE", "AMD", "AVGO", "CRM", "CSCO", "IBM", "INTC"),
    *("MA", "MSFT", "NVDA", "ORCL", "PYPL", "QCOM", "TXN", "V"),
)
KEY = "ticker", "event_time"  # of the Hudi table
# Of two prices for the same moment, the one sent later is right: a key's messages are in one
# partition, and Kafka orders them there by offset.
ORDERING = "offset"
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
STEP_MS = 1000
MAX_BYTES = 100_000  # of a value; the brokers' own limit is about a million
KEPT_BYTES = 1000  # what a dead letter keeps of a key, or of a value that is too long


class Message(NamedTuple):
    """A Kafka message: JSON as bytes; key or value may be missing."""

    key: bytes | None
    value: bytes | None


def prices(last: int, *, seed: int, first: int = 0, tickers: int = len(TICKERS)) -> pd.DataFrame:
    """Return prices number `first` to `last` - 1, each a pure function of seed and number.

    A round is one price per ticker and one second of event time; within it each ticker has its own
    moment.

    Returns:
        Columns: event_time (UTC, ms), ticker, cents.
    """
    import numpy as np  # here: the job that reads prices is deployed without numpy and pandas
    import pandas as pd

    number = np.arange(first, last, dtype=np.int64)
    ticker, turn = number % tickers, number // tickers
    level = 5_000 + _draw(seed, ticker, 1, 45_000)
    # A triangle wave: up for some minutes and down again, within a tenth of the level.
    period = 600 + _draw(seed, ticker, 2, 600)
    phase = (turn + _draw(seed, ticker, 3, 1200)) % period
    swing = np.abs(2 * phase - period) * 2 - period  # -period..period
    cents = level + level * swing // (10 * period) + _draw(seed, number, 4, 201) - 100
    moment = START_MS + turn * STEP_MS + _draw(seed, number, 5, STEP_MS)
    names = np.array(TICKERS)[ticker]
    return pd.DataFrame(
        {"event_time": pd.to_datetime(moment, unit="ms"), "ticker": names, "cents": cents}
    )


def messages(
    last: int, *, seed: int, first: int = 0, tickers: int = len(TICKERS)
) -> Iterator[Message]:
    """Yield the same prices as messages: key `{"ticker":...}`, value event_time, ticker, price."""
    import numpy as np

    frame = prices(last, seed=seed, first=first, tickers=tickers)
    times = np.datetime_as_string(frame["event_time"].to_numpy(), unit="ms")
    cents = frame["cents"].tolist()
    for time, ticker, price in zip(times, frame["ticker"].tolist(), cents, strict=True):
        amount = f"{price // 100}.{price % 100:02d}"
        value = f'{{"event_time":"{time}","ticker":"{ticker}","price":{amount}}}'
        yield Message(f'{{"ticker":"{ticker}"}}'.encode(), value.encode())


def read_prices(source: DataFrame, max_bytes: int = MAX_BYTES) -> DataFrame:
    """Parse the values of Kafka's rows; `reason` says why a row cannot be used (else null).

    A price is never rounded: one with more digits is refused. Source: Spark 3.5 `from_json`.

    Returns:
        The rows with event_time TIMESTAMP, ticker STRING, price DECIMAL(10,2), reason STRING.
    """
    value, key = F.col("value").cast("string"), F.col("key").cast("string")
    shape = "event_time STRING, ticker STRING, price DOUBLE"
    told = source.withColumn("told", F.from_json(value, shape)).withColumn(
        "fields", F.json_object_keys(value)
    )
    pattern = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z?$"
    parsed = {
        "event_time": F.when(
            F.col("told.event_time").rlike(pattern),
            F.expr("try_cast(told.event_time AS TIMESTAMP)"),
        ),
        "ticker": F.col("told.ticker"),
        "price": F.col("told.price").cast("decimal(10,2)"),
    }
    checks = _checks(key, **parsed, max_bytes=max_bytes)
    reason = F.coalesce(*(F.when(wrong, _text(why)) for wrong, why in checks))
    rows = told.withColumn("reason", reason)
    for name, column in parsed.items():
        rows = rows.withColumn(name, F.when(F.col("reason").isNull(), column))
    return rows.drop("told", "fields")


def _checks(
    key: Column, *, event_time: Column, ticker: Column, price: Column, max_bytes: int
) -> list[tuple[Column, str | Column]]:
    """Return what is wrong with a message, in the order of the checks, and the reason to give."""
    return [
        (F.col("value").isNull(), "value is null"),
        (F.col("key").isNull(), "key is null"),
        (
            F.length("key") > KEPT_BYTES,
            F.format_string(f"key has %d bytes, more than {KEPT_BYTES}", F.length("key")),
        ),
        (
            F.length("value") > max_bytes,
            F.format_string(f"value has %d bytes, more than {max_bytes}", F.length("value")),
        ),
        (F.col("fields").isNull(), "value is not a JSON object"),
        *(
            (~F.array_contains("fields", name), f"field {name} is missing")
            for name in ("event_time", "ticker", "price")
        ),
        (event_time.isNull(), "event_time is not a time like 2026-01-01T00:00:00.000"),
        (~F.coalesce(ticker.rlike("^[A-Z][A-Z0-9.-]{0,9}$"), F.lit(False)), "ticker is invalid"),
        # Spark reads the texts "NaN" and "Infinity" as numbers.
        (
            ~F.coalesce(F.abs("told.price") < float("inf"), F.lit(False)),
            "price is not a number",
        ),
        (
            F.coalesce(price.cast("double") != F.col("told.price"), F.lit(True)),
            "price has more than two decimals or eight digits before them",
        ),
        (
            ~F.coalesce(F.get_json_object(key, "$.ticker") == ticker, F.lit(False)),
            "key does not match the value's ticker",
        ),
    ]


def outgoing(
    rows: DataFrame, topic: str, dead_letter_topic: str, max_bytes: int = MAX_BYTES
) -> DataFrame:
    """Route rows of `read_prices` to `topic`, or with their reason to the dead-letter topic.

    The result has the columns that Kafka's sink expects.

    Returns:
        Columns: topic, key and value (unchanged; of one that is too long, the first 1000 bytes),
        headers (null; of a dead letter: reason, topic, partition and offset).
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
        F.when(F.length(value) > max_bytes, start).otherwise(value).alias("value"),
    )


def _text(why: str | Column) -> Column:
    return F.lit(why) if isinstance(why, str) else why


def _draw(seed: int, number: np.ndarray, salt: int, size: int) -> np.ndarray:
    """Return numbers 0..size-1, independent for each salt (splitmix64; 64-bit arithmetic wraps)."""
    import numpy as np

    with np.errstate(over="ignore"):
        step = np.uint64(0x9E3779B97F4A7C15)
        mixed = number.astype(np.uint64) * step + np.uint64(seed % 2**64)
        for salted in (np.uint64(salt), np.uint64(0)):
            mixed = (mixed + salted) * step
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(size)).astype(np.int64)
