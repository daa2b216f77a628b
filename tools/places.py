"""Try a fresh clone in each place where a checkout can be: set-up, `make run` and `make test`.

`python3 tools/places.py` tries all places, `python3 tools/places.py odd-path user` these two, and
`--target run` only set-up and `make run`. `together` is most of the others at once, for a machine
that has no hours to spare. It needs no set-up itself. A place that this machine cannot provide is
skipped with the reason. The logs of places that fail are kept; all else goes.
"""

from __future__ import annotations

import argparse
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
USER = "hudilab-places"
TARGETS = ("setup-dev", "run", "test")


class Place(NamedTuple):
    """What differs from a clone in a folder of its own, in this environment."""

    folder: str = "lab"
    env: dict[str, str | None] = {}  # noqa: RUF012  None: not set
    umask: int = -1
    closed: bool = False  # mode 0700, like root's home
    other: bool = False  # of an ordinary user, if this is root
    busy: bool = False  # two programs for each core that never wait


PLACES = {
    "closed-home": Place(closed=True),
    "user": Place(other=True),
    "odd-path": Place(folder="o'brien jürgen/my lab"),
    "lang-c": Place(env={"LANG": "C", "LC_ALL": "C", "LANGUAGE": None}),
    "time-zone": Place(env={"TZ": "Asia/Kathmandu"}),
    "no-home": Place(env={"HOME": None}),
    "umask-077": Place(umask=0o077),
    "busy": Place(busy=True),
    "together": Place(
        folder="o'brien jürgen/my lab",
        env={"LANG": "C", "LC_ALL": "C", "LANGUAGE": None, "TZ": "Asia/Kathmandu"},
        umask=0o077,
        other=True,
    ),
}


class Skip(Exception):
    """Why this machine cannot provide a place."""


@contextmanager
def account(place: Place) -> Iterator[tuple[int, int] | None]:
    """The user and group that everything runs as; None: the caller's own."""
    if not place.other or os.geteuid() != 0:
        yield None  # whoever is not root is an ordinary user already
        return
    if shutil.which("useradd") is None or shutil.which("userdel") is None:
        raise Skip("needs useradd and userdel, to make an ordinary user")
    subprocess.run(["useradd", "--no-create-home", USER], check=True)
    try:
        entry = pwd.getpwnam(USER)
        yield entry.pw_uid, entry.pw_gid
    finally:
        subprocess.run(["userdel", USER], check=True)


@contextmanager
def load(busy: bool) -> Iterator[None]:
    """Keep all cores busy with programs that never wait."""
    count = 2 * (os.cpu_count() or 1) if busy else 0
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def python_for(owner: tuple[int, int] | None) -> str | None:
    """A Python for `make PYTHON=...`; None leaves the choice to the Makefile."""
    if owner is None:
        return None
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for name in ("python3.11", "python3.12", "python3.13"):
            if (path := Path(folder, name)).exists() and _starts(path, owner):
                return str(path)
    raise Skip("no Python 3.11 to 3.13 on the PATH that other accounts can start")


def _starts(python: Path, owner: tuple[int, int]) -> bool:
    command = [str(python), "-c", "import ensurepip, sys; assert sys.version_info >= (3, 11)"]
    try:
        done = subprocess.run(
            command, user=owner[0], group=owner[1], extra_groups=[], cwd="/", capture_output=True
        )
    except OSError:
        return False
    return done.returncode == 0


def clone(place: Place, base: Path, jars: bool) -> Path:
    """A fresh clone of what is committed here, in a folder as the place has it."""
    checkout = base / place.folder
    checkout.parent.mkdir(parents=True, exist_ok=True)
    quiet = ("-c", "advice.detachedHead=false", "clone", "--quiet")
    subprocess.run(["git", *quiet, f"file://{ROOT}", str(checkout)], check=True)
    for folder in sorted((ROOT / "jars").glob("*/")) if jars else ():
        shutil.copytree(folder, checkout / "jars" / folder.name)
    return checkout


def attempt(name: str, targets: list[str], jars: bool, patience: float) -> str:
    """Try one place; return the path of the log if it fails, else nothing.

    Raises:
        Skip: this machine cannot provide the place.
    """
    place, failed = PLACES[name], ""
    base = Path(tempfile.mkdtemp(prefix=f"hudilab-{name}-"))
    try:
        with account(place) as owner, load(place.busy):
            python = python_for(owner)
            checkout = clone(place, base, jars)
            (home := base / "home").mkdir()
            base.chmod(0o700 if place.closed else 0o755)
            env = {k: v for k, v in os.environ.items() if k not in ("VIRTUAL_ENV", "PYTHONPATH")}
            env |= {"HOME": str(home)}
            for variable, value in place.env.items():
                env.pop(variable, None)
                env |= {} if value is None else {variable: value}
            how: dict[str, Any] = {"cwd": checkout, "env": env, "umask": place.umask}
            if owner:
                how |= {"user": owner[0], "group": owner[1], "extra_groups": []}
                for path in (base, *base.rglob("*")):
                    os.chown(path, *owner, follow_symlinks=False)
            for target in targets:
                command = ["make", target, *([f"PYTHON={python}"] if python else [])]
                log = base / f"{target}.log"
                started = time.monotonic()
                code = _run(command, log, patience, how)
                seconds = time.monotonic() - started
                print(f"{name}: make {target}: exit code {code}, {seconds:.0f} s", flush=True)
                if code:
                    kept = Path(tempfile.gettempdir()) / f"hudilab-{name}-{target}.log"
                    shutil.copyfile(log, kept)
                    failed = str(kept)
                    print("".join(log.read_text("utf-8", "replace").splitlines(True)[-25:]))
                    break
    finally:
        shutil.rmtree(base, ignore_errors=True)
    return failed


def _run(command: list[str], log: Path, patience: float, how: dict[str, Any]) -> int:
    """The exit code, and 124 after so many seconds; whatever it started is ended with it."""
    with log.open("wb") as out:
        running = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True, **how
        )
        try:
            return int(running.wait(patience))
        except subprocess.TimeoutExpired:
            return 124
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def main(*given: str) -> int:
    """The exit code: 1 if a place fails, 0 also if places were skipped."""
    parser = argparse.ArgumentParser(prog="places.py", description=__doc__)
    parser.add_argument("places", nargs="*", metavar="PLACE", help=", ".join(PLACES))
    parser.add_argument("--target", action="append", help=f"default: {' '.join(TARGETS)}")
    parser.add_argument("--jars", action="store_true", help="copy this checkout's jars")
    parser.add_argument("--patience", type=float, default=7200, help="seconds for each target")
    options = parser.parse_args(given)
    if unknown := {*options.places} - {*PLACES}:
        parser.error(f"no place {', '.join(sorted(unknown))}; choose from: {', '.join(PLACES)}")
    failed, skipped = {}, {}
    for name in options.places or PLACES:
        try:
            if log := attempt(name, options.target or [*TARGETS], options.jars, options.patience):
                failed[name] = log
        except Skip as why:
            skipped[name] = str(why)
    for name, why_not in skipped.items():
        print(f"{name}: skipped, {why_not}")
    for name, log in failed.items():
        print(f"{name}: FAILED, see {log}")
    count = len(options.places or PLACES)
    print(f"places: {count - len(failed) - len(skipped)} of {count} green, {len(skipped)} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
