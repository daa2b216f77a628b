"""The records of the lab's own servers: `<home>/services/<name>.json`, written at each start.

A record outlives its server, so that the next start tries the same port first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psutil


def server_folder(home: Path, name: str) -> Path:
    """Return the folder with a server's data, settings and log."""
    return home / "services" / name


def record_file(home: Path, name: str) -> Path:
    """Return the file with a server's record, of mode 0600 because of its password."""
    return home / "services" / f"{name}.json"


def read_record(home: Path, name: str) -> dict[str, Any]:
    """Return the record of a server's last start; empty if missing or unreadable."""
    try:
        return dict(json.loads(record_file(home, name).read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def running_process(record: Mapping[str, Any]) -> psutil.Process | None:
    """Return the process of a record, or None if it has ended and its id may be reused."""
    if "pid" not in record:
        return None
    import psutil  # here, because a deployed job has no psutil

    try:
        process = psutil.Process(record["pid"])
        same = abs(seconds_after_boot(process) - record["created"]) < 1
        alive = same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, KeyError, TypeError, ValueError):
        return None
    return process if alive else None


def seconds_after_boot(process: psutil.Process) -> float:
    """Return the start of a process relative to the boot, which is independent of the clock."""
    import psutil

    return process.create_time() - psutil.boot_time()
