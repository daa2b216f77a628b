"""Format settings for Java: the .properties files that servers read."""

from __future__ import annotations

import struct
from collections.abc import Mapping

__all__ = ["properties"]


def properties(lines: Mapping[str, str]) -> str:
    """Return the text of a .properties file, in plain ASCII: Java reads it as ISO 8859-1."""
    return "".join(f"{_key(key)}={_value(value)}\n" for key, value in lines.items())


def _key(text: str) -> str:
    return "".join(f"\\{one}" if one in " :=#!" else one for one in _escaped(text))


def _value(text: str) -> str:
    # Java would skip leading blanks.
    rest = text.lstrip(" ")
    return "\\ " * (len(text) - len(rest)) + _escaped(rest)


def _escaped(text: str) -> str:
    """Double backslashes; escape all but printable ASCII as Java's chars, which are UTF-16."""
    raw = text.encode("utf-16-be")
    units = struct.unpack(f">{len(raw) // 2}H", raw)
    plain = (chr(one) if 0x20 <= one < 0x7F else f"\\u{one:04X}" for one in units)
    return "".join("\\\\" if one == "\\" else one for one in plain)
