"""A quality gate inside the commit: it stops a bad batch, except where Hudi 1.2 ignores it."""

from __future__ import annotations

from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
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
    ("operation", "table_type", "stops"),
    [
        ("insert", "COPY_ON_WRITE", True),
        ("upsert", "COPY_ON_WRITE", True),
        # Why the spec refuses these two.
        ("upsert", "MERGE_ON_READ", False),
        ("bulk_insert", "COPY_ON_WRITE", False),
    ],
)
def test_the_gate(
    spark: SparkSession, tmp_path: Path, operation: str, table_type: str, stops: bool
) -> None:
    location = locate("warehouse", "lab", "readings", is_local=True, home=tmp_path)
    buckets = 1 if operation == "upsert" else None
    spec = readings_table(operation=operation, table_type=table_type, buckets=buckets)
    options = spec.write_options() | GATE

    def write(first: int, colder: int) -> None:
        rows = sensor_readings(spark, first + 20, first=first, sensors=1, seed=1)
        cold = (F.col("temperature") - colder).cast("decimal(6,2)")
        writer = rows.withColumn("temperature", cold).write.format("hudi")
        writer.options(**options).mode("append").save(location.table)

    write(0, 0)
    if stops:
        with pytest.raises(Py4JJavaError, match="At least one pre-commit validation failed"):
            write(20, 1000)
    else:
        write(20, 1000)
    rows = spark.read.format("hudi").load(location.table)
    assert (rows.count(), rows.where("temperature < -273").count()) == (
        (20, 0) if stops else (40, 20)
    )
    write(40, 0) if stops else None
    assert rows.sparkSession.read.format("hudi").load(location.table).count() == 40
