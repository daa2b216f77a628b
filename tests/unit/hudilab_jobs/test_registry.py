"""Schemas by their ids, and each reason why a registry has none."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refused
from services.registries import running_registry

from hudilab.errors import KafkaError
from hudilab_jobs.kafka.registry import LOGIN, read_schema

LONG = '"long"'
ANSWERS: dict[int, Any] = {
    1: {"schema": LONG},
    2: {"schema": LONG, "schemaType": "AVRO", "references": []},
    3: {"schema": "{}", "schemaType": "JSON"},
    4: {"schema": '"other"', "references": [{"name": "other", "subject": "o", "version": 1}]},
    5: ["no schema"],
}
ENV = {LOGIN: "lab:secret"}


def test_a_schema_is_read_by_its_id() -> None:
    with running_registry(ANSWERS) as url:
        assert [read_schema(url, number, ENV) for number in (1, 2, 6)] == [LONG, LONG, None]


@pytest.mark.parametrize(
    ("number", "login", "problem"),
    [
        (1, "", "/api/schemas/ids/1 (401 Unauthorized)"),
        (1, "lab:guess", "/api/schemas/ids/1 (401 Unauthorized)"),
        (3, "lab:secret", "/api/schemas/ids/3 is of type JSON"),
        (4, "lab:secret", "/api/schemas/ids/4 is one that refers to other schemas"),
        (5, "lab:secret", "/api/schemas/ids/5 (no answer of a schema registry: "),
    ],
)
def test_a_registry_that_has_no_avro_schema(number: int, login: str, problem: str) -> None:
    with running_registry(ANSWERS) as url, pytest.raises(KafkaError) as caught:
        read_schema(url, number, {LOGIN: login})
    assert problem in str(caught.value)
    assert "guess" not in str(caught.value)


def test_no_registry_answers() -> None:
    remedy = f"the login user:password in {LOGIN}, then start again"
    with refused(KafkaError, "http://127.0.0.1:9/schemas/ids/1 (", remedy=remedy):
        read_schema("http://127.0.0.1:9", 1, {})
    with (
        running_registry(ANSWERS) as url,
        refused(KafkaError, "/api/other/schemas/ids/1 (404 Not Found)", remedy=remedy),
    ):
        read_schema(f"{url}other", 1, ENV)
