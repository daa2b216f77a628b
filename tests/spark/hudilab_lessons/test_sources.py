"""The readings, static and as a stream, are those that plain Python computes by itself."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from xxhash import xxh64_intdigest

from hudilab.generate import sensor_readings, sensor_stream
from hudilab_spark.streams import drain

SEEDS = (0, 42, -5, 2**40)
SIZES = {"sensors": 11, "seed": 42}
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1_000_000)
SCHEMA = (
    "struct<reading_id:bigint,sensor_id:int,temperature:decimal(6,2),measurement_time:timestamp>"
)
PINNED = [
    ("0", "20", "54.49", "2026-01-01 00:00:00.024"),
    ("1", "12", "25.48", "2026-01-01 00:00:00.196"),
]
Reading = tuple[int, int, Decimal, int]


def xxhash64(*numbers: int) -> int:
    """Spark's function of that name, for BIGINT columns."""
    result = 42
    for number in numbers:
        result = xxh64_intdigest(struct.pack("<q", number), seed=result)
    return result - 2**64 if result >= 2**63 else result


def reading(number: int, sensors: int, seed: int) -> Reading:
    sensor = 10 + xxhash64(seed, number, 1) % sensors
    level = 2000 + xxhash64(seed, sensor) % 6001
    noise = xxhash64(seed, number, 2) % 2001 + xxhash64(seed, number, 3) % 2001 - 2000
    moment = START + (number * 100 + xxhash64(seed, number, 4) % 100) * 1000
    return number, sensor, Decimal(level + noise).scaleb(-2), moment


def readings(first: int, end: int, *, sensors: int, seed: int) -> list[Reading]:
    return [reading(number, sensors, seed) for number in range(first, end)]


def collected(frame: DataFrame) -> list[Reading]:
    """All rows by number, the moment in microseconds since 1970 UTC."""
    moment = F.unix_micros("measurement_time").alias("measurement_time")
    rows = frame.select("reading_id", "sensor_id", "temperature", moment).collect()
    return sorted(tuple(row) for row in rows)


@pytest.mark.parametrize("sensors", [1, 11])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_column_is_what_plain_python_computes(
    spark: SparkSession, seed: int, sensors: int
) -> None:
    frame = sensor_readings(spark, 2000, sensors=sensors, seed=seed)
    assert collected(frame) == readings(0, 2000, sensors=sensors, seed=seed)


def test_the_numbers_of_a_reading_do_not_change_from_version_to_version(
    spark: SparkSession,
) -> None:
    frame = sensor_readings(spark, 2, **SIZES)
    texts = frame.select([F.col(name).cast("string") for name in frame.columns]).collect()
    assert [tuple(row) for row in sorted(texts)] == PINNED


def test_first_gives_the_readings_from_there_on(spark: SparkSession) -> None:
    frame = sensor_readings(spark, 60, first=37, **SIZES)
    assert collected(frame) == readings(37, 60, **SIZES)
    assert collected(sensor_readings(spark, 60, first=60, **SIZES)) == []


@pytest.mark.parametrize(
    ("first", "rows", "ends"),
    [
        (0, None, [(0, 20), (20, 40), (40, 60)]),
        (0, 45, [(0, 20), (20, 40), (40, 45), (45, 45), (45, 45)]),
        (-35, 30, [(0, 0), (0, 5), (5, 25), (25, 30)]),
        (40, None, [(40, 60)]),
    ],
    ids=["endless", "bounded", "behind", "ahead"],
)
def test_a_stream_holds_the_same_readings_batch_by_batch(
    spark: SparkSession, tmp_path: Path, first: int, rows: int | None, ends: list[tuple[int, int]]
) -> None:
    results: dict[int, list[Reading]] = {}

    def keep(batch: DataFrame, batch_id: int) -> None:
        assert batch.schema.simpleString() == SCHEMA
        assert batch.rdd.getNumPartitions() == 2
        results[batch_id] = collected(batch)

    stream = sensor_stream(spark, rows_per_batch=20, rows=rows, first=first, **SIZES)
    writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
    drain(writer.start(), batches=len(ends), deadline=120)
    expected = [readings(*pair, **SIZES) for pair in ends]
    assert [results[number] for number in range(len(ends))] == expected
