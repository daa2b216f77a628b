"""Which process is the driver of an application: noted when it starts, found and ended by id."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hudilab.errors import WaitError
from hudilab.private import private_folder, write_private
from hudilab.waiting import wait_for

if TYPE_CHECKING:
    import psutil

__all__ = ["end_driver", "find_driver", "note_driver"]

# Its JVM has this variable of its own: a process id alone may be another program's by now.
_MARK = "HUDILAB_LOG_FILE"


def note_driver(home: Path, app: str, pid: int, log: str) -> None:
    """Keep the process id of an application's JVM in `<home>/submitted`; `log` is its log file."""
    folder = private_folder(home / "submitted")
    write_private(folder / f"{app}.json", json.dumps({"pid": pid, "log": log}))


def find_driver(home: Path, app: str) -> psutil.Process | None:
    """The driver's JVM, if it was noted in this home and still runs."""
    import psutil  # here: a job that is deployed has none, and only notes

    try:
        noted = json.loads((home / "submitted" / f"{app}.json").read_text("utf-8"))
        process = psutil.Process(noted["pid"])
        same = process.environ().get(_MARK) == noted["log"]
    except (OSError, ValueError, KeyError, psutil.Error):
        return None
    return process if same else None


def end_driver(driver: psutil.Process, patience: float = 15) -> None:
    """End a driver and the processes below it; killed after `patience` seconds, gone on return.

    Errors: WaitError when the system does not let go of them.
    """
    import psutil

    family = [driver]
    with suppress(psutil.NoSuchProcess):
        family += driver.children(recursive=True)
    for one in family:
        with suppress(psutil.NoSuchProcess):
            one.terminate()
    try:
        wait_for(lambda: not _alive(family), patience, "the driver to end")
    except WaitError:
        for one in _alive(family):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        ids = ", ".join(str(one.pid) for one in family)
        remedy = f"see what holds it: ps -o pid,stat,wchan -p {ids.replace(' ', '')}"
        wait_for(lambda: not _alive(family), patience, f"the end of the processes {ids}", remedy)


def _alive(family: list[psutil.Process]) -> list[psutil.Process]:
    import psutil

    found = []
    for one in family:
        with suppress(psutil.NoSuchProcess):
            # A kernel collects its Java's exit code late: a process that has ended, all the same.
            if one.is_running() and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one)
    return found
