"""The statements that the two table types answer differently, as lesson 14 lists them.

An update of Hudi that changes one of them must change the lesson.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudilab.generate import readings_table, sensor_readings
from hudilab.paths import TableLocation, locate
from hudilab_lessons.corrections import shifted

ON = "ON t.sensor_id = s.sensor_id AND t.reading_id = s.reading_id"


class Table:
    """A bucketed table of 30 readings, with a name in SQL."""

    def __init__(self, spark: SparkSession, location: TableLocation, kind: str) -> None:
        self.spark, self.path, self.name = spark, location.table, f"both_{kind}"
        self.spec = readings_table(operation="upsert", buckets=1, table_type=kind, name=self.name)
        self.rows = sensor_readings(spark, 30, sensors=1, seed=42)
        self.write(self.rows)
        spark.sql(f"DROP TABLE IF EXISTS {self.name}")
        spark.sql(
            f"CREATE TABLE {self.name} USING hudi TBLPROPERTIES ('hoodie.index.type' = 'BUCKET', "
            f"'hoodie.bucket.index.num.buckets' = '1') LOCATION '{self.path}'"
        )

    def write(self, batch: DataFrame, deleted: str = "false") -> None:
        flag = F.expr(f"IF({deleted}, true, NULL)")
        batch = batch.withColumn("_hoodie_is_deleted", flag)
        options = self.spec.write_options()
        batch.write.format("hudi").options(**options).mode("append").save(self.path)

    def read(self) -> DataFrame:
        return self.spark.read.format("hudi").load(self.path)

    def merge(self, source: DataFrame, clause: str) -> None:
        flag = F.lit(None).cast("boolean")
        source.withColumn("_hoodie_is_deleted", flag).createOrReplaceTempView("source")
        self.spark.sql(f"MERGE INTO {self.name} t USING source s {ON} {clause}")

    def added(self, source: DataFrame, clause: str) -> int:
        """The rows that a merge adds."""
        before = self.read().count()
        self.merge(source, clause)
        return self.read().count() - before

    def newest_commit(self) -> int:
        """The rows that an incremental query of the newest commit returns."""
        timeline = self.spark.sql("SELECT * FROM hudi_query_timeline(:t)", {"t": self.path})
        begin, end = sorted(row.Completion_Time for row in timeline.collect())[-2:]
        options = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": begin,
            "hoodie.datasource.read.end.instanttime": end,
        }
        return self.spark.read.format("hudi").options(**options).load(self.path).count()


@pytest.mark.parametrize(
    ("kind", "results"),
    [("COPY_ON_WRITE", (0, 5, 5, 1, 0, 5, 5)), ("MERGE_ON_READ", (3, 0, 0, 0, 5, 0, 0))],
)
def test_the_two_table_types_answer_seven_statements_differently(
    spark: SparkSession, tmp_path: Path, kind: str, results: tuple[int, ...]
) -> None:
    location = locate("warehouse", "lab", f"both_{kind}", is_local=True, home=tmp_path)
    table = Table(spark, location, kind)
    table.write(shifted(table.rows.where("reading_id < 3"), -1))
    losing = table.newest_commit()
    older = shifted(table.rows.where("reading_id BETWEEN 5 AND 9"), -1)
    deleted = -table.added(older, "WHEN MATCHED THEN DELETE")
    five = table.rows.where("reading_id BETWEEN 10 AND 14")
    table.write(five, deleted="true")
    before = table.read().count()
    table.write(shifted(five, -1))
    back = table.read().count() - before
    columns = ", ".join(
        name
        for name in table.read().columns
        if name == "_hoodie_is_deleted" or not name.startswith("_hoodie_")
    )
    before = table.read().count()
    known = f"SELECT {columns} FROM {table.name} WHERE reading_id = 20"
    spark.sql(f"INSERT INTO {table.name} {known}")
    inserted = table.read().count() - before
    unknown = [sensor_readings(spark, n + 5, sensors=1, seed=42, first=n) for n in (100, 200)]
    updating = table.added(unknown[0], "WHEN MATCHED THEN UPDATE SET *")
    inserting = table.added(unknown[1], "WHEN NOT MATCHED THEN INSERT *")
    hotter = F.expr("CAST(temperature + 500 AS DECIMAL(6,2))")
    warmer = table.rows.where("reading_id >= 25").withColumn("temperature", hotter)
    table.merge(
        shifted(warmer, 1),
        "WHEN MATCHED AND s.temperature > t.temperature THEN UPDATE SET "
        "temperature = s.temperature, measurement_time = s.measurement_time",
    )
    updated = table.read().where("temperature >= 500").count()
    assert (losing, deleted, back, inserted, updating, inserting, updated) == results
