"""A topic that another program fills becomes a table: JSON and Avro, with a login or without."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from cases import read_cases
from commands import hudilab
from refusals import assert_refusal, refused
from services.avro import avro_bytes
from services.own_topic import Make, as_json

from hudilab.errors import ConfigError
from hudilab.settings import Settings
from hudilab_cli.servers.kafka import Broker
from hudilab_jobs.kafka.topics import create_topics

GOOD: list[dict[str, Any]] = [
    {"id": 1, "city": "Oslo", "at": "2026-01-01T00:00:00Z"},
    {"id": 2, "city": None},
]
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "visit",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": ["null", "string"], "default": None},
    ],
}
LONGER = AVRO | {"fields": [*AVRO["fields"], {"name": "more", "type": "long"}]}


CASES = read_cases(__file__)


@pytest.mark.deep
def test_json(make: Make) -> None:
    own = make(quarantine="true")
    assert own.check().endswith("before the first message arrives; nothing was written")
    own.send(*as_json(*GOOD), b"{", b'{"id": "seven"}', None)
    shown = own.check()
    for problem in ("it is not one JSON object", 'column id has "seven"', "it has no value (a tom"):
        assert f"1 row of the sample would be quarantined: {problem}" in shown
    (report,) = own.run(initial_load=True)
    assert report.pop("rows_per_second") > 0
    assert report == {"batch": 0, "rows": 5, "quarantined": 3, "messages_behind": 0}
    own.send(*as_json({"id": 2, "city": "Bergen"}))
    (report,) = own.run()
    assert (report["batch"], report["rows"], report["quarantined"]) == (1, 1, 0)
    assert own.rows() == [(1, "Oslo", 0), (2, "Bergen", 5)]
    quarantine = own.spark.read.format("hudi").load(own.pipeline().location.quarantine)
    kept = [json.loads(row.row) for row in quarantine.orderBy("number").collect()]
    texts = [(row["kafka_offset"], row["kafka_value"]) for row in kept]
    assert texts == [(2, "{"), (3, '{"id": "seven"}'), (4, None)]


def test_a_schema_that_is_missing(make: Make) -> None:
    own = make(source_schema="")
    where = (str(own.file), "group 'pipeline.own'", "key 'source.schema'")
    with refused(ConfigError, *where, remedy='; add it: "source.schema": "id BIGINT, ..."'):
        own.check()
    own.send(*as_json(*GOOD))
    schema = "at STRING,city STRING,id BIGINT"
    with refused(ConfigError, *where, remedy=f'; add "source.schema": "{schema}"'):
        own.check()


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["avro", "avro-confluent"])
def test_avro(make: Make, kind: str) -> None:
    own = make(
        value_format=kind,
        source_schema=json.dumps(AVRO),
        quarantine="true",
        value_schema_id="7" if kind == "avro-confluent" else "",
    )
    head = b"\0\0\0\0\7" if kind == "avro-confluent" else b""
    rows = [{key: row[key] for key in ("id", "city")} for row in GOOD]
    values = [avro_bytes(AVRO, row) for row in rows]
    # Another schema wrote it: the first fields only look right.
    values.append(avro_bytes(LONGER, rows[0] | {"more": 5}))
    own.send(*(head + value for value in values), b"not Avro", None)
    (report,) = own.run()
    assert (report["rows"], report["quarantined"]) == (5, 3)
    assert own.rows() == [(1, "Oslo", 0), (2, None, 1)]
    longer = own.quarantined()[0][0]
    assert longer.endswith("it cannot be read as Avro with source.schema; fix the schema")


def test_avro_without_a_schema(make: Make) -> None:
    own = make(source_schema="", value_format="avro")
    remedy = 'add it: "source.schema": "{\\"type\\": \\"record\\", ...}"'
    with refused(ConfigError, "without the schema that wrote it", remedy=f"; {remedy}"):
        own.check()


Topics = Callable[..., str]


@pytest.fixture
def topics(
    settings: Settings,
    broker: Broker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Topics:
    """`hudilab topics` on the broker of the tests; returns what it prints."""
    monkeypatch.setenv("HUDILAB_HOME", str(settings.home))
    monkeypatch.setenv("BOOTSTRAP_SERVERS", broker.address)

    def run(*arguments: str, code: int = 0) -> str:
        assert hudilab(monkeypatch, "topics", *arguments) == code
        return "".join(capsys.readouterr())

    return run


def test_the_command_shows_offsets_lag_and_messages(
    make: Make, settings: Settings, topics: Topics
) -> None:
    own = make()
    own.send(*as_json(*GOOD), b"\x1b[2J\xff")
    source = own.spark.readStream.format("kafka").options(**own.kafka.spark_options())
    source = source.option("subscribe", own.topic).option("startingOffsets", "earliest")
    checkpoint = f"{settings.home}/warehouse/_checkpoints/lab/own-lag"
    stream = source.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
    stream.trigger(availableNow=True).start().awaitTermination()
    own.send(None)
    shown = json.loads(topics("--json", own.topic))
    full, empty = sorted(shown["topics"], key=lambda row: -row["end"])
    assert (full["first"], full["end"], full["messages"]) == (0, 4, 4)
    assert full["bytes"] > 3 * len("one partition")
    assert (empty["end"], empty["bytes"]) == (0, 0)
    lag = {row["partition"]: (row["read"], row["lag"]) for row in shown["streams"]}
    assert lag == {full["partition"]: (3, 1), empty["partition"]: (0, 0)}
    assert {row["stream"] for row in shown["streams"]} == {"lab/own-lag"}
    lines = topics(own.topic).splitlines()
    assert lines[0].split() == ["topic", "partition", "first", "end", "messages", "bytes"]
    assert lines[4].split() == ["stream", "topic", "partition", "read", "lag"]
    assert "__consumer_offsets" not in topics()
    last = topics("--tail", "2", own.topic).splitlines()
    assert [line.split("  ")[2:] for line in last] == [
        ["one partition", r"\x1b[2J\xff"],
        ["one partition", "null"],
    ]
    messages = json.loads(topics("--tail", "9", "--json", own.topic))["messages"]
    assert [message["offset"] for message in messages] == [0, 1, 2, 3]
    assert json.loads(messages[0]["value"]) == GOOD[0]
    create_topics(own.kafka, {own.topic: 2}, afresh=True)
    assert "another topic" in topics(own.topic)
    assert topics("--tail", "1", own.topic) == f"topic {own.topic} has no messages\n"


@pytest.mark.parametrize("case", CASES["topics"])
def test_the_command_names_what_it_cannot_show(topics: Topics, case: dict[str, Any]) -> None:
    printed = topics(*case["arguments"], code=1).rstrip("\n")
    assert_refusal(printed, case["failed"], remedy=case["remedy"])
