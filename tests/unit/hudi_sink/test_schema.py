"""Which changes of a batch's columns a table takes, and what every refusal names."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cases import read_cases
from refusals import assert_refusal, refused

from hudi_sink.schema import check_drift, check_storable
from hudilab.errors import TableError
from hudilab.table import TableSpec

CASES = read_cases(__file__)

HEAD = 'memory://t rejects the batch (schema="{}"), nothing was written: '
ANYWAY = 'TableSpec.schema="any"'


def schema(**columns: Any) -> str:
    """Spark's JSON; a type in a list is NOT NULL."""
    fields = [
        {
            "name": name,
            "type": kind[0] if isinstance(kind, list) else kind,
            "nullable": not isinstance(kind, list),
            "metadata": {},
        }
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def array(of: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": of, "containsNull": True}


def struct(**fields: Any) -> dict[str, Any]:
    return dict(json.loads(schema(**fields)))


def refusal(table: str, batch: str, policy: str = "evolve", **more: Any) -> str:
    with pytest.raises(TableError) as caught:
        check_drift("memory://t", table, batch, policy, **more)
    assert str(caught.value).startswith(HEAD.format(policy))
    return str(caught.value).removeprefix(HEAD.format(policy))


OLD = schema(id="long", v="integer")


TAKEN = [
    *CASES["taken, the column grows"],
    *CASES["taken, the column holds each value"],
    (array("integer"), array("integer")),
    (struct(a="integer"), struct(a="integer", b="string")),
]


@pytest.mark.parametrize(("table", "batch"), TAKEN)
def test_what_is_taken(table: Any, batch: Any) -> None:
    check_drift("memory://t", schema(id="long", v=table), schema(v=batch, id="long"), "evolve")


@pytest.mark.parametrize(
    ("table", "batch", "types"),
    CASES["refused types"],
)
def test_types_that_are_refused(table: str, batch: str, types: tuple[str, str]) -> None:
    """Some of them Hudi would convert, and some of the values would become others."""
    old, new = schema(id="long", v=table), schema(id="long", v=batch)
    assert_refusal(
        refusal(old, new), "column v", *types, ANYWAY, remedy=inexact(f"v to {types[0]}")
    )
    check_drift("memory://t", old, new, "any")
    check_drift("memory://t", "", new, "evolve")  # there is no table yet


def inexact(casts: str) -> str:
    """Return the remedy for columns that no cast makes the table's without changing values."""
    return (
        "convert the values exactly, or write the batch to a new table: a plain cast of "
        f"{casts} would change or refuse values"
    )


@pytest.mark.parametrize(
    ("table", "batch", "name"),
    [
        ("string", "date", "string"),
        ("string", "double", "string"),
        ("binary", "string", "binary"),
        ("timestamp", "date", "timestamp"),
        ("decimal(12,4)", "decimal(10,2)", "decimal(12,4)"),
        (struct(a="long"), struct(a="integer"), "struct<a:bigint>"),
        (array("string"), array("integer"), "array<string>"),
    ],
)
def test_a_cast_is_advised_if_it_keeps_each_value(table: Any, batch: Any, name: str) -> None:
    cast = f'correct the batch: batch = batch.withColumn("v", F.col("v").cast("{name}"))'
    assert refusal(schema(v=table), schema(v=batch)).endswith(cast)


def test_no_cast_of_a_struct_gives_a_field_the_values_of_another() -> None:
    """Spark casts it by the positions of its fields."""
    table, batch = schema(v=struct(a="integer", b="integer")), schema(v=struct(b="integer"))
    assert refusal(table, batch).endswith(inexact("v to struct<a:int,b:int>"))
    batch = schema(v=struct(b="integer", a="short"))
    assert refusal(table, batch).endswith(inexact("v to struct<a:int,b:int>"))


@pytest.mark.parametrize("policy", ["evolve", "any"])
@pytest.mark.parametrize(
    ("table", "batch", "exact"),
    CASES["texts of keys"],
)
def test_a_key_keeps_the_text_of_its_values(
    table: str, batch: str, exact: bool, policy: str
) -> None:
    """7 and 7.0 are equal, and two keys."""
    old, new = schema(k=table, v="integer"), schema(k=batch, v="integer")
    text, name = refusal(old, new, policy, as_text=("k",)), table.replace("integer", "int")
    assert ANYWAY not in text
    remedy = f"""withColumn("k", F.col("k").cast("{name}"))""" if exact else inexact(f"k to {name}")
    named = (f"column k is {name} in the table", "another key or partition")
    assert_refusal(text, *named, remedy=remedy)
    check_drift("memory://t", old, new, "any")  # it is no key


@pytest.mark.parametrize("policy", ["evolve", "any"])
@pytest.mark.parametrize(
    ("table", "batch"),
    CASES["keys with the same texts"],
)
def test_a_key_takes_types_with_the_same_texts(table: str, batch: str, policy: str) -> None:
    check_drift("memory://t", schema(k=table), schema(k=batch), policy, as_text=("k",))


def test_a_type_that_no_cast_leads_to() -> None:
    batch = schema(id="long", v=array("integer"))
    text = refusal(OLD, batch)
    assert ANYWAY not in text
    remedy = (
        "write the batch to a new table: a plain cast of v to int would change or refuse values"
    )
    assert_refusal(text, "column v", "int", "array<int>", remedy=remedy)


@pytest.mark.parametrize(
    ("table", "batch", "difference"),
    [
        (array("integer"), array("long"), "column v is int in the table and bigint in the batch"),
        (struct(a="integer"), struct(a="long"), "column v.a is int in the table and bigint in the"),
        (array("long"), array("integer"), "column v is bigint in the table and int in the batch"),
    ],
)
def test_types_inside_others_stay_as_they_are(table: Any, batch: Any, difference: str) -> None:
    for policy in ("evolve", "freeze"):
        assert refusal(schema(v=table), schema(v=batch), policy).startswith(difference)


def test_a_new_column_must_be_nullable() -> None:
    check_drift("memory://t", OLD, schema(id="long", v="integer", unit="string"), "evolve")
    text = refusal(OLD, schema(id="long", v="integer", unit=["string"]))
    nullable = 'batch = batch.withColumn("unit", F.when(F.lit(True), F.col("unit")))'
    assert_refusal(text, "column unit (string)", "new", "NOT NULL", remedy=nullable)


def test_a_missing_column() -> None:
    null = 'batch = batch.withColumn("v", F.lit(None).cast("int"))'
    assert_refusal(refusal(OLD, schema(id="long")), "column v (int) is missing", remedy=null)
    check_drift("memory://t", OLD, schema(id="long"), "evolve", fills=True)


def test_a_frozen_table_takes_no_change_and_narrower_values() -> None:
    check_drift("memory://t", OLD, schema(v="short", id="long"), "freeze")
    text = refusal(OLD, schema(id="long", v="long", unit="string"), "freeze")
    assert ANYWAY not in text
    named = ("column v", "int", "bigint", "column unit (string)", "new")
    assert_refusal(text, *named, remedy=inexact("v to int"))
    text = refusal(OLD, schema(id="long", v="integer", unit="string"), "freeze")
    assert text.endswith(': batch = batch.drop("unit")')


def test_every_difference_at_once_and_inside_structs() -> None:
    table = schema(id="long", at=struct(x="integer", y="integer"), tags=array("integer"))
    batch = schema(id="string", at=struct(x="string"), tags=array("string"))
    casts = "id to bigint, at to struct<x:int,y:int>, tags to array<int>"
    differences = (
        *("column id", "bigint", "string"),
        *("column at.x", "int", "string"),
        "column at.y (int) is missing",
        *("column tags", "int", "string"),
    )
    text = refusal(table, batch)
    assert_refusal(text, *differences, ANYWAY, remedy=inexact(casts))
    assert text.count("column ") == 4


def test_the_fields_that_hudi_adds_do_not_count() -> None:
    table = schema(_hoodie_record_key="string", id="long", v="integer")
    check_drift("memory://t", table, schema(id="long", v="integer"), "freeze")
    deletes = schema(id="long", v="integer", _hoodie_is_deleted="boolean")
    assert "column _hoodie_is_deleted (boolean) is missing" in refusal(deletes, OLD)


def test_a_policy_that_does_not_exist() -> None:
    policies = ("schema='strict'", "evolve", "freeze", "any")
    with refused(TableError, *policies, remedy="; fix these fields"):
        TableSpec("t", ("id",), (), "v", schema="strict")


NAMED = {"record_key": ("id",), "partition": ("city",), "ordering": ("moment",)}
GOOD = {"id": "long", "city": "string", "moment": "long"}


def unstorable(batch: str) -> str:
    with pytest.raises(TableError) as caught:
        check_storable("memory://t", batch, NAMED)
    text = str(caught.value)
    assert text.startswith("memory://t cannot store the batch, nothing was written: ")
    assert text.endswith("; correct the rows or the table's settings, and start again")
    return text.partition("nothing was written: ")[2].rpartition("; correct")[0]


@pytest.mark.parametrize("name", ["ü", "日本", "_x", "Sum", "select", "a1", "a٣", "_hoodie_own"])
def test_names_that_avro_takes(name: str) -> None:
    check_storable("memory://t", schema(**GOOD, **{name: "integer"}), NAMED)


def test_a_column_that_would_delete_nothing() -> None:
    check_storable("memory://t", schema(**GOOD, _hoodie_is_deleted="boolean"), NAMED)
    for kind in ("integer", "string", struct(a="boolean")):
        problem = unstorable(schema(**GOOD, _hoodie_is_deleted=kind))
        assert "and Hudi deletes only by a BOOLEAN; make it one, such as op = 'D' AS _" in problem
    problem = unstorable(schema(**GOOD, _HOODIE_is_deleted="boolean"))
    assert problem.startswith("column _HOODIE_is_deleted would delete no row, because of its cap")
    assert problem.endswith("; rename it to _hoodie_is_deleted")


@pytest.mark.parametrize(
    ("name", "renamed"),
    CASES["names"],
)
def test_names_that_avro_does_not_take(name: str, renamed: str) -> None:
    """Some have letters and digits of Python, 3.11 or later, that are none in Java 17."""
    rule = "has a name that Avro does not allow (letters, digits and _, not starting with a digit)"
    problems = unstorable(schema(**GOOD, **{name: "integer"}))
    assert problems == f"column {name!r} {rule}; rename it to {renamed}"
    inner = array(struct(x=struct(**{name: "integer"})))
    problems = unstorable(schema(**GOOD, s=inner))
    assert problems == f"column {f's.x.{name}'!r} {rule}; rename it to {renamed}"


@pytest.mark.parametrize("kind", [struct(a="integer"), "decimal(9,2)"])
def test_a_struct_or_a_decimal_may_not_be_named_as_a_type_of_avro(kind: Any) -> None:
    problems = unstorable(schema(**GOOD, null=kind))
    assert problems.startswith("column null is of type ")
    assert "has the name of an Avro type, so every later batch would fail" in problems
    assert problems.endswith("rename it to null_")
    assert unstorable(schema(**GOOD, s=struct(string=kind))).endswith("rename it to string_")
    for name in ("boolean", "int", "long", "float", "double", "bytes"):
        assert unstorable(schema(**GOOD, **{name: kind})).endswith(f"rename it to {name}_")
    for other in ("integer", array(kind)):
        check_storable("memory://t", schema(**GOOD, null=other), NAMED)


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("void", "column v is of type void, which Hudi cannot store; cast it to string"),
        ("interval day", "column v is of type interval day, which Hudi cannot store; cast it"),
        (array("interval"), "column v is of type interval, which Hudi cannot store; cast it"),
        (struct(), "column v is a struct without fields, which Hudi cannot store; drop it"),
        (
            {"type": "map", "keyType": "integer", "valueType": "long", "valueContainsNull": True},
            "column v is a map whose keys are not strings; cast it to map<string,bigint>",
        ),
        (
            "short",
            "column v is of type smallint, which Hudi 1.2 stores as int, or cannot read after a "
            'bulk_insert; batch = batch.withColumn("v", F.col("v").cast("int"))',
        ),
        (array(struct(tinyint="byte")), "column v is of type array<struct<tinyint:tinyint>>"),
        ({"type": "udt", "pyClass": "lib.Vector"}, "column v is of the type lib.Vector of a lib"),
        ({"type": "udt", "class": "java.Vector"}, "column v is of the type java.Vector of a lib"),
        (struct(a="long", A="long"), "fields a and A of v differ only by case; rename one"),
    ],
)
def test_types_that_hudi_does_not_store(kind: Any, problem: str) -> None:
    assert unstorable(schema(**GOOD, v=kind)).startswith(problem)


NESTED = array("decimal(9,1)")


@pytest.mark.parametrize(
    "kind",
    [
        array(struct(x=NESTED)),
        array(struct(x=array(NESTED))),
        array(struct(x=struct(y=NESTED))),
        array(struct(element="decimal(9,1)")),
        struct(y=array(struct(x=NESTED)), z="integer"),
        {"type": "map", "keyType": "string", "valueType": array(struct(x=NESTED))},
    ],
)
def test_a_decimal_that_avro_names_as_the_struct_around_it(kind: Any) -> None:
    columns = schema(**GOOD, v=kind)
    check_storable("memory://t", columns, NAMED)
    what = "column v is of type .*cannot read a decimal of an array within an array of structs"
    with pytest.raises(TableError, match=f"{what}.*MERGE_ON_READ with buckets; correct"):
        check_storable("memory://t", columns, NAMED, merges_avro=True)


@pytest.mark.parametrize("kind", [NESTED, struct(x=NESTED), array(struct(x="decimal(9,1)"))])
def test_other_decimals_are_stored(kind: Any) -> None:
    check_storable("memory://t", schema(**GOOD, v=kind), NAMED, merges_avro=True)


def test_columns_that_the_spec_names_and_the_batch_lacks() -> None:
    assert unstorable(schema(Id="long", city="string", moment="long")) == (
        'record_key names id, but the batch has Id; batch = batch.withColumnRenamed("Id", "id")'
    )
    assert unstorable(schema(id="long", moment="long")) == (
        "partition names city, which the batch lacks; it has id, moment"
    )


def test_every_problem_is_named() -> None:
    problems = unstorable(schema(id="long", ID="long", moment="long", _hudilab_rank="long"))
    assert problems.split("; ") == [
        "column _hudilab_rank begins with _hudilab_, which the writer uses itself",
        "rename it",
        "columns id and ID differ only by case",
        "rename one",
        "partition names city, which the batch lacks",
        "it has id, ID, moment, _hudilab_rank",
    ]
