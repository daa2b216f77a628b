"""Run Spark's history server, the web UI of finished applications, on loopback."""

from __future__ import annotations

from pathlib import Path

from hudilab.files import private_folder
from hudilab.paths import local_path
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_cli.servers import process, spark
from hudilab_jobs.settings import load_settings
from hudilab_spark.cluster import CONF, open_directly
from hudilab_spark.jars import verify
from hudilab_spark.s3 import spark_settings


class History(process.Server):
    """A running history server."""

    name = "history"

    @property
    def ui(self) -> str:
        """Return the URL of the web UI."""
        return self.address

    @property
    def events(self) -> str:
        """Return the folder of the event logs."""
        return str(self.about["events"])

    def describe(self) -> str:
        """Return a line with address, event logs and log."""
        return f"history at {self.ui} of {self.events}, process {self.pid}, log {self.log}"


def start_history(settings: Settings, events: str = "", *, port: int = 0) -> History:
    """Start a history server, or return the running one, once it has read the event logs.

    Args:
        events: the folder of event logs, a path or s3a://; by default `<home>/spark-events`, the
            folder of the lab's sessions.
        port: 0 tries the last port used, then 18080, then any free port.

    Raises:
        ServiceError: the port is in use, the server is not ready in time, or the running one has
            another folder or port.
        JarError: a jar that s3a:// needs is missing or altered.
        JavaError: no suitable Java is found.
    """
    events = events or str(settings.home / "spark-events")

    def prepare(folder: Path) -> process.Launch:
        number = process.server_port(settings, "history", port)
        ui = f"http://{process.HOST}:{number}"
        jars = _write_conf(settings, folder, events, number)
        conf = folder / CONF
        command = spark.command(settings, ["history.HistoryServer"], conf, jars)
        about = {"events": events}
        return process.Launch(command, ui, lambda: _has_looked(ui), spark.environment(conf), about)

    def fits(running: History) -> bool:
        return running.events == events

    return process.start(settings, History, port, prepare, fits)


def _write_conf(settings: Settings, folder: Path, events: str, port: int) -> list[Path]:
    """Write the server's settings; return the jars that it needs to read `events`."""
    defaults = process.render(settings, "history.conf", events=events, port=port)
    jars: list[Path] = []
    if events.startswith("s3a://"):
        jars = verify(settings.project / "jars", ["s3"])
        own = read_options(settings.conf_file("spark-defaults.conf"))
        defaults |= {key: value for key, value in own.items() if ".fs.s3a." in key}
        defaults |= spark_settings(settings)
    elif local := Path(events) if events.startswith("/") else local_path(events):
        private_folder(local)
    spark.write_conf(settings, folder, defaults)
    return jars


def find_history(settings: Settings) -> History | None:
    """Return this home's running history server, or None."""
    return process.find(settings, History)


def stop_history(settings: Settings) -> int | None:
    """Stop the server; return its process id, or None if none was running."""
    return process.stop(settings, "history")


def _has_looked(ui: str) -> bool:
    """Return whether the server has read the logs; its page answers earlier."""
    try:
        with open_directly(f"{ui}/", timeout=3) as page:
            return b"last-updated" in page.read()
    except OSError:  # not ready
        return False


def command(port: int, events: str) -> None:
    """Start Spark's history server, which shows finished applications."""
    print(start_history(load_settings(), events, port=port).describe())


SERVICE = process.Service(start_history, find_history, stop_history)
