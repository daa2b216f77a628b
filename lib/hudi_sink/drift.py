"""Decide which changes of its columns a table takes; on Spark's JSON schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hudi_sink.avro_names import sql_type
from hudilab.errors import TableError
from hudilab.table import ANY, EVOLVE, FREEZE

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


class _Drift(NamedTuple):
    """A difference: its column, what it is, and whether it would change the table's type."""

    column: str
    what: str
    retypes: bool = False


def check_drift(location: str, table: str, batch: str, policy: str, *, fills: bool = False) -> None:
    """Raise TableError if a table does not take a batch's columns; nothing has been written.

    Args:
        table, batch: Their schemas, as Spark's JSON; the table's is empty if there is none yet.
        policy: See `TableSpec.schema`.
        fills: Whether Hudi writes null into columns that the batch lacks.
    """
    if policy == ANY or not table:
        return
    have, come = _columns(table), _columns(batch)
    found = list(_compare("", have, come, policy))
    if fills:
        found = [one for one in found if one.column.partition(".")[0] in come]
    if not found:
        return
    allow = ""
    if policy == EVOLVE and any(one.retypes for one in found):
        allow = f'to change the table for good, set TableSpec.schema="{ANY}", else '
    cures = dict.fromkeys(_cure(one.column.partition(".")[0], have, come, policy) for one in found)
    raise TableError(
        f'{location} does not take the batch (schema="{policy}"), nothing was written: '
        f"{', '.join(one.what for one in found)}",
        f"{allow}correct the batch: batch = batch{''.join(cures)}",
    )


def _columns(schema: str) -> dict[str, Mapping[str, Any]]:
    """Return the fields by name, without those that Hudi adds to each row."""
    return {
        one["name"]: one
        for one in json.loads(schema)["fields"]
        if not one["name"].startswith("_hoodie_") or one["name"] == "_hoodie_is_deleted"
    }


def _compare(
    above: str, have: Mapping[str, Any], come: Mapping[str, Any], policy: str
) -> Iterator[_Drift]:
    """Yield the differences that are refused, of columns or of the fields of a struct."""
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
        have, come = ({one["name"]: one for one in kind["fields"]} for kind in (old, new))
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
    """Return whether a column takes a batch's other type."""
    # After a change inside an array, a map or a struct, Hudi 1.2 cannot read the table's old files.
    return not inside and (_fits(old, new) or (policy == EVOLVE and _widens(old, new)))


def _fits(table: Any, batch: Any) -> bool:
    """Return whether a column takes each value of the batch's type as it is.

    Hudi 1.2 converts more: a BIGINT that is too large for a DECIMAL column becomes another number,
    a DOUBLE is rounded.
    """
    if not (isinstance(table, str) and isinstance(batch, str)):
        return False
    if found := _DECIMAL.fullmatch(table):
        whole = int(found[1]) - int(found[2])
        return _longer(table, batch) or _DIGITS.get(batch, whole + 1) <= whole
    numbers = batch in _DIGITS or _DECIMAL.fullmatch(batch)
    return table in _WIDER.get(batch, ()) or bool(table == "string" and numbers)


def _widens(table: Any, batch: Any) -> bool:
    """Return whether Hudi gives the column the wider type, and the stored values stay.

    Hudi 1.2 also turns BIGINT into FLOAT or TIMESTAMP, and any number into text.
    """
    if not (isinstance(table, str) and isinstance(batch, str)):
        return False
    return batch in _WIDER.get(table, ()) or _longer(batch, table)


def _longer(one: str, other: str) -> bool:
    """Return whether one is a decimal with the other's scale and more digits."""
    wide, narrow = _DECIMAL.fullmatch(one), _DECIMAL.fullmatch(other)
    return bool(wide and narrow and wide[2] == narrow[2] and int(wide[1]) > int(narrow[1]))


def _cure(name: str, have: Mapping[str, Any], come: Mapping[str, Any], policy: str) -> str:
    """Return the calls that give a batch the table's column."""
    if name not in have:
        if policy == FREEZE:
            return f'.drop("{name}")'
        return f'.withColumn("{name}", F.when(F.lit(True), F.col("{name}")))'
    kind = sql_type(have[name]["type"])
    if name not in come:
        return f'.withColumn("{name}", F.lit(None).cast("{kind}"))'
    if isinstance(have[name]["type"], str) == isinstance(come[name]["type"], str):
        return f'.withColumn("{name}", F.col("{name}").cast("{kind}"))'
    # No cast leads from one to the other: keep the values in a column of their own.
    renamed = f'.withColumnRenamed("{name}", "{name}_new")'
    return f'{renamed}.withColumn("{name}", F.lit(None).cast("{kind}"))'
