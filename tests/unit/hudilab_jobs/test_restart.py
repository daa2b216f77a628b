"""What a start keeps of a pipeline's group, and the verdict on each key that changes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cases import read_cases

from hudilab.groups import keys_of
from hudilab_jobs.groups import (
    ChangePipeline,
    FilePipeline,
    Pipeline,
    TablePipeline,
    TopicPipeline,
    shape_of,
)
from hudilab_jobs.pipelines.restart import RULES, SAFE, Keys, changes, keys_of_start

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
CASES = read_cases(__file__)


def start(properties: dict[str, Any]) -> Keys:
    properties = {key: value for key, value in properties.items() if value}
    return keys_of_start(shape_of(properties).model_validate(properties))


@pytest.mark.parametrize("case", CASES["changes"], ids=json.dumps)
def test_a_key_that_changes(case: dict[str, Any]) -> None:
    old = (TOPIC if case["source"] == "kafka" else FILES) | case.get("with", {})
    (change,) = changes(start(old), start(old | {case["key"]: case["new"]}))
    assert (change.key, change.verdict) == (case["key"], case["verdict"])
    assert "\n" not in str(change)
    assert str(change).startswith(f"changed: {case['key']}")
    assert case.get("says", "") in str(change)
    assert ("set it back" in str(change)) == (change.verdict != SAFE)


@pytest.mark.parametrize("same", CASES["same"], ids=json.dumps)
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


@pytest.mark.parametrize(("key", "value"), CASES["secrets"])
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
