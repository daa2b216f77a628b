"""Values of Spark, Arrow and DuckDB in one form, of which two are equal only to the bit."""

from __future__ import annotations

import struct
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T


def of_spark(rows: DataFrame, key: str) -> dict[int, dict[str, Any]]:
    """The rows by the column `key`; each value in the exact form."""
    fields = {field.name: field.dataType for field in rows.schema.fields if field.name != key}
    columns = [_whole(F.col(f"`{name}`"), kind).alias(name) for name, kind in fields.items()]
    rows_read = rows.select(F.col(key).alias("key"), F.struct(*columns).alias("values")).collect()
    return {
        row["key"]: {name: _bits(value) for name, value in zip(fields, row["values"], strict=True)}
        for row in rows_read
    }


def _whole(column: Column, kind: T.DataType) -> Column:
    """What Python gets without loss: dates and times as numbers, texts as bytes."""
    if isinstance(kind, T.StringType):
        return column.cast("binary")
    if isinstance(kind, T.DateType):
        return F.unix_date(column)
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, T.TimestampNTZType):
        return F.unix_micros(
            F.convert_timezone(F.lit("UTC"), F.lit("UTC"), column).cast("timestamp")
        )
    if isinstance(kind, T.ArrayType):
        return F.transform(column, lambda element: _whole(element, kind.elementType))
    if isinstance(kind, T.MapType):
        return F.transform_values(column, lambda _, value: _whole(value, kind.valueType))
    if isinstance(kind, T.StructType):
        fields = [
            _whole(column[field.name], field.dataType).alias(field.name) for field in kind.fields
        ]
        return F.when(column.isNotNull(), F.struct(*fields))
    return column


def _bits(value: Any) -> Any:
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, Decimal):
        return "decimal", value.as_integer_ratio()  # its digits are those of its type
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, dict):  # its order means nothing
        return tuple(sorted((key, _bits(part)) for key, part in value.items()))
    if isinstance(value, Row | list | tuple):
        return tuple(_bits(part) for part in value)
    return value


def of_arrow(column: pa.ChunkedArray) -> list[Any]:
    """The values of an Arrow column in the exact form."""
    return [value for chunk in column.chunks for value in _values(chunk)]


def _values(column: pa.Array) -> list[Any]:
    kind, is_valid = column.type, column.is_valid().to_pylist()
    if pa.types.is_map(kind):
        keys, inner = column.keys.to_pylist(), _values(column.items)
        starts = column.offsets.to_pylist()
        made: list[Any] = [
            tuple(sorted(zip(keys[a:b], inner[a:b], strict=True))) for a, b in pairwise(starts)
        ]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner, starts = _values(column.values), column.offsets.to_pylist()
        made = [tuple(inner[a:b]) for a, b in pairwise(starts)]
    elif pa.types.is_struct(kind):
        fields = [_values(column.field(number)) for number in range(kind.num_fields)]
        made = list(zip(*fields, strict=True))
    elif pa.types.is_date32(kind):
        made = column.cast(pa.int32()).to_pylist()
    elif pa.types.is_timestamp(kind):
        made = column.cast(pa.int64()).to_pylist()
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        made = column.cast(pa.large_binary()).to_pylist()
    else:
        made = [_bits(value) for value in column.to_pylist()]
    return [value if valid else None for value, valid in zip(made, is_valid, strict=True)]
