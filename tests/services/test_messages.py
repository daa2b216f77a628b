"""Each message of a topic becomes the right row, or is refused by topic, partition and offset."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from cases import read_cases
from confluent_kafka import Producer
from kills import read_batches
from pyspark.sql import SparkSession
from refusals import refused
from running import folder
from services.avro import confluent
from services.own_topic import Make, as_json, daily_and_deep, delete_records
from services.registries import registry_of

from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import ConfigError, KafkaError, StreamError
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.topics import TopicIdentity


def test_a_topic_that_cannot_be_described(spark: SparkSession, kafka: Access) -> None:
    identity = TopicIdentity(spark, kafka, "never_made")
    with pytest.raises(KafkaError, match="UnknownTopicOrPartitionException") as caught:
        identity()
    start, _, cause = str(caught.value).partition(" (org.apache.kafka.common.errors.")
    assert start == f"cannot describe topic 'never_made' at {kafka.servers}"
    assert cause.endswith("); fix bootstrap.servers or the topic's name")


LONG = struct.Struct(">q").pack
ODD = "id BIGINT, tags ARRAY<INT>, at TIMESTAMP"
CASES = read_cases(__file__)


def value_of(case: dict[str, Any]) -> bytes:
    """Return a message's value; its text may end in many brackets."""
    if "hex" in case:
        return bytes.fromhex(case["hex"])
    text: str = case["value"] + "[" * case.get("brackets", 0)
    return text.encode()


@pytest.mark.deep
@pytest.mark.parametrize(
    "select", ["", "SELECT id, tags, at, kafka_offset FROM source WHERE id < 100 OR id IS NULL"]
)
def test_odd_json_is_stored_right_or_quarantined_with_its_text(make: Make, select: str) -> None:
    own = make(source_schema=ODD, quarantine="true", select=select)
    sent = [(value_of(case), case) for case in CASES["values"]]
    own.send(*(value for value, _ in sent))
    (report,) = own.run()
    good = [case["id"] for _, case in sent if "id" in case]
    assert (report["rows"], report["quarantined"]) == (len(sent), len(sent) - len(good))
    assert [row[0] for row in own.rows("id", "kafka_offset")] == good
    rows = own.quarantined()
    expected = [(n, *pair) for n, pair in enumerate(sent) if "reason" in pair[1]]
    for (reason, row), (offset, value, case) in zip(rows, expected, strict=True):
        assert case["reason"] in reason
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
        pytest.param(b'{"id":"seven"}', 'column id has "seven"', marks=pytest.mark.deep),
    ],
)
def test_odd_json_is_refused_by_its_place(make: Make, value: bytes, problem: str) -> None:
    own = make(select="SELECT id, kafka_offset FROM source WHERE id > 10")
    own.send(*as_json({"id": 1}), value)
    named = (str(own.file), "group 'pipeline.own'", "key 'value.format'", f"topic {own.topic}, ")
    remedy = '"quarantine": "true"'
    with refused(ConfigError, *named, ", offset 1, key one partition: ", problem, remedy=remedy):
        own.check()
    with pytest.raises(StreamError, match=f"topic {own.topic}, .*resumes from its checkpoint"):
        own.run()


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


@pytest.mark.parametrize("case", CASES["groups"])
def test_groups_that_contradict_themselves(make: Make, case: dict[str, Any]) -> None:
    own = make(**BY_KEY | case["changes"])
    named = f"key {case['key']!r}: {case['problem']}"
    with pytest.raises(ConfigError, match=f"{own.file}: .*{re.escape(named)}"):
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
    return confluent(number, SCHEMAS[number], row)


@pytest.fixture
def registry() -> Iterator[str]:
    with registry_of(SCHEMAS) as url:
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


READ: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    "timestamp": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "bytes": bytes.fromhex,
}


def typed(value: Any) -> Any:
    """Return a value of a case: {"decimal": "1.50"} is one that JSON has not."""
    if isinstance(value, list):
        return [typed(item) for item in value]
    if not isinstance(value, dict):
        return value
    for kind, read in READ.items():
        if value.keys() == {kind}:
            return read(value[kind])
    return {name: typed(item) for name, item in value.items()}


def test_each_type_of_another_schema_is_converted_exactly_or_refused(make: Make) -> None:
    reader = avro(("id", "long"))
    schemas, messages = {}, []
    for n, case in enumerate(CASES["evolved"]):
        name, texts = f"f{n}", [json.dumps(case[kind]) for kind in ("wrote", "wanted")]
        for used in ("a", "b", "color"):  # a schema may have a name once
            old, new = (f'"name": "{used}{number}"' for number in ("", n))
            texts = [text.replace(old, new) for text in texts]
        schemas[n] = avro(("id", "long"), (name, json.loads(texts[0])))
        kind = json.loads(texts[1])
        rest = [part for part in kind if part != "null"] if isinstance(kind, list) else [kind]
        reader["fields"].append({"name": name, "type": ["null", *rest], "default": None})
        messages.append(confluent(n, schemas[n], {"id": n, name: typed(case["value"])}))
    with registry_of(schemas) as url:
        keys = {"value_format": "avro-confluent", "source_schema": json.dumps(reader)}
        own = make(**keys, schema_registry_url=url, quarantine="true")
        own.send(*messages)
        own.run()
    place = folder(own.pipeline().location.table)
    rows = {row["id"]: row for row in pa.Table.from_batches(read_batches(place)).to_pylist()}
    refused = {int(row["kafka_offset"]): reason for reason, row in own.quarantined()}
    assert len(rows) > 15
    for n, case in enumerate(CASES["evolved"]):
        if n in refused:
            assert case["refused"] in refused[n], n
            assert case["refused"] == "does not fit" or f"f{n}" in refused[n]
            continue
        stored = rows[n][f"f{n}"]
        if isinstance(stored, list) and isinstance(stored[0], tuple):
            stored = stored[0][1]  # of a map
        assert stored == typed(case["stored"]), n


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


@pytest.mark.parametrize("case", CASES["ids"])
def test_ids_and_registries_that_are_missing(make: Make, case: dict[str, Any]) -> None:
    own = make(**CONFLUENT | case["changes"])
    own.send(framed(*SALES[0]))
    with pytest.raises(Exception, match=re.escape(case["problem"].format(own.topic))):
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


@pytest.mark.parametrize("changes", daily_and_deep(CASES["partitions_refused"]))
def test_more_partitions_are_refused_if_offsets_order_the_rows(
    make: Make, changes: dict[str, str]
) -> None:
    own = make(**MOVED | changes)
    own.send_pairs(*values(1, "a"), *values(2, "a"))
    own.run()
    own.add_partitions(4)
    own.send_pairs(*values(3, "a"))
    remedy = "copy its messages in order to a new topic, .*change topic.name and table.name"
    for start in (own.run, own.check):
        with pytest.raises(ConfigError, match=f"{GROWN}.*; {remedy}"):
            start()
    assert own.rows("id", "amount") == [("a", 2)]


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES["partitions_read"], ids=lambda case: case["case"])
def test_more_partitions_are_read_if_offsets_order_nothing(
    make: Make, case: dict[str, Any]
) -> None:
    own = make(**MOVED | case["changes"])
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
    delete_records(own.kafka, own.topic, [-1, -1])
    remedy = 'resume without the lost messages: "source.options": "failOnDataLoss=false"'
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
