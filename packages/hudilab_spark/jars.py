"""The jars of `jars/jars.lock`: read the lock, verify the files."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hudilab.errors import JarError

_COORDINATE = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+(:[\w.-]+)?", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Jar:
    """An entry of the lock: `organisation:name:version[:classifier]` and its sha256."""

    group: str
    coordinate: str
    sha256: str

    @property
    def file(self) -> str:
        """The file name in `jars/<group>/`."""
        return "-".join(self.coordinate.split(":")[1:]) + ".jar"


def read_lock(lock: Path) -> dict[str, list[Jar]]:
    """Return the jars of each group, in the lock's order.

    Raises:
        JarError: the lock cannot be read or has a bad entry; names file and entry.
    """
    try:
        tables = tomllib.loads(lock.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise JarError(
            f"cannot read {lock} ({reason})", "restore it from the repository"
        ) from error
    groups: dict[str, list[Jar]] = {}
    for group, table in tables.items():
        if not isinstance(table, dict):
            raise JarError(
                f"{lock}: {group!r} is not in a group", "put it below a group line such as [core]"
            )
        for coordinate, sha256 in table.items():
            if not _COORDINATE.fullmatch(coordinate) or not _SHA256.fullmatch(str(sha256)):
                shape = '"organisation:name:version[:classifier]" = "<sha256, 64 hex digits>"'
                raise JarError(
                    f"{lock}: invalid entry {coordinate!r} in group {group}", f"write it as {shape}"
                )
        groups[group] = [Jar(group, coordinate, sha256) for coordinate, sha256 in table.items()]
    return groups


def verify(jars_dir: Path, groups: Sequence[str]) -> list[Path]:
    """Hash the groups' jars and return their paths in the lock's order (80 MB take about 0.05 s).

    Raises:
        JarError: a jar is missing or altered; names the first one and its group.
    """
    jars = wanted(jars_dir, groups)
    for jar in jars:
        if wrong := problem(jars_dir, jar):
            raise JarError(f"{wrong}", f"run: hudilab jars {jar.group}")
    return [jars_dir / jar.group / jar.file for jar in jars]


def wanted(jars_dir: Path, groups: Sequence[str]) -> list[Jar]:
    """Return the groups' jars in the lock's order.

    Raises:
        JarError: the lock has no such group; lists its groups.
    """
    lock = read_lock(jars_dir / "jars.lock")
    for group in groups:
        if group not in lock:
            known = ", ".join(lock) or "none"
            raise JarError(
                f"no group {group!r} in {jars_dir / 'jars.lock'}", f"available groups: {known}"
            )
    return [jar for group in dict.fromkeys(groups) for jar in lock[group]]


def problem(jars_dir: Path, jar: Jar) -> str | None:
    """Return what is wrong with a jar's file, or None: it is missing, or its sha256 differs."""
    path = jars_dir / jar.group / jar.file
    if not path.is_file():
        return f"missing jar {path} of group {jar.group}"
    got = sha256(path)
    if got != jar.sha256:
        return (
            f"altered jar {path} of group {jar.group}: sha256 is {got}, jars.lock expects "
            f"{jar.sha256}"
        )
    return None


def sha256(path: Path) -> str:
    """Return a file's sha256 in hex.

    Raises:
        JarError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise JarError(f"cannot read {path} ({error.strerror})", "make it readable") from error
