"""Repair what SQL or a table service did to a table that a stream writes to."""

from __future__ import annotations

from pyspark.sql import SparkSession

from hudilab.paths import Place
from hudilab.tables import TableSpec

__all__ = ["rewrite_buckets"]


def rewrite_buckets(spark: SparkSession, spec: TableSpec, place: Place) -> int:
    """Rewrite all rows of a bucketed table into file groups of its own index; return their number.

    For a table that SQL wrote to, or that was clustered, without the bucket index: reads stay
    right, but every upsert fails. Stop its streams first. One commit replaces all files, so readers
    see either the old ones or the new ones; time travel reaches as far back as before. Source:
    Hudi 1.2 `insert_overwrite_table`.
    """
    table = spark.read.format("hudi").load(place.table)
    rows = table.drop(*(name for name in table.columns if name.startswith("_hoodie_")))
    operation = {"hoodie.datasource.write.operation": "insert_overwrite_table"}
    options = spec.write_options() | operation
    rows.write.format("hudi").options(**options).mode("append").save(place.table)
    return spark.read.format("hudi").load(place.table).count()
