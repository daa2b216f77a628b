"""Generated messages through the real broker: each value is stored as Python has it, or refused.

`fastavro` writes the Avro, Python's own types are the oracle, and hudi-rs reads the table.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from cases import read_cases
from kills import read_batches
from running import folder
from services.avro import confluent
from services.own_topic import Make, Own
from services.registries import registry_of
from values import REFUSED, Spelling, equal, json_spelling, mostly

pytestmark = pytest.mark.deep
ROWS = 10_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Row = dict[str, Any]


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


CASES = read_cases(__file__)
# The reader's type of each field, types of writers that may fit it, and others that don't.
FIELDS = CASES["avro"]
READER = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "long"},
        *({"name": n, "type": kinds["reader"]} for n, kinds in FIELDS.items() if n != "added"),
        {"name": "added", "type": FIELDS["added"]["reader"], "default": None},
    ],
}


def writer(chance: random.Random) -> Row:
    """Return another version of the schema."""
    fields: list[Row] = [{"name": "id", "type": "long"}]
    for name, kinds in FIELDS.items():
        wrong = kinds["others"] and chance.random() < 0.02
        kind = chance.choice(kinds["others" if wrong else "writers"])
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


def test_avro_of_many_versions_of_a_schema(make: Make) -> None:
    chance = random.Random(20_261_129)
    versions = {n: writer(chance) for n in range(1, 21)}
    parsed = {n: fastavro.parse_schema(json.loads(json.dumps(v))) for n, v in versions.items()}
    sent: list[Row] = []
    messages = []
    for number in range(ROWS):
        version = chance.choice([*versions])
        row = {f["name"]: value_of(f["type"], chance) for f in versions[version]["fields"]}
        row["id"] = number
        messages.append(confluent(version, parsed[version], row))
        sent.append(row)
    with registry_of(versions) as url:
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

KINDS = CASES["debezium"]
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
