"""What a micro-batch is made of: sources that can be read again, and one row of each key."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from functools import reduce
from operator import and_, or_
from typing import Any
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from hudi_sink.files import exists
from hudi_sink.jvm import running_query
from hudilab.errors import StreamError, TableError, root_cause
from hudilab.table import MERGER, TableSpec

COMBINE = "hoodie.combine.before.upsert"  # Hudi's own way, which costs more
REFUSED_ROW = "hudilab: refused row: "  # begins the error of a row that cannot be stored
SET_ASIDE = "or pass quarantine=True to ExactlyOnceSink, to set such rows aside"
SHOWN = 100  # characters of a value in a message
# Sources that cannot read a batch again after a restart, by the names that Spark gives them.
FORGETFUL = ("TextSocket", "MemoryStream")
UNSAFE = "%[0-9A-Fa-f]{2}|:"  # in paths that are not encoded
UNWRITTEN = re.compile(
    r"Error writing record HoodieRecord\{key=HoodieKey\(recordKey=(.*?), partitionPath="
)
ARRIVAL, RANK, BUCKET = "_hudilab_arrival", "_hudilab_rank", "_hudilab_bucket"


def check_sources(session: SparkSession, query: str) -> None:
    """Raise StreamError if a running query reads from a source that cannot repeat a batch.

    After a crash such a batch is lost, or another one takes its number.

    Args:
        session: The one that the query was started in, not the query's own.
    """
    if (running := running_query(session, query)) is None:
        return  # another session of this program has started it
    sources = running.sources()
    for number in range(sources.size()):
        if (name := str(sources.apply(number).toString())).startswith(FORGETFUL):
            raise StreamError(
                f"the source {name} cannot read a batch again, so a restart would lose rows",
                "write what it sends to files or to Kafka, and read the stream from there",
            )


def check_files(session: SparkSession, query: str, batch: int, entries: Iterable[str]) -> None:
    """Raise StreamError if a file that a batch is to read is gone: Spark would leave it out.

    Spark lists the files of a batch when it starts, and takes one that is not there for an empty
    one. Later it would fail.

    Args:
        session: The one that the query was started in.
        entries: What the sources' logs hold of the batch, see `CheckpointFiles.plan`.
    """
    lines = (line for text in entries for line in text.splitlines() if line.startswith("{"))
    named = [unquote(json.loads(line)["path"]) for line in lines]
    if not named or len(named) == _files_listed(session, query):
        return
    if gone := [path for path in named if not exists(session, path)]:
        others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise StreamError(
            f"batch {batch} is to read {gone[0]}{others}, which the source has noted and which "
            "is gone, so its rows would be lost",
            "put each file back under its name, an empty one if its rows are lost for good, and "
            "start again",
        )


def _files_listed(session: SparkSession, query: str) -> int:
    """Return how many files the running batch of a query reads, as Spark has listed them."""
    if (running := running_query(session, query)) is None:
        return -1
    leaves = running.lastExecution().logical().collectLeaves()
    places: list[Any] = []
    for leaf in map(leaves.apply, range(leaves.size())):
        if leaf.isStreaming() and leaf.nodeName().startswith("LogicalRelation"):
            location = leaf.relation().location()
            # A stream is in its plan twice, if it is joined with itself.
            if not any(location.equals(other) for other in places):
                places.append(location)
    return sum(len(location.inputFiles()) for location in places)


def storable(
    spec: TableSpec, table: str, encoded: bool, by_arrival: bool, texts: Collection[str]
) -> Column:
    """Return a condition that is true for each row, or an error: Hudi would lose or change the row.

    Spark evaluates it while Hudi writes, so it costs no job of its own, and nothing is committed.

    Args:
        encoded: Whether the table encodes partition values in its paths.
        by_arrival: Whether the table keeps the last row of a key, whatever its ordering value.
        texts: The columns of the key that are strings, which may be empty.
    """
    values = (
        F.concat(
            F.lit(f"{name}="),
            F.coalesce(F.substring(F.col(name).cast("string"), 1, SHOWN), F.lit("NULL")),
        )
        for name in spec.record_key
    )
    row = F.concat(
        F.lit(f"{REFUSED_ROW}{table} cannot store the row with "), F.concat_ws(", ", *values)
    )
    stored = F.lit(True)
    for condition, problem, remedy in reversed([*_row_rules(spec, encoded, by_arrival, texts)]):
        message = F.concat(row, F.lit(f": {problem}; {remedy}"))
        stored = F.when(condition, F.raise_error(message)).otherwise(stored)
    return stored


def row_problem(spec: TableSpec, encoded: bool, by_arrival: bool, texts: Collection[str]) -> Column:
    """Return a text for each row: why `storable` refuses it; NULL for a row that can be stored."""
    problem = F.lit(None).cast("string")
    for condition, text, _ in reversed([*_row_rules(spec, encoded, by_arrival, texts)]):
        problem = F.when(condition, F.lit(text)).otherwise(problem)
    return problem


def _row_rules(
    spec: TableSpec, encoded: bool, by_arrival: bool, texts: Collection[str]
) -> Iterator[tuple[Column, str, str]]:
    """Yield what a row must not have, with the problem and its remedy."""
    order = spec.ordering
    yield _key_rule(spec, texts)
    if spec.operation == "upsert" and not by_arrival:
        yield (
            F.col(order).isNull(),
            f"the ordering column {order} is null, so later rows of the key would fail for good",
            f'fix the row, or leave it out: .where("{order} IS NOT NULL"); {SET_ASIDE}',
        )
    for name in spec.partition:
        value = F.col(name).cast("string")
        yield (
            value == "",
            f"the partition column {name} is empty, which would be stored as NULL",
            f"""replace it: .withColumn("{name}", F.expr("nullif({name}, '')")); {SET_ASIDE}""",
        )
        if not encoded:
            yield (
                value.rlike(UNSAFE),
                f"the partition column {name} contains % or :, which this table does not encode, "
                "so it would be read back changed",
                f"replace these characters, or write to a new table; {SET_ASIDE}",
            )


def _key_rule(spec: TableSpec, texts: Collection[str]) -> tuple[Column, str, str]:
    """Return the rule for keys, because Hudi 1.2 does not store each key with a missing part.

    A part is missing if it is null or an empty string.

    | Hudi writes | the table has | a key is refused if |
    |---|---|---|
    | Avro records | - | all parts are missing |
    | Spark's rows | partitions | all parts are missing |
    | Spark's rows | no partitions | any part is missing |
    """
    key = spec.record_key
    missing = [
        F.col(name).isNull() | (F.col(name) == "") if name in texts else F.col(name).isNull()
        for name in key
    ]
    present = [f"{name} <> ''" if name in texts else f"{name} IS NOT NULL" for name in key]
    spark_rows = spec.operation == "bulk_insert" or MERGER in spec.write_options()
    if spark_rows and not spec.partition:
        refused, stored = reduce(or_, missing), " AND ".join(present)
        what = "has a column that is null" if len(key) > 1 else "is null"
    else:
        refused, stored = reduce(and_, missing), " OR ".join(present)
        what = "is null"
    return (
        refused,
        f"the record key ({', '.join(key)}) {what}{' or empty' if texts else ''}",
        f'fix the row, or leave it out: .where("{stored}"); {SET_ASIDE}',
    )


def refused_row(table: str, error: str) -> TableError | None:
    """Return the error of the row that an error's text is about; None for other errors."""
    if row := error.partition(REFUSED_ROW)[2].partition("\n")[0].strip():
        return TableError(row)  # with its remedy, as `storable` made it
    # Hudi's own: the key as it writes it, and the reason in the deepest cause.
    if not (unwritten := UNWRITTEN.search(error)):
        return None
    return TableError(
        f"{table} cannot store the row with the key {unwritten[1][:SHOWN]}: {root_cause(error)}",
        "fix the row, or leave it out, and start again",
    )


def newest_rows(batch: DataFrame, spec: TableSpec, *, by_arrival: bool) -> DataFrame:
    """Return the row of each key with the greatest ordering value; of equal ones, the last.

    Of a partitioned table with buckets, one task gets all rows of a bucket: Hudi reads the timeline
    in each task, once for each partition that the task has rows of. With `by_arrival`, return the
    last row of each key, as a table with COMMIT_TIME_ORDERING keeps it.
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
