"""What a timeline file may hold: types are checked once, and small files cannot hold much."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from unit.handmade import COUNTS, HandMade, at
from unit.hudi_inspect.tables import NOW, A, look, problem, stamp

from hudi_inspect.content import MAX_UNPACKED, parse_content
from hudi_inspect.errors import InspectError, Unreadable
from hudi_inspect.records import parse_clean, parse_commit, parse_compaction

LARGEST = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"  # a count of 2**62


def number(value: int) -> bytes:
    """An Avro number that is not negative."""
    value, out = value << 1, b""
    while value > 127:
        value, out = value >> 7, out + bytes([value & 127 | 128])
    return out + bytes([value])


def container(schema: Any, block: bytes, codec: bytes = b"null") -> bytes:
    """An Avro file of one record."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    pairs = [b"avro.schema", text, b"avro.codec", codec]
    header = b"Obj\x01" + number(2) + b"".join(number(len(part)) + part for part in pairs)
    return header + b"\0" + b"M" * 16 + number(1) + number(len(block)) + block + b"M" * 16


def record(*kinds: Any, name: str = "R") -> dict[str, Any]:
    fields = [{"name": f"f{i}", "type": kind} for i, kind in enumerate(kinds)]
    return {"type": "record", "name": name, "fields": fields}


def packed(data: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(data) + packer.flush()


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


TWICE = record(record("int", name="S"), record("int", name="x.S"))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (container(record(["null", "R"]), b"\x02" * 1_000_000), "contains the type 'R'"),
        (container(record(array("null")), LARGEST), "contains the type 'null'"),
        (container(record(array(record(name="S"))), LARGEST), "'S' twice, or without content"),
        (container(record({"type": "fixed", "name": "F", "size": 0}), b""), "'F' twice, or with"),
        (container(TWICE, b"\0\0"), "'S' twice"),
        (container(record(array("int")), LARGEST + b"\0" * 9), "EOFError"),
        (container(record("string"), LARGEST + b"abc"), "EOFError"),
        (container(record("string"), b"\x01abc"), "EOFError"),
        (container(b'{"type":"array","items":' * 60 + b'"int"' + b"}" * 60, b""), "50 levels"),
        (container(b'{"type":"array","items":' * 9999, b""), "RecursionError"),
        (container(record("string"), packed(b"a" * 5_000_000), b"deflate"), "larger than 4.0 MiB"),
        (container(record("string"), b"", b"snappy"), "unsupported codec snappy"),
        (b"Obj\x01" + LARGEST + b"\0\0" * 20_000, "it has too many parts"),
        (b"Obj\x01" + b"\xff" * 99, "more than 64 bits"),
        (b"Obj\x01\x02\x01", "a length is negative"),
        (b'{"a": ' + b"[" * 100_000, "RecursionError"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "4300 digits"),
        (b'{"a": [' + b"[]," * 4_000_000 + b"[]]}", "more than 4,000,000 values"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": "\xff"}', "UnicodeDecodeError"),
        (b"true", "contains no record"),
        (b"[{}]", "contains no record"),
    ],
)
def test_what_a_file_must_not_hold(data: bytes, why: str) -> None:
    with pytest.raises(Unreadable, match=why):
        parse_content(data)


def test_a_compressed_block_is_read() -> None:
    assert MAX_UNPACKED > 5000
    text = "a" * 5000
    block = packed(number(len(text)) + text.encode())
    assert parse_content(container(record("string"), block, b"deflate")) == {"f0": text}


def test_a_logical_type_is_not_computed() -> None:
    """A decimal of three megabytes takes a minute."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10**8, "scale": 0}
    digits = b"\x7f" * 3_000_000
    content = parse_content(container(record(decimal), number(len(digits)) + digits))
    assert content == {"f0": digits}


ODD: tuple[Any, ...] = (5, 1.5, True, "a", ["a"], [1], [None], {"a": 1}, {"a": [1]}, {"a": "b"})
FIELDS = (
    (parse_commit, "operationType", str),
    (parse_commit, "extraMetadata", dict),
    (parse_commit, "partitionToWriteStats", dict),
    (parse_commit, "partitionToReplaceFileIds", dict),
    (parse_compaction, "operations", list),
    (parse_clean, "earliestCommitToRetain", str),
    (parse_clean, "partitionMetadata", dict),
)


@pytest.mark.parametrize(("parse", "name", "fits"), FIELDS)
def test_a_field_of_another_type(parse: Callable[[Any], object], name: str, fits: type) -> None:
    for value in ODD:
        if type(value) is fits:
            with suppress(Unreadable):  # because of a value inside it
                parse({name: value})
        else:
            with pytest.raises(Unreadable, match=f"contains {name}=.*, which is not "):
                parse({name: value})


@pytest.mark.parametrize("field", ["fileId", "path", *COUNTS[:3], COUNTS[4]])
def test_a_statistic_of_another_type(field: str) -> None:
    fits = str if field in ("fileId", "path") else int
    for value in (*ODD, 2**63, -(2**63) - 1):
        content = {"partitionToWriteStats": {"p": [{field: value}]}}
        if type(value) is fits and value not in (2**63, -(2**63) - 1):
            assert parse_commit(content)
        else:
            with pytest.raises(Unreadable, match=f"contains {field}="):
                parse_commit(content)


@pytest.mark.parametrize("version", [6, 9])
def test_one_instant_that_cannot_be_read_leaves_the_rest(tmp_path: Path, version: int) -> None:
    table = HandMade(tmp_path / "t", version=version)
    table.commit(10, 12, {A: 5})
    file = table.timeline / table.instant(20, 22, "commit", b'{"operationType": 5}')
    for snapshot in (look(table), look(table, archived=True)):
        assert [(instant.time, instant.rows_written) for instant in snapshot.instants] == [
            (at(20), None),
            (at(10), 5),
        ]
        assert snapshot.table.rows == 5
        assert len(snapshot.health) == 8
    text = problem(table)
    assert text.startswith(f"the commit {at(20)} can't be read: file://{file.parent}/{at(20)}")
    assert " contains operationType=5, which is not text; look at it (ls -l " in text
    (file,) = table.timeline.glob(f"{at(20)}*.commit")
    file.write_bytes(b"{")
    os.utime(file, (NOW.timestamp(),) * 2)
    with pytest.raises(
        InspectError, match=rf"^the commit {at(20)} can't be read: file://{file} is "
    ):
        look(table).content(at(20))


def test_many_instants_that_cannot_be_read_are_counted(table: HandMade) -> None:
    for i in range(30):
        table.instant(10 + i, 50 + i, "commit", b"[]")
    assert look(table).notes[20:] == ["10 more files can't be read"]


@pytest.mark.parametrize("batch", ["²", "٣", "9" * 5000, "-1", "1.0", ""])
def test_a_batch_that_is_no_number(table: HandMade, batch: str) -> None:
    table.commit(10, 12, {A: 5}, extra=stamp("q", batch))
    sink = json.dumps({"q": batch, "r": [1]})
    table.commit(20, 22, {A: 5}, extra={"_hudi_streaming_sink_checkpoint": sink})
    table.commit(30, 32, {A: 5}, extra={"hudilab.source": "[" * 5000})
    assert look(table).writers == []
