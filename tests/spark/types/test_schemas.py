"""Schemas and rows that nobody thought of: a ledger's table gives them back to the bit."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from itertools import islice
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
from spark.types.tables import SPECS, write

from hudi_inspect.errors import InspectError
from hudi_inspect.rows import count_snapshot
from hudi_inspect.store import DiskStore
from hudilab.errors import StreamError
from hudilab.paths import local_path, locate
from hudilab.table import TableSpec

pytestmark = pytest.mark.deep

SCHEMAS = 300  # different ones
TABLES = 45  # some schemas come twice
# A type that only some tables refuse: tests/spark/hudi_sink/test_own_data.py has which.
REFUSED = "Hudi 1.2 cannot read a decimal of an array within an array of structs back as Avro"
TOGETHER = 15  # in a table, side by side: a table costs seconds, a column does not
# Words of SQL, of Parquet's and Avro's ways to write lists and maps, of Hudi and of the writer.
WORDS = (
    *(
        "select",
        "from",
        "null",
        "string",
        "int",
        "double",
        "array",
        "element",
        "list",
        "bag",
        "key",
        "value",
        "key_value",
    ),
    *("item", "col", "map", "entries", "offset", "op", "data", "before", "after", "commit_time"),
    *("type", "fields", "namespace", "hoodie", "_hoodie", "__", "_1", "X", "Zürich", "日本語"),
    "é1",
    *("array_element", "a_tuple", "rank", "bucket", "arrival", "partition", "ts", "Moment_", "Id_"),
)
# Letters that Python knows and Java 17 does not: refused, see tests/unit/hudi_sink/test_schema.py.
NEWER = re.compile(
    r"[\u0870-\u0887\u0889-\u088e\u08b5\u08c8\u08c9\u0c5d\u0cdd\u170d\u171f\u1b4c\u2c2f\u2c5f"
    r"\u9ffd-\u9fff\ua7c0\ua7c1\ua7d0\ua7d1\ua7d3\ua7d5-\ua7d9\ua7f2-\ua7f4]"
)
# Names that are refused for columns of these types.
TYPES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = (T.StructType, T.DecimalType)
TAKEN = ("_hudilab_", "_hoodie_")
ASCII_NAMES = st.one_of(
    st.sampled_from([word for word in WORDS if word.isascii()]),
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,60}", fullmatch=True),
).filter(lambda name: not name.startswith(TAKEN))
NAMES = st.one_of(
    ASCII_NAMES,
    st.sampled_from(WORDS),
    st.text(st.characters(categories=["Lu", "Ll", "Lo"], max_codepoint=0xFFFF), min_size=1),
).filter(lambda name: not NEWER.search(name))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
WHOLE = {T.IntegerType(): 31, T.LongType(): 63}
# To Spark all NaNs are one: it does not keep their other bits, in whatever format.
DAYS = st.dates(date.min, date.max)
MOMENTS = st.datetimes(datetime.min, datetime.max)
LEAVES: Mapping[T.DataType, st.SearchStrategy[Any]] = {
    T.BooleanType(): st.booleans(),
    **{kind: st.integers(-(1 << n), (1 << n) - 1) for kind, n in WHOLE.items()},
    T.FloatType(): st.floats(width=32).map(lambda drawn: math.nan if math.isnan(drawn) else drawn),
    T.DoubleType(): st.floats().map(lambda drawn: math.nan if math.isnan(drawn) else drawn),
    T.StringType(): TEXTS,
    T.BinaryType(): st.binary(max_size=8),
    T.DateType(): DAYS,
    T.TimestampType(): MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    T.TimestampNTZType(): MOMENTS,
}


@dataclass(frozen=True)
class Sample:
    """Schemas side by side and rows of them, as a table of the spec gets them in two batches.

    Attributes:
        plain: Nothing is in them that keeps hudi-rs from reading a table; see docs/types.md.
    """

    spec: TableSpec
    schemas: Sequence[Sequence[T.StructField]]
    first: Sequence[tuple[Any, ...]]
    second: Sequence[tuple[Any, ...]]
    plain: bool

    def schema(self) -> T.StructType:
        key = [T.StructField("id", T.LongType()), T.StructField("moment", T.IntegerType())]
        return T.StructType([*key, *(field for schema in self.schemas for field in schema)])


@st.composite
def decimals(draw: st.DrawFn) -> T.DecimalType:
    digits = draw(st.integers(1, 38))
    return T.DecimalType(digits, draw(st.integers(0, digits)))


def fields(depth: int, plain: bool) -> st.SearchStrategy[T.StructField]:
    """Fields with a type of at most so many others around a leaf."""
    names = ASCII_NAMES if plain else NAMES
    made = st.builds(T.StructField, names, kinds(depth, plain), st.booleans())
    return made.filter(
        lambda field: field.name not in TYPES or not isinstance(field.dataType, NAMED)
    )


@cache
def kinds(depth: int, plain: bool) -> st.SearchStrategy[T.DataType]:
    apart = (T.TimestampType(), T.TimestampNTZType()) if plain else ()
    leaf = st.one_of(st.sampled_from([kind for kind in LEAVES if kind not in apart]), decimals())
    if not depth:
        return leaf
    inner = kinds(depth - 1, plain)
    arrays = st.builds(T.ArrayType, inner, st.booleans())
    maps = st.builds(T.MapType, st.just(T.StringType()), inner, st.booleans())
    structs = st.lists(fields(depth - 1, plain), min_size=1, max_size=3, unique_by=lower)
    return st.one_of(leaf, arrays, maps, structs.map(T.StructType))


def lower(field: T.StructField) -> str:
    """Spark takes names that differ only by case for one."""
    return field.name.lower()


def values(kind: T.DataType, nullable: bool) -> st.SearchStrategy[Any]:
    made: st.SearchStrategy[Any]
    if isinstance(kind, T.DecimalType):
        most, scale = 10**kind.precision - 1, kind.scale
        made = st.integers(-most, most).map(lambda unscaled: Decimal(f"{unscaled}E-{scale}"))
    elif isinstance(kind, T.ArrayType):
        made = st.lists(values(kind.elementType, kind.containsNull), max_size=2)
    elif isinstance(kind, T.MapType):
        made = st.dictionaries(TEXTS, values(kind.valueType, kind.valueContainsNull), max_size=2)
    elif isinstance(kind, T.StructType):
        made = st.tuples(*(values(field.dataType, field.nullable) for field in kind.fields))
    else:
        made = LEAVES[kind]
    return st.one_of(st.none(), made) if nullable else made


@st.composite
def samples(draw: st.DrawFn) -> Sample:
    spec, plain = draw(st.sampled_from(SPECS)), draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 3), min_size=TOGETHER, max_size=TOGETHER))
    field = fields(3, plain).filter(lambda name: lower(name) not in ("id", "moment"))
    number = sum(sizes)
    columns = draw(st.lists(field, min_size=number, max_size=number, unique_by=lower))
    rows = draw(st.lists(values(T.StructType(columns), False), min_size=2, max_size=3))
    first = [(key, 1, *row) for key, row in enumerate(rows[:-1])]
    start = 0 if spec.operation == "upsert" else len(first)  # an update, or one more row
    left = iter(columns)
    schemas = [list(islice(left, size)) for size in sizes]
    return Sample(spec, schemas, first, [(start, 2, *rows[-1])], plain)


def test_schemas_that_nobody_thought_of(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seen, read, refused = set[str](), list[int](), list[Sample]()

    @settings(
        max_examples=TABLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # to make an example smaller, each try is a table
        suppress_health_check=list(HealthCheck),
    )
    @given(samples())
    def come_back(sample: Sample) -> None:
        try:
            read.append(round_trip(spark, sample, tmp_path_factory.mktemp("schema")))
        except StreamError as error:
            if REFUSED not in str(error):
                raise
            refused.append(sample)
            return
        seen.update(T.StructType(list(schema)).json() for schema in sample.schemas)

    come_back()
    assert len(refused) <= TABLES // 10
    assert len(seen) >= SCHEMAS
    assert len([rows for rows in read if rows]) > len(read) // 4, "hudi-rs reads many tables"


def round_trip(spark: SparkSession, sample: Sample, home: Path) -> int:
    """Write and read a sample; return how many rows hudi-rs has read, too."""
    location = locate("warehouse", "lab", "schema", is_local=True, home=home)
    batches = [
        spark.createDataFrame(rows, sample.schema()).coalesce(1)
        for rows in (sample.first, sample.second)
    ]
    write(spark, sample.spec, location, batches)
    want = of_spark(batches[0], "id") | of_spark(batches[1], "id")
    names = sample.schema().names
    rows = (
        spark.read.format("hudi")
        .load(location.table)
        .select(*(F.col(f"`{name}`") for name in names))
    )
    assert rows.dtypes == batches[0].dtypes
    assert differences(of_spark(rows, "id"), want) == []
    if not sample.plain:
        return 0
    table = pa.Table.from_batches(read_batches(Path(str(local_path(location.table)))))
    columns = {name: of_arrow(table[name]) for name in names}
    keys = columns.pop("id")
    stored = {
        key: {name: column[number] for name, column in columns.items()}
        for number, key in enumerate(keys)
    }
    assert differences(stored, want) == []
    return len(keys)


def differences(stored: Mapping[Any, Any], want: Mapping[Any, Any]) -> list[str]:
    """Which columns of which rows differ, and how."""
    assert stored.keys() == want.keys()
    return [
        f"{key}, {name}: {stored[key].get(name)!r}, not {value!r}"
        for key, row in want.items()
        for name, value in row.items()
        if stored[key].get(name) != value
    ]


def test_what_keeps_hudi_rs_from_reading(spark: SparkSession, tmp_path: Path) -> None:
    columns = {"Größe": "5", "plain": "TIMESTAMP_NTZ'2026-01-01 00:00:00'"}
    for (name, sql), why in zip(columns.items(), ("field name Größe", "not yet"), strict=True):
        location = locate("warehouse", "lab", f"t{why[:3]}", is_local=True, home=tmp_path)
        rows = spark.sql(f"SELECT 1L AS id, 1 AS moment, {sql} AS `{name}`")
        write(spark, SPECS[0], location, [rows])
        read = spark.read.format("hudi").load(location.table).select(name)
        assert read.collect() == rows.select(name).collect()
        folder = Path(str(local_path(location.table)))
        with pytest.raises(InspectError, match=f"cannot count the rows of .*{why}"):
            count_snapshot(DiskStore(folder), 1)
