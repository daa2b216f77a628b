"""Read Parquet files: the number of rows from the footer alone, and columns with arro3.

arro3 has no access to the footer, and prints a stack trace for an invalid one. This module
therefore decodes a few fields of the footer's struct in Thrift's compact protocol.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from hudi_inspect.varints import Cursor

FOOTER = 65536  # bytes at the end of a file; they contain most footers
_LOCK = Lock()  # for the process's standard error
_END = 8  # bytes after the footer: its size and the magic number
_MAGIC = b"PAR1"
_ROWS, _GROUPS, _BYTES = 3, 4, 2  # the footer's fields: rows, row groups; of a group, its bytes
STEPS = 1_000_000  # reads of a part of a footer; a column needs ten
MAX_ROWS = 100_000  # of a file to read
MAX_BYTES = 268435456  # of its decompressed content
BATCH_ROWS = 64  # rows per read
# Thrift's types.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(1, 9)
_LIST, _SET, _MAP, _STRUCT, _UUID = range(9, 14)
_FIXED = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}


class Damaged(Exception):
    """The Parquet file is incomplete, or arro3 cannot read it; the text is arro3's message."""


def footer_size(tail: bytes) -> int:
    """Return the size of a file's footer in bytes; `tail` is the file's end."""
    if len(tail) < _END or tail[-4:] != _MAGIC:
        raise Damaged
    return int.from_bytes(tail[-_END:-4], "little") + _END


def count_rows(tail: bytes, steps: list[int] | None = None) -> int:
    """Return the number of rows in a file; `tail` is its end, with the whole footer.

    Args:
        steps: The number of reads of the footer's parts that remain.
    """
    return _totals(tail, steps or [STEPS], only_rows=True)[0]


def read_rows(
    data: bytes,
    columns: Sequence[str],
    key: str,
    keys: Collection[str] | None = None,
    *,
    is_bounded: bool = False,
) -> list[dict[str, Any]]:
    """Return columns of the rows in a file: of all, or of those whose column `key` is in `keys`.

    Args:
        is_bounded: Refuse a file with more rows or bytes than an archived timeline has.
    """
    # Before the try, because a missing package is not damage. arro3.io imports arro3.core late.
    from arro3.core import DataType
    from arro3.io import read_parquet

    rows, size = _totals(data, [STEPS])
    if is_bounded and (rows > MAX_ROWS or size > MAX_BYTES):
        raise Damaged(f"it has {rows:,} rows of {size:,} bytes, more than inspect reads")
    rows_read: list[dict[str, Any]] = []
    try:
        with _quiet():
            for batch in read_parquet(data, batch_size=BATCH_ROWS if is_bounded else None):
                size += batch.nbytes  # a repeated value occupies few bytes in the file
                encoded = any(DataType.is_dictionary(column.type) for column in batch.columns)
                if is_bounded and (encoded or size > 2 * MAX_BYTES):
                    raise Damaged(f"its rows need more than {MAX_BYTES:,} bytes, or are encoded")
                values = batch.column(key).to_pylist()
                chosen = [i for i, value in enumerate(values) if keys is None or value in keys]
                if chosen:
                    part = batch.select(list(columns)).take(array("q", chosen))
                    rows_of = zip(*(column.to_pylist() for column in part.columns), strict=True)
                    rows_read += (dict(zip(part.column_names, row, strict=True)) for row in rows_of)
    except (KeyboardInterrupt, SystemExit, MemoryError, Damaged):
        raise
    except BaseException as error:  # a panic of arro3 is not an Exception
        raise Damaged(" ".join(str(error).split())[:200]) from error
    return rows_read


@contextmanager
def _quiet() -> Iterator[None]:
    """Drop arro3's output on standard error after a panic, because the exception contains it."""
    with _LOCK:
        kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            os.close(null)


def _totals(tail: bytes, steps: list[int], *, only_rows: bool = False) -> tuple[int, int]:
    """Return the footer's number of rows and of their uncompressed bytes."""
    end = footer_size(tail)
    if end > len(tail):
        raise Damaged
    footer, rows, size = _Struct(tail[-end:-_END], steps), -1, 0
    try:
        for number, kind in footer.fields():
            if number == _ROWS and kind == _I64:
                rows = footer.signed()
                if only_rows:
                    break
            elif number == _GROUPS and kind == _LIST:
                for inner in footer.items():
                    size += footer.total(inner, _BYTES)
            else:
                footer.skip(kind)
    except (EOFError, RecursionError):
        raise Damaged from None
    except ValueError as error:
        raise Damaged(str(error)) from None
    if rows < 0:
        raise Damaged
    return rows, size


class _Struct(Cursor):
    """Decodes a struct of Thrift's compact protocol."""

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield each field's number and type; the caller reads or skips the value."""
        field = 0
        while head := self.take(1)[0]:
            step, kind = head >> 4, head & 15
            # A long step is followed by a signed number, which no field of Parquet needs.
            field = field + step if step else self.number() // 2
            yield field, kind

    def items(self) -> Iterator[int]:
        """Yield the type of each item of a list; the caller reads or skips the value."""
        head = self.take(1)[0]
        for _ in range(head >> 4 if head < 240 else self.number()):
            yield head & 15

    def total(self, kind: int, field: int) -> int:
        """Return a number in a struct, or zero if the field is missing, and skip the rest."""
        total = 0
        if kind != _STRUCT:
            raise EOFError
        for number, inner in self.fields():
            if number == field and inner == _I64:
                total = self.signed()
            else:
                self.skip(inner)
        return total

    def skip(self, kind: int) -> None:
        """Skip a value of a type."""
        if kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner)
        elif kind in (_LIST, _SET):
            for inner in self.items():
                self._skip_item(inner)
        elif kind == _MAP:
            if size := self.number():
                kinds = self.take(1)[0]
                for _ in range(size):
                    self._skip_item(kinds >> 4)
                    self._skip_item(kinds & 15)
        elif kind == _BINARY:
            self.take(self.number())
        elif kind in _FIXED:
            self.take(_FIXED[kind])
        elif kind in (_I16, _I32, _I64):
            self.number()
        elif kind not in (_TRUE, _FALSE):  # the header of a boolean field is its value
            raise EOFError

    def _skip_item(self, kind: int) -> None:
        # A boolean in a collection has its own byte.
        self.skip(_BYTE if kind in (_TRUE, _FALSE) else kind)
