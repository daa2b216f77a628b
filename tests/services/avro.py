"""Rows as Avro."""

from __future__ import annotations

import io
from typing import Any

import fastavro


def avro_bytes(schema: Any, row: Any) -> bytes:
    """Return a row as Avro, without its schema."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, row)
    return body.getvalue()


def confluent(number: int, schema: Any, row: Any) -> bytes:
    """Return a row as Confluent's serializers write it, with the id of its schema."""
    return b"\0" + number.to_bytes(4, "big") + avro_bytes(schema, row)
