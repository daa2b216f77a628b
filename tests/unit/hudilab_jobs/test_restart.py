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
from hudilab_jobs.pipelines.restart import NEW, REFUSED, RULES, SAFE, Note, changes, keys_of_start

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


def note(properties: dict[str, Any], **made: str) -> Note:
    properties = {key: value for key, value in properties.items() if value}
    return Note(keys_of_start(shape_of(properties).model_validate(properties)), made)


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
        (FILES, "select", "SELECT * FROM source WHERE id > 1", SAFE),
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
        (TOPIC, "key.format", "hex", REFUSED),
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
    (change,) = changes(note(old), note(old | {key: new}))
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
    assert changes(note(FILES), note(FILES | same)) == []


def test_a_key_that_an_older_release_did_not_know_is_no_change() -> None:
    old = note(FILES)
    del old.keys["quarantine"]
    assert changes(old, note(FILES | {"quarantine": "true"})) == []


def test_a_query_that_makes_the_key_in_another_way() -> None:
    old, new = note(FILES, id="1", at="2"), note(FILES | {"select": "SELECT 1"}, id="3", at="2")
    (change,) = changes(old, new)
    assert (change.verdict, change.old) == (REFUSED, None)
    assert "it makes id in another way than in the stored rows" in str(change)
    # A column with a new role is the matter of that role's key.
    (change,) = changes(old, note(FILES | {"select": "SELECT 1"}, id="1", at="2", city="3"))
    assert change.verdict == SAFE


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
    kept = note(FILES | {key: value})
    assert SECRET not in str(kept)
    assert not any(SECRET in str(change) for change in changes(note(FILES), kept))
    if key != "select":
        assert kept.keys[key] in ("mode=FAILFAST", "a=b")


@pytest.mark.parametrize("shape", [FilePipeline, TopicPipeline, TablePipeline])
def test_each_key_of_a_group_is_kept(shape: type[Pipeline]) -> None:
    properties = {FilePipeline: FILES, TopicPipeline: TOPIC}.get(shape)
    if properties is None:
        properties = FILES | {"source.format": "hudi", "source.schema": "", "timestamp.unit": ""}
    assert set(note(properties).keys) == set(keys_of(shape)) - {"table.name"}


def test_each_rule_is_of_a_key() -> None:
    shapes = (ChangePipeline, FilePipeline, TopicPipeline, TablePipeline)
    assert set(RULES) <= {key for shape in shapes for key in keys_of(shape)}
