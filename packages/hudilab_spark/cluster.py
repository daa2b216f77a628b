"""Read a Spark standalone master's state over HTTP, and find and end this home's drivers."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import ProxyHandler, build_opener

from hudilab.errors import ServiceError, SessionError, WaitError
from hudilab.files import private_folder, read_properties, write_private
from hudilab.paths import local_path
from hudilab.python_path import source_folders
from hudilab.settings import Settings
from hudilab_spark.conf import ZONE, megabytes, older_names
from hudilab_spark.environment import JAVA_OPTIONS
from hudilab_spark.java import ARCHIVE, COMPILER, quoted, with_archive
from hudilab_spark.preflight import temporary_folder
from hudilab_spark.server_records import read_record, running_process, server_folder
from hudilab_spark.waiting import wait_for

if TYPE_CHECKING:
    import psutil

CONNECT_TIMEOUT = 3.0  # seconds per attempt
ROOM_TIMEOUT = 3.0  # seconds for a stopped session to release its resources
END = 15.0  # seconds for a driver to stop
ANSWER_TIMEOUT = 30.0  # seconds; a web UI first loads classes, for 15 s on a busy machine
USUAL_UI_PORT = 8080
CONF = "conf"  # in a Spark server's folder: its settings
WORK = "work"  # in a worker's folder: its executors' output
# Names and locations of credentials that executors get.
AWS_NAMES = (
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_REGION",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
)
# Bypass the environment's proxy, which is for other networks.
open_directly = build_opener(ProxyHandler({})).open


@dataclass(frozen=True)
class Master:
    """A master: the drivers' URL, `spark://host:port`, and the web UI's address."""

    url: str
    ui: str


def find_master(url: str, home: Path) -> Master:
    """Return the master at `url`, with its web UI on SPARK_MASTER_WEBUI_PORT, by default 8080.

    For the lab's own master, `<home>/services/cluster.json` contains the web UI's address.

    Raises:
        ServiceError: `url` is not spark://host:port[,host:port...], no master listens there, or
            SPARK_MASTER_WEBUI_PORT is not a port.
    """
    for host, port in _addresses(url):
        try:
            socket.create_connection((host.strip("[]"), port), CONNECT_TIMEOUT).close()
        except OSError as error:
            why = error.strerror or "no answer"
            continue
        if own := _own(home, host, port):
            return Master(url, str(own["ui"]))
        word = os.environ.get("SPARK_MASTER_WEBUI_PORT", "").strip() or str(USUAL_UI_PORT)
        if not (word.isdecimal() and 0 < int(word) < 65536):
            raise ServiceError(
                f"SPARK_MASTER_WEBUI_PORT={word!r} is not a port",
                f"set it to the port of the master's web UI, or unset it to use {USUAL_UI_PORT}",
            )
        return Master(url, f"http://{host}:{word}")
    raise ServiceError(
        f"no Spark master is listening at {url} ({why})",
        "fix SPARK_MASTER_URL, or start a cluster with: hudilab services start cluster",
    )


def own_master(home: Path) -> str:
    """Return the URL of the lab's own cluster.

    Raises:
        ServiceError: no cluster of this home is running.
    """
    if own := _running(home):
        return str(own["address"])
    raise ServiceError(
        f"SPARK_MASTER_URL is not set and no cluster of {home} is running",
        "set it, or start a cluster with: hudilab services start cluster",
    )


def authentication(url: str, home: Path) -> dict[str, str]:
    """Return the settings that the lab's own cluster requires; empty for any other master.

    They include the secret, so pass them only in files of mode 0600.
    """
    if not url.startswith("spark://") or not any(
        _own(home, *address) for address in _addresses(url)
    ):
        return {}
    file = server_folder(home, "cluster") / CONF / "spark-defaults.conf"
    if not file.is_file():
        return {}
    defaults = read_properties(file.read_text("utf-8"))
    return {key: defaults[key] for key in defaults if key.startswith("spark.authenticate")}


def executor_folders(home: Path, app: str) -> list[Path]:
    """Return the log folders of an application's executors on the lab's own cluster, by number."""
    workers = server_folder(home, "cluster").glob("worker-*")
    folders = (folder for worker in workers for folder in (worker / WORK / app).glob("*"))
    return sorted(folders, key=lambda folder: int(folder.name))


def _running(home: Path) -> dict[str, Any]:
    """Return the record of the lab's own cluster, or an empty dict if its master has ended."""
    record = read_record(home, "cluster")
    # Another master may have taken the port of a killed one.
    return record if running_process(record) else {}


def _own(home: Path, host: str, port: int) -> dict[str, Any]:
    """Return the record of the lab's own cluster if it has this address, else an empty dict."""
    own = _running(home)
    same = str(own.get("address", "")).rpartition(":")[2] == str(port)
    return own if same and host in ("127.0.0.1", "localhost") else {}


def _addresses(url: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each master in a URL."""
    for address in url.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        named = re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]", host)
        if not (
            url.startswith("spark://") and named and port.isdecimal() and 0 < int(port) < 65536
        ):
            raise ServiceError(
                f"SPARK_MASTER_URL={url!r} is not spark://host:port",
                "fix it, or unset it to use spark.master from the settings",
            )
        yield host, int(port)


def ask(master: Master) -> dict[str, Any]:
    """Return the contents of the master's page /json/.

    Raises:
        ServiceError: the web UI does not answer, or is not this master's.
    """
    try:
        location = urlsplit(master.ui)
        address = str(location.hostname), location.port or 80
        socket.create_connection(address, CONNECT_TIMEOUT).close()
        with open_directly(f"{master.ui}/json/", timeout=ANSWER_TIMEOUT) as answer:
            state = dict(json.load(answer))
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        raise ServiceError(
            f"the web UI of the Spark master {master.url} does not answer at {master.ui} ({why})",
            "set SPARK_MASTER_WEBUI_PORT to its port",
        ) from None
    known = {port for _, port in _addresses(master.url)}
    if int(str(state.get("url", "")).rpartition(":")[2] or 0) not in known:
        raise ServiceError(
            f"the web UI at {master.ui} belongs to {state.get('url', 'something else')}, not to "
            f"{master.url}",
            "fix SPARK_MASTER_URL or SPARK_MASTER_WEBUI_PORT",
        )
    return state


def check_cluster(settings: Settings, session: Mapping[str, str]) -> Master:
    """Return the master of the `session` settings, after checking its free resources.

    Create a local event log folder, which Spark requires to exist.

    Raises:
        SessionError: the master does not answer or has no free resources.
    """
    events = session.get("spark.eventLog.dir", "")
    if folder := Path(events) if events.startswith("/") else local_path(events):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        master = find_master(session["spark.master"], settings.home)
        check_room(master, session)
    except ServiceError as error:
        raise SessionError(*error.args) from None
    return master


def check_room(master: Master, conf: Mapping[str, str]) -> None:
    """Raise ServiceError if no worker has room for an executor, because a session would hang."""
    memory = megabytes(conf.get("spark.executor.memory", "1g"), "spark.executor.memory")
    cores = int(conf.get("spark.executor.cores", "1"))
    need = f"an executor with {memory} MB and {cores} cores (spark.executor.memory, .cores)"
    # A session that has just stopped needs a moment to release its resources.
    ends = time.monotonic() + ROOM_TIMEOUT
    while True:
        state = ask(master)
        workers = [worker for worker in state["workers"] if worker["state"] == "ALIVE"]
        if any(
            worker["memoryfree"] >= memory and worker["coresfree"] >= cores for worker in workers
        ):
            return
        _refuse_too_small(master, workers, memory, cores, need)
        if time.monotonic() > ends:
            break
        time.sleep(0.2)
    holders = ", ".join(f"{app['id']} ({app['name']})" for app in state["activeapps"])
    raise ServiceError(
        f"no worker of {master.url} has room for {need}, all resources are held by "
        f"{holders or 'drivers'}",
        "wait, kill an application with: hudilab kill ID, or start the cluster with more workers",
    )


def _refuse_too_small(
    master: Master, workers: list[dict[str, Any]], memory: int, cores: int, need: str
) -> None:
    if not workers:
        raise ServiceError(
            f"the master {master.url} has no live worker",
            "start one, on this machine with: hudilab services start cluster",
        )
    if not any(worker["memory"] >= memory and worker["cores"] >= cores for worker in workers):
        sizes = ", ".join(
            f"{worker['memory']} MB and {worker['cores']} cores" for worker in workers
        )
        raise ServiceError(
            f"no worker of {master.url} is large enough for {need}, they have {sizes}",
            "request less in spark-defaults.conf, or start the cluster with more (--memory, "
            "--cores)",
        )


# Identifies the driver's JVM, because its process id may be reused.
_MARK = "HUDILAB_LOG_FILE"


def note_driver(home: Path, app: str, pid: int, log: str) -> None:
    """Record an application's JVM process id and log file in `<home>/submitted`."""
    folder = private_folder(home / "submitted")
    write_private(folder / f"{app}.json", json.dumps({"pid": pid, "log": log}))


def find_driver(home: Path, app: str) -> psutil.Process | None:
    """Return the driver's JVM if this home has its record and it is running."""
    import psutil  # here, because a deployed job has no psutil

    try:
        noted = json.loads((home / "submitted" / f"{app}.json").read_text("utf-8"))
        process = psutil.Process(noted["pid"])
        same = process.environ().get(_MARK) == noted["log"]
    except (OSError, ValueError, KeyError, psutil.Error):
        return None
    return process if same else None


def end_driver(driver: psutil.Process) -> None:
    """Terminate a driver with its descendants, and kill them after `END` seconds.

    Raises:
        WaitError: a process survives the kill.
    """
    import psutil

    family = [driver]
    with suppress(psutil.NoSuchProcess):
        family += driver.children(recursive=True)
    for process in family:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    try:
        wait_for(lambda: not _alive(family), END, "the driver to end")
    except WaitError:
        for process in _alive(family):
            with suppress(psutil.NoSuchProcess):
                process.kill()
        ids = ", ".join(str(process.pid) for process in family)
        remedy = f"see what blocks them: ps -o pid,stat,wchan -p {ids.replace(' ', '')}"
        wait_for(lambda: not _alive(family), END, f"processes {ids} to end", remedy)


def _alive(family: list[psutil.Process]) -> list[psutil.Process]:
    import psutil

    alive = []
    for process in family:
        with suppress(psutil.NoSuchProcess):
            # A notebook's kernel reaps its JVM late, but a zombie has ended, too.
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def executor_settings(settings: Settings, session: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of executors, on this machine or one with the same installation."""
    master = os.environ.get("SPARK_MASTER_URL", "").strip() or session.get("spark.master", "")
    cluster = {
        "spark.master": master,
        # Not spark.jars, because executors would load Hudi in another class loader than Spark.
        "spark.executor.extraClassPath": session["spark.driver.extraClassPath"],
        "spark.executor.extraJavaOptions": with_archive(
            f"{session.get('spark.executor.extraJavaOptions', '')} {_compiler()}".strip(),
            settings.project / "jars" / ARCHIVE,
        ),
        "spark.executorEnv.HUDI_CONF_DIR": str(settings.conf_file("hudi-defaults.conf").parent),
        "spark.executorEnv.TZ": ZONE,
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(map(str, source_folders())),
    }
    if "spark.eventLog.dir" not in session:
        # A path, not a URI, because Spark doesn't decode spaces.
        cluster["spark.eventLog.dir"] = str(settings.home / "spark-events")
    # Names and locations of credentials only, because the UI and the event log show them.
    cluster |= {
        f"spark.executorEnv.{name}": value for name in AWS_NAMES if (value := os.environ.get(name))
    }
    cluster |= {f"spark.executorEnv.{name}": value for name, value in older_names().items()}
    if re.match(r"spark://(127\.|localhost:)", master):
        temporary = quoted([f"-Djava.io.tmpdir={temporary_folder(settings.home)}"])
        cluster["spark.executor.extraJavaOptions"] += f" {temporary}"
        cluster |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return cluster


def _compiler() -> str:
    """Return the driver's options of the just-in-time compiler, for its executors."""
    words = os.environ.get(JAVA_OPTIONS, "").split()
    return " ".join(word for word in words if word.startswith(COMPILER))
