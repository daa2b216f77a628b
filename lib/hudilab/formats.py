"""Names in Hudi's files and in the lab's stamps, and forms of text, that all rooms share."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

PROPERTIES = ".hoodie/hoodie.properties"  # of a table
# The names under which a commit's metadata holds its stamp.
PREFIX = "hudilab."
QUERY, BATCH = PREFIX + "query_id", PREFIX + "batch_id"
COVERS, SOURCE = PREFIX + "covers", PREFIX + "source"
QUARANTINED = PREFIX + "quarantined"  # how many rows of the batch were set aside
MOST_BUCKETS = 10_000  # more than any table has; a random id of a file group is not below it
SHARED = PREFIX + "shared"  # which lock the writer took; see hudilab.table.sharing_options

_PAIR = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """Return the pairs of a .properties file as Java reads them: escapes, lines that continue."""
    pairs: dict[str, str] = {}
    line, continues = "", False
    for part in re.split(r"\r\n|\r|\n", text):
        part = part.lstrip(" \t\f")
        if not continues and part.startswith(("#", "!")):
            continue
        line += part
        continues = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        if continues:
            line = line[:-1]
        elif line:
            _add(line, pairs)
            line = ""
    if line:  # the file ends in a line that was to continue
        _add(line, pairs)
    return pairs


def _add(line: str, pairs: dict[str, str]) -> None:
    if found := _PAIR.fullmatch(line):
        pairs[_unescaped(found[1])] = _unescaped(found[2])


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else _CONTROLS.get(found[2], found[2])

    # Java writes a character beyond U+FFFF as two escapes.
    return _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def properties(lines: Mapping[str, str]) -> str:
    """Return the text of a .properties file, in plain ASCII: Java may read it as ISO 8859-1."""
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


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")
