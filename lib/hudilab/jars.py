"""The jars of `jars/jars.lock`: read the lock, verify the files, fetch missing ones."""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hudilab.errors import JarError
from hudilab.ivy import resolve

__all__ = ["Jar", "fetch", "read_lock", "verify"]

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
        raise JarError(f"cannot read {lock} ({reason}); restore it from the repository") from error
    groups: dict[str, list[Jar]] = {}
    for group, table in tables.items():
        if not isinstance(table, dict):
            raise JarError(f"{lock}: {group!r} is not in a group; put it below a line like [core]")
        for coordinate, sha256 in table.items():
            if not _COORDINATE.fullmatch(coordinate) or not _SHA256.fullmatch(str(sha256)):
                shape = '"organisation:name:version[:classifier]" = "<sha256, 64 hex digits>"'
                raise JarError(f"{lock}: bad entry {coordinate!r} in group {group}; write {shape}")
        groups[group] = [Jar(group, coordinate, sha256) for coordinate, sha256 in table.items()]
    return groups


def verify(jars_dir: Path, groups: Sequence[str]) -> list[Path]:
    """Hash the groups' jars and return their paths in the lock's order (80 MB take about 0.05 s).

    Raises:
        JarError: a jar is missing or altered; names the first one and its group.
    """
    jars = _wanted(jars_dir, groups)
    for jar in jars:
        if problem := _problem(jars_dir, jar):
            raise JarError(f"{problem}; run: hudilab jars {jar.group}")
    return [jars_dir / jar.group / jar.file for jar in jars]


def fetch(
    jars_dir: Path,
    groups: Sequence[str],
    java_home: Path,
    *,
    cache: Path,
    say: Callable[[str], object] = print,
) -> list[Path]:
    """Fetch missing or altered jars into `jars/<group>/`; start no process if all are intact.

    A file whose sha256 differs from the lock's never gets there.

    Args:
        cache: Folder of Ivy's unfinished downloads and its log.

    Raises:
        JarError: a jar cannot be fetched, or has the wrong sha256; names jar, group and log.
    """
    wanted = _wanted(jars_dir, groups)
    for group in dict.fromkeys(jar.group for jar in wanted):
        jars = [jar for jar in wanted if jar.group == group and _problem(jars_dir, jar)]
        if jars:
            try:
                _fetch_group(jars_dir, jars, java_home, cache, say)
            except OSError as error:
                what = f"{error.strerror} ({error.filename})"
                raise JarError(
                    f"cannot fetch group {group}: {what}; check that path and its permissions"
                ) from error
    return verify(jars_dir, groups)


def _wanted(jars_dir: Path, groups: Sequence[str]) -> list[Jar]:
    lock = read_lock(jars_dir / "jars.lock")
    for group in groups:
        if group not in lock:
            there = ", ".join(lock) or "none"
            raise JarError(f"no group {group!r} in {jars_dir / 'jars.lock'}; groups there: {there}")
    return [jar for group in dict.fromkeys(groups) for jar in lock[group]]


def _problem(jars_dir: Path, jar: Jar) -> str | None:
    path = jars_dir / jar.group / jar.file
    if not path.is_file():
        return f"missing jar {path} of group {jar.group}"
    got = _sha256(path)
    if got != jar.sha256:
        return f"altered jar {path} of group {jar.group}: sha256 {got}, jars.lock has {jar.sha256}"
    return None


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise JarError(f"cannot read {path} ({error.strerror}); make it readable") from error


def _fetch_group(
    jars_dir: Path, jars: list[Jar], java_home: Path, cache: Path, say: Callable[[str], object]
) -> None:
    started, size, group = time.monotonic(), 0.0, jars_dir / jars[0].group
    for folder in (cache, group):
        folder.mkdir(parents=True, exist_ok=True)
    # Beside the target, so that the last step is one atomic rename.
    with tempfile.TemporaryDirectory(dir=group, prefix=".fetch-") as name:
        stage = Path(name)
        _resolve(jars_dir, jars, stage, java_home, cache)
        for jar in jars:
            path = stage / jar.file
            got, megabytes = _sha256(path), path.stat().st_size / 1e6
            # Do not keep it in the cache: it would be a duplicate, or the wrong file.
            shutil.rmtree(cache.joinpath(*jar.coordinate.split(":")[:2]), ignore_errors=True)
            if got != jar.sha256:
                raise JarError(
                    f"refused {jar.coordinate} of group {jar.group}: sha256 {got}, jars.lock has "
                    f"{jar.sha256}; another file was served: check the mirror or the proxy"
                )
            path.replace(group / jar.file)
            say(f"{jar.group}: {jar.file}, {megabytes:.1f} MB")
            size += megabytes
    seconds = time.monotonic() - started
    say(f"{group.name}: {len(jars)} fetched and verified, {size:.1f} MB in {seconds:.1f} s")


def _resolve(jars_dir: Path, jars: list[Jar], stage: Path, java_home: Path, cache: Path) -> None:
    settings, names = jars_dir / "ivysettings.xml", [jar.coordinate for jar in jars]
    failure = resolve(names, stage, settings=settings, java_home=java_home, cache=cache)
    if failure:
        by_hand = next(jar.file for jar in jars if jar.coordinate == failure.missing[0])
        raise JarError(
            f"cannot fetch {', '.join(failure.missing)} of group {jars[0].group}: "
            f"{failure.reason} (log: {cache / 'ivy.log'}); check network and proxy, "
            f"or copy {by_hand} into {jars_dir / jars[0].group} by hand"
        )
