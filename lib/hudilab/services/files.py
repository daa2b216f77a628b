"""What servers are given to read: files for their user only, and settings as Java reads them."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from pathlib import Path

__all__ = ["properties", "write_private"]


def properties(lines: Mapping[str, str]) -> str:
    """The text of a .properties file. Java reads it as ISO 8859-1: this one is plain ASCII."""
    return "".join(f"{_key(key)}={_value(value)}\n" for key, value in lines.items())


def write_private(file: Path, text: str) -> None:
    """Written beside and renamed, so that it is never half there, nor for others to read."""
    beside = file.with_name(f"{file.name}.new")
    beside.unlink(missing_ok=True)
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    beside.replace(file)


def _key(text: str) -> str:
    return "".join(f"\\{one}" if one in " :=#!" else one for one in _escaped(text))


def _value(text: str) -> str:
    # Blanks at its start would be skipped.
    rest = text.lstrip(" ")
    return "\\ " * (len(text) - len(rest)) + _escaped(rest)


def _escaped(text: str) -> str:
    """Backslashes doubled, and all but printable ASCII as Java's chars, which are UTF-16."""
    raw = text.encode("utf-16-be")
    units = struct.unpack(f">{len(raw) // 2}H", raw)
    plain = (chr(one) if 0x20 <= one < 0x7F else f"\\u{one:04X}" for one in units)
    return "".join("\\\\" if one == "\\" else one for one in plain)
