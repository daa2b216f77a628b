"""What a micro-batch is made of: sources that can be read again, and one row of each key."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from hudilab.errors import StreamError
from hudilab.writer.spec import TableSpec

__all__ = ["COMBINE", "check_sources", "newest_rows"]

COMBINE = "hoodie.combine.before.upsert"  # Hudi's own way, which costs more
# Sources that cannot read a batch again after a restart, by the names that Spark gives them.
FORGETFUL = ("TextSocket", "MemoryStream")
ARRIVAL, RANK, BUCKET = "_hudilab_arrival", "_hudilab_rank", "_hudilab_bucket"


def check_sources(session: SparkSession, query: str) -> None:
    """Raise StreamError if a running query reads from a source that cannot repeat a batch.

    After a crash such a batch is lost, or another one takes its number.

    Args:
        session: The one that the query was started in, not the query's own.
    """
    manager: Any = session._jsparkSession
    if (running := manager.streams().get(query)) is None:
        return  # another session of this program has started it
    sources = running.streamingQuery().sources()
    for number in range(sources.size()):
        if (name := str(sources.apply(number).toString())).startswith(FORGETFUL):
            raise StreamError(
                f"the source {name} cannot read a batch again, so a restart would lose rows; "
                "write what it sends to files or to Kafka, and read the stream from there"
            )


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
