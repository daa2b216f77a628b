"""Reduce a batch to one row of each key, in Spark, before Hudi turns rows into Java objects."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from hudilab.writer.spec import TableSpec

__all__ = ["COMBINE", "newest_rows"]

COMBINE = "hoodie.combine.before.upsert"  # Hudi's own way, which costs more
ARRIVAL, RANK, BUCKET = "_hudilab_arrival", "_hudilab_rank", "_hudilab_bucket"


def newest_rows(batch: DataFrame, spec: TableSpec, *, by_arrival: bool) -> DataFrame:
    """Return the row of each key with the greatest ordering value; of equal ones, the last.

    Of a partitioned table with buckets, one task gets all rows of a bucket: Hudi reads the timeline
    in each task, once for each partition that the task has rows of.

    Args:
        by_arrival: Return the last row of each key, as a table with COMMIT_TIME_ORDERING keeps it.
    """
    order = [F.col(ARRIVAL).desc()]
    if not by_arrival:
        order.insert(0, F.col(spec.ordering).desc_nulls_last())
    # Spark sorts fastest if the first column differs most: what is not a partition.
    key = [name for name in spec.record_key if name not in spec.partition]
    key += [] if spec.is_global() else spec.partition
    rows, added = batch.withColumn(ARRIVAL, F.monotonically_increasing_id()), [ARRIVAL, RANK]
    if spec.buckets and spec.partition:
        # Not Hudi's own hash, but it too spreads a partition's keys over as many tasks.
        rows = rows.withColumn(BUCKET, F.pmod(F.hash(*key), F.lit(spec.buckets)))
        rows = rows.repartition(*spec.partition, BUCKET)
        key, added = [*key, BUCKET], [*added, BUCKET]
    number = F.row_number().over(Window.partitionBy(*key).orderBy(*order))
    return rows.withColumn(RANK, number).where(F.col(RANK) == 1).drop(*added)
