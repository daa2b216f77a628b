"""Decide which columns a table can store; on Spark's JSON schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hudi_sink.avro_names import avro_takes, renamed, sql_type
from hudilab.errors import TableError

OWN = "_hudilab_"  # begins the columns that the writer adds to a batch and drops again
_SHORT = re.compile(r"\b(?:tinyint|smallint)\b(?!:)")  # a type, not the name of a field
# Hudi names the Avro type of a struct or a decimal after its column; these names are taken.
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")


def check_storable(
    location: str, batch: str, named: Mapping[str, Sequence[str]], *, merges_avro: bool = False
) -> None:
    """Raise TableError for columns that the table cannot store; nothing has been written.

    Args:
        batch: The batch's schema, as Spark's JSON.
        named: Field of the TableSpec -> columns that it names, which the batch must have.
        merges_avro: Whether Hudi makes Avro records of stored rows, to merge new ones with them.
    """
    fields = json.loads(batch)["fields"]
    problems = [text for field in fields for text in _unstorable("", field["name"], field["type"])]
    problems += [
        f"column {field['name']} is of type {sql_type(field['type'])}, and Hudi 1.2 cannot read a "
        "decimal of an array within an array of structs back as Avro, so later batches would fail "
        "for good; make the decimal a double or a string, or use buckets"
        for field in fields
        if merges_avro and _is_redefined(field["name"], field["type"])
    ]
    names = [field["name"] for field in fields]
    for first, second in _alike(names):
        problems.append(f"columns {first} and {second} differ only by case; rename one")
    for role, columns in named.items():
        for column in (column for column in columns if column not in names):
            alike = [name for name in names if name.lower() == column.lower()]
            cure = f'.withColumnRenamed("{alike[0]}", "{column}")' if alike else ""
            problems.append(
                f"{role} names {column}, but the batch has {alike[0]}; batch = batch{cure}"
                if alike
                else f"{role} names {column}, which the batch lacks; it has {', '.join(names)}"
            )
    if problems:
        raise TableError(
            f"{location} cannot store the batch, nothing was written: {'; '.join(problems)}",
            "correct the batch or the TableSpec, and start again",
        )


def _unstorable(above: str, name: str, kind: Any) -> Iterator[str]:
    """Yield what Hudi cannot store of a column or a field: its name, and its type."""
    path = f"{above}{name}"
    if not avro_takes(name):
        yield (
            f"column {path!r} has a name that Avro does not take (letters, digits and _, not "
            f"starting with a digit); rename it to {renamed(name)}"
        )
    if name in _PRIMITIVES and sql_type(kind).startswith(("struct<", "decimal(")):
        yield (
            f"column {path} is of type {sql_type(kind)} and has the name of a type of Avro, so "
            f"later batches would fail for good; rename it to {name}_"
        )
    if path.startswith(OWN):
        yield f"column {path} begins with {OWN}, which the writer uses itself; rename it"
    if not above and (text := sql_type(kind)) != (wider := _SHORT.sub("int", text)):
        yield (
            f"column {path} is of type {text}, which Hudi 1.2 makes an int, or cannot read after "
            f'a bulk_insert; batch = batch.withColumn("{path}", F.col("{path}").cast("{wider}"))'
        )
    yield from _unstorable_type(path, kind)


def _unstorable_type(path: str, kind: Any) -> Iterator[str]:
    text = kind if isinstance(kind, str) else kind["type"]
    if text == "void" or text.startswith("interval"):
        yield f"column {path} is of type {text}, which Hudi cannot store; cast it to string"
    elif text == "udt":
        yield (
            f"column {path} is of the type {kind.get('pyClass') or kind.get('class')} of a library,"
            " which Hudi cannot store; make an array or a struct of it (of a vector: "
            "pyspark.ml.functions.vector_to_array)"
        )
    elif text == "struct":
        fields = kind["fields"]
        if not fields:
            yield f"column {path} is a struct without fields, which Hudi cannot store; drop it"
        for first, second in _alike([field["name"] for field in fields]):
            yield f"fields {first} and {second} of {path} differ only by case; rename one"
        for field in fields:
            yield from _unstorable(f"{path}.", field["name"], field["type"])
    elif text == "array":
        yield from _unstorable_type(path, kind["elementType"])
    elif text == "map":
        if kind["keyType"] != "string":
            cast = f"map<string,{sql_type(kind['valueType'])}>"
            yield f"column {path} is a map whose keys are no strings; cast it to {cast}"
        yield from _unstorable_type(path, kind["valueType"])


def _is_redefined(name: str, kind: Any, within: bool = False) -> bool:
    """Return whether a decimal in a struct gets the Avro name of that struct: `element`, twice."""
    if isinstance(kind, str):
        return within and name == "element" and kind.startswith("decimal")
    if kind["type"] == "array":
        inner = kind["elementType"]
        is_struct = not isinstance(inner, str) and inner["type"] == "struct"
        return _is_redefined("element", inner, within or is_struct)
    if kind["type"] == "map":
        return _is_redefined("value", kind["valueType"], within)
    return any(_is_redefined(one["name"], one["type"], within) for one in kind.get("fields", ()))


def _alike(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of names that Spark and Hudi take for the same."""
    seen: dict[str, str] = {}
    for name in names:
        if (first := seen.setdefault(name.lower(), name)) != name:
            yield first, name
