"""Fetch missing or altered jars; a file with another sha256 never gets into `jars/`."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from hudilab.errors import JarError
from hudilab.runtime.java.ivy import resolve
from hudilab.runtime.java.jars import Jar, problem, sha256, verify, wanted

__all__ = ["fetch"]


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
    asked = wanted(jars_dir, groups)
    for group in dict.fromkeys(jar.group for jar in asked):
        jars = [jar for jar in asked if jar.group == group and problem(jars_dir, jar)]
        if jars:
            try:
                _fetch_group(jars_dir, jars, java_home, cache, say)
            except OSError as error:
                what = f"{error.strerror} ({error.filename})"
                raise JarError(
                    f"cannot fetch group {group}: {what}; check that path and its permissions"
                ) from error
    return verify(jars_dir, groups)


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
            got, megabytes = sha256(path), path.stat().st_size / 1e6
            # Do not keep it in the cache: it would be a duplicate, or the wrong file.
            shutil.rmtree(cache.joinpath(*jar.coordinate.split(":")[:2]), ignore_errors=True)
            if got != jar.sha256:
                raise JarError(
                    f"rejected {jar.coordinate} of group {jar.group}: sha256 is {got}, jars.lock "
                    f"expects {jar.sha256}; the server sent a different file: check the mirror or "
                    "the proxy"
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
