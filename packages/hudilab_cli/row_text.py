"""Write rows as lines of JSON or CSV that preserve each value."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from io import TextIOWrapper
from typing import TYPE_CHECKING

from hudilab.errors import ParameterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

# Some programs end a line at these characters; in JSON, an escape is equivalent.
_BREAKS = {ord(char): f"\\u{ord(char):04x}" for char in "\x7f\x85\u2028\u2029"}
_DECODER = json.JSONDecoder()


def print_lines(lines: Iterable[str]) -> None:
    """Print lines in UTF-8, independent of the terminal's encoding."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    for line in lines:
        print(line)
    sys.stdout.flush()


def one_line(text: str) -> str:
    """Return a JSON text without characters that any program treats as a line end."""
    return text.translate(_BREAKS)


def json_lines(rows: DataFrame) -> Iterator[str]:
    """Yield each row as a JSON object, with the values of `hudi_sink.quarantine.as_json`.

    Raises:
        ParameterError: JSON has no form for the columns.
    """
    from pyspark.sql import functions as F

    from hudi_sink.quarantine import as_json

    _check(rows.schema, "the result")
    for row in rows.select(as_json(F.struct("*"))).toLocalIterator():
        yield one_line(row[0])


def csv_lines(rows: DataFrame) -> Iterator[str]:
    """Yield the header and each row as CSV: values as in JSON, NULL empty, "" in quotes.

    Raises:
        ParameterError: JSON has no form for a nested column.
    """
    from pyspark.sql import functions as F

    from hudi_sink.quarantine import as_json

    for field in rows.schema:
        _check(field.dataType, f"column {field.name}")
    yield ",".join(map(_quoted, rows.columns))
    for row in rows.select(as_json(F.struct("*"))).toLocalIterator():
        yield ",".join(_cells(row[0]))


def _cells(row: str) -> Iterator[str]:
    """Yield the values of a JSON object; numbers and nested values keep their text."""
    end = 0
    while row[end] != "}" and len(row) > 2:
        _, end = _DECODER.raw_decode(row, end + 1)
        start = end + 1
        value, end = _DECODER.raw_decode(row, start)
        if value is None:
            yield ""
        else:
            yield _quoted(value if isinstance(value, str) else row[start:end])


def _quoted(text: str) -> str:
    """Return a CSV cell; NULL is empty, so an empty text has quotes."""
    if text and text.isprintable() and not set(text) & set('",') and text.strip() == text:
        return text
    return '"' + text.replace('"', '""') + '"'


def _check(kind: T.DataType, where: str) -> None:
    """Raise ParameterError for types that JSON or Spark's `to_json` can't write exactly."""
    from pyspark.sql import types as T

    if isinstance(kind, T.StructType):
        if twice := [name for name, count in Counter(kind.names).items() if count > 1]:
            raise ParameterError(
                f"{where} has two columns {twice[0]}, of which JSON would keep one",
                f"rename one of them: {twice[0]} AS {twice[0]}_2",
            )
        for field in kind:
            _check(field.dataType, f"column {field.name}")
    elif isinstance(kind, T.ArrayType):
        _check(kind.elementType, where)
    elif isinstance(kind, T.MapType):
        if not isinstance(kind.keyType, T.StringType | T.NumericType | T.BooleanType):
            raise ParameterError(
                f"{where} has a map whose keys JSON can't write, of type "
                f"{kind.keyType.simpleString().upper()}",
                "convert it to an array of its entries: map_entries(...)",
            )
        _check(kind.valueType, where)
