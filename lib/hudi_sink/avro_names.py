"""Names of columns that Avro takes, and names of types as SQL writes them."""

from __future__ import annotations

import re
from typing import Any

# Spark's name in JSON -> the name in SQL.
_SQL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
# Letters of Unicode 14, which Python 3.11 knows and Java 17 does not.
_NEWER = re.compile(
    r"[\u0870-\u0887\u0889-\u088e\u08b5\u08c8\u08c9\u0c5d\u0cdd\u170d\u171f\u1b4c\u2c2f\u2c5f"
    r"\u9ffd-\u9fff\ua7c0\ua7c1\ua7d0\ua7d1\ua7d3\ua7d5-\ua7d9\ua7f2-\ua7f4]"
)


def avro_takes(name: str) -> bool:
    """Return whether a name is one in Avro as Java 17 reads it."""
    rest = all(_is_letter(one) or _is_digit(one) or one == "_" for one in name)
    return rest and (_is_letter(name[0]) or name[0] == "_") if name else False


def _is_letter(one: str) -> bool:
    """Return whether Avro takes a character for a letter; it knows none of the higher planes."""
    return one.isalpha() and one <= "\uffff" and not _NEWER.match(one)


def _is_digit(one: str) -> bool:
    return one.isdecimal() and one <= "\uffff"  # a superscript is no digit in Java


def renamed(name: str) -> str:
    """Return a name that Avro takes, as near to the given one as can be."""
    name = "".join(one if _is_letter(one) or _is_digit(one) else "_" for one in name)
    return name if avro_takes(name) else f"_{name}"


def sql_type(kind: Any) -> str:
    """Return a type as SQL writes it."""
    if isinstance(kind, str):
        return _SQL.get(kind, kind)
    if kind["type"] == "struct":
        inner = [f"{one['name']}:{sql_type(one['type'])}" for one in kind["fields"]]
    elif kind["type"] == "array":
        inner = [sql_type(kind["elementType"])]
    elif kind["type"] == "map":
        inner = [sql_type(kind["keyType"]), sql_type(kind["valueType"])]
    else:
        return str(kind["type"])
    return f"{kind['type']}<{','.join(inner)}>"
