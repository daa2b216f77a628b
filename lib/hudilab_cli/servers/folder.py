"""A server's folder: its two locks, and room on its disk.

The server inherits `lock`, which identifies it; a starter holds `starting` from its first look at
the folder until the server answers.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hudilab.errors import ServiceError
from hudilab.files import private_folder
from hudilab_jobs.server_locks import LOCK, STARTING

TURN = 120.0  # seconds to wait for another starter; no server takes this long to start
DYING = 5.0  # seconds that a killed server may keep its lock after it can no longer be found


@contextmanager
def starting(folder: Path, patience: float = TURN) -> Iterator[None]:
    """Create the folder and hold the right to start its server; a second starter waits here.

    Raises:
        ServiceError: the folder is not writable, or the wait exceeds `patience` seconds.
    """
    with _opened(folder, STARTING) as turn:
        if not _taken(turn, patience):
            raise ServiceError(
                f"another program has been starting {folder.name} in {folder} for {patience:.0f} s",
                "stop that program, then start again",
            )
        yield


def refuse_second(folder: Path) -> None:
    """Raise ServiceError if a server that `find` cannot see runs on this folder."""
    with locked(folder):
        pass


@contextmanager
def locked(folder: Path) -> Iterator[int]:
    """Hold the lock that a server inherits, and yield its file descriptor.

    Raises:
        ServiceError: a server that `find` cannot see runs on this folder, or it is not writable.
    """
    # Open both: a process that has only the lock open counts as a server.
    with _opened(folder, STARTING), _opened(folder, LOCK) as lock:
        if not _taken(lock, DYING):
            raise ServiceError(
                f"{folder.name} is already running in {folder}, but the process is not yours",
                "stop it as its owner, or set HUDILAB_HOME to a folder of your own",
            )
        yield lock


def check_disk(folder: Path, what: str, least: int) -> None:
    """Create the folder for `what`, and check its free disk space.

    Raises:
        ServiceError: the folder cannot be created, or fewer than `least` bytes are free.
    """
    try:
        private_folder(folder)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise ServiceError(
            f"cannot use {folder} for {what} ({error.strerror})",
            "set HUDILAB_HOME to a writable folder",
        ) from None
    if free < least:
        raise ServiceError(
            f"only {free / 1e6:.0f} MB are free for {what} in {folder}, but {least / 1e6:.0f} MB "
            "are needed",
            "free space, or set HUDILAB_HOME",
        )


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[int]:
    try:
        private_folder(folder)
        folder.chmod(0o700)
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ServiceError(
            f"cannot use {folder} for a server ({error.strerror})",
            "set HUDILAB_HOME to a writable folder",
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int, patience: float) -> bool:
    """Return whether the file could be locked within `patience` seconds."""
    ends = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                return False
            time.sleep(0.05)
        else:
            return True
