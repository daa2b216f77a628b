"""List the workers and applications of a Spark standalone master, and kill applications."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from hudilab.errors import ServiceError, WaitError
from hudilab_spark.cluster import (
    ANSWER_TIMEOUT,
    Master,
    ask,
    authentication,
    end_driver,
    find_driver,
    open_directly,
)
from hudilab_spark.waiting import wait_for

if TYPE_CHECKING:
    import pandas as pd

_RUNNING = ("WAITING", "RUNNING", "SUBMITTED", "RELAUNCHING")


def worker_rows(master: Master) -> pd.DataFrame:
    """Return one row per live worker: id, host, cores, cores_free, memory, memory_free (MB)."""
    import pandas as pd  # here, because a deployed job has no pandas

    alive = [worker for worker in ask(master)["workers"] if worker["state"] == "ALIVE"]
    names = ("id", "host", "cores", "coresfree", "memory", "memoryfree")
    columns = [name.replace("free", "_free") for name in names]
    return pd.DataFrame([[worker[name] for name in names] for worker in alive], columns=columns)


def application_rows(master: Master) -> pd.DataFrame:
    """Return running and finished applications and drivers, newest first.

    Returns:
        Columns id, name (a driver's main class), kind, state, cores, submitted (UTC), seconds.
    """
    import pandas as pd

    state, rows = ask(master), []
    for kind, name, key in (("application", "name", "apps"), ("driver", "mainclass", "drivers")):
        for app in state[f"active{key}"] + state[f"completed{key}"]:
            begun = pd.Timestamp(int(app["starttime"]), unit="ms", tz="UTC")
            seconds = app["duration"] / 1000 if "duration" in app else None
            rows.append([app["id"], app[name], kind, app["state"], app["cores"], begun, seconds])
    columns = ["id", "name", "kind", "state", "cores", "submitted", "seconds"]
    frame = pd.DataFrame(rows, columns=columns)
    return frame.sort_values("submitted", ascending=False, ignore_index=True)


def ids_running(master: Master) -> list[str]:
    """Return the ids of applications and drivers that have not ended."""
    known = application_rows(master)
    return list(known["id"][known["state"].isin(_RUNNING)])


def kill(master: Master, id: str, home: Path) -> str:
    """Kill an application or driver and return its state at the master.

    A driver from this `home` is terminated as a process. The master has to kill other drivers, but
    the lab's own master refuses this, because HTTP callers aren't authenticated.

    Raises:
        ServiceError: the id is not running at the master, or cannot be killed.
        WaitError: the driver's process does not end.
    """
    state = _state(master, id)
    if state not in _RUNNING:
        what = f"{id} has already ended ({state})" if state else f"no application or driver {id!r}"
        raise ServiceError(
            f"{what} at {master.url}; running: {', '.join(ids_running(master)) or 'none'}",
            "list all with: hudilab apps",
        )
    remedy = f"see {master.ui}, and check that spark.ui.killEnabled is not false there"
    if driver := find_driver(home, id):
        end_driver(driver)
        remedy = f"its driver's process {driver.pid} is gone; see the master's log"
    elif authentication(master.url, home):
        raise ServiceError(
            f"{id} was not started from {home}, so its process is unknown",
            "stop it where it was started: press Ctrl-C, or call spark.stop() in its notebook",
        )
    else:
        _ask_to_end(master, id, remedy)
    try:
        wait_for(lambda: _state(master, id) not in _RUNNING, 10, f"{id} to end", remedy)
    except WaitError as error:
        raise ServiceError(*error.args) from None
    return _state(master, id)


def _ask_to_end(master: Master, id: str, remedy: str) -> None:
    kind = "driver" if id.startswith("driver-") else "app"
    data = urlencode({"id": id, "terminate": "true"}).encode()
    try:
        open_directly(f"{master.ui}/{kind}/kill/", data, timeout=ANSWER_TIMEOUT).close()
    except OSError as error:
        raise ServiceError(f"{master.url} did not kill {id} ({error})", f"{remedy}") from None


def _state(master: Master, id: str) -> str:
    """Return the state of an application or driver; empty if the master has no such id."""
    applications = application_rows(master)
    return "".join(applications["state"][applications["id"] == id])
