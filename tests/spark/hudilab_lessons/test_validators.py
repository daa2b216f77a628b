"""A quality gate inside the commit stops a bad batch, except where Hudi 1.2 ignores it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hudilab.generate import readings_table, sensor_readings
from hudilab.paths import locate

VALIDATORS = "hoodie.precommit.validators"
GATE = {
    VALIDATORS: "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
    f"{VALIDATORS}.single.value.sql.queries": (
        "SELECT count(*) FROM <TABLE_NAME> WHERE temperature < -273.15#0"
    ),
}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("operation", "table_type"), [("upsert", "MERGE_ON_READ"), ("bulk_insert", "COPY_ON_WRITE")]
)
def test_where_the_gate_stops_nothing(
    spark: SparkSession, tmp_path: Path, operation: str, table_type: str
) -> None:
    """Why the spec refuses these two; lesson 33 shows a gate that stops."""
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    buckets = 1 if operation == "upsert" else None
    spec = readings_table(operation=operation, table_type=table_type, buckets=buckets)
    options = spec.write_options() | GATE
    for first, colder in ((0, 0), (20, 1000)):
        rows = sensor_readings(spark, first + 20, first=first, sensors=1, seed=1)
        cold = (F.col("temperature") - colder).cast("decimal(6,2)")
        writer = rows.withColumn("temperature", cold).write.format("hudi")
        writer.options(**options).mode("append").save(location.table)
    table = spark.read.format("hudi").load(location.table)
    assert (table.count(), table.where("temperature < -273").count()) == (40, 20)
