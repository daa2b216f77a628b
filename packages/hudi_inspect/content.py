"""Decode a timeline file, Avro or JSON, within limits, because the table isn't trusted."""

from __future__ import annotations

import json
import zlib
from functools import lru_cache
from io import BytesIO
from typing import Any, NoReturn

from hudi_inspect.errors import Unreadable
from hudi_inspect.units import size
from hudi_inspect.varints import Cursor

MAX_CONTENT = 67108864  # bytes of a timeline file
MAX_UNPACKED = 4194304  # bytes after decompression; Hudi doesn't compress these files
MAX_VALUES = 4_000_000  # of a JSON file
_MAX_SCHEMA = 1048576  # bytes
_MAX_LEVELS = 50  # of a schema
_AVRO = b"Obj\x01"
_SCHEMA, _CODEC = b"avro.schema", b"avro.codec"
_PRIMITIVES = ("boolean", "int", "long", "float", "double", "bytes", "string")
_headers: dict[bytes, tuple[Any, bytes]] = {}  # schema and codec of each


def parse_content(data: bytes) -> dict[str, Any]:
    """Return the content of a timeline file: Avro, or JSON of table version 6.

    Raises:
        Unreadable: The file is empty, neither Avro nor JSON, or exceeds a limit.
    """
    if not data.strip(b"\0"):
        raise Unreadable("contains only zero bytes" if data else "is empty")
    is_avro = data.startswith(_AVRO)
    if is_avro:
        import fastavro  # noqa: F401  before the try, because a missing package isn't damage

    try:
        content = _parse_avro(data) if is_avro else _parse_json(data)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001  a parser of damaged data may raise anything
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}".rstrip(": ")
        raise Unreadable(f"is neither Hudi's Avro nor Hudi's JSON ({why})") from None
    if not isinstance(content, dict):
        raise Unreadable("contains no record")
    return content


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def _parse_json(data: bytes) -> Any:
    if len(data) > MAX_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} values")
    return _decode(data.decode().rstrip())


def _parse_avro(data: bytes) -> Any:
    """Return the first record of a container file, or None.

    fastavro's own reader would parse each file's schema again and decompress blocks of any size.
    Source: Avro 1.11 specification, "Object Container Files".
    """
    from fastavro import schemaless_reader

    cursor = Cursor(data, [10_000])
    if head := next(filter(data.startswith, _headers), b""):
        cursor.at, mark, (schema, codec) = len(head) + 16, data[len(head) :][:16], _headers[head]
    else:
        pairs, mark = _header(cursor)
        schema, codec = _parsed(pairs[_SCHEMA]), pairs.get(_CODEC, b"null")
        if len(_headers) < 8:  # a table's headers differ only in their markers
            _headers[data[: cursor.at - 16]] = schema, codec
    count, length = cursor.signed(), cursor.signed()
    block = cursor.take(length)
    if cursor.take(len(mark)) != mark:
        raise ValueError("its block doesn't have the length in its header")
    if not count:
        return None
    if codec == b"deflate":
        block = zlib.decompressobj(-15).decompress(block, MAX_UNPACKED + 1)
        if len(block) > MAX_UNPACKED:
            raise ValueError(f"its content is larger than {size(MAX_UNPACKED)}")
    elif codec != b"null":
        raise ValueError(f"unsupported codec {codec.decode('utf-8', 'replace')}")
    return schemaless_reader(BytesIO(block), schema, None)


def _header(cursor: Cursor) -> tuple[dict[bytes, bytes], bytes]:
    """Read the header: its pairs of names and values, and the marker that ends each block."""
    pairs: dict[bytes, bytes] = {}
    cursor.take(len(_AVRO))
    while count := cursor.signed():
        if count < 0:  # the size of these pairs follows
            cursor.signed()
        for _ in range(abs(count)):
            name = cursor.take(cursor.signed())
            pairs[name] = cursor.take(cursor.signed())
    return pairs, cursor.take(16)


@lru_cache(maxsize=16)  # the files of a table have few schemas
def _parsed(schema: bytes) -> Any:
    from fastavro import parse_schema

    if len(schema) > _MAX_SCHEMA:
        raise ValueError(f"its schema is larger than {size(_MAX_SCHEMA)}")
    return parse_schema(_bounded(json.loads(schema), set()))


def _bounded(schema: Any, names: set[str], level: int = 0) -> Any:
    """Return a schema without logical types, in which each value occupies at least a byte.

    This keeps a few bytes from containing many values. Recursive types are refused, because
    fastavro's recursion has no limit.
    """

    def inner(part: Any) -> Any:
        return _bounded(part, names, level + 1)

    if level > _MAX_LEVELS:
        raise ValueError(f"its schema has more than {_MAX_LEVELS} levels")
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
        raise ValueError(f"its schema defines the type {name[:50]!r} twice, or without content")
    names.add(name)
    return result
