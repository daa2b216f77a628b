"""`hudilab topics`: what checkpoints say of offsets, and text that no terminal obeys."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from hudi_inspect.store import open_store
from hudilab_cli.topics_command import (
    Offsets,
    _size,
    client_of,
    escaped,
    lags,
    line_of,
    read_offsets,
)
from hudilab_jobs.settings import load_settings, topics


def checkpoint(folder: Path, *batches: str, done: int) -> None:
    """A checkpoint as Spark writes it; the first `done` of its batches are committed."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    for number, sources in enumerate(batches):
        (folder / "offsets" / str(number)).write_text(f'v1\n{{"conf": {{"a": 1}}}}\n{sources}')
        if number < done:
            (folder / "commits" / str(number)).write_text("v1\n{}")
    (folder / "offsets" / ".0.crc").write_bytes(b"crc")


def test_a_segment_that_kafka_deletes_meanwhile_has_no_size(tmp_path: Path) -> None:
    (tmp_path / "00.log").write_bytes(b"kept")
    (tmp_path / "00.index").write_bytes(b"index")
    (tmp_path / "01.log").symlink_to("deleted")  # listed, but not there
    assert _size(tmp_path) == 4


def test_the_newest_committed_batch_says_what_was_read(tmp_path: Path) -> None:
    first, two = '{"a": {"0": 5, "1": 7}}', '{"a": {"0": 9, "1": 8}}'
    checkpoint(tmp_path / "lab" / "planned", first, two, done=1)
    checkpoint(tmp_path / "lab" / "first", first, done=0)
    checkpoint(tmp_path / "lab" / "joined", f'{{"b": {{"0": 1}}}}\n{first}', done=1)
    checkpoint(tmp_path / "lab" / "files", '{"logOffset":3}', done=1)
    checkpoint(tmp_path / "lab" / "rate", "17\n-", done=1)
    (tmp_path / "lab" / "new").mkdir()
    assert dict(read_offsets(open_store(str(tmp_path)))) == {
        "lab/first": {"a": {}},
        "lab/joined": {"a": {"0": 5, "1": 7}, "b": {"0": 1}},
        "lab/planned": {"a": {"0": 5, "1": 7}},
    }


def test_lag() -> None:
    rows = pd.DataFrame(
        [("a", 0, 2, 9), ("a", 1, 0, 0), ("b", 0, 0, 4)],
        columns=["topic", "partition", "first", "end"],
    )
    streams: dict[str, Offsets] = {
        "lab/s": {"a": {"0": 5, "1": 3}},
        "lab/new": {"a": {}},
        "lab/x": {"gone": {"0": 1}},
    }
    rows_of_lag = [tuple(row.values()) for row in lags(rows, streams)]
    assert rows_of_lag == [
        ("lab/s", "a", 0, 5, 4),
        ("lab/s", "a", 1, 3, None),
        ("lab/new", "a", 0, 2, 7),
        ("lab/new", "a", 1, 0, 0),
    ]
    json.dumps(lags(rows, streams))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (None, "null"),
        ("", ""),
        ('{"a": "größer"}', '{"a": "größer"}'),
        ("a\tb\nc\x1b[31m\x9b\x00", r"a\tb\nc\x1b[31m\x9b\x00"),
        ("\u202eevil\u2028", r"\u202eevil\u2028"),
        ("x" * 501, "x" * 500 + "... (501 characters)"),
    ],
)
def test_a_terminal_obeys_no_message(text: str | None, shown: str) -> None:
    assert escaped(text) == shown


def test_a_message_is_one_line_with_its_headers() -> None:
    message = {
        "partition": 1,
        "offset": 606,
        "timestamp": "2026-01-01T00:00:00.819Z",
        "key": None,
        "value": "a\nb",
        "headers": [["reason", "not JSON"], ["\x07", None]],
    }
    assert line_of(message) == (
        r"1:606  2026-01-01T00:00:00.819Z  null  a\nb  reason=not JSON  \x07=null"
    )


def test_the_login_is_that_of_the_group_with_these_servers() -> None:
    settings = load_settings(env={})
    consumer, producer = topics(settings)
    assert client_of(settings).servers == consumer.bootstrap_servers
    assert client_of(settings, "other:9092").servers == "other:9092"
    tls = {"bootstrap_servers": "tls:9093", "security_protocol": "SSL"}
    groups = {"consumer": consumer, "producer": producer.model_copy(update=tls)}
    settings = replace(settings, groups=groups)
    assert client_of(settings, "tls:9093").protocol == "SSL"
    assert client_of(settings, "other:9093").protocol == "PLAINTEXT"
    assert client_of(replace(settings, groups={}), "other:9092").servers == "other:9092"
