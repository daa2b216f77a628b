"""Values of every type of Spark, written as SQL, in columns, arrays, maps and structs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

MB = 1 << 20
DAY = 86_400_000_000  # microseconds
TEXTS = {
    "empty": "",
    "NUL": "a\0b",
    "a character of each plane": "".join(chr((plane << 16) + 0x41) for plane in range(17)),
    "combined, right to left, BOM": "e\u0301\u0327 \u05d0\u200f \U0001f469\u200d\U0001f680 \ufeff",
    "controls, noncharacters": "\x01\t\r\n\x1f\x7f\u0085\u2028 \uffff\U0010ffff",
}
DAYS = (
    *("0001-01-01", "1500-02-28", "1582-10-04", "1582-10-10", "1582-10-15", "1899-12-31"),
    *("1900-01-01", "1969-12-31", "1970-01-01", "2026-02-28", "9999-12-31"),
)
LATE = "23:59:59.999999"
FAR_DAYS = {
    "0000-01-01": -719_528,
    "10000-01-01": 2_932_897,
    "first day": -(1 << 31),
    "last day": (1 << 31) - 1,
}
FAR_MOMENTS = {
    "0000-01-01": str(-719_528 * DAY),
    "10000-01-01": str(2_932_897 * DAY),
    "first microsecond": f"-{(1 << 63) - 1} - 1",
    "last microsecond": str((1 << 63) - 1),
}


class Leaf(NamedTuple):
    """A type without others inside, and its values: label -> SQL."""

    kind: str
    values: Mapping[str, str]


class TypeColumn(NamedTuple):
    """A column: the row of the page that it belongs to, its shape, and its values in SQL."""

    name: str
    row: str
    shape: str
    values: tuple[tuple[str, str], ...]

    def at(self, number: int) -> tuple[str, str]:
        """Label and SQL of the value that a row of this number has."""
        return self.values[number % len(self.values)]


def _whole(kind: str, bits: int) -> Leaf:
    most = (1 << (bits - 1)) - 1
    made = {"least": -most - 1, "most": most, "0": 0, "-1": -1}
    return Leaf(kind, {name: f"CAST('{value}' AS {kind})" for name, value in made.items()})


def _floating(kind: str, least: str, most: str) -> Leaf:
    texts = ("NaN", "Infinity", "-Infinity", "-0.0", "0.0", least, most, f"-{most}", "0.1")
    return Leaf(kind, {text: f"CAST('{text}' AS {kind})" for text in texts})


def _decimal(digits: int, scale: int) -> Leaf:
    most = "9" * (digits - scale) + ("." + "9" * scale if scale else "")
    unit = "0." + "0" * (scale - 1) + "1" if scale else "1"
    made = {"most": most, "least": f"-{most}", "unit": unit, "-unit": f"-{unit}", "0": "0"}
    kind = f"DECIMAL({digits},{scale})"
    return Leaf(kind, {name: f"CAST('{value}' AS {kind})" for name, value in made.items()})


def _text(value: str) -> str:
    return f"CAST(X'{value.encode().hex()}' AS STRING)"


def _moments(kind: str) -> Leaf:
    near = {
        f"{day} {time}".removesuffix(" 00:00:00"): f"{kind}'{day} {time}'"
        for day in DAYS
        for time in ("00:00:00", LATE)
    }
    far = {name: f"CAST(timestamp_micros({sql}) AS {kind})" for name, sql in FAR_MOMENTS.items()}
    return Leaf(kind, near | far)


LEAVES = {
    "boolean": Leaf("BOOLEAN", {"true": "true", "false": "false"}),
    "int": _whole("INT", 32),
    "bigint": _whole("BIGINT", 64),
    "float": _floating("FLOAT", "1.4E-45", "3.4028235E38"),
    "double": _floating("DOUBLE", "4.9E-324", "1.7976931348623157E308"),
    "decimal(9,4)": _decimal(9, 4),
    "decimal(18,18)": _decimal(18, 18),
    "decimal(38,18)": _decimal(38, 18),
    "string": Leaf(
        "STRING",
        {name: _text(value) for name, value in TEXTS.items()}
        | {"1 MB": f"repeat('ab', {MB // 2})"},
    ),
    "binary": Leaf(
        "BINARY",
        {"empty": "X''", "zero": "X'00'", "no UTF-8": "X'00FF80C3'"}
        | {"1 MB": f"CAST(repeat('ab', {MB // 2}) AS BINARY)"},
    ),
    "date": Leaf(
        "DATE",
        {day: f"DATE'{day}'" for day in DAYS}
        | {name: f"date_from_unix_date({day})" for name, day in FAR_DAYS.items()},
    ),
    "timestamp": _moments("TIMESTAMP"),
    "timestamp_ntz": _moments("TIMESTAMP_NTZ"),
}
# Only bytes make such a text; Spark passes it on.
NO_UTF_8 = Leaf(
    "STRING", {"a byte": "CAST(X'41FF42' AS STRING)", "half a pair": "CAST(X'EDA080' AS STRING)"}
)
_FILE = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
# Shape -> type and value around a type {k} and its value {v}, and further values.
SHAPES: dict[str, list[str]] = _FILE["shapes"]
# Row -> type and values: what only a shape of its own shows.
NESTED: dict[str, list[str]] = _FILE["nested"]


def _cast(sql: str, kind: str) -> str:
    return f"CAST({sql} AS {kind})"


def _columns() -> Iterator[TypeColumn]:
    for row, leaf in (LEAVES | {"string, not UTF-8": NO_UTF_8}).items():
        values = {"null": _cast("NULL", leaf.kind), **leaf.values}
        name = re.sub(r"\W+", "_", row).strip("_")
        yield TypeColumn(name, row, "column", tuple(values.items()))
        for shape, (kind, around, *more) in SHAPES.items():
            of = kind.format(k=leaf.kind)
            inside = [
                (label, _cast(around.format(k=leaf.kind, v=value), of))
                for label, value in values.items()
            ]
            inside += [(sql.replace("named_struct", "struct"), _cast(sql, of)) for sql in more]
            inside.append(("null around", _cast("NULL", of)))
            yield TypeColumn(f"{name}_{shape}".replace(" ", "_"), row, shape, tuple(inside))
    for digits in range(1, 39):
        for scale in sorted({0, digits // 2, digits}):
            leaf = _decimal(digits, scale)
            values = {"null": _cast("NULL", leaf.kind), **leaf.values}
            named = tuple((f"{leaf.kind.lower()} {label}", sql) for label, sql in values.items())
            yield TypeColumn(f"d_{digits}_{scale}", "decimal of 1 to 38 digits", "column", named)
    for number, (row, (kind, *sqls)) in enumerate(NESTED.items()):
        made = [(sql.replace("named_struct", "struct"), _cast(sql, kind)) for sql in sqls]
        made.append(("null", _cast("NULL", kind)))
        yield TypeColumn(f"nested_{number}", row, "column", tuple(made))


COLUMNS = tuple(_columns())
ROWS = max(len(column.values) for column in COLUMNS)  # each value is in a row


def frame(spark: SparkSession, columns: Sequence[TypeColumn], turn: int) -> DataFrame:
    """Rows 0, 1, ... by the column `n`, with the columns' values; the first has value `turn`."""
    made = (
        f"array({', '.join(sql for _, sql in column.values)})[(n + {turn}) % {len(column.values)}]"
        f" AS {column.name}"
        for column in columns
    )
    rows = spark.range(ROWS, numPartitions=1).selectExpr("CAST(id AS INT) AS n")
    # Checkpointed, so that no batch plans and evaluates thousands of literals again.
    return rows.selectExpr("n", *made).localCheckpoint()
