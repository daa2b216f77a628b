"""Rows and columns as people have them: a table holds them as they are, or the batch is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kills import read_batches
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from running import folder, start_stream

from hudi_sink.commits import Commits
from hudi_sink.files import exists
from hudi_sink.rows import ESCAPED, refuse, refused_row, row_problem
from hudi_sink.sink import ExactlyOnceSink
from hudi_sink.table_files import table_properties
from hudilab.errors import StreamError
from hudilab.paths import TableLocation, locate
from hudilab.table import DELETED, ENCODED, TableSpec
from hudilab_spark.streams import drain

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
UPSERT = TableSpec("own", ("id",), ("city",), "moment", operation="upsert", buckets=1)
APPEND = replace(UPSERT, operation="bulk_insert", buckets=None)
SPECS = [
    pytest.param(
        replace(spec, table_type=kind),
        id=f"{spec.operation} {kind}",
        # One of each kind and operation is quick enough for every run.
        marks=[] if (spec is UPSERT) == (kind == MOR) else pytest.mark.deep,
    )
    for spec in (UPSERT, APPEND)
    for kind in (COW, MOR)
]
# Spark's partition discovery, URIs and Hudi each have their own idea of some of these.
CITIES = (
    *("a/b", "a b", "Zürich", "x=y", "%41", "é#?", "..", "a:b", "x&y", "2024-01-01 02:03:04"),
    *("100%", "日本", "'", '"', "a\\b", "{}", "[1]", "+", "~", "a,b", "__HIVE", "A", "a", None),
)


@pytest.fixture
def location(tmp_path: Path) -> TableLocation:
    return locate("warehouse", "lab", "own", is_local=True, home=tmp_path)


def run(
    spark: SparkSession,
    spec: TableSpec,
    location: TableLocation,
    rows: DataFrame,
    sink: ExactlyOnceSink | None = None,
) -> None:
    """Write the rows as the next batch of a stream, which reads them from a file."""
    inbox = f"{location.checkpoint}-inbox"
    rows.coalesce(1).write.mode("append").parquet(inbox)
    sink = sink or ExactlyOnceSink(spark, spec, location, {"inbox": "own"})
    arrived = spark.readStream.schema(rows.schema).parquet(inbox)
    drain(start_stream(arrived, sink.write_batch, location, once=True), deadline=120)


def seen(location: TableLocation) -> list[dict[str, Any]]:
    """The rows as an engine reads them that shares no code with Spark."""
    return [row for batch in read_batches(folder(location.table)) for row in batch.to_pylist()]


def cities(spark: SparkSession, moment: int = 1) -> DataFrame:
    rows = [(number, city, moment) for number, city in enumerate(CITIES)]
    return spark.createDataFrame(rows, "id BIGINT, city STRING, moment BIGINT")


def refused(spark: SparkSession, spec: TableSpec, location: TableLocation, rows: DataFrame) -> str:
    with pytest.raises(StreamError) as caught:
        run(spark, spec, location, rows)
    assert list(Commits(spark, location.table).newest_first()) == []
    assert spark.range(1).count() == 1  # Java lives
    return str(caught.value)


@pytest.mark.parametrize("spec", SPECS)
def test_any_text_can_be_a_partition(
    spark: SparkSession, location: TableLocation, spec: TableSpec
) -> None:
    run(spark, spec, location, cities(spark))
    run(spark, spec, location, cities(spark, moment=2))
    expected = [(number, city) for number, city in enumerate(CITIES)]
    if spec.operation != "upsert":
        expected = sorted(expected * 2)
    table = spark.read.format("hudi").load(location.table)
    assert sorted((row.id, row.city) for row in table.collect()) == expected
    for city in CITIES:
        count = table.where(F.col("city").eqNullSafe(F.lit(city))).count()
        assert count == len(expected) // len(CITIES), city
    assert sorted((row["id"], row["city"]) for row in seen(location)) == expected


@pytest.mark.deep
def test_a_table_that_does_not_encode_partitions_stays_so(
    spark: SparkSession, location: TableLocation
) -> None:
    rows = spark.createDataFrame([(1, "a b", 1)], "id BIGINT, city STRING, moment BIGINT")
    options = UPSERT.write_options() | {ENCODED: "false"}
    rows.write.format("hudi").options(**options).mode("append").save(location.table)
    sink = ExactlyOnceSink(spark, UPSERT, location, {"inbox": "own"}, shared=True)
    schema = "id BIGINT, city STRING, moment BIGINT"
    run(spark, UPSERT, location, spark.createDataFrame([(1, "a b", 2)], schema), sink)
    with pytest.raises(StreamError, match="which this table does not encode") as caught:
        run(spark, UPSERT, location, spark.createDataFrame([(1, "%41", 3)], schema), sink)
    assert "the row with id=1: the partition column city contains %, : or NUL" in str(caught.value)
    assert table_properties(spark, location.table).get(ENCODED, "false") == "false"
    (row,) = spark.read.format("hudi").load(location.table).collect()
    assert (row.city, row.moment) == ("a b", 2)


def test_the_error_of_a_row_has_a_problem_and_a_remedy(spark: SparkSession) -> None:
    """Each is one line, whatever the row's values are."""
    error = refuse(F.lit("the key a\nb; c is wrong"), F.concat(F.lit("fix it: x\r"), F.lit("y")))
    with pytest.raises(Py4JError) as caught:
        spark.range(1).where(F.when(F.col("id") == 0, error).otherwise(True)).collect()
    found = refused_row("memory://t", str(caught.value))
    assert found is not None
    assert (found.problem, found.remedy) == ("the key a b; c is wrong", "fix it: x y")


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("column", ["id", "moment", "city"])
def test_a_row_that_cannot_be_stored_is_named(
    spark: SparkSession, location: TableLocation, spec: TableSpec, column: str
) -> None:
    values = {"id": "BIGINT", "city": "STRING", "moment": "BIGINT"}
    good: dict[str, object] = {"id": 7, "city": "Oslo", "moment": 1}
    bad = good | {column: "" if column == "city" else None}
    rows = spark.createDataFrame(
        [tuple(row.values()) for row in (good, bad)],
        ", ".join(f"{name} {kind}" for name, kind in values.items()),
    )
    if column == "moment" and spec.operation != "upsert":
        run(spark, spec, location, rows)  # nothing compares it
        return
    text = refused(spark, spec, location, rows)
    key = "NULL" if column == "id" else "7"
    problems = {
        "id": "the record key (id) is null",
        "moment": "the ordering column moment is null",
        "city": "the partition column city is empty",
    }
    assert f"{location.table} cannot store the row with id={key}: {problems[column]}" in text
    remedies = {
        "id": '.where("id IS NOT NULL")',
        "moment": '.where("moment IS NOT NULL")',
        "city": """.withColumn("city", F.expr("nullif(city, '')"))""",
    }
    assert remedies[column] in text


@pytest.mark.parametrize(
    ("operation", "kind", "load"),
    [
        ("upsert", MOR, True),
        ("bulk_insert", COW, False),
        *(
            pytest.param(*write, marks=pytest.mark.deep)
            for write in (
                ("upsert", COW, True),
                ("insert", MOR, True),
                ("insert", COW, False),
                ("insert", MOR, False),
                ("bulk_insert", MOR, False),
                ("bulk_insert", COW, True),
            )
        ),
    ],
)
def test_a_write_that_deletes_nothing_stores_no_row_that_is_marked_as_deleted(
    spark: SparkSession, tmp_path: Path, operation: str, kind: str, load: bool
) -> None:
    """It is refused, or quarantined; rows with false or NULL are as any others."""
    spec = replace(APPEND, operation=operation, table_type=kind, partition=())
    location = locate("refused", "lab", "own", is_local=True, home=tmp_path)
    columns = (DELETED, "n") if kind == MOR else ("n", DELETED)

    def rows(*made: tuple[int, bool | None], moment: int = 1) -> DataFrame:
        values = [(number, moment, deleted, number) for number, deleted in made]
        schema = f"id BIGINT, moment BIGINT, {DELETED} BOOLEAN, n BIGINT"
        return spark.createDataFrame(values, schema).select("id", "moment", *columns)

    what = "an initial load" if load and operation == "upsert" else operation
    problem = f"{DELETED} is true, and {what} deletes no row"
    three = rows((1, None), (2, True), (3, False))
    source = {"inbox": "own"}
    sink = ExactlyOnceSink(spark, spec, location, source, initial_load=load)
    with pytest.raises(
        StreamError, match=f"the row with id=2: {problem}; filter the row out"
    ) as no:
        run(spark, spec, location, three, sink)
    assert ("hudilab stream NAME" if load and operation == "upsert" else "operation upsert") in str(
        no.value
    )
    assert not list(Commits(spark, location.table).newest_first())
    location = locate("quarantined", "lab", "own", is_local=True, home=tmp_path)
    sink = ExactlyOnceSink(spark, spec, location, source, initial_load=load, quarantine=True)
    run(spark, spec, location, three, sink)

    def stored() -> list[int]:
        ids = sorted(row["id"] for row in seen(location))
        table = spark.read.format("hudi").load(location.table)
        assert sorted(row.id for row in table.collect()) == ids
        return ids

    assert stored() == [1, 3]
    (aside,) = spark.read.format("hudi").load(location.quarantine).collect()
    assert (aside.batch, aside.reason) == (0, problem)
    assert f'"id":2,"moment":1,"{columns[0]}":' in aside.row
    if operation == "upsert":  # the stream after the load deletes
        run(spark, spec, location, rows((1, True), (3, None), (2, False), (5, True), moment=2))
        assert stored() == [2, 3]


KEYS = TableSpec("own", ("a", "b"), (), "moment", operation="upsert", buckets=1)
APPENDED = replace(KEYS, operation="bulk_insert", buckets=None)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("spec", "part_may_lack"),
    [
        (KEYS, False),
        (replace(KEYS, partition=("p",)), True),
        (replace(KEYS, table_type=MOR), True),
        (replace(APPENDED, table_type=MOR, operation="insert"), False),
        (APPENDED, False),
        (replace(APPENDED, partition=("p",)), True),
    ],
)
def test_keys_that_lack_a_column(
    spark: SparkSession, tmp_path: Path, spec: TableSpec, part_may_lack: bool
) -> None:
    """Hudi takes them or not, by type and partition; the lab says so before anything is stored."""
    for number, (a, b) in enumerate([("x", None), ("x", ""), (None, "x"), (None, ""), ("", "")]):
        location = locate(f"w{number}", "lab", "own", is_local=True, home=tmp_path)
        rows = spark.createDataFrame([(a, b, "p", 1)], "a STRING, b STRING, p STRING, moment INT")
        if part_may_lack and "x" in (a, b):
            run(spark, spec, location, rows)
            (row,) = spark.read.format("hudi").load(location.table).collect()
            assert (row.a, row.b) == (a, b)
            continue
        text = refused(spark, spec, location, rows)
        assert "the record key (a, b)" in text
        assert "is null or empty; fix the row, or filter it out" in text


@pytest.mark.deep
def test_a_load_refuses_keys_that_lack_a_column(
    spark: SparkSession, location: TableLocation
) -> None:
    """Also into a table whose upserts take them."""
    spec = replace(KEYS, table_type=MOR)
    rows = spark.createDataFrame([("x", None, 1), ("x", "y", 1)], "a STRING, b STRING, moment INT")
    sink = ExactlyOnceSink(
        spark, spec, location, {"inbox": "own"}, initial_load=True, quarantine=True
    )
    run(spark, spec, location, rows, sink)
    (row,) = spark.read.format("hudi").load(location.table).collect()
    assert (row.a, row.b) == ("x", "y")
    (row,) = spark.read.format("hudi").load(location.quarantine).collect()
    assert row.reason == "the record key (a, b) has a column that is null or empty"


# Key columns a and b, partitions p and x in SQL, and why such a row is quarantined; rows next to
# these are no danger.
TEXTS = json.loads(Path(__file__).with_name("texts.json").read_text("utf-8"))
CONFUSED, DISTINCT = TEXTS["confused"], TEXTS["distinct"]


@pytest.mark.parametrize("kind", [MOR, pytest.param(COW, marks=pytest.mark.deep)])
def test_texts_that_would_be_another_key_or_partition(
    spark: SparkSession, location: TableLocation, kind: str
) -> None:
    spec = replace(KEYS, partition=("p", "x"), table_type=kind)
    made = [(*row, "") for row in DISTINCT] + CONFUSED

    def rows(moment: int) -> DataFrame:
        sqls = (
            f"SELECT {a} AS a, {b} AS b, {p} AS p, CAST({x} AS DOUBLE) AS x, {n} AS n, "
            f"{moment} AS moment"
            for n, (a, b, p, x, _) in enumerate(made)
        )
        return spark.sql(" UNION ALL ".join(sqls))

    sink = ExactlyOnceSink(spark, spec, location, {"inbox": "own"}, quarantine=True)
    for moment in (1, 2):
        run(spark, spec, location, rows(moment), sink)
    names = ["n", "a", "b", "p", "x"]
    right = [
        tuple(row) for row in rows(2).where(F.col("n") < len(DISTINCT)).select(names).collect()
    ]
    table = spark.read.format("hudi").load(location.table)
    assert sorted(map(repr, (tuple(row) for row in table.select(names).collect()))) == sorted(
        map(repr, right)
    )
    assert sorted(repr(tuple(row[name] for name in names)) for row in seen(location)) == sorted(
        map(repr, right)
    )
    quarantine = spark.read.format("hudi").load(location.quarantine).where("batch = 0")
    number = F.get_json_object("row", "$.n").cast("int").alias("n")
    reasons = {row.n: row.reason for row in quarantine.select(number, "reason").collect()}
    assert len(reasons) == len(CONFUSED)
    for n, (*_, reason) in enumerate(CONFUSED, len(DISTINCT)):
        assert reasons[n].startswith(reason)


PARTS = ("p", "x", "y", "z")


@pytest.mark.parametrize(
    ("table", "last", "is_too_long"),
    [("s3a://b/lab/own", 202, False), ("s3a://b/lab/own", 203, True), ("file:///b", 250, False)],
)
def test_a_partition_that_makes_a_key_too_long_for_s3(
    spark: SparkSession, table: str, last: int, is_too_long: bool
) -> None:
    spec = replace(KEYS, partition=PARTS)
    types = tuple((name, "string") for name in (*spec.record_key, *PARTS))
    # 20 bytes of names and 602 of values, and 200 for the name of a file.
    texts = {"p": "repeat('%', 66)", "x": "repeat('L', 202)", "y": "repeat('\u00e9', 101)"}
    texts |= {"z": f"repeat('L', {last})", "a": "'a'", "b": "'b'", "moment": "1"}
    row = spark.sql(f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in texts.items())}")
    [(problem,)] = row.select(row_problem(spec, table, True, False, types, "")).collect()
    expected = "the partition (p, x, y, z) makes keys of more than 1,024 bytes, S3's limit"
    assert problem == (expected if is_too_long else None)


def test_hudi_encodes_in_a_folders_name_what_the_lab_counts(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    encode = jvm.org.apache.hudi.common.util.PartitionPathEncodeUtils.escapePathName
    for char in map(chr, (*range(0x100), 0x2028, 0xFFFF)):
        assert encode(char) == (f"%{ord(char):02X}" if re.match(ESCAPED, char) else char)


DECIMALS = [([Decimal("1.5"), None],), None]
DECIMALS_TYPE = "id BIGINT, a ARRAY<STRUCT<x: ARRAY<DECIMAL(9, 1)>>>, moment BIGINT"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "operation", "index"),
    [
        (COW, "insert", None),
        (MOR, "insert", None),
        (COW, "upsert", "BUCKET"),
        (MOR, "upsert", "BUCKET"),
        (COW, "upsert", "SIMPLE"),
    ],
)
def test_decimals_in_arrays_in_structs_in_arrays(
    spark: SparkSession, location: TableLocation, kind: str, operation: str, index: str | None
) -> None:
    buckets = 1 if index == "BUCKET" else None
    spec = TableSpec("own", ("id",), (), "moment", kind, operation, buckets, index=index)
    for number in range(3):
        run(spark, spec, location, spark.createDataFrame([(number, DECIMALS, 1)], DECIMALS_TYPE))
    rows = spark.read.format("hudi").load(location.table).collect()
    assert [row.a for row in rows] == [DECIMALS] * 3


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "index"), [(MOR, "SIMPLE"), (COW, "GLOBAL_SIMPLE"), (COW, "RECORD_LEVEL_INDEX")]
)
def test_such_decimals_are_refused_where_hudi_merges_avro(
    spark: SparkSession, location: TableLocation, kind: str, index: str
) -> None:
    spec = TableSpec("own", ("id",), (), "moment", kind, "upsert", index=index)
    batch = spark.createDataFrame([(1, DECIMALS, 1)], DECIMALS_TYPE)
    with pytest.raises(StreamError, match=r"column a is of type [^;]*; cast the decimal to string"):
        run(spark, spec, location, batch)
    assert not exists(spark, location.table)


@pytest.fixture
def lists_of_old(spark: SparkSession) -> Iterator[None]:
    """Parquet's old lists, which cannot hold nulls: a record that no table can be given."""
    jsc: Any = spark._jsc
    conf = jsc.hadoopConfiguration()
    name = "parquet.avro.write-old-list-structure"
    before = conf.get(name)
    conf.set(name, "true")
    yield
    conf.set(name, before)


@pytest.mark.usefixtures("lists_of_old")
def test_a_record_that_hudi_cannot_write_is_named(
    spark: SparkSession, location: TableLocation
) -> None:
    spec = replace(UPSERT, table_type=MOR)
    made = [(7, "Oslo", [1, None], 1), (8, "Oslo", [1], 1)]
    rows = spark.createDataFrame(made, "id BIGINT, city STRING, a ARRAY<INT>, moment BIGINT")
    text = refused(spark, spec, location, rows)
    assert f"{location.table} cannot store the row with the key 7: " in text
    assert "Array contains a null element" in text
    assert "fix the row, or filter it out, and start again" in text
