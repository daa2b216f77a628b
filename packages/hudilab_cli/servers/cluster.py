"""Run a Spark standalone cluster on loopback from pyspark's own jars: a master and its workers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import psutil

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.applications import ids_running, worker_rows
from hudilab_cli.servers import process, spark
from hudilab_cli.servers.process import HOST
from hudilab_jobs.settings import load_settings
from hudilab_spark.cluster import (
    CONF,
    USUAL_UI_PORT,
    WORK,
    Master,
    end_driver,
    find_driver,
)
from hudilab_spark.conf import megabytes
from hudilab_spark.server_records import read_record, running_process, server_folder

LEAST_MEMORY = 512  # MB; Spark refuses executors with less than 450


@dataclass(frozen=True)
class Cluster(process.Server):
    """A running master and its workers; `workers` are the process ids of the live workers."""

    name = "cluster"
    workers: tuple[int, ...] = ()

    @property
    def master(self) -> str:
        """Return the master's URL: spark://host:port."""
        return self.address

    @property
    def ui(self) -> str:
        """Return the URL of the master's web UI."""
        return str(self.about["ui"])

    def describe(self) -> str:
        """Return a line with address, size and log."""
        each = f"{self.about['cores']} cores and {self.about['memory']} MB"
        size = f"{len(self.workers)} workers of {each}"
        where = f"UI {self.ui}, process {self.pid}, log {self.log}"
        return f"cluster at {self.master} ({size}), {where}"


def start_cluster(
    settings: Settings,
    *,
    workers: int = 2,
    cores: int = 2,
    memory: str = "2g",
    port: int = 0,
) -> Cluster:
    """Start a cluster, or return the running one, once all workers are alive.

    Dead workers of a running cluster are started again.

    Args:
        cores: cores that each worker offers to executors.
        memory: memory that each worker offers to executors: 512m, 2g.
        port: 0 tries the last port used, then 7077, then any free port.

    Raises:
        ServiceError: the port is in use, `memory` is too little for an executor or too much for
            the machine, workers do not register, or the running cluster has other settings.
        JavaError: no suitable Java is found.
    """
    size = megabytes(memory, "--memory")
    _check_size(workers, size)
    options = {"count": workers, "cores": cores, "memory": size}
    with process.starting(settings, "cluster") as folder:
        running = find_cluster(settings)
        if running is None:
            stop_cluster(settings)  # stop workers that outlived their master
            process.retry(settings, "cluster", lambda: _start_master(settings, port, options))
        elif port not in (0, process.port_of(running.master)) or not (
            options.items() <= running.about.items()
        ):
            raise process.another_runs(running)
        try:
            _start_workers(settings)
        except BaseException:  # also after Ctrl-C, leave no process behind
            stop_cluster(settings)
            raise
        if cluster := find_cluster(settings):
            return cluster
    raise ServiceError(
        "the master exited as soon as it was ready",
        f"see {folder}/master.log, then start it again with: hudilab services start cluster",
    )


def find_cluster(settings: Settings) -> Cluster | None:
    """Return this home's running cluster, or None."""
    cluster = process.find(settings, Cluster)
    if cluster is None:
        return None
    processes = map(running_process, cluster.about["workers"])
    return replace(cluster, workers=tuple(worker.pid for worker in processes if worker))


def stop_cluster(settings: Settings) -> int | None:
    """End the cluster's applications, workers and master; return the master's process id, or None.

    Drivers from other homes are not ended; they wait for another master.
    """
    if running := find_cluster(settings):
        master = Master(running.master, running.ui)
        # Without a master, a driver would wait for another master and never end.
        with suppress(ServiceError):
            for id in ids_running(master):
                if driver := find_driver(settings.home, id):
                    end_driver(driver)
    for worker in read_record(settings.home, "cluster").get("workers", ()):
        process.end(running_process(worker))
    # Otherwise drivers would send its secret to any later master at this port.
    conf = server_folder(settings.home, "cluster") / CONF
    (conf / "spark-defaults.conf").unlink(missing_ok=True)
    return process.stop(settings, "cluster")


def _check_size(workers: int, memory: int) -> None:
    if memory < LEAST_MEMORY:
        raise ServiceError(
            f"{memory} MB per worker is too little for an executor",
            f"use --memory {LEAST_MEMORY}m or more",
        )
    total = psutil.virtual_memory().total // 1024**2
    if workers * memory > total:
        raise ServiceError(
            f"{workers} workers with {memory} MB each need more than the {total} MB of this "
            "machine",
            "use fewer --workers or less --memory",
        )


def _start_master(settings: Settings, port: int, options: Mapping[str, int]) -> None:
    folder = server_folder(settings.home, "cluster")
    last_ui = read_record(settings.home, "cluster").get("ui", ":0")
    rpc = process.server_port(settings, "cluster", port)
    ui = process.choose_port(0, process.port_of(last_ui), USUAL_UI_PORT)
    defaults = process.render(settings, "cluster.conf", secret=token_hex(32))
    spark.write_conf(settings, folder, defaults)
    program = ["master.Master", "--host", HOST, "--port", str(rpc), "--webui-port", str(ui)]
    server = _launch(settings, program, folder / "master.log")
    about: dict[str, Any] = {**options, "ui": f"http://{HOST}:{ui}", "workers": []}
    process.record(settings, "cluster", server, f"spark://{HOST}:{rpc}", **about)
    _wait(lambda: all(map(process.in_use, (rpc, ui))), [server], "a master")


def _start_workers(settings: Settings) -> None:
    """Start all missing workers, and wait until the master lists every worker as alive."""
    folder = server_folder(settings.home, "cluster")
    about = read_record(settings.home, "cluster")
    workers, started = dict(enumerate(about["workers"], 1)), []
    for number in range(1, about["count"] + 1):
        if running_process(workers.get(number, {})) is None:
            own = folder / f"worker-{number}"
            own.mkdir(exist_ok=True)
            shutil.rmtree(own / "tmp", ignore_errors=True)  # of a killed worker
            program = ["worker.Worker", "--cores", str(about["cores"])]
            program += ["--memory", f"{about['memory']}m", "--work-dir", str(own / WORK)]
            program += ["--host", HOST, "--port", "0", "--webui-port", "0", about["address"]]
            # For shuffle files. Spark would split a path at a comma into two folders.
            local = {} if "," in str(own) else {"SPARK_LOCAL_DIRS": str(own / "tmp")}
            started.append(_launch(settings, program, own / "worker.log", local))
            workers[number] = process.identity(started[-1])
            about["workers"] = list(workers.values())
            process.write_record(settings, "cluster", about)
    master = Master(about["address"], about["ui"])

    def registered() -> bool:
        try:
            return len(worker_rows(master)) == int(about["count"])
        except ServiceError:  # the busy master isn't ready
            return False

    _wait(registered, started, f"all {about['count']} workers")


def _launch(
    settings: Settings, program: Sequence[str], log: Path, env: Mapping[str, str] | None = None
) -> process.Launched:
    conf = server_folder(settings.home, "cluster") / CONF
    env = spark.environment(conf) | dict(env or {})
    return process.launch(spark.command(settings, program, conf), log, env)


def _wait(ready: Callable[[], bool], started: Sequence[process.Launched], what: str) -> None:
    process.wait_until(ready, started, name="cluster", what=f"the cluster did not start {what}")


def command(port: int, workers: int, cores: int, memory: str) -> None:
    """Start a Spark standalone cluster."""
    cluster = start_cluster(load_settings(), workers=workers, cores=cores, memory=memory, port=port)
    print(cluster.describe())
    print(f"export RUNTIME_ENV=DOCKER SPARK_MASTER_URL={cluster.master}")


SERVICE = process.Service(start_cluster, find_cluster, stop_cluster)
