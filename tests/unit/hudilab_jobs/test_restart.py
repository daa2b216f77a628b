"""What a start keeps of a pipeline's group, and the verdict on each key that changes."""

from __future__ import annotations

from typing import Any

import pytest

from hudilab.groups import keys_of
from hudilab_jobs.groups import (
    ChangePipeline,
    FilePipeline,
    Pipeline,
    TablePipeline,
    TopicPipeline,
    shape_of,
)
from hudilab_jobs.pipelines.restart import NEW, REFUSED, RULES, SAFE, Keys, changes, keys_of_start

FILES = {
    "source.format": "csv",
    "source.path": "/data/orders",
    "source.schema": "id BIGINT, at BIGINT",
    "timestamp.unit": "s",
    "table.name": "orders",
    "record.key": "id",
    "ordering": "at",
}
TOPIC = FILES | {"source.format": "kafka", "topic.name": "orders", "bootstrap.servers": "a:9092"}
TOPIC.pop("source.path")
SECRET = "hunter2"


def start(properties: dict[str, Any]) -> Keys:
    properties = {key: value for key, value in properties.items() if value}
    return keys_of_start(shape_of(properties).model_validate(properties))


@pytest.mark.parametrize(
    ("old", "key", "new", "verdict"),
    [
        (FILES, "source.path", "/data/others", NEW),
        (FILES, "source.format", "json", NEW),
        (TOPIC, "topic.name", "others", NEW),
        (TOPIC, "bootstrap.servers", "b:9092", SAFE),
        (TOPIC, "startup.mode", "latest-offset", SAFE),
        (FILES, "files.per.batch", "1", SAFE),
        (TOPIC, "messages.per.batch", "1", SAFE),
        (FILES, "source.options", "pathGlobFilter=*.csv", SAFE),
        (FILES, "source.schema", "id BIGINT, at BIGINT, city STRING", SAFE),
        (FILES, "select", "SELECT * FROM source WHERE id > 1", REFUSED),
        (FILES, "record.key", "id, at", REFUSED),
        (FILES, "partition", "city", REFUSED),
        (FILES, "ordering", "city", REFUSED),
        (FILES, "table.type", "MERGE_ON_READ", REFUSED),
        (FILES, "buckets", "2", REFUSED),
        (FILES, "operation", "insert", REFUSED),
        (FILES, "operation", "bulk_insert", REFUSED),
        (FILES | {"operation": "insert"}, "operation", "upsert", SAFE),
        (FILES | {"operation": "insert"}, "operation", "bulk_insert", SAFE),
        (FILES, "timestamp.unit", "ms", REFUSED),
        (FILES, "timestamp.unit", "", SAFE),
        (FILES | {"timestamp.unit": ""}, "timestamp.unit", "s", SAFE),
        (TOPIC | {"record.key": "kafka_key"}, "key.format", "hex", REFUSED),
        (TOPIC, "value.format", "avro", SAFE),
        (TOPIC, "tombstones", "delete", SAFE),
        (TOPIC | {"tombstones": "delete"}, "tombstones", "refuse", REFUSED),
        (FILES, "table.services", "inline", SAFE),
        (FILES, "quarantine", "true", SAFE),
        (FILES, "shared", "true", SAFE),
        (FILES, "lock.options", "a=b", SAFE),
    ],
)
def test_a_key_that_changes(old: dict[str, str], key: str, new: str, verdict: str) -> None:
    (change,) = changes(start(old), start(old | {key: new}))
    assert (change.key, change.verdict) == (key, verdict)
    assert "\n" not in str(change)
    assert str(change).startswith(f"changed: {key}")
    assert ("set it back" in str(change)) == (verdict != SAFE)


@pytest.mark.parametrize(
    "same",
    [
        {"files.per.batch": "100"},
        {"operation": "upsert"},
        {"source.path": "file:///data/orders/"},
        {"quarantine": "false"},
    ],
)
def test_the_same_value_written_otherwise_is_no_change(same: dict[str, str]) -> None:
    assert changes(start(FILES), start(FILES | same)) == []


def test_a_key_that_an_older_release_did_not_know_is_no_change() -> None:
    old = start(FILES)
    del old["quarantine"]
    assert changes(old, start(FILES | {"quarantine": "true"})) == []


def test_the_format_of_a_key_that_no_column_depends_on_may_change() -> None:
    assert changes(start(TOPIC), start(TOPIC | {"key.format": "hex"})) == []
    keyed = TOPIC | {"select": "SELECT kafka_key AS id, at FROM source"}
    (change,) = changes(start(keyed), start(keyed | {"key.format": "hex"}))
    assert change.key == "key.format"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("select", f"SELECT aes_encrypt(id, '{SECRET}') AS id, at FROM source"),
        ("source.options", f"kafka.sasl.password={SECRET} mode=FAILFAST"),
        ("source.options", f"'kafka.sasl.jaas.config=Login required x=\"{SECRET}\"' mode=FAILFAST"),
        ("source.options", f"url=http://me:{SECRET}@host mode=FAILFAST"),
        ("lock.options", f"hoodie.aws.access.key={SECRET} a=b"),
        ("lock.options", f"fs.s3a.session.token={SECRET} a=b"),
    ],
)
def test_no_secret_is_kept_or_shown(key: str, value: str) -> None:
    kept = start(FILES | {key: value})
    assert SECRET not in str(kept)
    assert not any(SECRET in str(change) for change in changes(start(FILES), kept))
    if key != "select":
        assert kept[key] in ("mode=FAILFAST", "a=b")


@pytest.mark.parametrize("shape", [FilePipeline, TopicPipeline, TablePipeline])
def test_each_key_of_a_group_is_kept(shape: type[Pipeline]) -> None:
    properties = {FilePipeline: FILES, TopicPipeline: TOPIC}.get(shape)
    if properties is None:
        properties = FILES | {"source.format": "hudi", "source.schema": "", "timestamp.unit": ""}
    kept = set(keys_of(shape)) - {"table.name", "key.format"}  # no column is made of Kafka's key
    assert set(start(properties)) == kept


def test_each_rule_is_of_a_key() -> None:
    shapes = (ChangePipeline, FilePipeline, TopicPipeline, TablePipeline)
    assert set(RULES) <= {key for shape in shapes for key in keys_of(shape)}
