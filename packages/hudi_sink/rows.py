"""Check the sources and rows of a micro-batch, and reduce it to one row per key."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from operator import add, and_, or_
from urllib.parse import unquote

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from hudi_sink.files import exists
from hudi_sink.jvm import count_partitions, file_indexes, items, running_query
from hudilab.errors import StreamError, TableError, root_cause
from hudilab.table import DELETED, MERGER, TableSpec

COMBINE = "hoodie.combine.before.upsert"  # Hudi's own deduplication, which is slower
# The two lines of the error about a row that cannot be stored, see `refuse` and `refused_row`.
PROBLEM, REMEDY = "hudilab: refused row: ", "hudilab: remedy: "
QUARANTINE = "or pass quarantine=True to ExactlyOnceSink, which quarantines such rows"
SHOWN = 100  # characters of a value in a message
# Spark's names of the sources that cannot read a batch again after a restart.
FORGETFUL = ("TextSocket", "MemoryStream")
UNSAFE = r"%[0-9A-Fa-f]{2}|:|\x00"  # in paths that are not encoded
UNWRITTEN = re.compile(
    r"Error writing record HoodieRecord\{key=HoodieKey\(recordKey=(.*?), partitionPath="
)
_REFUSED = re.compile(f"{PROBLEM}(?P<problem>.*)\n{REMEDY}(?P<remedy>.*)")
MISSING = ("__null__", "__empty__")
NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
LONGEST_NAME = 255  # bytes, on the disks of Linux and macOS
LONGEST_KEY = 1_024  # bytes, of an object on S3
READERS = 4  # tasks that read a batch, per task that writes to a partition
FILE_NAME = 200  # bytes, of a base file or a log file with its marker
# Hudi encodes each of these as % and two digits.
ESCAPED = r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]"""
# Hudi's bucket index splits a key with commas and colons at each colon, and at the last comma
# before the next one. Its loop never ends if the last part is no key column and has more colons.
_PART = "(?:[^,]*,[^:]*:)"
ENDLESS, ENDLESS_LAST = f"^[^:]*:{_PART}*+[^,]*:", f"^{_PART}++[^,]*:"
KEY_COLUMN = "_hoodie_record_key"
Types = tuple[tuple[str, str], ...]
# A source's column STRUCT<reason STRING, row STRUCT<...>>, NULL for a row that it accepts. The
# quarantine stores `row` instead of the columns, also for rows that the table cannot store.
REFUSED = "_hudilab_refused"
LOAD = "an initial load"
STREAM = "hudilab stream NAME, or ExactlyOnceSink without initial_load=True"
ARRIVAL, RANK, BUCKET = "_hudilab_arrival", "_hudilab_rank", "_hudilab_bucket"


def check_sources(session: SparkSession, query: str) -> None:
    """Raise StreamError if a running query reads from a source that cannot repeat a batch.

    After a crash, such a batch would be lost or contain other rows.

    Args:
        session: The session in which the query was started, not the query's own.
    """
    if (running := running_query(session, query)) is None:
        return  # another session of this program has started it
    for source in items(running.sources()):
        if (name := str(source.toString())).startswith(FORGETFUL):
            raise StreamError(
                f"the source {name} cannot read a batch again, so a restart would lose rows",
                "write its rows to files or to Kafka first, and read the stream from there",
            )


def check_files(session: SparkSession, query: str, batch: int, entries: Iterable[str]) -> None:
    """Raise StreamError if a file of a batch no longer exists, because Spark would ignore it.

    When Spark lists a batch's files, it treats a missing file as empty.

    Args:
        session: The session in which the query was started.
        entries: The batch's entries in the sources' logs, see `CheckpointFiles.plan`.
    """
    lines = (line for text in entries for line in text.splitlines() if line.startswith("{"))
    named = [unquote(json.loads(line)["path"]) for line in lines]
    if not named or len(named) == _files_listed(session, query):
        return
    if gone := [path for path in named if not exists(session, path)]:
        raise files_gone(batch, gone)


def files_gone(batch: int, gone: Sequence[str]) -> StreamError:
    """Return the error for a batch whose files no longer exist."""
    others = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
    return StreamError(
        f"batch {batch} reads {gone[0]}{others}, but the file no longer exists, so its rows would "
        "be lost",
        "restore each file under its name, or create an empty file if its rows can't be "
        "recovered, and start again",
    )


def _files_listed(session: SparkSession, query: str) -> int:
    """Return how many files the running batch of a query reads, as Spark has listed them."""
    if (running := running_query(session, query)) is None:
        return -1
    return sum(len(index.inputFiles()) for index in file_indexes(running))


def storable(
    spec: TableSpec, table: str, encoded: bool, by_arrival: bool, types: Types, append: str
) -> Column:
    """Return a condition that raises an error for a row that Hudi would lose or change.

    It is true for every other row. Spark evaluates it while Hudi writes, so nothing is committed.

    Args:
        encoded: Whether the table encodes partition values in its paths.
        by_arrival: Whether the latest arrival of a key wins, even with a smaller ordering value.
        types: The columns of key and partition, and DELETED if the batch has it, with their types
            as in `DataFrame.dtypes`.
        append: LOAD or the operation, if the batch only adds rows; else empty.
    """
    values = (
        F.concat(
            F.lit(f"{name}="),
            F.coalesce(F.substring(F.col(name).cast("string"), 1, SHOWN), F.lit("NULL")),
        )
        for name in spec.record_key
    )
    row = F.concat(F.lit(f"{table} cannot store the row with "), F.concat_ws(", ", *values))
    stored = F.lit(True)
    rules = [*_row_rules(spec, table, encoded, by_arrival, types, append)]
    for condition, problem, remedy in reversed(rules):
        error = refuse(F.concat(row, F.lit(f": {problem}")), F.lit(f"{remedy}; {QUARANTINE}"))
        stored = F.when(condition, error).otherwise(stored)
    return stored


def row_problem(
    spec: TableSpec, table: str, encoded: bool, by_arrival: bool, types: Types, append: str
) -> Column:
    """Return the reason why `storable` refuses a row, or NULL for a row that can be stored."""
    problem = F.lit(None).cast("string")
    rules = [*_row_rules(spec, table, encoded, by_arrival, types, append)]
    for condition, text, _ in reversed(rules):
        problem = F.when(condition, F.lit(text)).otherwise(problem)
    return problem


def _row_rules(
    spec: TableSpec, table: str, encoded: bool, by_arrival: bool, types: Types, append: str
) -> Iterator[tuple[Column, str, str]]:
    """Yield a condition on unstorable rows, with the problem and its remedy."""
    order, kinds = spec.ordering, dict(types)
    if append and DELETED in kinds:
        # Hudi 1.2 drops such a row in an insert, and stores it as a live row in a bulk_insert.
        instead = f"start the stream itself: {STREAM}" if append == LOAD else "use operation upsert"
        yield (
            F.col(DELETED),
            f"{DELETED} is true, and {append} deletes no row",
            f'filter the row out, .where("{DELETED} IS NOT TRUE"), or {instead}',
        )
    texts = [name for name in spec.record_key if kinds[name] == "string"]
    yield _key_rule(spec, texts, is_load=append == LOAD)
    if spec.operation == "upsert" and not by_arrival:
        yield (
            F.col(order).isNull(),
            f"the ordering column {order} is null, so every later write of its key would fail",
            f'fix the row, or filter it out: .where("{order} IS NOT NULL")',
        )
    for name, kind in kinds.items():
        yield from _value_rules(name, kind)
    yield from _confused_keys(spec, kinds)
    for name in spec.partition:
        yield from _partition_rules(spec, name, encoded)
    if table.startswith("s3a://") and spec.partition:
        yield _key_length_rule(spec, table, encoded)


def _value_rules(name: str, kind: str) -> Iterator[tuple[Column, str, str]]:
    """Yield values that Hudi writes into keys and partitions as the text of another value."""
    column = F.col(name)
    if kind in ("float", "double"):
        yield (
            (column == 0) & column.cast("string").startswith("-"),
            f"{name} is -0.0, which equals 0.0 but gets another key or partition",
            f'convert it to 0.0: .withColumn("{name}", F.col("{name}") + F.lit(0.0))',
        )
    elif kind == "string":
        yield (
            F.encode(column, "UTF-8") != column.cast("binary"),
            f"{name} is not UTF-8, so it could get the key or partition of another text",
            f"store its bytes as text in a separate column: hex({name})",
        )


def _confused_keys(spec: TableSpec, kinds: Mapping[str, str]) -> Iterator[tuple[Column, str, str]]:
    """Yield texts that Hudi 1.2 confuses with other parts of a key, written as `a:1,b:2`."""
    key = spec.record_key
    remedy = "replace such texts, or add a separate key column, such as sha2({}, 256)"
    for name, following in pairwise(key):
        if kinds[name] == "string":
            yield (
                F.col(name).contains(f",{following}:"),
                f"{name} contains ',{following}:', which begins the next column of the record key, "
                "so two rows could get the same key",
                remedy.format(name),
            )
    for name in (name for name in key if len(key) > 1 and kinds[name] == "string"):
        yield (
            F.col(name).isin(*MISSING),
            f"{name} is one of {', '.join(MISSING)}, which Hudi writes for a missing part",
            remedy.format(name),
        )
    if spec.buckets and kinds[name := key[-1]] == "string":
        pattern = ENDLESS_LAST if len(key) > 1 else ENDLESS
        yield (
            F.col(name).contains(",") & F.col(name).rlike(pattern),
            f"{name} has a comma and colons in an order that Hudi's bucket index parses forever",
            remedy.format(name) + ", or use another index than BUCKET",
        )


def _partition_rules(
    spec: TableSpec, name: str, encoded: bool
) -> Iterator[tuple[Column, str, str]]:
    """Yield texts that are no valid folder name, or would be read back changed."""
    value = F.col(name).cast("string")
    yield (
        value == "",
        f"the partition column {name} is empty, which would be stored as NULL",
        f"""replace it: .withColumn("{name}", F.expr("nullif({name}, '')"))""",
    )
    yield (
        value == NULL_PARTITION,
        f"the partition column {name} is {NULL_PARTITION}, which would be read back as NULL",
        f"""replace it: .withColumn("{name}", F.expr("nullif({name}, '{NULL_PARTITION}')"))""",
    )
    yield (
        _octets(name, encoded) > LONGEST_NAME - len(f"{name}="),
        f"the partition column {name} gives its folder a name of more than {LONGEST_NAME} bytes",
        f"shorten it, or use a separate column: sha2({name}, 256)",
    )
    if spec.index == "RECORD_LEVEL_INDEX":
        yield (
            value.contains("."),
            f"the partition column {name} contains a dot, which RECORD_LEVEL_INDEX can't store",
            f"replace the dot, translate({name}, '.', '_'), or use another index",
        )
    if not encoded:
        yield (
            value.rlike(UNSAFE),
            f"the partition column {name} contains %, : or NUL, which this table does not encode, "
            "so it would be read back changed",
            "replace these characters, or write to a new table",
        )


def _octets(name: str, encoded: bool) -> Column:
    """Return the length in bytes of a partition's value in its folder's name."""
    value = F.coalesce(F.col(name).cast("string"), F.lit(NULL_PARTITION))
    return F.octet_length(F.regexp_replace(value, ESCAPED, "%00") if encoded else value)


def _key_length_rule(spec: TableSpec, table: str, encoded: bool) -> tuple[Column, str, str]:
    """Return the rule for partitions whose files' keys would exceed S3's limit."""
    prefix = table.partition("://")[2].partition("/")[2]
    fixed = [prefix, *(f"/{name}=" for name in spec.partition), "/"]
    room = LONGEST_KEY - FILE_NAME - len("".join(fixed).encode())
    octets: Column = reduce(add, (_octets(name, encoded) for name in spec.partition))
    names = ", ".join(spec.partition)
    return (
        octets > room,
        f"the partition ({names}) makes keys of more than {LONGEST_KEY:,} bytes, S3's limit",
        f"shorten it, or use a separate column: sha2(concat_ws('/', {names}), 256)",
    )


def _key_rule(spec: TableSpec, texts: Collection[str], *, is_load: bool) -> tuple[Column, str, str]:
    """Return the rule for keys with missing parts, which Hudi 1.2 can't always store.

    A part is missing if it is null or an empty string. A load writes Spark's rows.

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
    spark_rows = is_load or spec.operation == "bulk_insert" or MERGER in spec.write_options()
    if spark_rows and not spec.partition:
        refused, stored = reduce(or_, missing), " AND ".join(present)
        what = "has a column that is null" if len(key) > 1 else "is null"
    else:
        refused, stored = reduce(and_, missing), " OR ".join(present)
        what = "is null"
    return (
        refused,
        f"the record key ({', '.join(key)}) {what}{' or empty' if texts else ''}",
        f'fix the row, or filter it out: .where("{stored}")',
    )


def has_micros(spec: TableSpec, types: Mapping[str, str]) -> Column:
    """Return whether a stored row's key contains each time in microseconds, as SQL writes it."""
    right = F.lit(True)
    for name in (name for name in spec.record_key if types[name] == "timestamp"):
        micros = F.unix_micros(name).cast("string")
        is_key = F.col(KEY_COLUMN) == micros
        is_part = F.col(KEY_COLUMN).contains(F.concat(F.lit(f"{name}:"), micros))
        right &= F.col(name).isNull() | is_key | is_part
    return right


def refuse(problem: Column, remedy: Column) -> Column:
    """Return an expression that raises an error about a row, which `refused_row` reads again."""
    problem, remedy = (F.translate(text, "\r\n", "  ") for text in (problem, remedy))
    return F.raise_error(F.concat(F.lit(PROBLEM), problem, F.lit(f"\n{REMEDY}"), remedy))


def refused_row(table: str, error: str) -> TableError | None:
    """Return the error for the row that an error's text names; None for other errors."""
    if refused := _REFUSED.search(error):
        return TableError(refused["problem"].strip(), refused["remedy"].strip())
    # Hudi's own error contains the key; the deepest cause contains the reason.
    if not (unwritten := UNWRITTEN.search(error)):
        return None
    return TableError(
        f"{table} cannot store the row with the key {unwritten[1][:SHOWN]}: {root_cause(error)}",
        "fix the row, or filter it out, and start again",
    )


def gathered(batch: DataFrame, spec: TableSpec) -> DataFrame:
    """Return the same rows for an append to S3, with each partition's rows in one task.

    A task writes a file for each of its partitions, and a file on S3 costs some twenty requests. In
    a large batch, which many tasks read, several tasks share a partition.
    """
    several = -(-count_partitions(batch) // READERS)
    share = F.pmod(F.hash(*spec.record_key), F.lit(several))
    # More tasks than cores, because hashing gives some tasks several partitions.
    tasks = 2 * batch.sparkSession.sparkContext.defaultParallelism
    return batch.repartition(tasks, *spec.partition, share)


def newest_rows(batch: DataFrame, spec: TableSpec, *, by_arrival: bool) -> DataFrame:
    """Return each key's row with the greatest ordering value, or the last of equal ones.

    With `by_arrival`, return the last row of each key, like a table with COMMIT_TIME_ORDERING. In a
    partitioned table with buckets, one task gets all rows of a bucket, because each task reads the
    timeline once per partition.
    """
    order = [F.col(ARRIVAL).desc()]
    if not by_arrival:
        order.insert(0, F.col(spec.ordering).desc_nulls_last())
    # Spark sorts fastest if the first column has the most distinct values, so partitions come last.
    key = [name for name in spec.record_key if name not in spec.partition]
    key += [] if spec.is_global() else spec.partition
    rows, added = batch.withColumn(ARRIVAL, F.monotonically_increasing_id()), [ARRIVAL, RANK]
    if spec.buckets and spec.partition:
        # Not Hudi's own hash, but it spreads a partition's keys over as many tasks.
        rows = rows.withColumn(BUCKET, F.pmod(F.hash(*key), F.lit(spec.buckets)))
        rows = rows.repartition(*spec.partition, BUCKET)
        key, added = [*key, BUCKET], [*added, BUCKET]
    number = F.row_number().over(Window.partitionBy(*key).orderBy(*order))
    return rows.withColumn(RANK, number).where(F.col(RANK) == 1).drop(*added)
