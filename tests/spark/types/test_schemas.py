"""Schemas and rows that nobody thought of: a ledger's table gives them back to the bit."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kills import read_batches
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from spark.types.exact import of_arrow, of_spark
from spark.types.tables import MOR, SPECS, write

from hudilab.errors import InspectError
from hudilab.inspect.files.store import DiskStore
from hudilab.inspect.rows import count_snapshot
from hudilab.paths import local_path, locate
from hudilab.writer.spec import TableSpec

pytestmark = pytest.mark.deep

SCHEMAS = 300  # different ones
# Words of SQL, of Parquet's and Avro's ways to write lists and maps, of Hudi and of the writer.
WORDS = (
    *("select", "from", "null", "array", "element", "list", "bag", "key", "value", "key_value"),
    *("item", "col", "map", "entries", "offset", "op", "data", "before", "after", "commit_time"),
    *(
        "type",
        "fields",
        "namespace",
        "hoodie",
        "_hoodie",
        "__",
        "_1",
        "X",
        "Zürich",
        "日本語",
        "é1",
    ),
    *("array_element", "a_tuple", "rank", "bucket", "arrival", "partition", "ts", "Moment_", "Id_"),
)
NAMES = st.one_of(
    st.sampled_from(WORDS),
    st.text(st.characters(categories=["Lu", "Ll", "Lo"], max_codepoint=0xFFFF), min_size=1),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,60}", fullmatch=True),
).filter(lambda name: not name.startswith(("_hudilab_", "_hoodie_")))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
WHOLE = {T.IntegerType(): 31, T.LongType(): 63}
DAYS = st.dates(date.min, date.max)
MOMENTS = st.datetimes(datetime.min, datetime.max)
LEAVES: Mapping[T.DataType, st.SearchStrategy[Any]] = {
    T.BooleanType(): st.booleans(),
    **{kind: st.integers(-(1 << n), (1 << n) - 1) for kind, n in WHOLE.items()},
    T.FloatType(): st.floats(width=32),
    T.DoubleType(): st.floats(),
    T.StringType(): TEXTS,
    T.BinaryType(): st.binary(max_size=20),
    T.DateType(): DAYS,
    T.TimestampType(): MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    T.TimestampNTZType(): MOMENTS,
}


@dataclass(frozen=True)
class Sample:
    """A schema and rows of it, as a table of the spec gets them in two batches."""

    spec: TableSpec
    schema: T.StructType
    first: Sequence[tuple[Any, ...]]
    second: Sequence[tuple[Any, ...]]


@st.composite
def decimals(draw: st.DrawFn) -> T.DecimalType:
    digits = draw(st.integers(1, 38))
    return T.DecimalType(digits, draw(st.integers(0, digits)))


def structs(inner: st.SearchStrategy[T.DataType]) -> st.SearchStrategy[T.StructType]:
    fields = st.builds(T.StructField, NAMES, inner, st.booleans())
    # Spark takes names that differ only by case for one.
    unique = st.lists(fields, min_size=1, max_size=4, unique_by=lambda one: one.name.lower())
    return unique.map(T.StructType)


def kinds(depth: int) -> st.SearchStrategy[T.DataType]:
    """Types with at most so many others around a leaf."""
    leaf = st.one_of(st.sampled_from(list(LEAVES)), decimals())
    if not depth:
        return leaf
    inner = kinds(depth - 1)
    arrays = st.builds(T.ArrayType, inner, st.booleans())
    maps = st.builds(T.MapType, st.just(T.StringType()), inner, st.booleans())
    return st.one_of(leaf, arrays, maps, structs(inner))


def values(kind: T.DataType, nullable: bool) -> st.SearchStrategy[Any]:
    made: st.SearchStrategy[Any]
    if isinstance(kind, T.DecimalType):
        most, scale = 10**kind.precision - 1, kind.scale
        made = st.integers(-most, most).map(lambda unscaled: Decimal(f"{unscaled}E-{scale}"))
    elif isinstance(kind, T.ArrayType):
        made = st.lists(values(kind.elementType, kind.containsNull), max_size=3)
    elif isinstance(kind, T.MapType):
        made = st.dictionaries(TEXTS, values(kind.valueType, kind.valueContainsNull), max_size=3)
    elif isinstance(kind, T.StructType):
        made = st.tuples(*(values(one.dataType, one.nullable) for one in kind.fields))
    else:
        made = LEAVES[kind]
    return st.one_of(st.none(), made) if nullable else made


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    spec = draw(st.sampled_from(SPECS))
    columns = draw(structs(kinds(3)).filter(lambda one: not {"id", "moment"} & lower(one)))
    rows = draw(st.lists(values(columns, False), min_size=2, max_size=5))
    half = len(rows) // 2
    first = [(number, 1, *row) for number, row in enumerate(rows[:half] if half else rows)]
    start = 0 if spec.operation == "upsert" else half  # updates, or further rows
    second = [(start + number, 2, *row) for number, row in enumerate(rows[half:])]
    key = [T.StructField("id", T.LongType()), T.StructField("moment", T.IntegerType())]
    return Sample(spec, T.StructType([*key, *columns.fields]), first, second)


def lower(kind: T.StructType) -> set[str]:
    return {name.lower() for name in kind.names}


def is_read_by_hudi_rs(sample: Sample) -> bool:
    """Whether hudi-rs reads the table; docs/types.md says what keeps it from that."""
    kinds = [json.dumps(field.dataType.jsonValue()) for field in sample.schema.fields]
    inside = any('"timestamp"' in kind for kind in kinds if kind.startswith("{"))
    logs = sample.spec.table_type == MOR and sample.spec.operation == "upsert"
    text = sample.schema.simpleString()
    return text.isascii() and "timestamp_ntz" not in text and not (logs and inside)


def test_schemas_that_nobody_thought_of(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seen, read = set[str](), list[int]()

    @settings(
        max_examples=SCHEMAS + 50,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # to make an example smaller, each try is a table
        suppress_health_check=list(HealthCheck),
    )
    @given(samples())
    def come_back(sample: Sample) -> None:
        read.append(round_trip(spark, sample, tmp_path_factory.mktemp("schema")))
        seen.add(sample.schema.json())

    come_back()
    assert len(seen) >= SCHEMAS
    assert len([rows for rows in read if rows]) > SCHEMAS // 2, "hudi-rs reads most of the tables"


def round_trip(spark: SparkSession, sample: Sample, home: Path) -> int:
    """Write and read a sample; return how many rows hudi-rs has read, too."""
    place = locate("warehouse", "lab", "schema", is_local=True, home=home)
    batches = [
        spark.createDataFrame(rows, sample.schema).coalesce(1)
        for rows in (sample.first, sample.second)
    ]
    write(spark, sample.spec, place, batches)
    want = of_spark(batches[0], "id") | of_spark(batches[1], "id")
    names = sample.schema.names
    rows = spark.read.format("hudi").load(place.table).select(*(F.col(f"`{one}`") for one in names))
    assert rows.dtypes == batches[0].dtypes
    assert of_spark(rows, "id") == want
    if not is_read_by_hudi_rs(sample):
        return 0
    table = pa.Table.from_batches(read_batches(Path(str(local_path(place.table)))))
    columns = {name: of_arrow(table[name]) for name in names}
    keys = columns.pop("id")
    found = {
        key: {name: column[number] for name, column in columns.items()}
        for number, key in enumerate(keys)
    }
    assert found == want
    return len(keys)


def test_what_keeps_hudi_rs_from_reading(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"Größe": "5", "plain": "TIMESTAMP_NTZ'2026-01-01 00:00:00'"}
    for (name, sql), why in zip(columns.items(), ("field name Größe", "not yet"), strict=True):
        place = locate("warehouse", "lab", f"t_{len(name)}", is_local=True, home=tmp_path)
        rows = spark.sql(f"SELECT 1L AS id, 1 AS moment, {sql} AS {name}")
        write(spark, SPECS[0], place, [rows])
        read = spark.read.format("hudi").load(place.table).select(name)
        assert read.collect() == rows.select(name).collect()
        folder = Path(str(local_path(place.table)))
        with pytest.raises(InspectError, match=f"cannot count the rows of .*{why}"):
            count_snapshot(DiskStore(folder))
