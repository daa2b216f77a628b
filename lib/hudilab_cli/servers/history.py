"""Run Spark's history server on loopback: the web UI of applications that have ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from hudilab.files import private_folder
from hudilab.paths import local_path
from hudilab.settings import Settings, load_settings
from hudilab.settings_file import read_options
from hudilab_cli.servers import process, spark
from hudilab_jobs import server_locks
from hudilab_spark.cluster import ADDRESS, open_directly, read_address
from hudilab_spark.jars import verify
from hudilab_spark.s3 import spark_settings

NAME, HOST = "history", process.HOST
USUAL_PORT = 18080


@dataclass(frozen=True)
class History:
    """A running history server; `ui` is its URL, `events` the folder of event logs it shows."""

    ui: str
    events: str
    pid: int
    log: Path

    @property
    def address(self) -> str:
        """Return what clients connect to."""
        return self.ui

    def describe(self) -> str:
        """Return one line: where it listens, what it shows, and where it logs."""
        return f"history at {self.ui} of {self.events}, process {self.pid}, log {self.log}"


def start_history(settings: Settings, events: str = "", *, port: int = 0) -> History:
    """Start a history server, or return the running one, once it has read the event logs' folder.

    Args:
        events: the folder of event logs, on this disk or s3a://; by default `<home>/spark-events`,
            where the lab's sessions write them.
        port: 0 tries the last port used, then 18080, then any free port.

    Raises:
        ServiceError: the port is in use, the server is not ready in time, or the running one has
            another folder or port.
        JarError: a jar that s3a:// needs is missing or altered.
        JavaError: no suitable Java is found.
    """
    folder = settings.home / "services" / NAME
    events = events or str(settings.home / "spark-events")

    def begin() -> None:
        last = process.port_of(read_address(folder).get("ui", ":0"))
        address = process.choose_port(port, last, USUAL_PORT)
        about = {"ui": f"http://{HOST}:{address}", "events": events}
        jars, log = _write_conf(settings, folder, events, address), folder / "history.log"
        (folder / ADDRESS).write_text(json.dumps(about), encoding="utf-8")
        server = spark.launch(
            settings, folder, ["history.HistoryServer"], folder / "conf", log, jars
        )
        _wait(server, about["ui"])

    def fits(there: History) -> bool:
        return there.events == events

    return process.start(folder, port, lambda: find_history(settings), begin, fits)


def _wait(server: process.Launched, ui: str, patience: float = process.PATIENCE) -> None:
    what = f"the history server did not answer at {ui}"
    process.wait_until(
        lambda: _has_looked(ui), [server], why=spark.why, what=what, patience=patience
    )


def _write_conf(settings: Settings, folder: Path, events: str, port: int) -> list[Path]:
    """Write the server's settings; return the jars that it needs to read `events`."""
    defaults = {
        "spark.history.fs.logDirectory": events,
        "spark.history.fs.update.interval": "2s",
        "spark.history.ui.port": str(port),
    }
    jars: list[Path] = []
    if events.startswith("s3a://"):
        jars = verify(settings.project / "jars", ["s3"])
        own = read_options(settings.conf_file("spark-defaults.conf"))
        defaults |= {key: value for key, value in own.items() if ".fs.s3a." in key}
        defaults |= spark_settings(settings)
    elif local := Path(events) if events.startswith("/") else local_path(events):
        private_folder(local)
    spark.write_conf(folder, "".join(f"{key} {value}\n" for key, value in defaults.items()))
    return jars


def find_history(settings: Settings) -> History | None:
    """Return the history server that runs in this home, or None."""
    folder = settings.home / "services" / NAME
    found = server_locks.find(folder)
    if found is None:
        return None
    about = read_address(folder)
    return History(about["ui"], about["events"], found.pid, folder / "history.log")


def stop_history(settings: Settings) -> int | None:
    """Stop the server; return its process id, or None if none was running."""
    return process.stop(settings.home / "services" / NAME)


def _has_looked(ui: str) -> bool:
    """Return whether the page shows when the logs were last read: it answers before they are."""
    try:
        with open_directly(f"{ui}/", timeout=3) as page:
            return b"last-updated" in page.read()
    except OSError:  # not ready yet
        return False


def command(
    port: Annotated[int, process.port_option(USUAL_PORT)] = 0,
    events: Annotated[str, typer.Option(help="Folder of event logs; default: the lab's own.")] = "",
) -> None:
    """Start Spark's history server, which shows finished applications."""
    print(start_history(load_settings(), events, port=port).describe())


SERVICE = process.Service(command, find_history, stop_history)
