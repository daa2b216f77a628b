"""Change events that Debezium really sent become the rows that the database had."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from cases import read_cases
from kills import read_batches
from pyspark.sql import SparkSession
from running import folder, running_server
from services.avro import avro_bytes
from services.own_topic import Make, Own, daily_and_deep
from services.registries import registry_of

from hudilab.errors import ConfigError, KafkaError, StreamError
from hudilab.settings import Settings
from hudilab_cli.servers import database as database_server
from hudilab_cli.servers.connect import start_connect, stop_connect
from hudilab_cli.servers.connectors import register
from hudilab_cli.servers.database import Database
from hudilab_cli.servers.kafka import Broker
from hudilab_jobs.kafka.connection import Access
from hudilab_spark.waiting import wait_for

Pair = tuple[bytes | None, bytes | None]
CASES = read_cases(__file__)
RECORDED = Path(__file__).parent / "debezium.jsonl"
# With a registry's converter (Apicurio's, as Confluent), bytes in base64, and its schemas.
RECORDED_AVRO = Path(__file__).parent / "debezium_avro.jsonl"
ORDERS = (
    "id INT, amount DECIMAL(10, 2), at TIMESTAMP, day DATE, local TIMESTAMP, ok BOOLEAN, "
    "note STRING, city STRING"
)
CHANGES = {
    "value_format": "debezium",
    "source_schema": ORDERS,
    "source_table": "public.orders",
    "ordering": "",
    "timestamp_unit": "us",
}
# Before the column was added.
NO_CITY = {"source_schema": ORDERS.replace(", city STRING", "")}
LINES = CHANGES | {
    "source_schema": "order_id INT, line STRING, qty INT",
    "source_table": "public.lines",
    "record_key": "order_id, line",
}


@pytest.fixture(scope="module")
def database(settings: Settings, broker: Broker) -> Iterator[Database]:
    with running_server(database_server.SERVICE, settings) as running:
        start_connect(settings)
        yield running
        stop_connect(settings)


def recorded(topic: str) -> list[Pair]:
    """Return what Debezium 3.6 sent to a topic, in its order: keys and values."""
    events = map(json.loads, RECORDED.read_text("utf-8").splitlines())
    texts = ((event["key"], event["value"]) for event in events if event["topic"] == topic)
    return [(key and key.encode(), value and value.encode()) for key, value in texts]


LINES_OF_AVRO = [json.loads(line) for line in RECORDED_AVRO.read_text("utf-8").splitlines()]
SCHEMAS = {line["id"]: json.loads(line["schema"]) for line in LINES_OF_AVRO if "id" in line}


def recorded_avro(topic: str) -> list[Pair]:
    """Return what Debezium 3.6 sent to a topic with its converter for Avro."""
    events = [line for line in LINES_OF_AVRO if line.get("topic") == topic]
    parts = ((event["key"], event["value"]) for event in events)
    return [
        (key and base64.b64decode(key), value and base64.b64decode(value)) for key, value in parts
    ]


def decoded(event: Pair) -> tuple[Any, dict[str, Any]]:
    """Return the schema and the record of an event's Avro, as another reader has them."""
    value = event[1] or b""
    schema = SCHEMAS[int.from_bytes(value[1:5], "big")]
    record: Any = fastavro.schemaless_reader(io.BytesIO(value[5:]), schema)
    return schema, record


@pytest.fixture
def registry() -> Iterator[str]:
    """A registry with the schemas of Debezium's Avro."""
    with registry_of(SCHEMAS) as url:
        yield url


def order(id_: int, amount: str, note: str | None, city: str | None = None) -> tuple[Any, ...]:
    return (id_, Decimal(amount), note, city)


@pytest.mark.parametrize(
    "case", daily_and_deep(CASES["changes"]), ids=[case["case"] for case in CASES["changes"]]
)
def test_each_change_reaches_the_table(make: Make, registry: str, case: dict[str, Any]) -> None:
    topic, changes = case["topic"], case["changes"]
    is_avro = topic.startswith("avro")
    events = recorded_avro(topic) if is_avro else recorded(topic)
    own = make(**CHANGES | NO_CITY | changes, schema_registry_url=registry if is_avro else "")
    columns = ("id", "amount", "note")
    snapshot = [order(n, f"{n * 1.25:.2f}", f"n{n}")[:3] for n in (1, 2, 3)]
    own.send_pairs(*events[:3])
    own.run()
    assert own.rows(*columns) == snapshot
    # An insert, an update, a delete, and a key that changes from 3 to 30.
    own.send_pairs(*events[3:10])
    (report,) = own.run()
    assert (report["rows"], report["quarantined"], report["messages_behind"]) == (7, 0, 0)
    assert own.rows(*columns) == [
        order(1, "9.99", "n1")[:3],
        order(30, "3.75", "n3")[:3],
        order(4, "5.00", None)[:3],
    ]
    # With a new column, and the earlier messages once more, as after a kill of the connector.
    own.describe(source_schema=ORDERS)
    own.send_pairs(*events[10 if "select" in changes else 3 : 15])
    own.run()
    last = [
        order(1, "9.99", "z"),
        order(30, "3.75", "z"),
        order(4, "5.00", "z"),
        order(5, "6.00", "z", "Oslo"),
    ]
    assert own.rows(*columns, "city") == last
    table = own.spark.read.format("hudi").load(own.pipeline().location.table).where("id = 1")
    moments = (f"date_format({name}, 'yyyy-MM-dd HH:mm:ss.SSSSSS')" for name in ("at", "local"))
    assert table.selectExpr(*moments, "CAST(day AS STRING)", "ok").collect() == [
        ("2026-01-01 10:00:00.123456", "2026-01-01 10:00:00.500000", "2026-01-01", True)
    ]


@pytest.mark.deep
@pytest.mark.parametrize("is_avro", [False, True], ids=["JSON", "keys in JSON, values in Avro"])
def test_a_key_of_two_columns_and_one_batch(make: Make, registry: str, is_avro: bool) -> None:
    own = make(**LINES, schema_registry_url=registry if is_avro else "")
    if is_avro:
        own.send_pairs(*recorded_avro("valueonly.public.lines"))
        expected = [(1, "c", 2), (2, "a", 7)]
    else:
        own.send_pairs(*recorded("lab.public.lines"))
        expected = [(1, "c", 2), (2, "a", 7), (5, "a", 3), (5, "b", 3)]
    own.run()
    assert own.rows("order_id", "line", "qty") == expected


@pytest.mark.deep
def test_a_transaction_that_was_open_at_the_snapshot_is_newer_than_it(make: Make) -> None:
    """Its LSN is smaller than the snapshot's, so ordered by LSN its change would be lost."""
    own, events = (
        make(**CHANGES | {"source_schema": "id INT, v INT", "source_table": "public.busy"}),
        recorded("busy.public.busy"),
    )
    own.send_pairs(*events[:5])
    own.run()
    assert own.rows("id", "v") == [(1, 1), (2, 2), (3, 0), (4, 0), (5, 0)]
    ((_, before),) = [row for row in own.rows("id", "source_lsn") if row[0] == 3]
    own.send_pairs(*events[5:6])
    own.run()
    ((_, value, after),) = [row for row in own.rows("id", "v", "source_lsn") if row[0] == 3]
    assert value == 3
    assert after < before


@pytest.mark.deep
def test_messages_that_are_no_changes_are_left_out(make: Make) -> None:
    own = make(**CHANGES | NO_CITY, quarantine="true")
    others = recorded("__debezium-heartbeat.lab") + recorded("lab.transaction")
    own.send_pairs(*others, *recorded("lab.public.orders")[:3], *others)
    (report,) = own.run()
    assert report["quarantined"] == 0
    assert [number for (number,) in own.rows("id")] == [1, 2, 3]


def doctored(event: Pair, old: str, new: str) -> Pair:
    key, value = event
    assert value is not None
    assert old.encode() in value
    return key, value.replace(old.encode(), new.encode())


FIRST = recorded("lab.public.orders")[0]
AVRO_ORDER = recorded_avro("avro.public.orders")[0]
HEAD = b"\0\0\0\0"


def json_message(case: dict[str, Any]) -> Pair:
    """Return a recorded event with the changes of a case."""
    key, value = recorded(case["topic"])[case["event"]]
    if "replace" in case:
        key, value = doctored((key, value), *case["replace"])
    if "key" in case:
        key = case["key"].encode()
    return key, case["value"].encode() if "value" in case else value


def avro_message(case: dict[str, Any]) -> Pair:
    """Return a recorded event of a topic with a registry with the changes of a case."""
    key, value = recorded_avro(case["topic"])[case["event"]]
    assert value is not None
    if "key_hex" in case:
        key = bytes.fromhex(case["key_hex"])
    if "value_hex" in case:
        value = bytes.fromhex(case["value_hex"])
    if "schema_id" in case:
        value = HEAD + bytes([case["schema_id"]]) + value[5:]
    return key, value[: case.get("length")]


@pytest.mark.parametrize("kind", ["json", "avro"])
def test_a_message_that_does_not_fit_stops_the_stream(make: Make, registry: str, kind: str) -> None:
    is_avro, case = kind == "avro", CASES[kind][0]
    own = make(**CHANGES | NO_CITY, schema_registry_url=registry if is_avro else "")
    own.send_pairs(avro_message(case) if is_avro else json_message(case))
    match = f"offset 0, .*{re.escape(case['says'])}.*{re.escape(case['remedy'])}"
    with pytest.raises((ConfigError, StreamError), match=match):
        own.check()


@pytest.mark.deep
def test_avro_that_does_not_fit_goes_to_the_quarantine(make: Make, registry: str) -> None:
    own = make(**CHANGES | NO_CITY, schema_registry_url=registry, quarantine="true")
    others = [*recorded_avro("__debezium-heartbeat.avro"), *recorded_avro("avro.transaction")]
    cases = sorted(CASES["avro"], key=lambda case: str(case["says"]))
    own.send_pairs(AVRO_ORDER, *others, *map(avro_message, cases))
    own.send_pairs(recorded("lab.public.orders")[3])  # JSON, of a connector before
    (report,) = own.run()
    assert report["quarantined"] == len(cases)
    assert own.rows("id", "note") == [(1, "n1"), (4, None)]
    reasons = sorted(reason for reason, _ in own.quarantined())
    for reason, case in zip(reasons, cases, strict=True):
        assert reason.startswith(case["says"])
        assert case["remedy"] in reason


@pytest.mark.deep
def test_a_decimal_of_more_digits_than_spark_has(make: Make, registry: str) -> None:
    columns = "id INT, w DECIMAL(38, 2), v STRUCT<scale: INT, value: BINARY>"
    wide = {"source_schema": columns, "source_table": "public.wide", "quarantine": "true"}
    own = make(**CHANGES | wide, schema_registry_url=registry)
    (event,) = recorded_avro("wide.public.wide")
    schema, row = decoded(event)
    row["after"] |= {"id": 2, "w": Decimal(10) ** 40}
    own.send_pairs(event, (event[0], (event[1] or b"")[:5] + avro_bytes(schema, row)))
    own.run()
    assert own.rows("id", "w") == [(1, Decimal("1.25"))]
    ((reason, _),) = own.quarantined()
    assert reason.startswith("its value is Avro with schema id 18, which does not fit; correct")


@pytest.mark.deep
def test_what_does_not_fit_goes_to_the_quarantine(make: Make) -> None:
    own = make(**CHANGES, quarantine="true")
    sent = [(json_message(case), case) for case in CASES["json"]]
    own.send_pairs(recorded("lab.public.orders")[10], *(pair for pair, _ in sent))
    (report,) = own.run()
    assert (report["rows"], report["quarantined"]) == (1 + len(sent), len(sent))
    assert own.rows("id", "city") == [(5, "Oslo")]
    reasons = {(row["kafka_key"], row["kafka_value"]): reason for reason, row in own.quarantined()}
    for (key, value), case in sent:
        reason = reasons[key and key.decode(), (value or b"").decode()]
        assert case["says"] in reason
        assert case["remedy"] in reason


def without(event: Pair, column: str, lsn: int) -> Pair:
    """Return an event as the connector sends it without a column."""
    value = json.loads(event[1] or b"")
    del value["after"][column]
    value["source"]["lsn"] = lsn
    return event[0], json.dumps(value).encode()


def with_values(event: Pair, **values: Any) -> Pair:
    """Return an event with other values after the change."""
    value = json.loads(event[1] or b"")
    value["after"] |= values
    return event[0], json.dumps(value).encode()


@pytest.mark.deep
@pytest.mark.parametrize("batches", [1, 2], ids=["one batch", "two batches"])
def test_a_value_that_was_quarantined_is_not_the_older_one(make: Make, batches: int) -> None:
    """PostgreSQL sends a large value once: the events after it have none."""
    own = make(**CHANGES | NO_CITY, quarantine="true")
    first, other = recorded("lab.public.orders")[:2]
    own.send_pairs(first, other)
    own.run()
    refused = with_values(first, amount="much", note="newest")
    unsent = "__debezium_unavailable_value"
    later = (with_values(event, amount="9.00", note=unsent) for event in (first, other))
    if batches == 1:
        own.send_pairs(refused, *later)
    else:
        own.send_pairs(refused)
        own.run()
        own.send_pairs(*later)
    own.run()
    assert own.rows("id", "amount", "note") == [
        (1, Decimal("1.25"), "n1"),
        (2, Decimal("9.00"), "n2"),
    ]
    reasons = [reason for reason, _ in own.quarantined()]
    unsure = [reason for reason in reasons if reason.startswith("PostgreSQL did not send column")]
    assert len(reasons) == 2
    assert len(unsure) == 1
    assert ", and an earlier change of its key is quarantined; " in unsure[0]
    # An event with all values settles it.
    own.send_pairs(
        with_values(first, note="newest"), with_values(first, amount="8.00", note=unsent)
    )
    own.run()
    assert own.rows("id", "amount", "note")[0] == (1, Decimal("8.00"), "newest")
    assert len(own.quarantined()) == 2


LACKS = "it has no column note, which is in source.schema; leave such a column out until"


@pytest.mark.parametrize("quarantine", [pytest.param("false", marks=pytest.mark.deep), "true"])
def test_a_column_that_is_no_longer_sent_keeps_its_values(make: Make, quarantine: str) -> None:
    """Of an insert, an update and a snapshot; the column may be back later, in the same batch."""
    own = make(**CHANGES | NO_CITY, quarantine=quarantine)
    events = recorded("lab.public.orders")
    own.send_pairs(*events[:2])
    own.run()
    newest = json.loads(events[14][1] or b"")["source"]["lsn"]
    lacking = [without(events[n], "note", newest + n) for n in (0, 2, 3)]
    back = json.loads(events[1][1] or b"")
    back["source"]["lsn"] = newest + 9
    own.send_pairs(*lacking, (events[1][0], json.dumps(back).encode()))
    if quarantine == "false":
        with pytest.raises(StreamError, match=LACKS):
            own.run()
    else:
        own.run()
        assert [reason.startswith(LACKS) for reason, _ in own.quarantined()] == [True] * 3
    assert own.rows("id", "note") == [(1, "n1"), (2, "n2")]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("sent", "is_refused"),
    [(slice(0, 3), True), (slice(0, 15), False), (slice(10, 11), False)],
    ids=["never sent", "added later", "sent from the start"],
)
def test_a_column_that_was_added_is_null_in_older_events(
    make: Make, sent: slice, is_refused: bool
) -> None:
    own = make(**CHANGES)
    events = recorded("lab.public.orders")[sent]
    own.send_pairs(*events)
    if is_refused:
        with pytest.raises(StreamError, match="it has no column city, which is in"):
            own.run()
        return
    own.run()
    assert (5, "Oslo") in own.rows("id", "city")
    # Events from before the column, once more.
    own.send_pairs(*recorded("lab.public.orders")[:1])
    own.run()
    assert (1, None) in own.rows("id", "city")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("has_registry", "problem"),
    [
        (True, "it has no column city, which is in"),
        (False, 'its key is Avro with schema id 1.*"schema.registry.url": "http://..."'),
    ],
    ids=["no column", "no registry"],
)
def test_avro_that_cannot_be_a_row(
    make: Make, registry: str, has_registry: bool, problem: str
) -> None:
    own = make(**CHANGES, schema_registry_url=registry if has_registry else "")
    own.send_pairs(AVRO_ORDER)
    with pytest.raises(ConfigError, match=problem):
        own.check()


def avro_event(schema: Any, record: dict[str, Any], at: Any, value: Any) -> tuple[Any, bytes]:
    """Return the schema and the bytes of an event whose column `at` has another type."""
    text = json.dumps(schema)
    other = json.loads(text)
    for field in other["fields"][0]["type"][1]["fields"]:
        if field["name"] == "at":
            field["type"] = at
    record["after"]["at"] = value
    return other, avro_bytes(other, record)


@pytest.mark.deep
def test_avro_names_the_units_of_its_times(make: Make) -> None:
    """`timestamp.unit` is that of JSON, which has none."""
    schema, record = decoded(AVRO_ORDER)
    schemas = dict(SCHEMAS)
    values = {
        50: ("io.debezium.time.Timestamp", 1_767_261_600_123),
        51: ("io.debezium.time.MicroTimestamp", 1_767_261_600_123_000),
    }
    bodies = {}
    for own_id, (name, value) in values.items():
        kind = ["null", {"type": "long", "connect.version": 1, "connect.name": name}]
        schemas[own_id], bodies[own_id] = avro_event(schema, record, kind, value)
    with registry_of(schemas) as url:
        own = make(**CHANGES | NO_CITY, schema_registry_url=url)
        for own_id, body in bodies.items():
            own.send_pairs((AVRO_ORDER[0], HEAD + bytes([own_id]) + body))
            own.run()
            table = own.spark.read.format("hudi").load(own.pipeline().location.table)
            (row,) = table.selectExpr("unix_micros(at) AS at").collect()
            assert row["at"] == 1_767_261_600_123_000


TOASTED = CHANGES | {
    "source_schema": "id INT, n INT, big STRING, bin BINARY, tags ARRAY<STRING>, ints ARRAY<INT>, "
    "js STRING, num STRING",
    "source_table": "public.toasted",
}


@pytest.mark.deep
@pytest.mark.parametrize("batches", [[slice(0, 3)], [slice(0, 2), slice(2, 3)]])
@pytest.mark.parametrize("is_avro", [False, True])
def test_a_value_that_was_not_sent_stays_as_it_was(
    make: Make, registry: str, batches: list[slice], is_avro: bool
) -> None:
    """An update of a row with TOAST sends only what it changed; a change of the key, too."""
    own = make(**TOASTED, quarantine="true", schema_registry_url=registry if is_avro else "")
    topic = "public.toasted"
    events = recorded_avro(f"toast.{topic}") if is_avro else recorded(f"lab.{topic}")
    for batch in batches:
        own.send_pairs(*events[batch])
        own.run()
    columns = ("id", "n", "big", "bin", "tags", "ints", "js", "num")
    stored = [dict(zip(columns, row, strict=True)) for row in own.rows(*columns)]
    if is_avro:
        whole = decoded(events[0])[1]["after"]
    else:
        whole = json.loads(events[0][1] or b"")["after"]
        whole["bin"] = base64.b64decode(whole["bin"])
    assert stored == [whole | {"n": 2}, whole | {"id": 2}]
    own.send_pairs(*events[3:])
    own.run()
    ((reason, _),) = own.quarantined()
    assert reason.startswith("PostgreSQL did not send column big of public.toasted, and there is")
    assert [number for (number,) in own.rows("id")] == [1]


@pytest.mark.deep
def test_a_value_that_was_not_sent_is_refused_with_a_query(make: Make) -> None:
    own = make(**TOASTED, select="SELECT id, length(big) AS size, kafka_offset FROM source")
    own.send_pairs(*recorded("lab.public.toasted")[:3])
    match = "column big of public.toasted, because the update left it as it was; .*IDENTITY FULL"
    with pytest.raises(StreamError, match=match):
        own.run()


TYPES = (
    "id BIGINT, s INT, r FLOAT, d DOUBLE, n DECIMAL(38, 10), t STRING, u STRING, j STRING, "
    "b BINARY, day DATE, ms TIMESTAMP, tz TIMESTAMP, i ARRAY<INT>, x ARRAY<STRING>, dflt INT, "
    "dn DECIMAL(10, 2), ok BOOLEAN, c STRING, `order` STRING"
)


@pytest.mark.deep
def test_each_type_is_the_same_in_json_and_avro(
    spark: SparkSession, tmp_path: Path, settings: Settings, kafka: Access, registry: str
) -> None:
    """`plain` has decimals as texts, `moment` times of Connect's own types, in milliseconds."""
    shown = [column.split()[0] for column in TYPES.split(", ") if not column[0].isdigit()]
    texts = [f"CAST({name} AS STRING)" for name in shown if name not in ("b", "i", "x")]
    changes = CHANGES | {"source_schema": TYPES, "source_table": "public.types"}
    tables = []
    for connector in ("plain", "types", "moment"):
        url = "" if connector == "plain" else registry
        folder = tmp_path / f"types_{connector}"
        own = Own(spark, folder, settings.home, kafka, **changes, schema_registry_url=url)
        own.send_pairs(*recorded_avro(f"{connector}.public.types"))
        (report,) = own.run()
        assert report["rows"] == 5
        table = spark.read.format("hudi").load(own.pipeline().location.table)
        rows = table.selectExpr("hex(b)", "i", "x", *texts).collect()
        tables.append(sorted(map(str, rows)))
    assert tables[1] == tables[0]
    assert tables[2] == tables[0]
    assert "1234567890123456789012345678.0123456789" in str(tables[0])


@pytest.mark.deep
def test_events_with_their_schema_are_read_too(make: Make) -> None:
    columns = NO_CITY["source_schema"].replace("DECIMAL(10, 2)", "BINARY")
    own = make(**CHANGES | {"source_schema": columns})
    events = recorded("wrapped.public.orders")
    own.send_pairs(*events)
    own.run()
    assert own.rows("id", "note") == [(1, "n1"), (2, "n2"), (3, "n3")]
    own.send_pairs(doctored(events[0], "io.debezium.time.MicroT", "io.debezium.time.T"))
    match = r"has column local in another unit than timestamp.unit, us; .*mode=isostring"
    with pytest.raises(StreamError, match=match):
        own.run()


@pytest.mark.deep
def test_a_key_may_have_columns_named_as_parts_of_a_connectors_message(make: Make) -> None:
    """And a number has the digits that the database sent, also in a message with a schema."""
    columns = "schema STRING, payload STRING, amount STRING"
    own = make(**CHANGES | {"source_schema": columns, "record_key": "schema, payload"})
    key, source = b'{"schema":"s","payload":"p"}', {"connector": "postgresql", "lsn": 1}
    source |= {"schema": "public", "table": "orders"}
    rest = json.dumps({"source": source, "op": "c"}, separators=(",", ":"))
    event = f'{{"after":{{"schema":"s","payload":"p","amount":1.10}},{rest[1:]}'
    own.send_pairs((key, event.encode()))
    own.run()
    assert own.rows(*columns.replace(" STRING", "").split(", ")) == [("s", "p", "1.10")]
    wrapped = f'{{"schema":{{"type":"struct"}},"payload":{event.replace("1.10", "1.200")}}}'
    own.send_pairs((b'{"schema":{"type":"struct"},"payload":' + key + b"}", wrapped.encode()))
    own.run()
    assert own.rows("amount") == [("1.200",)]
    for schema, amount in (("null", "1.3000"), ('{"type": "struct"}', "1.40000")):
        text = f'{{"schema": {schema}, "payload": {event.replace("1.10", amount)}}}'
        own.send_pairs((key, text.encode()))
        own.run()
        assert own.rows("amount") == [(amount,)]
    own.send_pairs((key, wrapped.encode().replace(b"1.200", b'"\xff"')))
    with pytest.raises(StreamError, match="it has a byte that is not UTF-8; correct the program"):
        own.run()


@pytest.mark.deep
@pytest.mark.parametrize("case", CASES["groups"])
def test_groups_that_cannot_be_right(make: Make, case: dict[str, Any]) -> None:
    own = make(**CHANGES | case["changes"])
    own.send_pairs(FIRST)
    with pytest.raises(ConfigError, match=re.escape(f"key {case['key']!r}: {case['problem']}")):
        own.check()


@pytest.mark.deep
def test_more_partitions_are_refused_because_offsets_start_again(make: Make) -> None:
    own = make(**CHANGES | NO_CITY)
    own.send_pairs(FIRST)
    own.run()
    own.add_partitions(3)
    remedy = r"send a new snapshot to a new topic \(topic.prefix\), .* topic.name and table.name$"
    with pytest.raises(ConfigError, match=f"has 3 partitions, and had 2: .*{remedy}"):
        own.run()


BIG = "(SELECT string_agg(md5(g::text), '') FROM generate_series({0}, {0} + 99) g)"
STEPS = (
    f"INSERT INTO live SELECT 4, 9.99, now(), '2026-02-01', {BIG.format(7)}, true",
    "UPDATE live SET amount = -0.01 WHERE id <= 2",
    "DELETE FROM live WHERE id = 2",
    f"UPDATE live SET id = 30, big = {BIG.format(8)} WHERE id = 3",
    "ALTER TABLE live ADD COLUMN city text",
    "UPDATE live SET city = 'Bonn', ok = NULL WHERE id = 1",
    "INSERT INTO live (id, city) VALUES (2, 'Köln')",
    "BEGIN; DELETE FROM live WHERE id = 4; INSERT INTO live (id) VALUES (4); COMMIT",
    "DELETE FROM live WHERE id > 1",
)


@pytest.mark.deep
def test_the_table_equals_the_database_after_each_change(
    make: Make, settings: Settings, database: Database
) -> None:
    """PostgreSQL and hudi-rs agree, also where PostgreSQL does not send what it did not change."""
    columns = "id int PRIMARY KEY, amount numeric(10, 2), at timestamptz, day date, big text"
    fill = f"SELECT g, g * 1.25, now(), '2026-01-01', {BIG.format('g')}, true"
    with database.connect() as db:
        db.execute(f"CREATE TABLE live ({columns}, ok boolean DEFAULT true)")
        db.execute("ALTER TABLE live ALTER big SET STORAGE EXTERNAL")
        db.execute(f"INSERT INTO live {fill} FROM generate_series(1, 3) g")
        identity = {"replica.identity.autoset.values": "public.live:DEFAULT"}
        own = {"name": "live", "table.include.list": "public.live"}
        (topic,) = register(settings, own | identity)
        schema = "id INT, amount DECIMAL(10, 2), at TIMESTAMP, day DATE, big STRING, ok BOOLEAN"
        changes = {"source_schema": schema, "source_table": "", "ordering": ""}
        pipeline = make(value_format="debezium", topic_name=topic, **changes)

        def equal() -> bool:
            try:
                pipeline.run()
            except KafkaError:  # the topic is not there yet
                return False
            rows = db.execute("SELECT * FROM live").fetchall()
            names = [column.name for column in db.execute("SELECT * FROM live").description or ()]
            stored = pa.Table.from_batches(read_batches(folder(pipeline.pipeline().location.table)))
            here = [tuple(row.get(name) for name in names) for row in stored.to_pylist()]
            return sorted(rows) == sorted(here, key=lambda row: row[0])

        wait_for(equal, 60, "the snapshot")
        for step in STEPS:
            for statement in step.split("; "):
                db.execute(statement)
            if "city" in step:
                pipeline.describe(source_schema=f"{schema}, city STRING")
            wait_for(equal, 60, step)
