"""Map applications to their driver processes: record, find and end them by id."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from hudilab.errors import WaitError
from hudilab.files import private_folder, write_private
from hudilab_spark.waiting import wait_for

if TYPE_CHECKING:
    import psutil

# Its value identifies the driver's JVM: the process id alone may have been reused.
_MARK = "HUDILAB_LOG_FILE"


def note_driver(home: Path, app: str, pid: int, log: str) -> None:
    """Record an application's JVM process id and log file in `<home>/submitted`."""
    folder = private_folder(home / "submitted")
    write_private(folder / f"{app}.json", json.dumps({"pid": pid, "log": log}))


def find_driver(home: Path, app: str) -> psutil.Process | None:
    """Return the driver's JVM if it was recorded in this home and is still running."""
    import psutil  # here: a deployed job has no psutil, and only records

    try:
        noted = json.loads((home / "submitted" / f"{app}.json").read_text("utf-8"))
        process = psutil.Process(noted["pid"])
        same = process.environ().get(_MARK) == noted["log"]
    except (OSError, ValueError, KeyError, psutil.Error):
        return None
    return process if same else None


def end_driver(driver: psutil.Process, patience: float = 15) -> None:
    """Terminate a driver and its descendants, kill them after `patience` seconds; all are gone.

    Raises:
        WaitError: the processes survive being killed.
    """
    import psutil

    family = [driver]
    with suppress(psutil.NoSuchProcess):
        family += driver.children(recursive=True)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    try:
        wait_for(lambda: not _alive(family), patience, "the driver to end")
    except WaitError:
        for process in _alive(family):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        ids = ", ".join(str(process.pid) for process in family)
        remedy = f"see what blocks them: ps -o pid,stat,wchan -p {ids.replace(' ', '')}"
        wait_for(lambda: not _alive(family), patience, f"processes {ids} to end", remedy)


def _alive(family: list[psutil.Process]) -> list[psutil.Process]:
    import psutil

    alive = []
    for process in family:
        with suppress(psutil.NoSuchProcess):
            # A kernel reaps its JVM late: a zombie has ended all the same.
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive
