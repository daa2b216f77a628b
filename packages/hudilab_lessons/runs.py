"""A lesson's run: its asserts must run, and no second run may delete its tables."""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
from pathlib import Path

from hudilab.errors import ParameterError, SessionError
from hudilab.files import private_folder

_HELD: dict[Path, int] = {}  # open files, locked until this process ends


def check_asserts() -> None:
    """Raise SessionError if this Python skips `assert`, and with it every check of a lesson."""
    if sys.flags.optimize:
        given = os.environ.get("PYTHONOPTIMIZE")
        cause = f"PYTHONOPTIMIZE={given}" if given else "python -O"
        raise SessionError(
            f"{cause} makes Python skip each assert, so no lesson would check its results",
            "start it without that option: unset PYTHONOPTIMIZE",
        )


def hold(home: Path, lesson: str, folder: str, run_id: str) -> None:
    """Keep the lesson's tables in a folder for this process, until it ends.

    The lock is a file in the home: runs with different homes do not see each other.

    Raises:
        ParameterError: Another process runs the lesson in the same folder.
    """
    name = hashlib.sha256(f"{lesson}\n{folder}".encode()).hexdigest()[:16]
    file = home / "locks" / f"run-{name}"
    if file in _HELD:
        return
    private_folder(file.parent)
    lock = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = os.read(lock, 20).decode("ascii", "replace").strip()
        os.close(lock)
        raise ParameterError(
            f"run_id={run_id!r}: process {other} is running {lesson} with the same tables, in "
            f"{folder}",
            "wait for it, shut down its kernel, or use another run_id: -p run_id NAME",
        ) from None
    os.truncate(lock, 0)
    os.write(lock, str(os.getpid()).encode())
    _HELD[file] = lock
