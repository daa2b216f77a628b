"""Times, sizes and counts as text."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta, timezone

import pytest
from cases import read_cases

from hudi_inspect.units import argument, iso, many, plain, quoted, size, to_json

CASES = read_cases(__file__)


@pytest.mark.parametrize(
    ("count", "text"),
    CASES["sizes"],
)
def test_a_size(count: int, text: str) -> None:
    assert size(count) == text


def test_a_moment_is_utc_with_milliseconds() -> None:
    assert iso(None) is None
    zone = timezone(timedelta(hours=2))
    assert iso(datetime(2026, 1, 1, 1, tzinfo=zone)) == "2025-12-31T23:00:00.000Z"
    assert iso(datetime(2026, 1, 1, 1, microsecond=5999, tzinfo=UTC)) == "2026-01-01T01:00:00.005Z"


def test_a_count() -> None:
    assert [many(n, "file") for n in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]


@pytest.mark.parametrize(
    ("name", "text", "word"),
    CASES["names"],
)
def test_a_name_is_plain_text_and_one_word_of_a_shell(name: str, text: str, word: str) -> None:
    assert (plain(name), quoted(name)) == (text, word)
    if (shell := shutil.which("bash")) and name != "\ud800":
        done = subprocess.run([shell, "-c", f"printf %s {word}"], capture_output=True, check=True)
        assert done.stdout == os.fsencode(name)


@pytest.mark.parametrize(
    "value",
    [{}, [], {"a": []}, {"a": 1, "b": None}, {"a": [{"b": 1, "c": "ü\n"}, [], {"d": [1, [2]]}]}, 1],
)
def test_json_is_that_of_the_standard_library(value: object) -> None:
    assert to_json(value) == json.dumps(value, indent=2, ensure_ascii=False)


def test_json_holds_no_character_that_does_not_print() -> None:
    value = ["\x1b\x7f\x9b\u202e\u2028\ud800\U000e0001", "ü😀"]
    text = to_json(value)
    assert "ü😀" in text
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == value
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(float("nan"))


def test_a_name_as_an_argument_of_a_procedure() -> None:
    assert argument("it's \\") == "'its '"
