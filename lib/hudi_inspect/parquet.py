"""Read Parquet files: the number of rows from the footer alone, and columns with arro3.

arro3 gives no access to the footer, and prints a stack trace for a file without a valid one. So the
little of it that is needed is decoded here: it is a struct in Thrift's compact protocol.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from typing import Any

FOOTER = 65536  # bytes at the end of a file; they contain most footers
_END = 8  # bytes after the footer: its size and the magic number
_MAGIC = b"PAR1"
_ROWS = 3  # the footer's field with the number of rows
# Thrift's types.
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(1, 9)
_LIST, _SET, _MAP, _STRUCT, _UUID = range(9, 14)
_FIXED = {_BYTE: 1, _DOUBLE: 8, _UUID: 16}


class Damaged(Exception):
    """The file is no whole Parquet file, or arro3 cannot read it; the text gives arro3's words."""


def footer_size(tail: bytes) -> int:
    """Return how many bytes at the end of a file its footer takes; `tail` is that end."""
    if len(tail) < _END or tail[-4:] != _MAGIC:
        raise Damaged
    return int.from_bytes(tail[-_END:-4], "little") + _END


def count_rows(tail: bytes) -> int:
    """Return the number of rows in a file; `tail` is its end, with the whole footer."""
    footer = _footer(tail)
    for number, kind in footer.fields():
        if number == _ROWS and kind == _I64:
            value = footer.number()
            if value % 2:  # zigzag: the odd ones are negative
                raise Damaged
            return value // 2
        footer.skip(kind)
    raise Damaged


def read_rows(
    data: bytes, columns: Sequence[str], key: str, keys: Collection[str] | None = None
) -> Iterator[dict[str, Any]]:
    """Yield columns of the rows in a file: of all, or of those whose column `key` is in `keys`."""
    # Outside of the try: a package that is missing says nothing of the file. arro3.io imports
    # arro3.core only when it needs it.
    import arro3.core  # noqa: F401
    from arro3.io import read_parquet

    _footer(data).skip(_STRUCT)
    try:
        for batch in read_parquet(data):
            values = batch.column(key).to_pylist()
            chosen = [i for i, value in enumerate(values) if keys is None or value in keys]
            if chosen:
                part = batch.select(list(columns)).take(array("q", chosen))
                for row in zip(*(column.to_pylist() for column in part.columns), strict=True):
                    yield dict(zip(part.column_names, row, strict=True))
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:  # a panic of arro3 is no Exception
        raise Damaged(" ".join(str(error).split())[:200]) from error


def _footer(tail: bytes) -> _Struct:
    size = footer_size(tail)
    if size > len(tail):
        raise Damaged
    return _Struct(tail[-size:-_END])


class _Struct:
    """Decodes a struct; raises Damaged if the data ends too early."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield each field's number and type; the caller reads or skips the value."""
        field = 0
        while head := self._take(1)[0]:
            step, kind = head >> 4, head & 15
            # A long step has a number of its own, with a sign, which no field of Parquet needs.
            field = field + step if step else self.number() // 2
            yield field, kind

    def number(self) -> int:
        """Read a number: seven bits a byte, the lowest first."""
        value = shift = 0
        while True:
            byte = self._take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def skip(self, kind: int) -> None:
        """Skip a value of a type."""
        try:
            self._skip(kind)
        except RecursionError:
            raise Damaged from None

    def _skip(self, kind: int) -> None:
        if kind == _STRUCT:
            for _, inner in self.fields():
                self._skip(inner)
        elif kind in (_LIST, _SET):
            head = self._take(1)[0]
            size = head >> 4 if head < 240 else self.number()
            for _ in range(size):
                self._skip_item(head & 15)
        elif kind == _MAP:
            if size := self.number():
                kinds = self._take(1)[0]
                for _ in range(size):
                    self._skip_item(kinds >> 4)
                    self._skip_item(kinds & 15)
        elif kind == _BINARY:
            self._take(self.number())
        elif kind in _FIXED:
            self._take(_FIXED[kind])
        elif kind in (_I16, _I32, _I64):
            self.number()
        elif kind not in (_TRUE, _FALSE):  # the header of a boolean field is its value
            raise Damaged

    def _skip_item(self, kind: int) -> None:
        # A boolean in a collection has a byte of its own.
        self._skip(_BYTE if kind in (_TRUE, _FALSE) else kind)

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise Damaged
        part = self._data[self._at : end]
        self._at = end
        return part
