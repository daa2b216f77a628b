"""Seeded sensor readings, each a pure function of seed and number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from hudilab.errors import ParameterError

if TYPE_CHECKING:
    from hudilab.table import TableSpec

FIRST_SENSOR = 10
START_MS = 1_767_225_600_000  # 2026-01-01T00:00:00Z
STEP_MS = 100
SLICES = 2  # independent of the number of cores, so that every machine writes the same files


def sensor_readings(
    spark: SparkSession,
    rows: int,
    *,
    sensors: int,
    seed: int,
    first: int = 0,
    slices: int = SLICES,
) -> DataFrame:
    """Return readings `first` to `rows` - 1 as a static DataFrame of `slices` partitions.

    Returns:
        Columns: reading_id BIGINT, sensor_id INT (10, 11, ...), temperature DECIMAL(6,2) 0..100,
        measurement_time TIMESTAMP with milliseconds (10 readings per second from 2026-01-01 UTC).
    """
    return _columns(spark.range(first, rows, 1, slices), F.col("id"), sensors, seed)


def sensor_stream(
    spark: SparkSession,
    *,
    rows_per_batch: int,
    sensors: int,
    seed: int,
    rows: int | None = None,
    first: int = 0,
) -> DataFrame:
    """Return the same readings as a stream with the same micro-batches in every run.

    With `rows`, batches after the last reading are empty, so that `drain` can detect the end.
    Otherwise the stream is unbounded. A negative `first` delays the stream, whose batches then have
    the readings of earlier batches, from number 0 on. Source: Spark 3.5 `rate-micro-batch`.
    """
    source = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows_per_batch)
        .option("numPartitions", SLICES)
        .load()
    )
    number = F.col("value") + first
    bounded = source if first >= 0 else source.where(number >= 0)
    bounded = bounded if rows is None else bounded.where(number < rows)
    return _columns(bounded, number, sensors, seed)


def readings_table(**fields: Any) -> TableSpec:
    """Return the table of lesson 02, which appends readings and has a partition per sensor.

    Args:
        fields: Fields of TableSpec that differ from the lesson's.

    Raises:
        TableError: The fields contradict each other.
    """
    from hudilab.table import TableSpec  # here, because rows alone need no specs

    usual: dict[str, Any] = {
        "name": "sensor_readings",
        "record_key": ("sensor_id", "reading_id"),
        "partition": ("sensor_id",),
        "ordering": "measurement_time",
    }
    return TableSpec(**usual | fields)


def _columns(source: DataFrame, number: Column, sensors: int, seed: int) -> DataFrame:
    def draw(salt: int, size: int) -> Column:
        """Return a number 0..size-1, independent for each salt."""
        mixed = F.xxhash64(F.lit(seed).cast("long"), number, F.lit(salt).cast("long"))
        return F.pmod(mixed, F.lit(size).cast("long"))

    sensor = draw(1, sensors) + FIRST_SENSOR
    # Each sensor has a mean of 20..80 and measures within 20 of it: 0.00..100.00.
    level = F.pmod(F.xxhash64(F.lit(seed).cast("long"), sensor), F.lit(6001).cast("long")) + 2000
    hundredths = level + draw(2, 2001) + draw(3, 2001) - 2000
    moment = F.timestamp_millis(number * STEP_MS + draw(4, STEP_MS) + START_MS)
    return source.select(
        number.alias("reading_id"),
        sensor.cast("int").alias("sensor_id"),
        (hundredths.cast("decimal(6,0)") / 100).cast("decimal(6,2)").alias("temperature"),
        moment.alias("measurement_time"),
    )


TICKERS = 17  # of `hudilab_jobs.generated_prices`
# The whole-number parameters of notebooks, with their minimums.
_LEAST = {"rows": 1, "batches": 1, "sensors": 1, "tickers": 1, "seed": None}


def check_sizes(*, trigger_seconds: Any = 0, table_type: Any = None, **sizes: Any) -> None:
    """Raise ParameterError with all problems of a stream's sizes.

    Args:
        sizes: Some of rows, batches, sensors, tickers and seed.
    """
    problems = []
    for name, value in sizes.items():
        least = _LEAST.get(name)
        if name not in _LEAST:
            problems.append(f"{name} is not one of {', '.join(_LEAST)}")
        elif isinstance(value, bool) or not isinstance(value, int):
            problems.append(f"{name}={value!r} is not a whole number")
        elif least is not None and value < least:
            problems.append(f"{name}={value} is less than {least}")
        elif abs(value) >= 2**63 or (name == "sensors" and value > 1_000_000):
            problems.append(f"{name}={value} is too large for its column")
        elif name == "tickers" and value > TICKERS:
            problems.append(f"tickers={value} is more than the {TICKERS} available")
    if isinstance(trigger_seconds, bool) or not isinstance(trigger_seconds, int | float):
        problems.append(f"trigger_seconds={trigger_seconds!r} is not a number")
    elif not 0 <= trigger_seconds < float("inf"):
        problems.append(f"trigger_seconds={trigger_seconds} is not 0 or a positive number")
    if table_type is not None:
        from hudilab.table import TABLE_TYPES

        if table_type not in TABLE_TYPES:
            problems.append(f"table_type={table_type!r} is not one of {', '.join(TABLE_TYPES)}")
    rows, batches = sizes.get("rows", 1), sizes.get("batches", 1)
    if not problems and batches > rows:
        problems.append(
            f"batches={batches} is more than rows={rows}, so some batches would be empty"
        )
    if problems:
        raise ParameterError(
            f"{'; '.join(problems)}", "change it in the parameters cell or with -p NAME VALUE"
        )
