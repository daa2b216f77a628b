"""Corrected readings with older, equal or newer times than the stored rows."""

from __future__ import annotations

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

KINDS = ("older", "equal", "newer")  # the time of a correction relative to the stored row
_HOTTER = 500  # degrees; above every measurement


def corrected(known: DataFrame) -> DataFrame:
    """Return corrections for every tenth reading, with the same key and 500 degrees more.

    In turn, their measurement times are a second older than the readings', equal, or newer.
    """
    return known.where("reading_id % 10 = 0").selectExpr(
        "reading_id",
        "sensor_id",
        f"CAST(temperature + {_HOTTER} AS DECIMAL(6,2)) AS temperature",
        "measurement_time + make_interval(0,0,0,0,0,0, reading_id DIV 10 % 3 - 1) "
        "AS measurement_time",
    )


def who_won(stored: DataFrame, known: DataFrame) -> pd.DataFrame:
    """Count the corrections of `known`, and those that the table stored.

    Returns:
        Columns arrived, won; index older, equal, newer.
    """
    kind = F.expr("reading_id DIV 10 % 3").alias("kind")
    both = corrected(known).select("reading_id").join(stored, "reading_id").groupBy(kind)
    won = F.count_if(F.col("temperature") >= _HOTTER).alias("won")
    counts = pd.DataFrame(0, columns=["arrived", "won"], index=list(KINDS))
    for row in both.agg(F.count("*").alias("arrived"), won).collect():
        counts.loc[KINDS[row.kind]] = [row.arrived, row.won]
    return counts


def shifted(batch: DataFrame, seconds: int | str) -> DataFrame:
    """Return the batch with its measurement times moved by a number or an SQL expression."""
    moment = F.expr(f"measurement_time + make_interval(0,0,0,0,0,0, {seconds})")
    return batch.withColumn("measurement_time", moment)
