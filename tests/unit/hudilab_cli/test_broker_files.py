"""What a broker is given before it starts: its id, its key."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path

from hudilab_cli.servers.kafka import _make_certificates, _new_id

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


def test_a_key_is_private_even_where_a_file_of_its_name_was_not(tmp_path: Path) -> None:
    file = tmp_path / "server.pem"
    file.touch(mode=0o644)
    file.chmod(0o644)
    _make_certificates(tmp_path)
    assert "BEGIN PRIVATE KEY" in file.read_text("utf-8")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "PRIVATE KEY" not in (tmp_path / "ca.pem").read_text("utf-8")
