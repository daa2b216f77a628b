"""Who runs on a folder: the process that has its lock open, whatever a clock or a file says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

__all__ = ["LOCK", "STARTING", "find"]

LOCK = "lock"  # a server inherits it locked, and has it open as long as it lives
STARTING = "starting"  # whoever starts a server has this one open as well


def find(folder: Path) -> psutil.Process | None:
    """The server that runs on this folder, or None. Of another account's no one can tell."""
    lock, starting = (os.path.realpath(folder / name) for name in (LOCK, STARTING))
    if not Path(lock).exists():
        return None
    import psutil  # here: a job that is deployed has none, and no servers of its own

    for process in psutil.process_iter():
        try:
            # A server leads a session of its own: few others have to be looked into.
            if process.pid == os.getpid() or os.getsid(process.pid) != process.pid:
                continue
            files = {one.path for one in process.open_files()}
        except (psutil.Error, OSError):  # it has ended, or is somebody else's
            continue
        if lock in files and starting not in files:
            return process
    return None
