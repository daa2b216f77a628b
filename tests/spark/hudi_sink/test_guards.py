"""Indexes: which files an upsert opens to find a key, and an index that Hudi leaves empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_sink.locks import IN_PROCESS
from hudi_sink.repairs import check_can_index
from hudilab.errors import TableError
from hudilab.generate import readings_table, sensor_readings
from hudilab.paths import TableLocation, local_path

SIZES = {"sensors": 2, "seed": 5}
KEYS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    **IN_PROCESS,
}


def write(rows: DataFrame, location: TableLocation, options: dict[str, str]) -> None:
    rows.write.format("hudi").options(**options).mode("append").save(location.table)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("index", "opens_all"),
    [
        ("SIMPLE", True),
        ("BLOOM", True),
        ("BUCKET", False),
        ("GLOBAL_RECORD_LEVEL_INDEX", False),
    ],
)
def test_which_indexes_open_files_that_a_batch_does_not_change(
    spark: SparkSession, location: TableLocation, index: str, opens_all: bool
) -> None:
    """Notebook 08 says it; here, such a file cannot be read."""
    spec = readings_table(
        operation="upsert",
        index=index,
        buckets=4 if index == "BUCKET" else None,
        record_key=("reading_id",),
        partition=(),
    )
    rows = sensor_readings(spark, 80, slices=4, **SIZES)
    load = {"hoodie.bulkinsert.shuffle.parallelism": "4"}
    load |= {} if spec.buckets else {"hoodie.datasource.write.operation": "bulk_insert"}
    write(rows, location, spec.write_options() | load)

    key = "reading_id = 79"
    table = spark.read.format("hudi").load(location.table)
    (holder,) = table.where(key).select(F.input_file_name()).first() or ("",)
    files = list(Path(str(local_path(location.table))).glob("*.parquet"))
    assert len(files) == 4
    other = next(file for file in files if file.name not in holder)
    content = other.read_bytes()
    other.write_bytes(b"x" * len(content))
    later = F.expr("measurement_time + INTERVAL 1 DAY")
    batch = rows.where(key).withColumn("measurement_time", later)
    if opens_all:
        with pytest.raises(Exception, match=other.name):
            write(batch, location, spec.write_options())
    else:
        write(batch, location, spec.write_options())
    other.write_bytes(content)
    write(batch, location, spec.write_options())
    assert spark.read.format("hudi").load(location.table).count() == 80


@pytest.mark.deep
def test_an_index_right_after_another_is_refused(
    spark: SparkSession, location: TableLocation
) -> None:
    """And Hudi leaves it without entries: why it is refused; notebook 08 shows the way out."""
    spec = readings_table(record_key=("reading_id",))
    rows = sensor_readings(spark, 60, **SIZES).withColumn("part", F.expr("reading_id DIV 20"))
    rows = rows.withColumn("part", F.concat(F.lit("p"), "part")).withColumn("lot", F.col("part"))
    options = spec.write_options() | KEYS
    write(rows, location, options)
    check_can_index(spark, location.table)
    spark.sql(f"CREATE TABLE twice USING hudi LOCATION '{location.table}'")
    for name, value in KEYS.items():
        spark.conf.set(name, value)
    spark.sql("CREATE INDEX by_part ON twice (part)")
    for name in KEYS:
        spark.conf.unset(name)
    with pytest.raises(TableError) as caught:
        check_can_index(spark, location.table)
    spark.sql("DROP TABLE twice")
    assert str(caught.value) == (
        f"{location.table} has had no commit since its last CREATE INDEX: Hudi 1.2 would leave the "
        "next index without entries, and queries on it would return no rows; write a batch, then "
        "run CREATE INDEX"
    )
    write(rows.withColumn("reading_id", F.col("reading_id") + 100), location, options)
    check_can_index(spark, location.table)
