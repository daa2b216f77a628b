"""Format times, sizes, counts and names as text."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

LONGEST = 1000  # shown characters of a text from a table
_ODD = re.compile(r"[^\n -~]")


def iso(moment: datetime | None) -> str | None:
    """Return a time as ISO 8601 in UTC with milliseconds."""
    if moment is None:
        return None
    if moment.tzinfo is not UTC:
        moment = moment.astimezone(UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size(count: float) -> str:
    """Return a number of bytes in readable units."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def plain(text: str) -> str:
    r"""Return text with escapes for control and invisible characters: `\n`, `\x1b`, `\u202e`."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def brief(text: str) -> str:
    """Return plain text, truncated to fit into a cell or a line."""
    return plain(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def quoted(name: str) -> str:
    r"""Return a name as a word of a shell, with unprintable bytes as $'\xff', as in bash."""
    if name.isprintable():
        return shlex.quote(name)
    word = "".join(
        char.replace("\\", "\\\\").replace("'", "\\'")
        if char.isprintable()
        else "".join(f"\\x{byte:02x}" for byte in _bytes(char))
        for char in name
    )
    return f"$'{word}'"


def argument(name: str) -> str:
    """Return a name as an argument of a procedure: `'readings'`."""
    return "'" + re.sub(r"['\\]", "", name) + "'"


def _bytes(char: str) -> bytes:
    try:
        return os.fsencode(char)
    except UnicodeEncodeError:  # a lone surrogate, which no file name contains
        return char.encode("utf-8", "surrogatepass")


def to_json(value: Any) -> str:
    """Return JSON, indented by two spaces, without unprintable characters."""
    return _ODD.sub(lambda match: _escaped(match[0]), _indented(value, "\n"))


def _indented(value: Any, end: str) -> str:
    # Like json.dumps(indent=2), which is slow, but a flat part is written at once in C.
    if not value or not isinstance(value, dict | list):
        return _encoder(", ")(value)
    begin = f"{end}  "
    parts = value.values() if isinstance(value, dict) else value
    if not any(isinstance(part, dict | list) for part in parts):
        text = _encoder(f",{begin}")(value)[1:-1]
    elif isinstance(value, dict):
        encode = _encoder(", ")
        lines = (f"{encode(str(key))}: {_indented(part, begin)}" for key, part in value.items())
        text = f",{begin}".join(lines)
    else:
        text = f",{begin}".join(_indented(part, begin) for part in value)
    left, right = "{}" if isinstance(value, dict) else "[]"
    return f"{left}{begin}{text}{end}{right}"


@lru_cache
def _encoder(separator: str, colon: str = ": ") -> Callable[[Any], str]:
    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(separator, colon))
    return encoder.encode


def to_script(values: Iterable[Any]) -> Iterator[str]:
    """Yield each value as JSON in a script element, which contains neither `</` nor `<!--`."""
    encode = _encoder(",", ":")
    for value in values:
        yield _ODD.sub(lambda match: _escaped(match[0]), encode(value)).replace("<", "\\u003c")


def _escaped(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]
