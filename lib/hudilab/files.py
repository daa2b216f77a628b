"""Files that only this account can read, and Java's .properties files."""

from __future__ import annotations

import os
import re
import shlex
import struct
from collections.abc import Mapping
from pathlib import Path

from hudilab.errors import PathError

_PAIR = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def private_folder(folder: Path) -> Path:
    """Create the folder and its missing parents with mode 0700, and return it.

    Existing folders keep their mode.

    Raises:
        OSError: a folder cannot be created.
    """
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)
    return folder


def close_home(home: Path) -> PathError | None:
    """Close the lab's own folder `.lab` to other accounts; return a problem with any other home.

    HUDILAB_HOME may name a folder with other things in it, whose mode isn't the lab's to change.
    """
    about = home.stat()
    if not about.st_mode & 0o077 or about.st_uid != os.getuid():
        return None
    if home.name == ".lab":
        home.chmod(0o700)
        return None
    remedy = f"chmod 700 {shlex.quote(str(home))}"
    return PathError(f"other accounts can look into the lab's home {home}", remedy)


def write_private(file: Path, text: str) -> None:
    """Write a file that only this account can read: mode 0600 from the first byte on.

    The write is atomic: a temporary file in the same folder, then a rename.
    """
    half = file.with_name(f".{file.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(text.encode())
    half.replace(file)


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
    if match := _PAIR.fullmatch(line):
        pairs[_unescaped(match[1])] = _unescaped(match[2])


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2])

    # Java writes a character beyond U+FFFF as two escapes.
    return _ESCAPE.sub(plain, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def properties(lines: Mapping[str, str]) -> str:
    """Return the text of a .properties file, in plain ASCII: Java may read it as ISO 8859-1."""
    return "".join(f"{_key(key)}={_value(value)}\n" for key, value in lines.items())


def _key(text: str) -> str:
    return "".join(
        f"\\{character}" if character in " :=#!" else character for character in _escaped(text)
    )


def _value(text: str) -> str:
    # Java would skip leading blanks.
    rest = text.lstrip(" ")
    return "\\ " * (len(text) - len(rest)) + _escaped(rest)


def _escaped(text: str) -> str:
    """Double backslashes; escape all but printable ASCII as Java's chars, which are UTF-16."""
    raw = text.encode("utf-16-be")
    units = struct.unpack(f">{len(raw) // 2}H", raw)
    plain = (chr(unit) if 0x20 <= unit < 0x7F else f"\\u{unit:04X}" for unit in units)
    return "".join("\\\\" if unit == "\\" else unit for unit in plain)
