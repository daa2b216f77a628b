"""The comparison of lesson 40, whose own tables lack nothing."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hudilab_lessons.flights import compare


def test_a_comparison_counts_what_a_table_lacks_and_what_it_has_too_often(
    spark: SparkSession,
) -> None:
    happened = spark.range(100).selectExpr(
        "int(id) AS flight", "int(id) AS dep_delay", "timestamp_seconds(id) AS event_at"
    )
    assert compare(happened, happened) == {"flights": 100, "lost": 0, "wrong or twice": 0}
    later = happened.withColumn("event_at", F.expr("event_at + INTERVAL 1 HOUR"))
    assert compare(happened, later) == {"flights": 100, "lost": 0, "wrong or twice": 0}
    wrong = happened.withColumn("dep_delay", F.expr("IF(flight = 7, 999, dep_delay)"))
    stored = wrong.where("flight <> 8").union(happened.where("flight = 9"))
    assert compare(happened, stored) == {"flights": 100, "lost": 2, "wrong or twice": 2}
