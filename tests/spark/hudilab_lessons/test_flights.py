"""The messages of lesson 40 end in what happened, whatever their order."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from hudilab_lessons.flights import compare, deliver, messages, read, states

KEY = ["carrier", "flight", "origin", "flight_date"]
COUNT = 3_000
MONTHS = 12


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Flights of October to December; each 10th is cancelled, each 16th of the others diverted."""
    folder = tmp_path_factory.mktemp("flights")
    rows = (
        spark.range(COUNT)
        .selectExpr(
            *("2013 AS year", "int(10 + id % 3) AS month", "int(1 + id % 28) AS day"),
            *("'UA' AS carrier", "int(id) AS flight", "'EWR' AS origin", "'IAH' AS dest"),
            *("int(id % 24) AS hour", "int(id % 60) AS minute", "'N' || id AS tailnum"),
            "IF(id % 10 = 0, NULL, int(id % 300 - 20)) AS dep_delay",
            "IF(id % 10 = 0 OR id % 16 = 1, NULL, int(30 + id % 200)) AS air_time",
        )
        .selectExpr(
            "*",
            "IF(air_time IS NULL, NULL, dep_delay + 3) AS arr_delay",
            "make_timestamp(year, month, day, hour, 0, 0) AS time_hour",
        )
    )
    frame = rows.toPandas().astype(dict.fromkeys(("dep_delay", "air_time", "arr_delay"), "Int32"))
    frame.to_parquet(folder / "flights.parquet", coerce_timestamps="us", index=False)
    return folder


@pytest.fixture(scope="module")
def feed(spark: SparkSession, folder: Path) -> DataFrame:
    return messages(spark, folder, f"file://{folder}/store", MONTHS, 42).cache()


@pytest.fixture(scope="module")
def happened(spark: SparkSession, folder: Path) -> DataFrame:
    return states(spark.read.parquet(f"{folder}/flights.parquet")).cache()


def test_the_newest_message_of_each_flight_says_what_happened(
    feed: DataFrame, happened: DataFrame
) -> None:
    assert feed.columns == ["file", *happened.columns]
    timed = feed.where("event_at IS NOT NULL").drop("file")
    row = F.max_by(F.struct(*timed.columns), "event_at").alias("row")
    newest = timed.groupBy(KEY).agg(row).select("row.*")
    assert newest.count() == COUNT
    assert newest.drop("event_at").exceptAll(happened.drop("event_at")).isEmpty()
    counts = {
        group["status"]: group["count"] for group in happened.groupBy("status").count().collect()
    }
    assert counts == {"cancelled": 300, "departed": 188, "arrived": 2_512}


def test_each_month_has_a_timetable_and_a_file_of_what_happened(feed: DataFrame) -> None:
    files = feed.select("file").distinct().collect()
    assert sorted(file for (file,) in files) == list(range(6, 12))
    timetables = feed.where("status = 'scheduled'").select("file", "month").distinct().collect()
    assert sorted(map(tuple, timetables)) == [(6, 10), (8, 11), (10, 12)]


def test_some_messages_are_late_wrong_or_without_a_time(
    feed: DataFrame, happened: DataFrame
) -> None:
    feed = feed.where("month = 10")
    late = feed.where("status = 'departed' AND file = 9")
    assert 20 <= late.count() <= 80
    arrivals = feed.where("status = 'arrived' AND arr_delay IS NOT NULL")
    twice = (
        arrivals.groupBy(KEY)
        .agg(
            F.count("*").alias("n"),
            F.max_by("file", "event_at").alias("file"),
            (F.min_by("arr_delay", "event_at") - F.max_by("arr_delay", "event_at")).alias("by"),
        )
        .where("n = 2")
    )
    assert twice.count() > 0
    assert twice.select("file", "by").distinct().collect() == [(9, 60)]
    without = feed.where("event_at IS NULL")
    assert without.select("status").distinct().collect() == [("arrived",)]
    assert without.count() == happened.where("month = 10 AND status = 'departed'").count()


def test_a_seed_decides_which_messages_are_late_and_their_order(
    spark: SparkSession, folder: Path, tmp_path: Path
) -> None:
    def rows(seed: int, name: str) -> list[Row]:
        # A store for each: Spark takes a file for the one whose rows it has cached.
        return messages(spark, folder, f"file://{tmp_path}/{name}", MONTHS, seed).collect()

    first, again, other = rows(1, "one"), rows(1, "again"), rows(2, "other")
    assert first == again
    assert set(first) != set(other)


def test_each_delivered_file_is_a_folder_with_one_file(feed: DataFrame, tmp_path: Path) -> None:
    deliver(feed, f"file://{tmp_path}/inbox", [6, 9])
    assert sorted(path.name for path in tmp_path.glob("inbox/*")) == ["07", "10"]
    for number in (6, 9):
        folder = tmp_path / "inbox" / f"{number + 1:02}"
        assert len(list(folder.glob("*.parquet"))) == 1
        rows = feed.where(f"file = {number}").drop("file")
        assert rows.exceptAll(feed.sparkSession.read.parquet(f"file://{folder}")).isEmpty()


def test_a_comparison_counts_what_a_table_lacks_and_what_it_has_too_often(
    happened: DataFrame,
) -> None:
    assert compare(happened, happened) == {"flights": COUNT, "lost": 0, "wrong or twice": 0}
    later = happened.withColumn("event_at", F.expr("event_at + INTERVAL 1 HOUR"))
    assert compare(happened, later) == {"flights": COUNT, "lost": 0, "wrong or twice": 0}
    wrong = happened.withColumn("dep_delay", F.expr("IF(flight = 7, 999, dep_delay)"))
    stored = wrong.where("flight <> 8").union(happened.where("flight = 9"))
    assert compare(happened, stored) == {"flights": COUNT, "lost": 2, "wrong or twice": 2}


def test_the_package_has_the_year(spark: SparkSession, tmp_path: Path) -> None:
    tables = read(spark, tmp_path / "tables", f"file://{tmp_path}/store")
    assert sorted(tables) == ["airlines", "airports", "flights", "planes", "weather"]
    flights = tables["flights"]
    assert spark.table("airlines").columns == tables["airlines"].columns
    types = dict(flights.dtypes)
    assert (types["dep_delay"], types["tailnum"]) == ("int", "string")
    assert types["time_hour"] == "timestamp"
    assert flights.count() == 336_776
    assert flights.where("dep_time IS NULL").count() == 8_255
    assert dict(tables["weather"].dtypes)["temp"] == "double"
