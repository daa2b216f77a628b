"""What a batch of messages becomes before any broker sees it."""

from __future__ import annotations

import pytest
from pyspark.sql import Row, SparkSession

from hudilab_jobs.prices import KEPT_BYTES, outgoing, read_prices

KEY = b'{"ticker":"IBM"}'
VALUE = b'{"event_time":"2026-01-01T09:00:00.123","ticker":"IBM","price":99.50}'
SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT"


def sent(spark: SparkSession, key: bytes, value: bytes) -> Row:
    rows = spark.createDataFrame([(key, value, "in", 0, 7)], SCHEMA)
    (row,) = outgoing(read_prices(rows), "out", "dead").collect()
    return row


def padded(key: bytes, length: int) -> bytes:
    """The same key with blanks inside, which JSON allows."""
    return key.replace(b":", b":" + b" " * (length - len(key)))


def test_a_key_of_any_usual_length_is_passed_on_as_it_is(spark: SparkSession) -> None:
    for key in (KEY, padded(KEY, KEPT_BYTES)):
        row = sent(spark, key, VALUE)
        assert (row["topic"], row["key"], row["value"]) == ("out", key, VALUE)


@pytest.mark.parametrize("length", [KEPT_BYTES + 1, 2_000_000])
def test_a_key_that_is_too_long_is_a_dead_letter_that_a_broker_takes(
    spark: SparkSession, length: int
) -> None:
    key = padded(KEY, length)
    row = sent(spark, key, VALUE)
    headers = {header["key"]: bytes(header["value"]).decode() for header in row["headers"]}
    assert headers == {
        "reason": f"key has {length} bytes, more than 1000",
        **{"topic": "in", "partition": "0", "offset": "7"},
    }
    assert (row["topic"], row["key"], row["value"]) == ("dead", key[:KEPT_BYTES], VALUE)
