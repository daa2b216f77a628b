"""Run a Spark standalone cluster on loopback: a master and its workers, from pyspark's own jars."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Any

import psutil
import typer

from hudilab.errors import ServiceError
from hudilab.settings import Settings, load_settings
from hudilab_cli.applications import ids_running, worker_rows
from hudilab_cli.servers import process, spark
from hudilab_cli.servers.folder import refuse_second, starting
from hudilab_jobs import server_locks
from hudilab_spark.cluster import (
    ADDRESS,
    CONF,
    USUAL_UI_PORT,
    WORK,
    Master,
    end_driver,
    find_driver,
    megabytes,
    read_address,
)

NAME, HOST = "cluster", process.HOST
USUAL_PORT = 7077
LEAST_MEMORY = 512  # MB; Spark refuses executors with less than 450
# Workers remove the folders of applications that ended a week ago. Nothing can be killed over HTTP:
# neither web UI knows which account of this machine is asking.
DEFAULTS = """spark.worker.cleanup.enabled true
spark.ui.killEnabled false
spark.master.ui.decommission.allow.mode DENY
"""


@dataclass(frozen=True)
class Cluster:
    """A running master and its workers.

    `workers` are their process ids; `cores` and `memory` (MB) are what each of them offers.
    """

    master: str
    ui: str
    pid: int
    workers: tuple[int, ...]
    cores: int
    memory: int
    log: Path

    @property
    def address(self) -> str:
        """Return what clients connect to."""
        return self.master

    def describe(self) -> str:
        """Return one line: where it listens, how large it is, and where it logs."""
        size = f"{len(self.workers)} workers of {self.cores} cores and {self.memory} MB"
        where = f"UI {self.ui}, process {self.pid}, log {self.log}"
        return f"cluster at {self.master} ({size}), {where}"


def start_cluster(
    settings: Settings,
    *,
    workers: int = 2,
    cores: int = 2,
    memory: str = "2g",
    port: int = 0,
    patience: float = process.PATIENCE,
) -> Cluster:
    """Start a master and its workers, or return the running ones, once all workers are alive.

    Workers of a running cluster that have died are started again.

    Args:
        cores: cores that each worker offers to executors.
        memory: memory that each worker offers to executors: 512m, 2g.
        port: 0 tries the last port used, then 7077, then any free port.
        patience: seconds to wait for the master, and then for all workers.

    Raises:
        ServiceError: the port is in use, `memory` is too little for an executor or too much for
            the machine, workers do not register, or the running cluster has other settings.
        JavaError: no suitable Java is found.
    """
    folder, size = settings.home / "services" / NAME, megabytes(memory, "--memory")
    _check_size(workers, size)
    asked = {"workers": workers, "cores": cores, "memory": size}
    with starting(folder):
        return _start(settings, folder, port, asked, patience)


def _start(
    settings: Settings, folder: Path, port: int, asked: dict[str, Any], patience: float
) -> Cluster:
    running = find_cluster(settings)
    if running is None:
        refuse_second(folder)
        stop_cluster(settings)  # stop workers that outlived their master
        process.retry(folder, lambda: _start_master(settings, port, dict(asked), patience))
    else:
        same = asked.items() <= read_address(folder).items()
        if not (same and process.has_port(running, port)):
            raise ServiceError(
                f"{running.describe()} is already running with other settings",
                f"stop it with: hudilab services stop {NAME}",
            )
    try:
        _start_workers(settings, patience)
    except BaseException:  # Ctrl-C, too: leave no process behind
        stop_cluster(settings)
        raise
    if found := find_cluster(settings):
        return found
    raise ServiceError(
        "the master exited as soon as it was ready",
        f"see {folder}/master.log, then start it again with: hudilab services start {NAME}",
    )


def running_cluster(
    settings: Settings, *, workers: int = 2, cores: int = 2, memory: str = "2g"
) -> AbstractContextManager[Cluster]:
    """Run a cluster for a `with` block; one that was running before keeps running."""
    begin = partial(start_cluster, workers=workers, cores=cores, memory=memory)
    return process.running(settings, find_cluster, begin, stop_cluster)


def find_cluster(settings: Settings) -> Cluster | None:
    """Return the cluster whose master runs in this home, or None."""
    folder = settings.home / "services" / NAME
    found = server_locks.find(folder)
    if found is None:
        return None
    about, workers = read_address(folder), map(server_locks.find, _worker_folders(folder))
    pids, size = tuple(one.pid for one in workers if one), (about["cores"], about["memory"])
    return Cluster(about["url"], about["ui"], found.pid, pids, *size, folder / "master.log")


def stop_cluster(settings: Settings) -> int | None:
    """End the cluster's applications, then its workers and its master; return its id, if it ran.

    Only drivers that were started from this home are ended; others wait for another master.
    """
    folder = settings.home / "services" / NAME
    if running := find_cluster(settings):
        master = Master(running.master, running.ui)
        # Without a master, a driver would wait for another one and never end.
        with suppress(ServiceError):
            for id in ids_running(master):
                if driver := find_driver(settings.home, id):
                    end_driver(driver)
    for one in _worker_folders(folder):
        process.stop(one)
    # If it stayed, drivers would send its secret to any master that takes this port next.
    (folder / CONF / "spark-defaults.conf").unlink(missing_ok=True)
    return process.stop(folder)


def _worker_folders(folder: Path) -> list[Path]:
    return sorted(folder.glob("worker-*"), key=lambda path: int(path.name.partition("-")[2]))


def _check_size(workers: int, memory: int) -> None:
    if memory < LEAST_MEMORY:
        raise ServiceError(
            f"{memory} MB per worker is too little for an executor",
            f"use --memory {LEAST_MEMORY}m or more",
        )
    there = psutil.virtual_memory().total // 1024**2
    if workers * memory > there:
        raise ServiceError(
            f"{workers} workers with {memory} MB each need more than the {there} MB of this "
            "machine",
            "use fewer --workers or less --memory",
        )


def _start_master(settings: Settings, port: int, about: dict[str, Any], patience: float) -> None:
    folder = settings.home / "services" / NAME
    last = {"url": ":0", "ui": ":0"} | read_address(folder)
    rpc = process.choose_port(port, process.port_of(last["url"]), USUAL_PORT)
    ui = process.choose_port(0, process.port_of(last["ui"]), USUAL_UI_PORT)
    # Every account on this machine can reach loopback: without a secret, any driver could run
    # its code in the workers, as this account.
    secret = f"spark.authenticate true\nspark.authenticate.secret {token_hex(32)}\n"
    conf = spark.write_conf(folder, DEFAULTS + secret)
    about |= {"url": f"spark://{HOST}:{rpc}", "ui": f"http://{HOST}:{ui}"}
    (folder / ADDRESS).write_text(json.dumps(about), encoding="utf-8")
    program = ["master.Master", "--host", HOST, "--port", str(rpc), "--webui-port", str(ui)]
    server = spark.launch(settings, folder, program, conf, folder / "master.log")
    try:
        _wait(lambda: all(map(process.in_use, (rpc, ui))), [server], "a master", patience)
    except BaseException:  # Ctrl-C, too: leave no process behind
        process.stop(folder)
        raise


def _start_workers(settings: Settings, patience: float) -> None:
    """Start all missing workers at once, and wait until the master lists every worker as alive."""
    folder = settings.home / "services" / NAME
    about, conf = read_address(folder), folder / CONF
    started = []
    for number in range(1, about["workers"] + 1):
        mine = folder / f"worker-{number}"
        if server_locks.find(mine) is None:
            program = ["worker.Worker", "--cores", str(about["cores"])]
            program += ["--memory", f"{about['memory']}m", "--work-dir", str(mine / WORK)]
            program += ["--host", HOST, "--port", "0", "--webui-port", "0", about["url"]]
            mine.mkdir(exist_ok=True)
            log = mine / "worker.log"
            started.append(spark.launch(settings, mine, program, conf, log))
    master = Master(about["url"], about["ui"])

    def all_there() -> bool:
        try:
            return len(worker_rows(master)) == int(about["workers"])
        except ServiceError:  # the master is busy: not ready yet
            return False

    _wait(all_there, started, f"all {about['workers']} workers", patience)


def _wait(
    ready: Callable[[], bool], started: Sequence[process.Launched], what: str, patience: float
) -> None:
    what = f"the cluster did not start {what}"
    process.wait_until(ready, started, why=spark.why, what=what, patience=patience)


def command(
    port: Annotated[int, process.port_option(USUAL_PORT)] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2,
    cores: Annotated[int, typer.Option(min=1, help="Cores per worker.")] = 2,
    memory: Annotated[str, typer.Option(help="Memory per worker: 512m, 2g.")] = "2g",
) -> None:
    """Start a Spark standalone cluster."""
    found = start_cluster(load_settings(), workers=workers, cores=cores, memory=memory, port=port)
    print(found.describe())
    print(f"export RUNTIME_ENV=DOCKER SPARK_MASTER_URL={found.master}")


SERVICE = process.Service(command, find_cluster, stop_cluster)
