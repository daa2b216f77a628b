"""What a broker is given before it starts: its id."""

from __future__ import annotations

import base64
import uuid

from hudilab.operations.servers.kafka import _new_id

RESERVED = {number.to_bytes(16) for number in range(100)}  # Kafka keeps the first hundred


def test_ids_are_uuids_that_no_tool_takes_for_an_option() -> None:
    ids = {_new_id() for _ in range(10_000)}
    assert len(ids) == 10_000
    for id in ids:
        assert len(id) == 22
        assert not id.startswith("-")
        raw = base64.urlsafe_b64decode(f"{id}==")
        assert uuid.UUID(bytes=raw).version == 4
        assert raw not in RESERVED
    # The others are there: only the start is a choice.
    assert any("-" in id for id in ids)
    assert any(id.startswith("_") for id in ids)
