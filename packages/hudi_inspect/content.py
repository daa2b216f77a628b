"""Decode a timeline file, Avro or JSON, within limits, because its source isn't trusted."""

from __future__ import annotations

import json
import re
import zlib
from functools import lru_cache
from io import BytesIO
from typing import Any, NoReturn

from hudi_inspect.errors import Lost, Unreadable
from hudi_inspect.units import size
from hudi_inspect.varints import Cursor

MOST = 67108864  # bytes of a timeline file
MOST_UNPACKED = 4194304  # bytes of its content, if that is compressed; Hudi does not compress it
MOST_VALUES = 4_000_000  # of a JSON file
_HEADER = 1048576  # bytes; the schema is in it
_LEVELS = 50  # of a schema
_AVRO = b"Obj\x01"
_SCHEMA, _CODEC = b"avro.schema", b"avro.codec"
_CODECS = (b"null", b"deflate", b"snappy", b"zstandard", b"bzip2", b"xz")
_PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_headers: dict[bytes, tuple[Any, bytes]] = {}  # schema and codec of each
_CUT_WORD = re.compile(r"-|t(r(u)?)?|f(a(l(s)?)?)?|n(u(l)?)?")


def parse_content(data: bytes) -> dict[str, Any]:
    """Return the content of a timeline file: Avro, or JSON as table version 6 writes it.

    Raises:
        Lost: It is provably empty or truncated.
        Unreadable: It is neither Avro nor JSON, or exceeds a limit.
    """
    is_avro = data.startswith(_AVRO)
    if is_avro:
        import fastavro  # noqa: F401  outside of the try: its absence isn't a fault of the file

    try:
        content = _parse_avro(data) if is_avro else _parse_json(data)
    except MemoryError:
        raise
    # A parser may raise anything; that proves nothing, only `lost` judges the file.
    except Exception as error:  # noqa: BLE001
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if how := lost(data):
            raise Lost(how) from None
        raise Unreadable(f"is neither Avro nor JSON as Hudi writes it ({why})") from None
    if not isinstance(content, dict):
        raise Unreadable("holds no record")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def _parse_json(data: bytes) -> Any:
    if len(data) > MOST_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES:,} values")
    return _decode(data.decode().rstrip())


def _parse_avro(data: bytes) -> Any:
    """Return the first record of a container file; None if it has none.

    Source: Avro 1.11 specification, "Object Container Files". It is not read with fastavro's
    reader, which parses the schema of each file anew, and unpacks blocks of any size.
    """
    from fastavro import schemaless_reader

    cursor = Cursor(data, [10_000])
    if head := next(filter(data.startswith, _headers), b""):
        cursor.at, mark, (schema, codec) = len(head) + 16, data[len(head) :][:16], _headers[head]
    else:
        pairs: dict[bytes, bytes] = {}
        mark = _header(cursor, pairs)
        schema, codec = _parsed(pairs[_SCHEMA]), pairs.get(_CODEC, b"null")
        if len(_headers) < 8:  # the files of a table have few headers, but for their marks
            _headers[data[: cursor.at - 16]] = schema, codec
    count, length = cursor.signed(), cursor.signed()
    block = cursor.take(length)
    if cursor.take(len(mark)) != mark:
        raise ValueError("its block doesn't end where its header says")
    if not count:
        return None
    if codec == b"deflate":
        block = zlib.decompressobj(-15).decompress(block, MOST_UNPACKED + 1)
        if len(block) > MOST_UNPACKED:
            raise ValueError(f"its content is larger than {size(MOST_UNPACKED)}")
    elif codec != b"null":
        raise ValueError(f"unsupported codec {codec.decode('utf-8', 'replace')}")
    return schemaless_reader(BytesIO(block), schema, None)


def _header(cursor: Cursor, pairs: dict[bytes, bytes]) -> bytes:
    """Read the header's pairs of names and values; return the mark that ends each block."""
    cursor.take(len(_AVRO))
    while count := cursor.signed():
        if count < 0:  # the size of these pairs follows
            cursor.signed()
        for _ in range(abs(count)):
            name = cursor.take(cursor.signed())
            pairs[name] = b""  # the value may be cut
            pairs[name] = cursor.take(cursor.signed())
    return cursor.take(16)


@lru_cache(maxsize=16)  # the files of a table have few schemas
def _parsed(schema: bytes) -> Any:
    from fastavro import parse_schema

    if len(schema) > _HEADER:
        raise ValueError(f"its schema is larger than {size(_HEADER)}")
    return parse_schema(_bounded(json.loads(schema), set()))


def _bounded(schema: Any, names: set[str], level: int = 0) -> Any:
    """Return a schema without logical types, whose values take at least a byte each.

    So few bytes cannot hold many values. Types that contain themselves are refused: fastavro's
    stack has no limit.
    """

    def inner(part: Any) -> Any:
        return _bounded(part, names, level + 1)

    if level > _LEVELS:
        raise ValueError(f"its schema has more than {_LEVELS} levels")
    if isinstance(schema, list):
        return [part if part == "null" else inner(part) for part in schema]
    if isinstance(schema, str):
        if schema in _PRIMITIVES or schema.rpartition(".")[2] in names:
            return schema
        raise ValueError(f"its schema contains the type {schema[:50]!r}")
    kind = schema["type"]
    if kind == "array":
        return {"type": kind, "items": inner(schema["items"])}
    if kind == "map":
        return {"type": kind, "values": inner(schema["values"])}
    if kind not in ("record", "enum", "fixed"):
        return inner(kind)
    result = {key: schema[key] for key in ("type", "name", "namespace", "symbols") if key in schema}
    if kind == "record":
        result["fields"] = [
            {"name": field["name"], "type": inner(field["type"])} for field in schema["fields"]
        ]
    elif kind == "fixed":
        result["size"] = schema["size"]
    name = str(schema["name"]).rpartition(".")[2]
    if name in names or not result.get("fields", result.get("symbols", result.get("size"))):
        raise ValueError(f"its schema has a type {name[:50]!r} twice, or without content")
    names.add(name)
    return result


def lost(data: bytes) -> str:
    """Return how a file has provably lost its content; empty if it may be intact."""
    if not data.strip(b"\0"):
        return "holds only zero bytes" if data else "is empty"
    is_cut = _is_cut_json(data) if data.startswith(b"{") else _is_cut_avro(data)
    return "is truncated" if is_cut else ""


def _is_cut_json(data: bytes) -> bool:
    """Return whether the data is the begin of a JSON object, and not a whole one."""
    try:
        _parse_json(data)
    except json.JSONDecodeError as error:
        text = error.doc
        if error.pos >= len(text):
            return True
        if error.msg.startswith("Unterminated string"):
            return not text.endswith("}")  # else a quote was lost, not the end
        return error.msg == "Expecting value" and bool(_CUT_WORD.fullmatch(text, error.pos))
    except (ValueError, RecursionError):
        pass
    return False


def _is_cut_avro(data: bytes) -> bool:
    """Return whether the data is the begin of a container file with one record.

    A length that is wrong also leads beyond the end, so what is there has to fit, too.
    """
    if not data.startswith(_AVRO):
        return _AVRO.startswith(data)
    cursor, pairs = Cursor(data, [10_000]), dict[bytes, bytes]()
    block = mark = b""
    try:
        mark = _header(cursor, pairs)
        count = cursor.signed()
        block = data[cursor.at :]
        length = cursor.signed()
        block = data[cursor.at :]
        cursor.take(length)
        block = b""
        cursor.take(len(mark))
    except EOFError:
        rest = data[cursor.at :]
        if not mark:
            return _is_cut_header(pairs, rest, ends=data[cursor.at - 1] == 0)
        if not _is_valid(pairs):
            return False
        if not block:
            return mark.startswith(rest)
        return count == 1 and not data.endswith(mark) and _is_cut_record(block, pairs)
    except ValueError:
        pass
    return False


def _is_cut_header(pairs: dict[bytes, bytes], rest: bytes, *, ends: bool) -> bool:
    """Return whether what is left of a header begins its next name, value, or final mark."""
    *_, last = pairs or [b""]
    if last and not pairs[last]:
        del pairs[last]
        value_begins = last == _SCHEMA and _is_cut_json(rest)
        value_begins |= last == _CODEC and any(codec.startswith(rest) for codec in _CODECS)
        return last in (_SCHEMA, _CODEC) and _is_valid(pairs) and (value_begins or not rest)
    names = any(name.startswith(rest) for name in (_SCHEMA, _CODEC))
    return _is_valid(pairs) and (names or (ends and _SCHEMA in pairs and len(rest) < 16))


def _is_valid(pairs: dict[bytes, bytes]) -> bool:
    try:
        if _SCHEMA in pairs:
            _parsed(pairs[_SCHEMA])
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  as in `parse_content`
        return False
    return pairs.keys() <= {_SCHEMA, _CODEC} and pairs.get(_CODEC, b"null") in _CODECS


def _is_cut_record(block: bytes, pairs: dict[bytes, bytes]) -> bool:
    """Return whether a block ends before its only record does."""
    from fastavro import schemaless_reader

    stream, codec = BytesIO(block), pairs.get(_CODEC, b"null")
    try:
        if codec == b"deflate":
            unpacking = zlib.decompressobj(-15)
            unpacking.decompress(block, MOST_UNPACKED)
            return not unpacking.eof
        if codec == b"null":
            schemaless_reader(stream, _parsed(pairs[_SCHEMA]), None)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  as in `parse_content`
        return codec == b"null" and stream.tell() == len(block)
    return False
