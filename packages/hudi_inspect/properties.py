"""Read and check a table's `hoodie.properties`."""

from __future__ import annotations

import re

from hudi_inspect.errors import InspectError, Unreadable
from hudi_inspect.store import PROPERTIES, Store, Vanished, typed
from hudi_inspect.units import quoted

OLDEST, NEWEST = 6, 9  # table versions
# The oldest Hudi for a version, tested with 0.15, 1.0.2, 1.2.0 and hudi-rs 0.5 on 6, 8 and 9.
READERS = {6: "0.14", 7: "1.0", 8: "1.0", 9: "1.1"}
MAX_PROPERTIES = 1048576  # bytes of the file
_PAIR = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_table_properties(store: Store) -> tuple[dict[str, str], int]:
    """Return the properties and the table version.

    Raises:
        InspectError: The folder is no table, is damaged, or has an unsupported version.
    """
    file = f"{store.uri}/{PROPERTIES}"
    try:
        data = store.read(PROPERTIES, most=MAX_PROPERTIES)
    except Vanished:
        raise _no_table(store) from None
    except Unreadable as error:
        raise InspectError(f"{file} {error}", f"look at it first: {typed(file, 'ls')}") from None
    properties = parse_properties(data.decode("utf-8", "replace"))
    version = properties.get("hoodie.table.version", "")
    needed = ("hoodie.table.name", "hoodie.table.type", "hoodie.table.version")
    missing = [name for name in needed if not properties.get(name)]
    if missing or not re.fullmatch(r"[0-9]{1,9}", version):
        what = (
            "is empty" if not data.strip() else f"lacks {', '.join(missing) or 'a valid version'}"
        )
        look, restore = typed(f"{file}.backup", "ls"), typed(f"{file}.backup", "cp", file)
        raise InspectError(
            f"{file} {what}",
            f"compare it with its backup, if there is one ({look}), and restore it from there: "
            f"{restore}",
        )
    if int(version) > NEWEST:
        raise InspectError(
            f"{store.uri} has table version {version}, but inspect supports no version newer "
            f"than {NEWEST}",
            "use the Hudi release that wrote it: CALL show_timeline(table => 'NAME')",
        )
    if int(version) < OLDEST:
        raise InspectError(
            f"{store.uri} has table version {version}, but inspect supports no version older "
            f"than {OLDEST}",
            "upgrade the table: CALL upgrade_table(table => 'NAME', to_version => 'SIX')",
        )
    return properties, int(version)


def _no_table(store: Store) -> InspectError:
    below = store.tables_below()
    if not below:
        return InspectError(
            f"{store.uri} is not a Hudi table: it has no {PROPERTIES}",
            "give the folder that contains .hoodie: hudi-inspect TABLE",
        )
    shown = ", ".join(below[:20]) + (f" and {len(below) - 20} more" if len(below) > 20 else "")
    return InspectError(
        f"{store.uri} is not a table but contains {len(below)}: {shown}",
        f"choose one: hudi-inspect {quoted(below[0])}",
    )


def parse_properties(text: str) -> dict[str, str]:
    """Parse a .properties file like Java, with escapes and continued lines."""
    pairs: dict[str, str] = {}
    line: list[str] = []
    for part in re.split(r"\r\n|\r|\n", text):
        part = part.lstrip(" \t\f")
        if not line and part.startswith(("#", "!")):
            continue
        continues = (len(part) - len(part.rstrip("\\"))) % 2 == 1
        line.append(part[:-1] if continues else part)
        if not continues:
            _add("".join(line), pairs)
            line = []
    _add("".join(line), pairs)  # the last line ends in a backslash
    return pairs


def _add(line: str, pairs: dict[str, str]) -> None:
    if line and (match := _PAIR.fullmatch(line)):
        pairs[_unescaped(match[1])] = _unescaped(match[2])


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2])

    # Java writes a character above U+FFFF as two escapes.
    return _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
