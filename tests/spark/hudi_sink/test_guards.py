"""Indexes: which files an upsert opens to find a key, and an index that Hudi leaves empty."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_sink.locks import IN_PROCESS
from hudi_sink.repairs import check_can_index
from hudilab.errors import TableError
from hudilab.generate import readings_table, sensor_readings
from hudilab.paths import TableLocation

SIZES = {"sensors": 2, "seed": 5}
KEYS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    **IN_PROCESS,
}


def write(rows: DataFrame, location: TableLocation, options: dict[str, str]) -> None:
    rows.write.format("hudi").options(**options).mode("append").save(location.table)


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
