"""Times, sizes and counts as text."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta, timezone

import pytest

from hudi_inspect.units import argument, iso, many, plain, quoted, size, to_json


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 1024, "1023.0 KiB"),
        (1024**2, "1.0 MiB"),
        (1024**3, "1.0 GiB"),
        (5000 * 1024**3, "5000.0 GiB"),
    ],
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
    [
        ("a", "a", "a"),
        ("São Paulo", "São Paulo", "'São Paulo'"),
        ("a'; echo x; '", "a'; echo x; '", "'a'\"'\"'; echo x; '\"'\"''"),
        ("$(echo x)", "$(echo x)", "'$(echo x)'"),
        ("\x1b[31m", r"\x1b[31m", r"$'\x1b[31m'"),
        ("a\nb'c\\", r"a\nb'c" + "\\", r"$'a\x0ab\'c\\'"),
        ("\u202e\u2028\xa0", r"\u202e\u2028\xa0", r"$'\xe2\x80\xae\xe2\x80\xa8\xc2\xa0'"),
        (os.fsdecode(b"\xff\xfe"), r"\udcff\udcfe", r"$'\xff\xfe'"),
        ("\ud800", r"\ud800", r"$'\xed\xa0\x80'"),
        ("\U000e0001", r"\U000e0001", r"$'\xf3\xa0\x80\x81'"),
    ],
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
