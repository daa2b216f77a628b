"""Decide which columns a table can store, and which changes of columns it accepts.

`check_storable` checks a batch alone, and `check_drift` compares it with its table. Both work on
Spark's JSON schemas and need no session.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hudilab.errors import TableError
from hudilab.table import ANY, DELETED, EVOLVE, FREEZE

OWN = "_hudilab_"  # prefix of the columns that the writer adds to a batch and drops again
_SHORT = re.compile(r"\b(?:tinyint|smallint)\b(?!:)")  # a type, not the name of a field
# Hudi names the Avro type of a struct or a decimal after its column; Avro reserves these names.
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
# Spark's name in JSON -> the name in SQL.
_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
# Letters of Unicode 14, which are letters in Python 3.11 but not in Java 17.
_NEWER = re.compile(
    r"[\u0870-\u0887\u0889-\u088e\u08b5\u08c8\u08c9\u0c5d\u0cdd\u170d\u171f\u1b4c\u2c2f\u2c5f"
    r"\u9ffd-\u9fff\ua7c0\ua7c1\ua7d0\ua7d1\ua7d3\ua7d5-\ua7d9\ua7f2-\ua7f4]"
)
NEW_TABLE = "convert the values exactly, or write the batch to a new table"
FILLS = "hoodie.write.set.null.for.missing.columns"
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
# Type -> wider types, which hold all of its values.
_WIDER = {
    "byte": ("short", "integer", "long", "float", "double"),
    "short": ("integer", "long", "float", "double"),
    "integer": ("long", "double"),
    "float": ("double",),
}
_DIGITS = {"byte": 3, "short": 5, "integer": 10, "long": 19}
Problem = tuple[str, str]  # and its remedy


def check_storable(
    location: str, batch: str, named: Mapping[str, Sequence[str]], *, merges_avro: bool = False
) -> None:
    """Raise TableError for columns that the table cannot store; called before the write.

    Args:
        batch: The batch's schema, as Spark's JSON.
        named: Columns that the batch must have, by the TableSpec's field that names them.
        merges_avro: Whether Hudi converts stored rows to Avro records to merge new rows.
    """
    fields = json.loads(batch)["fields"]
    problems = [each for field in fields for each in _unstorable("", field["name"], field["type"])]
    problems += [
        (
            f"column {field['name']} is of type {sql_type(field['type'])}, and Hudi 1.2 cannot "
            "read a decimal of an array within an array of structs back as Avro, so every later "
            "batch would fail",
            "cast the decimal to string, or use MERGE_ON_READ with buckets",
        )
        for field in fields
        if merges_avro and _is_redefined(field["name"], field["type"])
    ]
    names = [field["name"] for field in fields]
    problems += [each for field in fields for each in _no_delete(field["name"], field["type"])]
    for first, second in _alike(names):
        problems.append((f"columns {first} and {second} differ only by case", "rename one"))
    for role, columns in named.items():
        problems += [_missing(role, column, names) for column in columns if column not in names]
    if not problems:
        return
    start = f"{location} cannot store the batch, nothing was written: "
    again = "correct the rows or the table's settings, and start again"
    if len(problems) == 1:
        ((problem, remedy),) = problems
        raise TableError(f"{start}{problem}", f"{remedy}; {again}")
    raise TableError(start + "; ".join("; ".join(each) for each in problems), again)


def _missing(role: str, column: str, names: Sequence[str]) -> Problem:
    """Return the problem of a column that the spec names and the batch lacks."""
    for name in names:
        if name.lower() == column.lower():
            problem = f"{role} names {column}, but the batch has {name}"
            return problem, f'batch = batch.withColumnRenamed("{name}", "{column}")'
    return f"{role} names {column}, which the batch lacks", f"it has {', '.join(names)}"


def _no_delete(name: str, kind: Any) -> Iterator[Problem]:
    """Yield the reason why Hudi would not delete by a column named like DELETED."""
    if name.lower() == DELETED and name != DELETED:
        problem = f"column {name} would delete no row, because of its capitals"
        yield problem, f"rename it to {DELETED}"
    elif name == DELETED and kind != "boolean":
        yield (
            f"column {DELETED} is of type {sql_type(kind)}, and Hudi deletes only by a BOOLEAN",
            f"make it one, such as op = 'D' AS {DELETED}",
        )


def _unstorable(above: str, name: str, kind: Any) -> Iterator[Problem]:
    """Yield the problems with the name and the type of a column or a field."""
    path = f"{above}{name}"
    if not avro_takes(name):
        yield (
            f"column {path!r} has a name that Avro does not allow (letters, digits and _, not "
            "starting with a digit)",
            f"rename it to {renamed(name)}",
        )
    if name in _PRIMITIVES and sql_type(kind).startswith(("struct<", "decimal(")):
        yield (
            f"column {path} is of type {sql_type(kind)} and has the name of an Avro type, so "
            "every later batch would fail",
            f"rename it to {name}_",
        )
    if path.startswith(OWN):
        yield f"column {path} begins with {OWN}, which the writer uses itself", "rename it"
    if not above and (text := sql_type(kind)) != (wider := _SHORT.sub("int", text)):
        yield (
            f"column {path} is of type {text}, which Hudi 1.2 stores as int, or cannot read after "
            "a bulk_insert",
            f'batch = batch.withColumn("{path}", F.col("{path}").cast("{wider}"))',
        )
    yield from _unstorable_type(path, kind)


def _unstorable_type(path: str, kind: Any) -> Iterator[Problem]:
    text = kind if isinstance(kind, str) else kind["type"]
    if text == "void" or text.startswith("interval"):
        yield f"column {path} is of type {text}, which Hudi cannot store", "cast it to string"
    elif text == "udt":
        yield (
            f"column {path} is of the type {kind.get('pyClass') or kind.get('class')} of a library,"
            " which Hudi cannot store",
            "convert it to an array or a struct (a vector: pyspark.ml.functions.vector_to_array)",
        )
    elif text == "struct":
        fields = kind["fields"]
        if not fields:
            yield f"column {path} is a struct without fields, which Hudi cannot store", "drop it"
        for first, second in _alike([field["name"] for field in fields]):
            yield f"fields {first} and {second} of {path} differ only by case", "rename one"
        for field in fields:
            yield from _unstorable(f"{path}.", field["name"], field["type"])
    elif text == "array":
        yield from _unstorable_type(path, kind["elementType"])
    elif text == "map":
        if kind["keyType"] != "string":
            cast = f"map<string,{sql_type(kind['valueType'])}>"
            yield f"column {path} is a map whose keys are not strings", f"cast it to {cast}"
        yield from _unstorable_type(path, kind["valueType"])


def _is_redefined(name: str, kind: Any, within: bool = False) -> bool:
    """Return whether a decimal in a struct gets the struct's own Avro name, `element`."""
    if isinstance(kind, str):
        return within and name == "element" and kind.startswith("decimal")
    if kind["type"] == "array":
        inner = kind["elementType"]
        is_struct = not isinstance(inner, str) and inner["type"] == "struct"
        return _is_redefined("element", inner, within or is_struct)
    if kind["type"] == "map":
        return _is_redefined("value", kind["valueType"], within)
    return any(
        _is_redefined(field["name"], field["type"], within) for field in kind.get("fields", ())
    )


def _alike(names: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of names that Spark and Hudi consider equal."""
    seen: dict[str, str] = {}
    for name in names:
        if (first := seen.setdefault(name.lower(), name)) != name:
            yield first, name


class _Drift(NamedTuple):
    """A difference: its column, a description, and whether it would change the table's type."""

    column: str
    what: str
    retypes: bool = False

    @property
    def root(self) -> str:
        """The column that holds the field, for a field of a struct."""
        return self.column.partition(".")[0]


def check_drift(
    location: str,
    table: str,
    batch: str,
    policy: str,
    *,
    fills: bool = False,
    as_text: Sequence[str] = (),
) -> None:
    """Raise TableError if a table rejects a batch's columns; called before the write.

    Args:
        table: The table's schema, as Spark's JSON; empty for a new table.
        batch: The batch's schema, as Spark's JSON.
        policy: See `TableSpec.schema`.
        fills: Whether Hudi writes null into columns that the batch lacks.
        as_text: Columns of the record key and the partition, whose values Hudi writes as text.
    """
    if not table:
        return
    have, come = _columns(table), _columns(batch)
    drifts = list(_rewritten(as_text, have, come))
    if policy != ANY:
        seen = {drift.column for drift in drifts}
        others = _compare("", have, come, policy)
        drifts += [drift for drift in others if drift.column not in seen]
    if fills:
        drifts = [drift for drift in drifts if drift.root in come]
    if not drifts:
        return
    allow = ""
    if policy == EVOLVE and any(drift.retypes for drift in drifts):
        allow = f'to change the table permanently, set TableSpec.schema="{ANY}", else '
    roots = dict.fromkeys(drift.root for drift in drifts)
    if inexact := [root for root in roots if _is_inexact(root, have, come)]:
        casts = ", ".join(f"{root} to {sql_type(have[root]['type'])}" for root in inexact)
        cure = f"{NEW_TABLE}: a plain cast of {casts} would change or refuse values"
    else:
        cures = "".join(_cure(root, have, come, policy) for root in roots)
        cure = f"correct the batch: batch = batch{cures}"
    raise TableError(
        f'{location} rejects the batch (schema="{policy}"), nothing was written: '
        f"{', '.join(drift.what for drift in drifts)}",
        f"{allow}{cure}",
    )


def _rewritten(
    names: Sequence[str], have: Mapping[str, Any], come: Mapping[str, Any]
) -> Iterator[_Drift]:
    """Yield columns of the key and the partition whose new type would change a value's text."""
    for name in (name for name in names if name in have and name in come):
        old, new = have[name]["type"], come[name]["type"]
        if old != new and not _same_text(old, new):
            yield _Drift(
                name,
                f"column {name} is {sql_type(old)} in the table and {sql_type(new)} in the batch, "
                "so the same value would be another key or partition",
            )


def _same_text(table: Any, batch: Any) -> bool:
    """Return whether Hudi writes equal values of both types as the same text in its keys."""
    old, new = _scale(table), _scale(batch)
    return (old is not None and old == new) or ("string" in (table, batch) and 0 in (old, new))


def _scale(kind: Any) -> int | None:
    """Return a number's decimals, 0 for a whole number; None for other types."""
    if not isinstance(kind, str):
        return None
    if decimal := _DECIMAL.fullmatch(kind):
        return int(decimal[2])
    return 0 if kind in _DIGITS else None


def _columns(schema: str) -> dict[str, Mapping[str, Any]]:
    """Return the fields by name, without Hudi's meta columns."""
    fields = {field["name"]: field for field in json.loads(schema)["fields"]}
    return {name: fields[name] for name in without_meta(fields)}


def without_meta(names: Iterable[str]) -> list[str]:
    """Return the names of columns, without Hudi's meta columns."""
    return [name for name in names if not name.startswith("_hoodie_") or name == DELETED]


def _compare(
    above: str, have: Mapping[str, Any], come: Mapping[str, Any], policy: str
) -> Iterator[_Drift]:
    """Yield the rejected differences of columns, or of a struct's fields."""
    for name, field in come.items():
        path = above + name
        if name in have:
            yield from _retyped(path, have[name]["type"], field["type"], policy, bool(above))
        elif policy == FREEZE:
            yield _Drift(path, f"column {path} ({sql_type(field['type'])}) is new")
        elif not field["nullable"]:
            what = "is new and NOT NULL, but the rows of the table have no value for it"
            yield _Drift(path, f"column {path} ({sql_type(field['type'])}) {what}")
    for name in (name for name in have if name not in come):
        what = f"column {above}{name} ({sql_type(have[name]['type'])}) is missing"
        yield _Drift(above + name, what)


def _retyped(path: str, old: Any, new: Any, policy: str, inside: bool) -> Iterator[_Drift]:
    kinds = [kind["type"] if isinstance(kind, dict) else "" for kind in (old, new)]
    if kinds == ["struct", "struct"]:
        have, come = ({field["name"]: field for field in kind["fields"]} for kind in (old, new))
        yield from _compare(f"{path}.", have, come, policy)
    elif kinds == ["array", "array"]:
        yield from _retyped(path, old["elementType"], new["elementType"], policy, True)
    elif kinds == ["map", "map"]:
        yield from _retyped(path, old["keyType"], new["keyType"], policy, True)
        yield from _retyped(path, old["valueType"], new["valueType"], policy, True)
    elif old != new and not _takes(old, new, policy, inside):
        what = f"column {path} is {sql_type(old)} in the table and {sql_type(new)} in the batch"
        yield _Drift(path, what, retypes=not any(kinds))


def _takes(old: Any, new: Any, policy: str, inside: bool) -> bool:
    """Return whether a column accepts a batch's different type."""
    # After a change inside an array, a map or a struct, Hudi 1.2 cannot read the table's old files.
    return not inside and (_fits(old, new) or (policy == EVOLVE and _widens(old, new)))


def _fits(table: Any, batch: Any) -> bool:
    """Return whether a column stores each value of the batch's type unchanged.

    Hudi 1.2 also converts inexactly: it changes a BIGINT that is too large for a DECIMAL column,
    and rounds a DOUBLE.
    """
    if not (isinstance(table, str) and isinstance(batch, str)):
        return False
    if decimal := _DECIMAL.fullmatch(table):
        whole = int(decimal[1]) - int(decimal[2])
        return _longer(table, batch) or _DIGITS.get(batch, whole + 1) <= whole
    numbers = batch in _DIGITS or _DECIMAL.fullmatch(batch)
    return table in _WIDER.get(batch, ()) or bool(table == "string" and numbers)


def _is_inexact(name: str, have: Mapping[str, Any], come: Mapping[str, Any]) -> bool:
    """Return whether a cast from the batch's column to the table's fails or changes values."""
    if name not in have or name not in come:
        return False
    return not casts_exactly(have[name]["type"], come[name]["type"])


def casts_exactly(table: Any, batch: Any) -> bool:
    """Return whether a cast to the table's type preserves each value of the batch's type."""
    if table == batch:
        return True
    if isinstance(table, str) and isinstance(batch, str):
        old, new = _DECIMAL.fullmatch(table), _DECIMAL.fullmatch(batch)
        if old and new:
            (digits, scale), (others, other_scale) = (
                map(int, each.groups()) for each in (old, new)
            )
            return scale >= other_scale and digits - scale >= others - other_scale
        texts = (table == "string" and batch != "binary") or (table, batch) == ("binary", "string")
        moments = batch == "date" and table in ("timestamp", "timestamp_ntz")
        return texts or moments or _fits(table, batch)
    if isinstance(table, str) or isinstance(batch, str) or table["type"] != batch["type"]:
        return False
    if table["type"] != "struct":
        parts = ("elementType", "keyType", "valueType")
        return all(casts_exactly(table[part], batch[part]) for part in parts if part in table)
    # Spark casts a struct by the positions of its fields.
    fields, others = table["fields"], batch["fields"]
    return [field["name"] for field in fields] == [field["name"] for field in others] and all(
        casts_exactly(field["type"], other["type"])
        for field, other in zip(fields, others, strict=True)
    )


def _widens(table: Any, batch: Any) -> bool:
    """Return whether Hudi widens the column's type without a change of stored values.

    Hudi 1.2 also converts BIGINT to FLOAT or TIMESTAMP, and any number to text.
    """
    if not (isinstance(table, str) and isinstance(batch, str)):
        return False
    return batch in _WIDER.get(table, ()) or _longer(batch, table)


def _longer(kind: str, other: str) -> bool:
    """Return whether a type is a decimal with the other's scale and more digits."""
    wide, narrow = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(other)
    return bool(wide and narrow and wide[2] == narrow[2] and int(wide[1]) > int(narrow[1]))


def _cure(name: str, have: Mapping[str, Any], come: Mapping[str, Any], policy: str) -> str:
    """Return the calls that convert a batch's column to the table's."""
    if name not in have:
        if policy == FREEZE:
            return f'.drop("{name}")'
        return f'.withColumn("{name}", F.when(F.lit(True), F.col("{name}")))'
    kind = sql_type(have[name]["type"])
    if name not in come:
        return f'.withColumn("{name}", F.lit(None).cast("{kind}"))'
    return f'.withColumn("{name}", F.col("{name}").cast("{kind}"))'


def avro_takes(name: str) -> bool:
    """Return whether Avro on Java 17 accepts a name."""
    rest = all(_is_letter(char) or _is_digit(char) or char == "_" for char in name)
    return rest and (_is_letter(name[0]) or name[0] == "_") if name else False


def _is_letter(char: str) -> bool:
    """Return whether Avro treats a character as a letter; supplementary characters never are."""
    return char.isalpha() and char <= "\uffff" and not _NEWER.match(char)


def _is_digit(char: str) -> bool:
    return char.isdecimal() and char <= "\uffff"  # Java excludes superscripts


def renamed(name: str) -> str:
    """Return a similar name that Avro accepts."""
    name = "".join(char if _is_letter(char) or _is_digit(char) else "_" for char in name)
    return name if avro_takes(name) else f"_{name}"


def sql_type(kind: Any) -> str:
    """Return a type's name in SQL."""
    if isinstance(kind, str):
        return _SQL.get(kind, kind)
    if kind["type"] == "struct":
        inner = [f"{field['name']}:{sql_type(field['type'])}" for field in kind["fields"]]
    elif kind["type"] == "array":
        inner = [sql_type(kind["elementType"])]
    elif kind["type"] == "map":
        inner = [sql_type(kind["keyType"]), sql_type(kind["valueType"])]
    else:
        return str(kind["type"])
    return f"{kind['type']}<{','.join(inner)}>"
