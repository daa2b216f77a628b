"""Updates, deletes and merges: who wins, what moves, what SQL may do, and what follows a table."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from refusals import refused
from running import folder, readings_at, start_stream
from spark.hudi_sink.test_kill import ROWS_PER_BATCH, Run

from hudi_sink.commits import Commits
from hudi_sink.files import exists
from hudi_sink.repairs import foreign_groups
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError, TableError
from hudilab.files import read_properties
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.paths import TableLocation
from hudilab.table import TableSpec
from hudilab_spark.streams import drain
from hudilab_spark.warehouse import sql_path

BOTH = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
SIZES = {"sensors": 2, "seed": 5}


def upserts(table_type: str, **fields: Any) -> TableSpec:
    return readings_table(operation="upsert", table_type=table_type, **{"buckets": 1} | fields)


def write(rows: DataFrame, spec: TableSpec, location: TableLocation) -> None:
    rows.write.format("hudi").options(**spec.write_options()).mode("append").save(location.table)


def read(spark: SparkSession, location: TableLocation) -> DataFrame:
    return spark.read.format("hudi").load(location.table)


def later(rows: DataFrame, seconds: str) -> DataFrame:
    """The same keys, 500 degrees warmer, so many seconds later."""
    moment = F.expr(f"measurement_time + make_interval(0,0,0,0,0,0, {seconds})")
    warmer = (F.col("temperature") + 500).cast("decimal(6,2)")
    return rows.withColumn("measurement_time", moment).withColumn("temperature", warmer)


@BOTH
@pytest.mark.parametrize(
    ("merge_mode", "won"),
    [
        (None, [0, 10, 10]),
        ("COMMIT_TIME_ORDERING", [10, 10, 10]),
        pytest.param("EVENT_TIME_ORDERING", [0, 10, 10], marks=pytest.mark.deep),
    ],
)
def test_of_older_equal_and_newer_rows(
    spark: SparkSession,
    location: TableLocation,
    table_type: str,
    merge_mode: str | None,
    won: list[int],
) -> None:
    spec = upserts(table_type, merge_mode=merge_mode)
    readings = sensor_readings(spark, 30, **SIZES)
    write(readings, spec, location)
    write(later(readings, "reading_id % 3 - 1"), spec, location)
    stored = read(spark, location)
    warm = stored.where("temperature >= 500").selectExpr("reading_id % 3 AS kind").collect()
    assert [sum(row.kind == kind for row in warm) for kind in range(3)] == won
    assert stored.count() == 30
    if merge_mode:  # what the table keeps says what the spec said
        file = folder(location.table) / ".hoodie" / "hoodie.properties"
        assert read_properties(file.read_text())["hoodie.record.merge.mode"] == merge_mode
        assert spec.conflicts(read_properties(file.read_text())) == []


@pytest.mark.deep
@pytest.mark.parametrize(
    ("table_type", "index", "rows", "moved"),
    [
        # Without the spec's care the JVM ends, at the row that is older.
        ("COPY_ON_WRITE", "GLOBAL_SIMPLE", 40, 10),
        *(
            (table_type, index, *stored_now)
            for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ")
            for index, stored_now in {
                "SIMPLE": (55, 15),
                "BLOOM": (55, 15),
                "RECORD_LEVEL_INDEX": (55, 15),
                "GLOBAL_BLOOM": (40, 10),
                "GLOBAL_RECORD_LEVEL_INDEX": (40, 10),
            }.items()
        ),
    ],
)
def test_a_key_that_moves_is_one_row_only_with_a_global_index(
    spark: SparkSession, location: TableLocation, table_type: str, index: str, rows: int, moved: int
) -> None:
    spec = upserts(table_type, buckets=None, index=index, record_key=("reading_id",))
    readings = sensor_readings(spark, 40, **SIZES)
    elsewhere = later(readings.withColumn("sensor_id", F.lit(30)), "IF(reading_id < 10, 1, -1)")
    write(readings, spec, location)
    write(elsewhere.where("reading_id < 10"), spec, location)
    write(elsewhere.where("reading_id BETWEEN 10 AND 14"), spec, location)  # older than stored
    stored = read(spark, location)
    assert (stored.count(), stored.where("sensor_id = 30").count()) == (rows, moved)


def stream(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    batches: int,
    *,
    cast: str = "decimal(6,2)",
) -> None:
    """Write the next batch of 20 readings."""
    sizes = {"rows": 20 * batches, **SIZES}
    sink = ExactlyOnceSink(spark, spec, location, sizes)
    rows = sensor_stream(spark, rows_per_batch=20, **sizes)
    rows = rows.withColumn("temperature", F.col("temperature").cast(cast))
    drain(start_stream(rows, sink.write_batch, location, once=True), deadline=300)


@pytest.mark.deep
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_merge_that_knows_the_index_leaves_the_stream_healthy(
    spark: SparkSession, location: TableLocation, table_type: str
) -> None:
    spec = upserts(table_type, buckets=2)
    stream(spark, spec, location, 2)
    spark.sql(
        "CREATE TABLE told USING hudi TBLPROPERTIES ('hoodie.index.type' = 'BUCKET', "
        f"'hoodie.bucket.index.num.buckets' = '2') LOCATION '{location.table}'"
    )
    news = later(sensor_readings(spark, 20, **SIZES), "1").where("reading_id < 15")
    new_key = F.expr("IF(reading_id < 10, sensor_id, 99)").cast("int")  # five to a new partition
    news.withColumn("sensor_id", new_key).createOrReplaceTempView("news")
    spark.sql(
        "MERGE INTO told t USING news s ON t.sensor_id = s.sensor_id AND t.reading_id = "
        "s.reading_id WHEN MATCHED AND s.reading_id < 5 THEN DELETE "
        "WHEN MATCHED AND s.reading_id >= 5 THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    spark.sql("DROP TABLE told")
    stream(spark, spec, location, 2)
    stored = read(spark, location)
    assert stored.count() == stored.select("sensor_id", "reading_id").distinct().count() == 40
    assert stored.where("temperature >= 500").count() == 10
    assert stored.where("sensor_id = 99").count() == 5
    assert stored.where("reading_id >= 20").count() == 20
    assert foreign_groups(Commits(spark, location.table).file_groups(), 2) == []


@pytest.mark.parametrize("name", ["ann's", "o'brien jürgen", 'a % "b" $c~'])
def test_a_name_for_a_table_at_an_odd_path(spark: SparkSession, tmp_path: Path, name: str) -> None:
    spec, rows = upserts("COPY_ON_WRITE"), sensor_readings(spark, 4, **SIZES)
    location = readings_at(tmp_path / name)
    write(rows, spec, location)
    place = sql_path(spark, location.table)
    spark.sql(
        "CREATE TABLE odd USING hudi TBLPROPERTIES ('hoodie.index.type' = 'BUCKET', "
        f"'hoodie.bucket.index.num.buckets' = '1') LOCATION '{place}'"
    )
    spark.sql("DELETE FROM odd WHERE reading_id = 0")
    spark.sql("UPDATE odd SET temperature = 1 WHERE reading_id = 1")
    assert read(spark, location).where("temperature = 1").count() == 1
    assert (spark.table("odd").count(), read(spark, location).count()) == (3, 3)
    for where in ("table => 'odd'", f"path => '{place}'"):
        instants = spark.sql(f"CALL show_timeline({where})")
        assert instants.where("state = 'COMPLETED'").count() == 3
    spark.sql("DROP TABLE odd")
    assert read(spark, location).count() == 3
    new = sql_path(spark, location.table.replace("readings", "new"))
    spark.sql(
        f"CREATE TABLE odd (id INT) USING hudi LOCATION '{new}' TBLPROPERTIES (primaryKey='id')"
    )
    spark.sql("INSERT INTO odd VALUES (1), (2)")
    spark.sql("DROP TABLE odd")
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]
    assert (tmp_path / name / "warehouse" / "lab" / "new" / ".hoodie").is_dir()


def test_a_path_for_sql_is_a_link_only_where_it_must_be(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for uri in ("file:///a/b-c_d.e/jürgen", "s3a://bucket/w/run-a.1/lessons/t"):
        assert sql_path(spark, uri) == uri
    odd = f"file://{tmp_path}/a b/w"
    link = sql_path(spark, odd)
    assert link == sql_path(spark, odd)
    assert link.endswith("/w")
    assert Path(link.removeprefix("file://")).parent.resolve() == tmp_path / "a b"
    with refused(
        TableError, "s3a://bucket/a b/t", remedy="; move the warehouse to a path without them"
    ):
        sql_path(spark, "s3a://bucket/a b/t")
    monkeypatch.setattr(type(spark.conf), "get", lambda conf, key: "hive")
    with refused(TableError, odd, remedy="; move the warehouse to a path without them"):
        sql_path(spark, odd)


def test_a_stream_of_decimals_into_a_table_with_changes_is_refused(
    spark: SparkSession, location: TableLocation
) -> None:
    with pytest.raises(StreamError) as caught:
        stream(spark, upserts("COPY_ON_WRITE", cdc=True), location, 1)
    assert (
        "cdc=True loses the values of DECIMAL columns, and temperature is one; store "
        'DOUBLE instead: .withColumn("temperature", F.col("temperature").cast("double"))'
    ) in str(caught.value)
    assert not exists(spark, location.table)
    stream(spark, upserts("COPY_ON_WRITE", cdc=True), location, 1, cast="double")
    assert read(spark, location).count() == 20


class SilverRun(Run):
    """Bronze and silver, written by one driver that is killed."""

    script = Path(__file__).parents[1] / "programs" / "silver.py"
    writing, whole = "table to table, updates and deletes", 1

    def look_in(self, warehouse: Path) -> None:
        self.checkpoint = warehouse / "_checkpoints" / "lab" / "silver"
        self.table = warehouse / "lab" / "silver"
        self.timeline = self.table / ".hoodie" / "timeline"


# Notebook 05 follows bronze to silver each time, without a kill.
@pytest.mark.deep
@pytest.mark.kills
@pytest.mark.parametrize(
    ("table_type", "kills", "batches"), [("COPY_ON_WRITE", 5, 30), ("MERGE_ON_READ", 5, 30)]
)
def test_bronze_to_silver_is_exact_through_kills(
    tmp_path: Path, table_type: str, kills: int, batches: int
) -> None:
    survive(SilverRun(tmp_path, table_type, batches), kills)


def survive(run: SilverRun, kills: int) -> None:
    moments, table_type, batches = random.Random(4), run.table_type, run.batches
    seen = [run.kill_in(moments.uniform(0.0, 1.5)) for _ in range(kills)]
    result = run.finish()
    print(f"\n{table_type}, {kills} kills, {run.rows} rows, {batches} batches")
    print(*seen, result, sep="\n")
    run.record(kills, *(sum(pair) for pair in zip(result["bronze"], result["silver"], strict=True)))
    assert result["deleted"] == (batches - 1) * ROWS_PER_BATCH // 10
    assert result["rows"] == run.rows - result["deleted"]
    assert result["written twice"] == 0
    assert result["silver batches"] > 1
