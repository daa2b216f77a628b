"""Every type as record key, partition and ordering: one row a key at each step, or a refusal.

The table of docs/types.md says which, and each of its cells is tried; `--types-to docs/types.md`
rewrites it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import cycle, product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kills import read_batches
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark.types.exact import of_arrow, of_spark
from spark.types.page import PAGE, rows_of, with_table
from spark.types.tables import COW, MOR, write

from hudi_sink.repairs import rewrite_table
from hudilab.errors import StreamError, TableError
from hudilab.paths import TableLocation, local_path, locate
from hudilab.table import GLOBAL_INDEXES, LOCAL_INDEXES, TableSpec

ROLES = ("record_key", "partition", "ordering")
INDEXES = (*LOCAL_INDEXES, *GLOBAL_INDEXES)
FILE = json.loads(Path(__file__).with_name("roles.json").read_text("utf-8"))
# Type -> the values of two rows.
TYPES: dict[str, list[str]] = FILE["values"]
# Type -> its ordering value at each step of a test; of others, the number of the step.
ORDERS: dict[str, list[str]] = FILE["orders"]
QUICK = [("binary", "record_key"), ("timestamp", "partition")]  # of what is refused
PLAIN = {"record_key": "bigint", "partition": "string", "ordering": "bigint"}
# Type, role -> "right", or "refused: " and the SQL to use instead, as the page says.
CELLS = {
    (kind.strip("`"), role): cell
    for kind, *cells in rows_of("roles")
    for role, cell in zip(ROLES, cells, strict=True)
}
# Each type in tables of both kinds with each index, loaded and not.
QUICK_TIMES = [(COW, True, "SIMPLE"), (MOR, True, "BUCKET")]
LOADED = cycle((True, True, False))
CASES = [("timestamp", *case) for case in product((COW, MOR), (True, False), INDEXES)]
CASES += [
    (kind, table, next(LOADED), index)
    for kind, table, index in product(TYPES, (COW, MOR), INDEXES)
    if kind != "timestamp" and CELLS[kind, "record_key"] == "right"
]
MATRIX = [
    pytest.param(*case, marks=[] if case[1:] in QUICK_TIMES else pytest.mark.deep)
    if case[0] == "timestamp"
    else pytest.param(*case, marks=pytest.mark.deep)
    for case in CASES
]


GENERIC = TableSpec("t", ("k",), ("p",), "o", operation="upsert")


def misfit(kind: str, role: str, spec: TableSpec = GENERIC, deletes: bool = True) -> str:
    """The refusal of a type in a role; empty if it is taken."""
    names = dict(zip(ROLES, "kpo", strict=True))
    types = {names[other]: PLAIN[other] for other in ROLES}
    types |= {"_hoodie_is_deleted": "boolean"} if deletes else {}
    try:
        spec.check_columns((types | {names[role]: kind}).items())
    except TableError as error:
        return str(error)
    return ""


def rows(
    spark: SparkSession,
    spec: TableSpec,
    kind: str,
    step: int,
    numbers: Sequence[int],
    deletes: bool,
) -> DataFrame:
    """The rows of these numbers as they are after a step; a negative one is deleted."""
    kinds = {role: kind if CELLS[kind, role] == "right" else PLAIN[role] for role in ROLES}
    if misfit(kind, "ordering", spec, deletes=deletes):
        assert kind == "date" or "decimal" in kind  # as the page says below its table
        kinds["ordering"] = PLAIN["ordering"]
    if spec.index == "RECORD_LEVEL_INDEX" and kind in ("float", "double", "decimal(20,10)"):
        kinds["partition"] = PLAIN["partition"]  # their texts have a dot
    made = []
    for number in numbers:
        values = [TYPES[kinds[role]][number if number >= 0 else ~number] for role in ROLES[:2]]
        values.append(ORDERS.get(kinds["ordering"], "01234")[step])
        columns = (
            f"CAST({value} AS {kinds[role]}) AS {name}"
            for value, role, name in zip(values, ROLES, "kpo", strict=True)
        )
        deleted = f", {number < 0} AS _hoodie_is_deleted" if deletes else ""
        made.append(f"SELECT {', '.join(columns)}, {step} AS v{deleted}")
    return spark.sql(" UNION ALL ".join(made)).coalesce(1)


def check(spark: SparkSession, spec: TableSpec, folder: Path, expected: DataFrame) -> None:
    """Compare the table, as Spark and hudi-rs read it, with the rows that it must have."""
    names = ["k", "p", "o", "v"]

    def values(frame: DataFrame) -> list[tuple[Any, ...]]:
        numbered = frame.select(F.monotonically_increasing_id().alias("n"), *names)
        return sorted((tuple(row.values()) for row in of_spark(numbered, "n").values()), key=repr)

    right = values(expected)
    assert values(spark.read.format("hudi").load(str(folder))) == right
    if "timestamp_ntz" not in dict(expected.dtypes).values():  # hudi-rs cannot read such a table
        table = pa.Table.from_batches(read_batches(folder))
        read = zip(*(of_arrow(table[name]) for name in names), strict=True)
        assert sorted(read, key=repr) == right


@pytest.fixture
def location(tmp_path: Path) -> TableLocation:
    return locate("warehouse", "lab", "roles", is_local=True, home=tmp_path)


def merge(spark: SparkSession, spec: TableSpec, location: TableLocation, row: DataFrame) -> None:
    """Update a row by SQL, which does not read the index from the table."""
    properties = ", ".join(
        f"'{name}' = '{value}'"
        for name, value in spec.write_options().items()
        if ".index." in name or name == "hoodie.metadata.enable"
    )
    spark.sql("DROP TABLE IF EXISTS roles")
    spark.sql(
        f"CREATE TABLE roles USING hudi TBLPROPERTIES ({properties}) LOCATION '{location.table}'"
    )
    row.createOrReplaceTempView("newer")
    spark.sql("MERGE INTO roles t USING newer s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *")
    spark.sql("DROP TABLE roles")


@pytest.mark.parametrize(("kind", "table", "load", "index"), MATRIX)
def test_one_row_a_key_at_each_step(
    spark: SparkSession, location: TableLocation, kind: str, table: str, load: bool, index: str
) -> None:
    buckets = 2 if index == "BUCKET" else None
    cdc = kind == "timestamp" and index == "BLOOM"
    spec = TableSpec("roles", ("k",), ("p",), "o", table, "upsert", buckets, index=index, cdc=cdc)
    folder = local_path(location.table)
    assert folder is not None

    # With deletes, an ordering of dates is refused in MERGE_ON_READ.
    deletes = kind != "date" or table == COW or not load

    def batch(step: int, *numbers: int) -> DataFrame:
        return rows(spark, spec, kind, step, numbers, deletes)

    write(spark, spec, location, [batch(0, 0, 1)], load=load)
    check(spark, spec, folder, batch(0, 0, 1))
    write(spark, spec, location, [batch(1, 0, 1)])
    check(spark, spec, folder, batch(1, 0, 1))
    if deletes:
        write(spark, spec, location, [batch(2, ~0)])
        check(spark, spec, folder, batch(1, 1))
    merge(spark, spec, location, batch(3, 1))
    left = batch(3, 1) if deletes else batch(1, 0).union(batch(3, 1))
    check(spark, spec, folder, left)
    write(spark, spec, location, [batch(4, 0, 1)])
    check(spark, spec, folder, batch(4, 0, 1))


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        pytest.param(
            kind,
            role,
            marks=[] if (kind, role) in QUICK else pytest.mark.deep,
        )
        for (kind, role), cell in CELLS.items()
        if cell != "right"
    ],
)
def test_a_type_that_does_not_fit_is_refused_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, kind: str, role: str
) -> None:
    names_of = dict(zip(ROLES, "kpo", strict=True))
    names: dict[str, Any] = {"record_key": ("k",), "partition": (), "ordering": "o"}
    names |= {role: "x" if role == "ordering" else ("x",)}
    batch = spark.sql(f"SELECT 1 AS k, 1 AS o, CAST({TYPES[kind][0]} AS {kind}) AS x")
    for table, operation, load in product((COW, MOR), ("bulk_insert", "upsert"), (True, False)):
        spec = TableSpec("roles", **names, table_type=table, operation=operation)
        home = tmp_path / f"{table}-{operation}-{load}"
        location = locate("warehouse", "lab", "roles", is_local=True, home=home)
        with pytest.raises(StreamError) as caught:
            write(spark, spec, location, [batch], load=load)
        assert f"{role} names x ({kind}), and Hudi 1.2" in str(caught.value)
        sql = CELLS[kind, role].split("`")[1].replace(f"({names_of[role]})", "(x)")
        assert f"such as {sql} AS" in str(caught.value)
        assert not Path(str(local_path(location.table))).exists()


@pytest.mark.parametrize(
    ("table", "index"),
    [
        (MOR, "BUCKET"),
        pytest.param(MOR, "GLOBAL_SIMPLE", marks=pytest.mark.deep),
        pytest.param(COW, "SIMPLE", marks=pytest.mark.deep),
    ],
)
def test_a_table_whose_keys_hold_times_as_texts(
    spark: SparkSession,
    location: TableLocation,
    monkeypatch: pytest.MonkeyPatch,
    table: str,
    index: str,
) -> None:
    """As earlier versions wrote it, and Hudi's `bulk_insert` does."""
    buckets = 1 if index == "BUCKET" else None
    spec = TableSpec("roles", ("k", "n"), (), "o", table, "upsert", buckets, index=index)

    def batch(step: int) -> DataFrame:
        moment = "timestamp_millis(1767261600123)"
        return spark.sql(f"SELECT {moment} AS k, 'a' AS n, '' AS p, {step} AS o, {step} AS v")

    folder = local_path(location.table)
    assert folder is not None
    with monkeypatch.context() as earlier:
        earlier.setattr(TableSpec, "options_for", lambda *_: {})
        write(spark, spec, location, [batch(0)], load=True)
    with pytest.raises(StreamError) as caught:
        write(spark, spec, location, [batch(1)])
    text = str(caught.value)
    assert "the record key k:2026-01-01 10:00:00.123,n:a, which contains a time as text" in text
    assert "import rewrite_table; rewrite_table(spark, spec, location)" in text
    check(spark, spec, folder, batch(0))
    assert rewrite_table(spark, spec, location) == 1
    write(spark, spec, location, [batch(2)])  # and first the one that was refused, as this
    check(spark, spec, folder, batch(2))


@pytest.mark.deep
@pytest.mark.parametrize("value", ["0.5D", "'a.b'", "0.5BD"])
def test_a_dot_in_a_partition_and_a_record_index(
    spark: SparkSession, location: TableLocation, value: str
) -> None:
    """Hudi ends with a NullPointerException."""
    spec = TableSpec("roles", ("k",), ("p",), "o", COW, "upsert", index="RECORD_LEVEL_INDEX")
    batch = spark.sql(f"SELECT 1 AS k, {value} AS p, 1 AS o")
    with pytest.raises(StreamError, match="the partition column p contains a dot, which RECORD"):
        write(spark, spec, location, [batch], load=True)


def test_the_page_shows_each_type_in_each_role(request: pytest.FixtureRequest) -> None:
    made = []
    for kind in TYPES:
        cells = []
        for role in ROLES:
            sql = re.search(r"such as (.*?) AS", misfit(kind, role))
            cells.append(f"refused: `{sql[1]}`" if sql else "right")
        made.append(f"| `{kind}` | {' | '.join(cells)} |")
    text = with_table(PAGE.read_text("utf-8"), "roles", made)
    if file := request.config.getoption("--types-to"):
        file.write_text(text, "utf-8")
    assert PAGE.read_text("utf-8") == text, "rewrite it with --types-to, and review the diff"
