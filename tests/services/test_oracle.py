"""Generated messages through the real broker: each value is stored as Python has it, or refused.

`fastavro` writes the Avro, Python's own types are the oracle, and hudi-rs reads the table.
"""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from kills import read_batches
from pyspark.sql import SparkSession
from running import end_jvm, folder
from services.own_topic import Own
from services.registries import running_registry
from values import REFUSED, Spelling, equal, json_spelling, mostly

from hudilab.settings import Settings
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.registry import LOGIN
from hudilab_spark.session import open_session

pytestmark = pytest.mark.deep
ROWS = 10_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Make = Callable[..., Own]
Row = dict[str, Any]


@pytest.fixture(scope="module")
def spark(settings: Settings) -> Iterator[SparkSession]:
    session = open_session(settings, app="oracle", groups=("core", "kafka", "avro"))
    yield session
    end_jvm(session)


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path, settings: Settings, kafka: Access) -> Make:
    return partial(Own, spark, tmp_path, settings.home, kafka)


def stored_rows(own: Own) -> dict[int, Row]:
    """Return the table's rows by their id, each of which must be there once."""
    batches = read_batches(folder(own.pipeline().location.table))
    rows = pa.Table.from_batches(batches).to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


def same(stored: Any, sent: Any) -> bool:
    """Return whether a stored value means what was sent."""
    if isinstance(sent, Mapping):
        pairs = stored.items() if isinstance(stored, Mapping) else stored or ()
        return all(same(value, sent.get(name)) for name, value in pairs) and stored is not None
    if isinstance(sent, list):
        return isinstance(stored, list) and (
            len(stored) == len(sent) and all(map(same, stored, sent))
        )
    numbers = (int, float, Decimal)
    if isinstance(sent, numbers) and isinstance(stored, numbers):
        return Fraction(stored) == Fraction(sent)
    if isinstance(sent, str) and isinstance(stored, bytes):
        return stored == sent.encode()
    if isinstance(sent, bytes) and isinstance(stored, str):
        return stored.encode() == sent
    return type(stored) is type(sent) and bool(stored == sent)


# ---- Avro


def logical(name: str, kind: str = "long", **more: int) -> Row:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int) -> Row:
    return logical("decimal", "bytes", precision=precision, scale=scale)


def part(amount: Any, at: Any) -> Row:
    fields = [{"name": "amount", "type": amount}, {"name": "at", "type": at}]
    return {"type": "record", "name": "part", "fields": fields}


def enum(*symbols: str, **more: str) -> Row:
    return {"type": "enum", "name": "color", "symbols": [*symbols], **more}


MILLIS, MICROS = logical("timestamp-millis"), logical("timestamp-micros")
DECIMALS = [decimal(10, 2), decimal(14, 4), decimal(12, 0), decimal(20, 6), decimal(6, 2)]
TIMES = [MILLIS, MICROS]
# The reader's type of each field, types of writers that may fit it, and others that don't.
FIELDS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "amount": (decimal(14, 4), DECIMALS, ["bytes"]),
    "price": (["null", decimal(9, 2)], [*DECIMALS, ["null", *DECIMALS[:1]]], ["bytes"]),
    "at": (MICROS, TIMES, ["long", logical("timestamp-nanos")]),
    "seen": (["null", MILLIS], [*TIMES, ["null", MICROS], [MILLIS, "null"]], ["long", "int"]),
    "day": (logical("date", "int"), [logical("date", "int")], ["int"]),
    "number": ("long", ["int", "long"], [MILLIS, logical("time-micros"), logical("date", "int")]),
    "ratio": ("double", ["double", "float", "int", "long"], [MICROS]),
    "small": (["null", "float"], ["float", "int", "long", ["null", "int"]], []),
    "text": ("string", ["string", "bytes", logical("uuid", "string")], []),
    "blob": ("bytes", ["bytes", "string"], [decimal(9, 2)]),
    "many": (
        {"type": "array", "items": ["null", decimal(9, 2)]},
        [{"type": "array", "items": kind} for kind in (decimal(9, 1), ["null", decimal(9, 3)])],
        [{"type": "array", "items": "bytes"}],
    ),
    "named": (
        {"type": "map", "values": MICROS},
        [{"type": "map", "values": kind} for kind in TIMES],
        [{"type": "map", "values": "long"}],
    ),
    "part": (
        part(decimal(9, 3), ["null", MICROS]),
        [part(kind, at) for kind in DECIMALS[:2] for at in TIMES],
        [part(decimal(9, 3), "long")],
    ),
    "color": (
        enum("RED", "GREEN", "OTHER", default="OTHER"),
        [enum("GREEN", "RED", "OTHER"), enum("RED", "BLUE", "GREEN")],
        ["string"],
    ),
    "added": (["null", decimal(9, 2)], DECIMALS[:1], []),
}
READER = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        *({"name": name, "type": kinds[0]} for name, kinds in FIELDS.items() if name != "added"),
        {"name": "added", "type": FIELDS["added"][0], "default": None},
    ],
}


def writer(chance: random.Random) -> Row:
    """Return another version of the schema."""
    fields: list[Row] = [{"name": "id", "type": "long"}]
    for name, (_, kinds, others) in FIELDS.items():
        kind = chance.choice(others if others and chance.random() < 0.02 else kinds)
        if name != "added" or chance.random() < 0.5:
            fields.append({"name": name, "type": kind})
        if chance.random() < 0.2:
            fields.append({"name": f"more_{name}", "type": "string"})
    chance.shuffle(fields)
    return {"type": "record", "name": "row", "fields": fields}


def value_of(kind: Any, chance: random.Random) -> Any:
    """Return a value of an Avro type; most fit other types, too."""
    if isinstance(kind, list):
        return value_of(chance.choice(kind), chance)
    name = kind if isinstance(kind, str) else kind.get("logicalType", kind["type"])
    if isinstance(kind, dict) and name == "record":
        return {field["name"]: value_of(field["type"], chance) for field in kind["fields"]}
    if isinstance(kind, dict) and name in ("array", "map"):
        inner = kind["items" if name == "array" else "values"]
        values = [value_of(inner, chance) for _ in range(chance.randrange(3))]
        return values if name == "array" else {f"k{n}": value for n, value in enumerate(values)}
    if name == "decimal":
        digits = kind["precision"] if chance.random() < 0.03 else min(5, kind["precision"])
        number = chance.randrange(-(10**digits) + 1, 10**digits)
        if kind["scale"] > 1 and chance.random() < 0.9:  # without digits that smaller scales lack
            number -= number % 10 ** (kind["scale"] - 1)
        return Decimal(number).scaleb(-kind["scale"])
    if name in ("timestamp-millis", "timestamp-micros"):
        micros = chance.randrange(-(10**16), 5 * 10**16)
        return EPOCH + timedelta(microseconds=micros - micros % (1000 if "milli" in name else 1))
    plain: dict[str, Callable[[], Any]] = {
        "null": lambda: None,
        "date": lambda: date(1970, 1, 1) + timedelta(days=chance.randrange(-30_000, 90_000)),
        "time-micros": lambda: (EPOCH + timedelta(seconds=chance.randrange(86_400))).time(),
        "timestamp-nanos": lambda: chance.randrange(10**18),
        "int": lambda: chance.choice((chance.randrange(2**24), chance.randrange(-(2**31), 2**31))),
        "long": lambda: chance.choice(
            (*[chance.randrange(2**24)] * 20, 2**53 + 1, 2**63 - 1, -(2**63))
        ),
        "float": lambda: chance.randrange(-(2**20), 2**20) / 1024,
        "double": lambda: chance.choice((chance.random(), -0.0, 1e308, 5e-324)),
        "string": lambda: chance.choice(("", "é", "a\u0000b", "𝄞", "plain text", '{"a":1.10}')),
        "uuid": lambda: str(chance.randrange(10**9)),
        "bytes": lambda: chance.choice((b"", b"abc", "é".encode(), *[b"x"] * 40, b"\xff\xfe")),
        "enum": lambda: chance.choice(kind["symbols"]),
    }
    return plain[name]()


def test_avro_of_many_versions_of_a_schema(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOGIN, "lab:secret")
    chance = random.Random(20_261_129)
    versions = {n: writer(chance) for n in range(1, 21)}
    parsed = {n: fastavro.parse_schema(json.loads(json.dumps(v))) for n, v in versions.items()}
    sent: list[Row] = []
    messages = []
    for number in range(ROWS):
        version = chance.choice([*versions])
        row = {f["name"]: value_of(f["type"], chance) for f in versions[version]["fields"]}
        row["id"] = number
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed[version], row)
        messages.append(b"\0" + version.to_bytes(4, "big") + body.getvalue())
        sent.append(row)
    with running_registry({n: {"schema": json.dumps(v)} for n, v in versions.items()}) as url:
        keys = {"value_format": "avro-confluent", "source_schema": json.dumps(READER)}
        own = make(**keys, schema_registry_url=url, quarantine="true", messages_per_batch="4000")
        own.send(*messages)
        reports = own.run()
    assert sum(report["rows"] for report in reports) == ROWS
    stored = stored_rows(own)
    refused = {int(row["kafka_offset"]) for _, row in own.quarantined()}
    assert {*stored, *refused} == {*range(ROWS)}
    assert len(stored) + len(refused) == ROWS
    assert len(stored) > ROWS / 5
    for number, row in stored.items():
        for name in FIELDS:
            value, expected = row[name], sent[number].get(name)
            assert same(value, expected), (name, value, expected, versions)


# ---- Debezium's JSON

KINDS = {
    "amount": "DECIMAL(10,2)",
    "wide": "DECIMAL(38,2)",
    "fine": "DECIMAL(38,18)",
    "at": "TIMESTAMP",
    "day": "DATE",
    "ok": "BOOLEAN",
    "name": "STRING",
    "n": "INT",
    "l": "BIGINT",
    "d": "DOUBLE",
    "r": "FLOAT",
    "b": "BINARY",
    "tags": "ARRAY<STRING>",
}
UNSENT = "__debezium_unavailable_value"


def changed(rng: random.Random, name: str) -> Spelling:
    """Return a column's value as Debezium or another program writes it into an event."""
    kind = KINDS[name]
    if name == "name" and rng.random() < 0.1:
        return Spelling(json.dumps(UNSENT), UNSENT)
    if kind == "DATE" and rng.random() < 0.4:
        days = rng.randrange(-20_000, 40_000)
        return Spelling(str(days), date(1970, 1, 1) + timedelta(days=days))
    if kind == "TIMESTAMP" and rng.random() < 0.4:
        micros = rng.randrange(-(10**15), 4 * 10**15)
        return Spelling(str(micros), EPOCH + timedelta(microseconds=micros))
    while True:
        made = mostly(rng, lambda: json_spelling(rng, kind))
        # Whole numbers mean days here, and microseconds.
        is_counted = kind in ("DATE", "TIMESTAMP") and re.fullmatch(r'"?[-+ \d]+"?', made.text)
        if not is_counted and (made.value is not REFUSED or rng.random() < 0.3):
            return made


def test_changes_of_a_database(make: Make) -> None:
    """Also those that are refused, which the oracle leaves out."""
    rng = random.Random(20_261_130)
    own = make(
        value_format="debezium",
        source_schema="id BIGINT, " + ", ".join(f"{name} {kind}" for name, kind in KINDS.items()),
        source_table="public.t",
        ordering="",
        timestamp_unit="us",
        quarantine="true",
        messages_per_batch="3000",
    )
    events: list[tuple[str, int, dict[str, Spelling]]] = []
    messages: list[tuple[bytes, bytes]] = []
    for number in range(ROWS):
        key, op = rng.randrange(ROWS // 4), rng.choice("ccuuud")
        row = {name: changed(rng, name) for name in KINDS}
        pairs = (f"{json.dumps(name)}:{value.text}" for name, value in row.items())
        after = "null" if op == "d" else f'{{"id":{key},{",".join(pairs)}}}'
        source = {"connector": "postgresql", "schema": "public", "table": "t", "lsn": number}
        text = f'{{"before":null,"after":{after},"source":{json.dumps(source)},"op":"{op}"}}'
        messages.append((json.dumps({"id": key}).encode(), text.encode()))
        events.append((op, key, row))
    own.send_pairs(*messages, partition=0)  # so that an offset is the number of an event
    reports = own.run()
    assert sum(report["rows"] for report in reports) == ROWS
    refused = {int(row["kafka_offset"]) for _, row in own.quarantined()}
    expected: dict[int, Row] = {}
    for number, (op, key, row) in enumerate(events):
        if number in refused:
            continue
        if op == "d":
            expected.pop(key, None)
            continue
        values = {name: value for name, (_, value) in row.items()}
        if values["name"] == UNSENT:
            values["name"] = expected[key]["name"]
        expected[key] = values
    stored = stored_rows(own)
    assert {*stored} == {*expected}
    assert len(stored) > ROWS / 20
    for key, values in expected.items():
        for name, value in values.items():
            assert equal(stored[key][name], value), (key, name, stored[key][name], value)
