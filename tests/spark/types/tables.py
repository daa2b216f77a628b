"""Tables that hold every value, written by a ledger; what each reader makes of each value."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
from kills import read_batches
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark.types.exact import of_arrow, of_spark
from spark.types.values import COLUMNS, ROWS, TypeColumn, frame

from hudi_inspect import inspect
from hudi_sink.commits import Commits
from hudi_sink.rewind import Rewind
from hudi_sink.services import TableServices
from hudi_sink.sink import ExactlyOnceSink
from hudilab.paths import TableLocation, local_path, locate
from hudilab.table import TableSpec
from hudilab_lessons.reads import changes
from hudilab_spark.streams import drain

SNAPSHOT, INCREMENTAL, HUDI_RS, DUCKDB = READERS = ("snapshot", "incremental", "hudi-rs", "DuckDB")
FOREIGN = (HUDI_RS, DUCKDB)
COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
APPEND = TableSpec("types", ("id",), (), "moment")
SPECS = [
    replace(APPEND, table_type=kind, operation=operation, buckets=buckets)
    for kind in (COW, MOR)
    for operation, buckets in (
        ("bulk_insert", None),
        ("insert", None),
        ("upsert", None),
        ("upsert", 1),
    )
]


def _apart(column: TypeColumn) -> str:
    """Why a single such column keeps another reader from reading a table; empty if it does not."""
    if column.row == "timestamp":
        return "" if column.shape == "column" else "in another type"  # in logs, for hudi-rs
    return column.row if column.row in ("timestamp_ntz", "string, not UTF-8") else ""


SETS = [tuple(group) for _, group in groupby(sorted(COLUMNS, key=_apart), _apart)]


class Cell(NamedTuple):
    """A value in a table, and what a reader makes of it.

    Attributes:
        row: Its type, a row of the page.
        shape: column, array, map, struct or three deep.
        state: The table's type, the operation and the service after it.
        verdict: right, or what is read.
    """

    row: str
    shape: str
    label: str
    state: str
    reader: str
    verdict: str


@dataclass(frozen=True)
class Written:
    """A table that a stream has written in two commits.

    Attributes:
        want: The values of each row of `values.frame`.
        kinds: Column -> type.
    """

    spec: TableSpec
    location: TableLocation
    columns: Sequence[TypeColumn]
    want: Mapping[int, Mapping[str, Any]]
    kinds: Mapping[str, str]


def write(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    batches: Sequence[DataFrame],
    *,
    load: bool = False,
) -> None:
    """Write each of the batches in a micro-batch of its own, as the next ones of a stream.

    With `load`, as its initial load.
    """
    source = Path(f"{local_path(location.checkpoint)}-source")
    source.mkdir(parents=True, exist_ok=True)
    sink, before = (
        ExactlyOnceSink(spark, spec, location, {"rows": "types"}, initial_load=load),
        len(list(source.iterdir())),
    )
    for number, _ in enumerate(batches, before):
        (source / f"{number}.txt").write_text("a batch\n")

    def write_batch(_: DataFrame, number: int) -> None:
        sink.write_batch(batches[number - before], number)

    files = spark.readStream.option("maxFilesPerTrigger", 1).text(str(source))
    stream = files.writeStream.foreachBatch(write_batch).trigger(availableNow=True)
    drain(stream.option("checkpointLocation", location.checkpoint).start(), deadline=300)


def cells(spark: SparkSession, home: Path) -> Iterator[Cell]:
    """Write all tables, run the services on them, and read each with each reader."""
    for number, columns in enumerate(SETS):
        values, turned = (frame(spark, columns, turn) for turn in (0, 1))
        want, kinds = of_spark(values, "n"), dict(values.dtypes)
        for spec in SPECS:
            name = f"{number}-{spec.table_type}-{spec.operation}-{spec.buckets}"
            written = Written(spec, _at(home / name), columns, want, kinds)
            first, second = _rows(values, 0, 1), _rows(values, ROWS, 2)
            if spec.operation == "upsert":
                first = first.union(_rows(turned, ROWS, 1)).coalesce(1)
            write(spark, spec, written.location, [first, second])
            yield from _states(spark, written, home / name, _rows(turned, 0, 3))


def state(spec: TableSpec, service: str) -> str:
    """What a table is called after a service; empty: as it was written."""
    operation = f"{spec.operation} with buckets" if spec.buckets else spec.operation
    return ", ".join(filter(None, (spec.table_type, operation, service)))


def _at(home: Path) -> TableLocation:
    return locate("warehouse", "lab", "types", is_local=True, home=home)


def _rows(values: DataFrame, start: int, moment: int) -> DataFrame:
    """The values as a batch, with keys from `start` on."""
    key = (F.col("n") + start).cast("bigint").alias("id")
    rest = [name for name in values.columns if name != "n"]
    return values.select(key, F.lit(moment).alias("moment"), *rest)


def _states(spark: SparkSession, written: Written, home: Path, later: DataFrame) -> Iterator[Cell]:
    """The cells of a table as it was written, and after each service."""
    spec = written.spec

    def copied(service: str) -> Written:
        shutil.copytree(home, target := home.with_name(f"{home.name}-{service}"))
        return replace(written, location=_at(target))

    yield from _read(spark, written, "")
    if spec.table_type == MOR and spec.operation == "upsert":
        compacted = copied("compaction")
        TableServices(spark, compacted.location.table, stopped=True).compact()
        yield from _read(spark, compacted, "compaction")
    if not spec.buckets:
        clustered = copied("clustering")
        TableServices(spark, clustered.location.table, stopped=True).cluster()
        yield from _read(spark, clustered, "clustering")
    # Not a copy: the checkpoint knows the files of the stream's source by their place.
    table = written.location.table
    newest = max(commit.instant for commit in Commits(spark, table).newest_first())
    spark.sql(f"CALL create_savepoint(path => '{table}', commit_time => '{newest}')").collect()
    write(spark, spec, written.location, [later])
    Rewind(spark, table, newest, stopped=True).run()
    yield from _read(spark, written, "rewind")


def _read(spark: SparkSession, written: Written, service: str) -> Iterator[Cell]:
    spec, table = written.spec, written.location.table
    named = state(spec, service)
    everything = range(2 * ROWS)
    rows = spark.read.format("hudi").load(table)
    yield from _of_spark(rows, written, everything, (named, SNAPSHOT))
    first = min(
        str(instant.completion_time) for instant in inspect(table).timeline if instant.is_done
    )
    rows = changes(spark, table, first)
    yield from _of_spark(rows, written, range(ROWS, 2 * ROWS), (named, INCREMENTAL))
    folder = Path(str(local_path(table)))
    yield from _of_arrow(lambda: read_batches(folder), written, (named, HUDI_RS))
    latest = inspect(table).latest_slices
    if not any(part.logs for part in latest):  # a base file alone lacks what the logs say
        files = [str(folder / str(part.base)) for part in latest]
        query = "SELECT * FROM read_parquet($files)"

        def of_duckdb() -> list[pa.RecordBatch]:
            rows: Any = duckdb.sql(query, params={"files": files})
            return list(rows.to_arrow_reader())

        yield from _of_arrow(of_duckdb, written, (named, DUCKDB))


def _of_spark(
    rows: DataFrame, written: Written, keys: Sequence[int], where: tuple[str, str]
) -> Iterator[Cell]:
    names = [field.name for field in written.columns]
    kinds = dict(rows.dtypes)
    got = of_spark(rows.select("id", *names), "id")
    assert sorted(got) == list(keys), where
    for column in written.columns:
        kind = "" if kinds[column.name] == written.kinds[column.name] else kinds[column.name]
        stored = {key: got[key][column.name] for key in keys}
        yield from _compared(column, written, stored, where, kind)


def _of_arrow(
    reads: Callable[[], list[pa.RecordBatch]], written: Written, where: tuple[str, str]
) -> Iterator[Cell]:
    try:
        table = pa.Table.from_batches(reads())
    except BaseException as error:  # a panic in Rust is not an Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        for column in written.columns:
            for label, _ in column.values:
                yield Cell(column.row, column.shape, label, *where, "table not read")
        return
    keys = table["id"].to_pylist()
    assert sorted(keys) == list(range(2 * ROWS)), where
    for column in written.columns:
        stored = dict(zip(keys, of_arrow(table[column.name]), strict=True))
        yield from _compared(column, written, stored, where, "")


def _compared(
    column: TypeColumn,
    written: Written,
    stored: Mapping[int, Any],
    where: tuple[str, str],
    kind: str,
) -> Iterator[Cell]:
    """One cell for each value: right if each row that has it reads as it was written."""
    verdicts: dict[str, str] = {}
    for key, got in stored.items():
        label, _ = column.at(key % ROWS)
        want = written.want[key % ROWS][column.name]
        verdict = f"of type {kind}" if kind else "right" if got == want else f"reads {_short(got)}"
        if verdicts.get(label, "right") == "right":
            verdicts[label] = verdict
    for label, verdict in verdicts.items():
        yield Cell(column.row, column.shape, label, *where, verdict)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 40 else f"{text[:36]} ..."
