"""Find a folder's server: the process that has its lock open, whatever a file or clock says."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil

LOCK = "lock"  # a server inherits it locked and keeps it open while it lives
STARTING = "starting"  # the process that starts a server holds this open too


def find(folder: Path) -> psutil.Process | None:
    """Return the server running on this folder, or None; those of other accounts are invisible."""
    lock, starting = (os.path.realpath(folder / name) for name in (LOCK, STARTING))
    if not Path(lock).exists():
        return None
    import psutil  # here: a deployed job has no psutil, and no servers of its own

    for process in psutil.process_iter():
        try:
            # A server leads its own session: skip the many processes that do not.
            if process.pid == os.getpid() or os.getsid(process.pid) != process.pid:
                continue
            files = {one.path for one in process.open_files()}
        except (psutil.Error, OSError):  # it has ended, or belongs to another account
            continue
        if lock in files and starting not in files:
            return process
    return None
