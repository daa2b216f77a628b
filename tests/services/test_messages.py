"""Each message of a topic becomes the right row, or is refused by topic, partition and offset."""

from __future__ import annotations

import io
import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kills import read_batches
from pyspark.sql import SparkSession
from refusals import refused
from running import end_jvm, folder
from services.own_topic import Own, as_json
from services.registries import running_registry

from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import ConfigError, KafkaError, StreamError
from hudilab.settings import Settings
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.registry import LOGIN
from hudilab_jobs.kafka.topics import TopicIdentity
from hudilab_spark.session import open_session

Make = Callable[..., Own]


@pytest.fixture(scope="module")
def spark(settings: Settings) -> Iterator[SparkSession]:
    session = open_session(settings, app="messages", groups=("core", "kafka", "avro"))
    yield session
    end_jvm(session)


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path, settings: Settings, kafka: Access) -> Make:
    return partial(Own, spark, tmp_path, settings.home, kafka)


def test_a_topic_that_cannot_be_described(spark: SparkSession, kafka: Access) -> None:
    identity = TopicIdentity(spark, kafka, "never_made")
    with pytest.raises(KafkaError, match="UnknownTopicOrPartitionException") as caught:
        identity()
    start, _, cause = str(caught.value).partition(" (org.apache.kafka.common.errors.")
    assert start == f"cannot describe topic 'never_made' at {kafka.servers}"
    assert cause.endswith("); fix bootstrap.servers or the topic's name")


LONG = struct.Struct(">q").pack
ODD = "id BIGINT, tags ARRAY<INT>, at TIMESTAMP"
# A value, and the row that it becomes or what is wrong with it.
VALUES: list[tuple[bytes, int | str]] = [
    (b'{"id":1,"tags":[1,2],"at":"2026-01-01T00:00:00Z"}', 1),
    (b' {"tags":null,"id":2,"more":{"a":[[[1]]]}} ', 2),
    (b'\xef\xbb\xbf{"id":3}', 3),
    (b'{"id":6}{"id":7}', "not one JSON object"),
    (b'{"id":4} trailing', "not one JSON object"),
    (b'[{"id":8},{"id":9}]', "not one JSON object"),
    (b'[{"id":8}]', "not one JSON object"),
    (b'{"ID":5}', "other capitals"),
    (b'{"id":5,"id":6}', "it repeats a key, or spells it with other capitals"),
    (b'{"id":5,"at":1767225600000}', "1767225600000"),
    (b'{"id":5,"at":"noon"}', "noon"),
    (b'{"id":5,"tags":["x"]}', 'column tags has ["x"], which is not'),
    (b'{"id":5,"tags":[99999999999]}', "column tags has [99999999999], which is not"),
    (b'{"id":"five"}', 'column id has "five", which is not'),
    (b'{"id":"a; b"}', 'column id has "a; b", which is not BIGINT; '),
    (b"null", "source.schema"),
    (b"7", "source.schema"),
    (b"", "empty"),
    (b" \n", "empty"),
    (b"{", "not one JSON object"),
    (b'{"id":5,"at":' + b"[" * 3000, "not one JSON object"),
    (b'{"id":5,"city":"M\xfcller"}', "not UTF-8"),
    (b'{"city":"Oslo"}', "record key (id) is null"),
]


@pytest.mark.deep
@pytest.mark.parametrize(
    "select", ["", "SELECT id, tags, at, kafka_offset FROM source WHERE id < 100 OR id IS NULL"]
)
def test_odd_json_is_stored_right_or_quarantined_with_its_text(make: Make, select: str) -> None:
    own = make(source_schema=ODD, quarantine="true", select=select)
    own.send(*(value for value, _ in VALUES))
    (report,) = own.run()
    good = [right for _, right in VALUES if isinstance(right, int)]
    assert (report["rows"], report["quarantined"]) == (len(VALUES), len(VALUES) - len(good))
    assert [row[0] for row in own.rows("id", "kafka_offset")] == good
    rows = own.quarantined()
    expected = [(n, *pair) for n, pair in enumerate(VALUES) if isinstance(pair[1], str)]
    for (reason, row), (offset, value, problem) in zip(rows, expected, strict=True):
        assert str(problem) in reason
        assert row["kafka_offset"] == offset
        if "record key" in reason and select:  # the query's row: the message could be read
            continue
        text = bytes.fromhex(row["kafka_value"]) if "UTF-8" in reason else row["kafka_value"]
        assert text == (value if "UTF-8" in reason else value.decode())


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b'{"id":6}{"id":7}', "it is not one JSON object"),
        pytest.param(
            b'{"id":5,"city":"M\xfcller"}',
            "it has a byte that is not UTF-8",
            marks=pytest.mark.deep,
        ),
    ],
)
def test_odd_json_is_refused_by_its_place(make: Make, value: bytes, problem: str) -> None:
    own = make(select="SELECT id, kafka_offset FROM source WHERE id > 10")
    own.send(*as_json({"id": 1}), value)
    place = f"topic {own.topic}, partition "
    remedy = '"quarantine": "true"'
    with refused(ConfigError, place, ", offset 1, key one partition: ", problem, remedy=remedy):
        own.check()


def test_the_unit_of_times_that_are_numbers(make: Make) -> None:
    own = make(source_schema=ODD, timestamp_unit="ms")
    own.send(b'{"id":3,"at":1767225600000}')
    assert "|2026-01-01 00:00:00|" in own.check()


def pairs(*messages: tuple[str, dict[str, Any] | None]) -> list[tuple[bytes, bytes | None]]:
    return [
        (key.encode(), json.dumps(value).encode() if value else None) for key, value in messages
    ]


BY_KEY = {
    "record_key": "kafka_key",
    "source_schema": "name STRING, amount INT",
    "tombstones": "delete",
}


@pytest.mark.deep
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"table_type": "MERGE_ON_READ", "partition": "kafka_partition"},
        {"select": "SELECT amount, kafka_key, kafka_offset FROM source WHERE amount > 0"},
        {"buckets": "2", "quarantine": "true", "select": "SELECT *, 1 AS extra FROM source"},
    ],
    ids=["copy on write", "merge on read", "with a query", "all together"],
)
def test_a_tombstone_deletes_the_row_of_its_key(make: Make, changes: dict[str, str]) -> None:
    own = make(**BY_KEY | changes)
    record = {"name": "A", "amount": 1}
    own.send_pairs(
        *pairs(("a", record), ("b", record), ("c", record), ("c", None), ("d", None), ("d", record))
    )
    (report,) = own.run()
    assert report["rows"] == 6
    assert [key for (key,) in own.rows("kafka_key")] == ["a", "b", "d"]
    own.send_pairs(*pairs(("a", None), ("z", None), ("b", {"name": "B", "amount": 2})))
    own.run()
    assert own.rows("kafka_key", "amount") == [("b", 2), ("d", 1)]
    own.send_pairs(*pairs(("a", {"name": "A", "amount": 3})))
    own.run()
    assert own.rows("kafka_key", "amount") == [("a", 3), ("b", 2), ("d", 1)]


@pytest.mark.deep
def test_a_tombstone_is_refused_or_quarantined(make: Make) -> None:
    own = make(**BY_KEY | {"tombstones": ""})
    own.send_pairs(*pairs(("a", {"name": "A", "amount": 1})))
    own.run()
    own.send_pairs(*pairs(("a", None)))
    remedy = (
        'to delete the row of its key, write "record.key": "kafka_key" and "tombstones": "delete"'
    )
    with pytest.raises(StreamError, match=f"offset 1, key a: it has no value .*{remedy}, or quar"):
        own.run()
    assert own.rows("kafka_key", "amount") == [("a", 1)]
    own = make(**BY_KEY | {"tombstones": "", "quarantine": "true"})
    own.run()
    ((reason, row),) = own.quarantined()
    assert reason.startswith("it has no value (a tombstone)")
    assert (row["kafka_key"], row["kafka_offset"], row["kafka_value"]) == ("a", 1, None)
    assert own.rows("kafka_key", "amount") == [("a", 1)]


@pytest.mark.deep
def test_a_column_of_deletions_gets_through_a_query_beside_the_quarantine(make: Make) -> None:
    own = make(
        source_schema="id INT, _hoodie_is_deleted BOOLEAN",
        record_key="id",
        ordering="kafka_offset",
        quarantine="true",
        select="SELECT id, _hoodie_is_deleted, kafka_offset FROM source",
    )
    own.send(b'{"id":1}', b'{"id":2}', b'{"id":"x"}')
    own.run()
    own.send(b'{"id":1,"_hoodie_is_deleted":true}')
    own.run()
    assert own.rows("id") == [(2,)]
    assert len(own.quarantined()) == 1


@pytest.mark.deep
def test_the_quarantine_may_be_turned_on_and_off_beside_a_query(make: Make) -> None:
    """Spark would refuse another number of sources than the checkpoint has."""
    select = "SELECT id, kafka_offset, unix_micros(current_timestamp()) AS at FROM source"
    own = make(source_schema="id INT", select=select)
    reports = []
    for quarantine, *values in [("false", 1), ("true", 2, "x", 3), ("false", 4)]:
        own.describe(quarantine=str(quarantine))
        own.send(*as_json(*({"id": value} for value in values)))
        reports += own.run()
    assert [(report["rows"], report["quarantined"]) for report in reports] == [
        (1, 0),
        (3, 1),
        (1, 0),
    ]
    assert own.rows("id") == [(1,), (2,), (3,), (4,)]
    assert len({moment for (moment,) in own.rows("at")}) == 3  # one for each batch


@pytest.mark.deep
def test_an_initial_load_deletes_nothing(make: Make) -> None:
    own = make(**BY_KEY)
    own.send_pairs(*pairs(("a", {"name": "A", "amount": 1}), ("a", None)))
    with pytest.raises(StreamError, match=r"offset 1, key a: it has no value .* run hudilab"):
        own.run(initial_load=True)
    own.run()
    assert own.rows("kafka_key") == []


@pytest.mark.parametrize(
    ("changes", "key", "problem"),
    [
        ({"record_key": "name"}, "tombstones", "delete needs record.key kafka_key, but it is name"),
        ({"ordering": "kafka_timestamp"}, "tombstones", "delete needs ordering kafka_offset"),
        ({"operation": "insert"}, "tombstones", "delete needs operation upsert, but it is insert"),
        ({"partition": "name"}, "tombstones", "delete needs partition kafka_partition"),
        (
            {"select": "SELECT kafka_key, amount FROM source"},
            "select",
            "drops or changes kafka_offset",
        ),
        (
            {"select": "SELECT upper(kafka_key) AS kafka_key, kafka_offset FROM source"},
            "select",
            "drops or changes kafka_key, which deletes need",
        ),
        (
            {"tombstones": "", "value_schema_id": "3"},
            "value.schema.id",
            "is for Confluent's messages, but value.format is json",
        ),
    ],
)
def test_groups_that_contradict_themselves(
    make: Make, changes: dict[str, str], key: str, problem: str
) -> None:
    own = make(**BY_KEY | changes)
    with pytest.raises(ConfigError, match=f"{own.file}: .*{re.escape(f'key {key!r}: {problem}')}"):
        own.check()


@pytest.mark.deep
@pytest.mark.parametrize(
    ("kind", "keys", "stored", "problem"),
    [
        ("long", [LONG(n) for n in (1, 128, 129, -200, 201)], [-200, 1, 128, 129, 201], "the 8 b"),
        ("int", [struct.pack(">i", n) for n in (1, 200, -1)], [-1, 1, 200], "the 4 bytes of int"),
        ("hex", [b"\xff\x00", b"\xfe"], ["FE", "FF", "FF00"], ""),
        ("string", ["é".encode(), b"a"], ["a", "é"], "UTF-8"),
    ],
)
def test_keys_of_each_format(
    make: Make, kind: str, keys: list[bytes], stored: list[Any], problem: str
) -> None:
    changes = {"record_key": "kafka_key", "source_schema": "amount INT", "quarantine": "true"}
    own = make(key_format=kind, **changes)
    own.send_pairs(*((key, b'{"amount":1}') for key in (*keys, b"\xff", None)))
    (report,) = own.run()
    assert [key for (key,) in own.rows("kafka_key")] == sorted(stored, key=str)
    missing, *wrong = sorted((reason for reason, _ in own.quarantined()), reverse=True)
    assert missing.startswith("the record key (kafka_key) is null")
    assert len(wrong) == (problem != "")
    assert all(reason.startswith(f"its key is not {problem}") for reason in wrong)
    assert report["quarantined"] == 1 + len(wrong)


def test_a_key_that_is_no_text_is_refused_if_the_table_has_it(make: Make) -> None:
    own = make()
    own.send(*as_json({"id": 1}), key=LONG(200))
    place = ", offset 0, key 00000000000000C8: its key is not UTF-8; set its type"
    remedy = '"hex", or quarantine such messages: "quarantine": "true"'
    with refused(ConfigError, f"topic {own.topic}, partition ", place, remedy=remedy):
        own.check()
    assert "sample: 1 row of" in make(select="SELECT id, kafka_offset FROM source").check()


def avro(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    named = [{"name": name, "type": kind} for name, kind in fields]
    return {"type": "record", "name": "sale", "fields": [*named, *more.get("last", ())]}


FIRST = avro(("id", "long"), ("amount", "long"), ("city", "string"))
CENTS = avro(("id", "long"), ("cents", "long"), ("amount", "long"), ("city", "string"))
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
NOTED = FIRST | {"fields": [*FIRST["fields"], NOTE]}
OTHER = avro(("id", "long"), ("town", "string"))
SCHEMAS = {1: FIRST, 2: CENTS, 3: NOTED, 4: OTHER}
SALES = [
    (1, {"id": 1, "amount": 250, "city": "Oslo"}),
    (2, {"id": 2, "cents": 5, "amount": 3, "city": "Rom"}),
    (3, {"id": 3, "amount": 9, "city": "Bonn", "note": "x"}),
]


def framed(number: int, row: Mapping[str, Any]) -> bytes:
    value = io.BytesIO()
    fastavro.schemaless_writer(value, SCHEMAS[number], row)
    return b"\0" + number.to_bytes(4, "big") + value.getvalue()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A schema registry with a login."""
    monkeypatch.setenv(LOGIN, "lab:secret")
    answers = {number: {"schema": json.dumps(schema)} for number, schema in SCHEMAS.items()}
    with running_registry(answers) as url:
        yield url


CONFLUENT = {"value_format": "avro-confluent", "source_schema": json.dumps(NOTED)}


@pytest.mark.deep
@pytest.mark.parametrize(
    "select", ["", "SELECT id, amount, city, note, kafka_offset FROM source WHERE id > 0"]
)
def test_each_message_is_read_with_the_schema_that_wrote_it(
    make: Make, registry: str, select: str
) -> None:
    own = make(**CONFLUENT, schema_registry_url=registry, quarantine="true", select=select)
    own.send(*(framed(*sale) for sale in SALES[:1]))
    own.run()
    bad = [framed(4, {"id": 4, "town": "Ulm"}), b"\0\0\0\0\7\2", b"\1\0\0\0\1\2", b"\0\0", None]
    own.send(*(framed(*sale) for sale in SALES[1:]), *bad)
    assert "5 rows of the sample" not in own.check()
    (report,) = own.run()
    assert (report["rows"], report["quarantined"]) == (7, 5)
    right = [(1, 250, "Oslo", None), (2, 3, "Rom", None), (3, 9, "Bonn", "x")]
    assert own.rows("id", "amount", "city", "note") == right
    reasons = [reason.partition(";")[0].partition(":")[0] for reason, _ in own.quarantined()]
    header = (
        "it does not begin with the five bytes of Confluent's serializers, a zero and a schema id"
    )
    assert reasons == [
        "its schema (id 4) does not fit",
        "its schema id is 7, which the registry does not have",
        header,
        header,
        "it has no value (a tombstone)",
    ]
    texts = [row["kafka_value"] for _, row in own.quarantined()]
    assert texts == [value.hex().upper() if value else None for value in bad]


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def logical(name: str, kind: str = "long") -> dict[str, Any]:
    return {"type": kind, "logicalType": name}


def many(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": ["null", kind]}


def inner(kind: Any, **more: Any) -> dict[str, Any]:
    """Return a record of one field; `name` is the record's name."""
    field = {"name": "part", "type": kind}
    return {"type": "record", "name": more["name"], "fields": [*more.get("before", ()), field]}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "color", "symbols": [*symbols], **more}


MILLIS, MICROS = logical("timestamp-millis"), logical("timestamp-micros")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HALF = NOON.replace(microsecond=123000)
D = Decimal
EXTRA_FIELD = [{"name": "more", "type": "long"}]
# Writer's type, reader's type, a value, and what is stored or why it is not.
EVOLVED: list[tuple[Any, Any, Any, Any]] = [
    (MILLIS, MICROS, HALF, HALF),
    (MICROS, MILLIS, NOON.replace(microsecond=1), NOON.replace(microsecond=1)),
    (logical("timestamp-nanos"), MICROS, 1, "is long (timestamp-nanos), and source.schema has"),
    ("long", MILLIS, 1, "is long, and source.schema has"),
    (MILLIS, "long", NOON, "is long (timestamp-millis), and source.schema has"),
    (logical("local-timestamp-millis"), MILLIS, NOON, "and source.schema has"),
    (logical("date", "int"), "int", date(2026, 1, 1), "is int (date), and source.schema has"),
    ("int", logical("date", "int"), 5, "is int, and source.schema has"),
    (logical("time-millis", "int"), "long", time(12), "is int (time-millis), and"),
    (logical("time-millis", "int"), logical("time-micros"), time(12), "is int (time-millis), and"),
    (decimal(12, 4), decimal(12, 2), D("12.3456"), "is 12.3456, which DECIMAL(12,2) cannot hold"),
    (decimal(12, 4), decimal(12, 2), D("12.34"), D("12.34")),
    (decimal(12, 2), decimal(14, 4), D("-12.34"), D("-12.3400")),
    (decimal(12, 0), decimal(5, 2), D(1234), "is 1234, which DECIMAL(5,2) cannot hold"),
    (decimal(12, 2), decimal(5, 2), D("123.45"), D("123.45")),
    (decimal(12, 2), decimal(5, 2), D("1234.56"), "does not fit"),
    (decimal(38, 2), decimal(38, 10), D(10) ** 35, "cannot hold"),
    (decimal(40, 4), decimal(38, 2), D(1), "is bytes (decimal, 40, 4), and source.schema has"),
    ("bytes", decimal(5, 2), b"1", "is bytes, and source.schema has bytes (decimal, 5, 2)"),
    (decimal(5, 2), "bytes", D(1), "is bytes (decimal, 5, 2), and source.schema has"),
    (many(decimal(5, 1)), many(decimal(5, 2)), [D("1.5"), None], [D("1.50"), None]),
    (many(decimal(5, 2)), many(decimal(5, 1)), [D("1.25")], "[1.25], which ARRAY<DECIMAL(5,1)>"),
    ({"type": "map", "values": MILLIS}, {"type": "map", "values": MICROS}, {"a": HALF}, HALF),
    (
        inner(decimal(9, 3), name="a", before=EXTRA_FIELD),
        inner(decimal(9, 2), name="a"),
        {"more": 1, "part": D("1.230")},
        {"part": D("1.23")},
    ),
    (
        inner(MILLIS, name="b"),
        inner("long", name="b"),
        {"part": NOON},
        ".part is long (timestamp-millis), and source.schema has long",
    ),
    (["null", MILLIS], [MICROS, "null"], HALF, HALF),
    ("int", "long", 2**31 - 1, 2**31 - 1),
    ("int", "float", 2**24, float(2**24)),
    ("int", "float", 2**24 + 1, "is 16777217, which FLOAT cannot hold"),
    ("int", "double", 2**31 - 1, float(2**31 - 1)),
    ("long", "double", -(2**53), -float(2**53)),
    ("long", "double", 2**53 + 1, "is 9007199254740993, which DOUBLE cannot hold"),
    ("long", "double", -(2**63), "which DOUBLE cannot hold"),
    ("long", "float", 2**24 + 1, "which FLOAT cannot hold"),
    (["null", "long"], ["null", "double"], 2**63 - 1, "which DOUBLE cannot hold"),
    ("float", "double", 0.5, 0.5),
    ("string", "bytes", "é", "é".encode()),
    ("bytes", "string", "é".encode(), "é"),
    ("bytes", "string", b"\xff", "cannot hold"),
    (logical("uuid", "string"), "string", "a" * 36, "a" * 36),
    (enum("RED", "BLUE"), enum("BLUE", "RED"), "BLUE", "BLUE"),
    (enum("RED", "BLUE"), enum("RED", "OTHER", default="OTHER"), "BLUE", "does not fit"),
    (enum("RED", "BLUE"), enum("RED", "OTHER", default="OTHER"), "RED", "RED"),
    ("string", "long", "1", "does not fit"),
]


def test_each_type_of_another_schema_is_converted_exactly_or_refused(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(LOGIN, "lab:secret")
    reader = avro(("id", "long"))
    schemas, messages = {}, []
    for n, (wrote, wanted, value, _) in enumerate(EVOLVED):
        name, texts = f"f{n}", [json.dumps(kind) for kind in (wrote, wanted)]
        for used in ("a", "b", "color"):  # a schema may have a name once
            old, new = (f'"name": "{used}{number}"' for number in ("", n))
            texts = [text.replace(old, new) for text in texts]
        schemas[n] = avro(("id", "long"), (name, json.loads(texts[0])))
        kind = json.loads(texts[1])
        rest = [part for part in kind if part != "null"] if isinstance(kind, list) else [kind]
        reader["fields"].append({"name": name, "type": ["null", *rest], "default": None})
        body = io.BytesIO()
        parsed = fastavro.parse_schema(json.loads(json.dumps(schemas[n])))
        fastavro.schemaless_writer(body, parsed, {"id": n, name: value})
        messages.append(b"\0" + n.to_bytes(4, "big") + body.getvalue())
    answers = {n: {"schema": json.dumps(schema)} for n, schema in schemas.items()}
    with running_registry(answers) as url:
        keys = {"value_format": "avro-confluent", "source_schema": json.dumps(reader)}
        own = make(**keys, schema_registry_url=url, quarantine="true")
        own.send(*messages)
        own.run()
    place = folder(own.pipeline().location.table)
    rows = {row["id"]: row for row in pa.Table.from_batches(read_batches(place)).to_pylist()}
    refused = {int(row["kafka_offset"]): reason for reason, row in own.quarantined()}
    assert len(rows) > 15
    for n, (_, _, _, expected) in enumerate(EVOLVED):
        if n in refused:
            assert isinstance(expected, str), (n, refused[n])
            assert expected in refused[n], n
            assert expected == "does not fit" or f"f{n}" in refused[n]
            continue
        stored = rows[n][f"f{n}"]
        if isinstance(stored, list) and isinstance(stored[0], tuple):
            stored = stored[0][1]  # of a map
        assert stored == expected, n


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["avro", "avro-confluent"])
def test_a_message_that_is_longer_than_its_schema_is_refused(make: Make, kind: str) -> None:
    """Another schema wrote it: the first fields only look right."""
    own = make(
        value_format=kind,
        source_schema=json.dumps(FIRST),
        quarantine="true",
        value_schema_id="2" if kind == "avro-confluent" else "",
    )
    head = 0 if kind == "avro-confluent" else 5
    row = {"id": 1, "cents": 5, "amount": 0, "city": "x"}
    own.send(framed(2, row)[head:], framed(2, row | {"amount": 3, "city": "abc"})[head:])
    own.run()
    assert [reason.rpartition("it ")[2] for reason, _ in own.quarantined()] == [
        "cannot be read as Avro with source.schema; fix the schema"
    ] * 2


@pytest.mark.deep
def test_without_a_registry_the_ids_are_given(make: Make) -> None:
    own = make(**CONFLUENT | {"source_schema": json.dumps(FIRST)}, value_schema_id="1, 7")
    own.send(framed(*SALES[0]), b"\0\0\0\0\7" + framed(1, {**SALES[0][1], "id": 7})[5:])
    own.run()
    assert own.rows("id", "amount") == [(1, 250), (7, 250)]
    own.send(framed(*SALES[1]))
    with pytest.raises(StreamError, match=r"offset 2, .*its schema id is 2, which value"):
        own.run()
    assert own.rows("id", "amount") == [(1, 250), (7, 250)]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, "key 'value.schema.id': is missing; the first messages of topic {} have schema id 1"),
        ({"schema_registry_url": "http://127.0.0.1:9"}, "http://127.0.0.1:9/schemas/ids/1 ("),
        (
            {"schema_registry_url": "http://127.0.0.1:9", "value_schema_id": "1"},
            "key 'value.schema.id': is not needed with schema.registry.url",
        ),
        (
            {"value_schema_id": "1", "source_schema": '"long"'},
            "key 'source.schema': it is not an Avro record",
        ),
        ({"value_schema_id": "2"}, ", offset 0, key one partition: its schema id is 1, which"),
    ],
)
def test_ids_and_registries_that_are_missing(
    make: Make, changes: dict[str, str], problem: str
) -> None:
    own = make(**CONFLUENT | changes)
    own.send(framed(*SALES[0]))
    with pytest.raises(Exception, match=re.escape(problem.format(own.topic))):
        own.check()


@pytest.mark.deep
def test_aborted_messages_are_not_read(make: Make) -> None:
    own = make(source_schema="id BIGINT, amount INT")

    def send(*rows: object, commit: bool) -> None:
        producer = Producer(own.kafka.client_options() | {"transactional.id": own.topic})
        producer.init_transactions()
        producer.begin_transaction()
        for value in as_json(*rows):
            producer.produce(own.topic, value, key=b"one partition")
        assert producer.flush(30) == 0
        producer.commit_transaction() if commit else producer.abort_transaction()

    send({"id": 1, "amount": 10}, commit=True)
    send({"id": 1, "amount": 99}, {"id": 2, "amount": 99}, commit=False)
    assert "1 row of topic" in own.check()
    (report,) = own.run()
    assert (report["rows"], report["messages_behind"]) == (1, 0)
    assert own.rows("id", "amount") == [(1, 10)]


def values(amount: int, *keys: str) -> list[tuple[bytes, bytes | None]]:
    return pairs(*((key, {"id": key, "amount": amount}) for key in keys))


MOVED = {"source_schema": "id STRING, amount INT"}
GROWN = "'topic.name': .* has 4 partitions, and had 2: keys move to new partitions"


@pytest.mark.parametrize(
    "changes",
    [
        {"select": "SELECT id, amount, kafka_offset * 2 AS seq FROM source", "ordering": "seq"},
        pytest.param({}, marks=pytest.mark.deep),
        pytest.param(
            {
                "select": "SELECT *, 'p' || kafka_partition AS part FROM source",
                "partition": "part",
                "ordering": "amount",
            },
            marks=pytest.mark.deep,
        ),
        pytest.param({"record_key": "kafka_key", "tombstones": "delete"}, marks=pytest.mark.deep),
        pytest.param(
            {
                "select": "SELECT s.*, s.kafka_offset AS seq FROM source s "
                "JOIN VALUES ('a') AS known(k) ON s.id = known.k",
                "ordering": "seq",
                "quarantine": "true",
            },
            marks=pytest.mark.deep,
        ),
    ],
)
def test_more_partitions_are_refused_if_offsets_order_the_rows(
    make: Make, changes: dict[str, str]
) -> None:
    own = make(**MOVED | changes)
    own.send_pairs(*values(1, "a"), *values(2, "a"))
    own.run()
    own.add_partitions(4)
    own.send_pairs(*values(3, "a"))
    remedy = "copy its messages in their order to a new topic, .*change topic.name and table.name"
    for start in (own.run, own.check):
        with pytest.raises(ConfigError, match=f"{GROWN}.*; {remedy}"):
            start()
    assert own.rows("id", "amount") == [("a", 2)]


@pytest.mark.deep
@pytest.mark.parametrize(
    "changes",
    [
        {"ordering": "amount"},
        {"operation": "insert"},
        {"record_key": "kafka_partition, id"},
        {
            "select": "SELECT s.*, known.k FROM source s "
            "JOIN VALUES ('a'), ('b') AS known(k) ON s.id = known.k",
            "ordering": "kafka_timestamp",
        },
    ],
    ids=["another column", "rows that never change", "keys of a partition", "a query that joins"],
)
def test_more_partitions_are_read_if_offsets_order_nothing(
    make: Make, changes: dict[str, str]
) -> None:
    own = make(**MOVED | changes)
    own.send_pairs(*values(1, "a"))
    own.run()
    own.add_partitions(4)
    own.send_pairs(*values(2, "b"))
    own.run()
    assert own.rows("id", "amount") == [("a", 1), ("b", 2)]


@pytest.mark.deep
@pytest.mark.parametrize("is_load", [True, False])
def test_partitions_that_are_added_while_the_stream_runs(make: Make, is_load: bool) -> None:
    own = make(**MOVED, messages_per_batch="1")
    own.send_pairs(*values(1, "a"))
    if is_load:
        own.run(initial_load=True)
        own.send_pairs(*values(1, "a"))
    batches = own.pipeline().write({"processingTime": "0 seconds"}, as_json=True)
    next(batches)
    own.add_partitions(4)
    own.send_pairs(*(pair for n in range(8) for pair in values(2, f"k{n}")))
    with pytest.raises((ConfigError, StreamError), match="has 4 partitions, and had 2"):
        list(batches)
    with pytest.raises(ConfigError, match=GROWN):  # the batch that was planned is refused, too
        own.run()
    assert own.rows("id", "amount") == [("a", 1)]


@pytest.mark.deep
def test_the_first_batch_was_planned_before_partitions_were_added(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = make(**MOVED)
    own.send_pairs(*values(1, "a"))

    def dies(*_: Any) -> None:
        raise RuntimeError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(ExactlyOnceSink, "write_batch", dies)
        with pytest.raises(StreamError, match="the disk is gone"):
            own.run()
    own.add_partitions(4)
    with pytest.raises(ConfigError, match=GROWN):
        own.run()


@pytest.mark.deep
def test_messages_that_retention_deletes(make: Make) -> None:
    """Also: a batch that a crash interrupted is repeated, and its lag reported."""
    own = make()
    own.send(*as_json({"id": 1}))
    own.run()
    own.send(*as_json({"id": 2}, {"id": 3}))
    parts = [TopicPartition(own.topic, number, -1) for number in (0, 1)]
    admin = AdminClient(own.kafka.client_options())
    for future in admin.delete_records(parts).values():
        future.result(30)
    remedy = 'resume without the lost ones: "source.options": "failOnDataLoss=false"'
    with pytest.raises(StreamError, match=f"messages of topic {own.topic} were deleted.*{remedy}"):
        own.run()
    own = make(source_options="failOnDataLoss=false")
    own.send(*as_json({"id": 4}))
    reports = own.run()
    assert [report["messages_behind"] for report in reports] == [1, 0]
    assert [row[0] for row in own.rows("id")] == [1, 4]


@pytest.mark.deep
def test_the_latest_offset_is_that_of_the_first_start(make: Make) -> None:
    own = make(startup_mode="latest-offset")
    own.send(*as_json({"id": 1}))
    remedy = '"startup.mode": "earliest-offset"'
    with refused(ConfigError, "key 'startup.mode': is latest-offset, so", remedy=remedy):
        own.run(initial_load=True)
    own.run()
    own.send(*as_json({"id": 2}))
    own.run()
    assert [row[0] for row in own.rows("id")] == [2]
