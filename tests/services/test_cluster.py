"""A Spark standalone cluster: ready when its master says so, and faults named."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from cases import read_cases
from refusals import assert_refusal, refused
from running import running_server
from services.clusters import docker, hudilab, submit

from hudilab.errors import ServiceError, SessionError
from hudilab.settings import Settings
from hudilab_cli.applications import kill, worker_rows
from hudilab_cli.servers import cluster as service
from hudilab_cli.servers import process
from hudilab_cli.servers.cluster import Cluster, find_cluster, start_cluster, stop_cluster
from hudilab_spark.cluster import Master, authentication, check_cluster, check_room
from hudilab_spark.conf import session_settings
from hudilab_spark.waiting import wait_for

# --- the service


def test_it_is_gone_when_stopped_and_its_secret_with_it(alone: Settings) -> None:
    first = start_cluster(alone, workers=2)
    family = [psutil.Process(pid) for pid in (first.pid, *first.workers)]
    assert len(family) == 3
    login = authentication(first.master, alone.home)
    assert sorted(login) == ["spark.authenticate", "spark.authenticate.secret"]
    assert authentication(first.master.replace("127.0.0.1", "localhost"), alone.home) == login
    assert authentication("spark://elsewhere:7077", alone.home) == {}
    assert authentication("local[*]", alone.home) == {}
    assert stop_cluster(alone) == first.pid
    assert not any(child.is_running() for child in family)
    assert authentication(first.master, alone.home) == {}  # another master may be there by now
    assert (find_cluster(alone), stop_cluster(alone)) == (None, None)
    with running_server(service.SERVICE, alone, workers=1, cores=1, memory="600m") as again:
        assert again.master == first.master  # the address stays
        assert authentication(again.master, alone.home) != login  # and the secret does not
        assert (len(again.workers), again.about["cores"], again.about["memory"]) == (1, 1, 600)
    assert find_cluster(alone) is None


def test_a_worker_that_was_killed_comes_back(alone: Settings) -> None:
    first = start_cluster(alone, workers=1)
    psutil.Process(first.workers[0]).kill()
    master = Master(first.master, first.ui)
    wait_for(lambda: worker_rows(master).empty, 120, "a master without workers")
    remedy = "; start one, on this machine with: hudilab services start cluster"
    with refused(ServiceError, f"the master {first.master} has no live worker", remedy=remedy):
        check_room(master, {})
    again = start_cluster(alone, workers=1)
    assert again.pid == first.pid
    assert again.workers != first.workers
    assert len(worker_rows(master)) == 1
    # Workers that have outlived their master are replaced.
    psutil.Process(again.pid).kill()
    psutil.Process(again.pid).wait(10)
    assert find_cluster(alone) is None
    third = start_cluster(alone, workers=1)
    assert not psutil.pid_exists(again.workers[0])
    assert len(worker_rows(Master(third.master, third.ui))) == 1


def test_a_second_cluster_is_refused(settings: Settings, cluster: Cluster) -> None:
    others: list[dict[str, Any]] = [{"workers": 1}, {"cores": 1}, {"memory": "1g"}]
    remedy = "; stop it with: hudilab services stop cluster"
    for other in others:
        with refused(ServiceError, cluster.describe(), "other settings", remedy=remedy):
            start_cluster(settings, **other)
    assert find_cluster(settings) == cluster


@pytest.mark.parametrize(
    ("memory", "problem", "remedy"),
    [
        ("100m", "100 MB per worker is too little for an executor", "; use --memory 512m or more"),
        ("plenty", "--memory='plenty' is not a memory size", "; use a value such as 512m or 2g"),
        ("{total}m", "3 workers with {total} MB each need more than", "--workers or less --memory"),
    ],
)
def test_an_amount_of_memory_that_cannot_be(
    alone: Settings, memory: str, problem: str, remedy: str
) -> None:
    total = psutil.virtual_memory().total // 1024**2
    with refused(ServiceError, problem.format(total=total), remedy=remedy):
        start_cluster(alone, workers=3, memory=memory.format(total=total))
    assert not (alone.home / "services").exists()


@pytest.mark.deep
def test_workers_that_do_not_register_are_named(
    alone: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = service._start_master

    def start_and_lock(settings: Settings, *others: object) -> None:
        start(settings, *others)  # type: ignore[arg-type]
        folder = settings.home / "services" / "cluster"
        secret = "spark.authenticate true\nspark.authenticate.secret another\n"
        (folder / "conf" / "spark-defaults.conf").write_text(secret)

    monkeypatch.setattr(service, "_start_master", start_and_lock)
    monkeypatch.setattr(process, "START_TIMEOUT", 6.0)
    remedy = f"; see {alone.home}/services/cluster/worker-1/worker.log, then start again"
    with refused(ServiceError, "did not start all 1 workers within 6 s", remedy=remedy):
        start_cluster(alone, workers=1)
    assert find_cluster(alone) is None


ENDLESS = """
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session
spark = open_session(load_settings(), app="endless")
while True:
    spark.range(10).count()
"""


@pytest.mark.deep
def test_an_application_ends_with_its_cluster(
    alone: Settings, tmp_path: Path, drivers: list[psutil.Process]
) -> None:
    running = start_cluster(alone, workers=1)
    (tmp_path / "endless.py").write_text(ENDLESS)
    env = {
        "HUDILAB_HOME": str(alone.home),
        "RUNTIME_ENV": "DOCKER",
        "SPARK_MASTER_URL": running.master,
    }
    _, driver, _ = submit(env, str(tmp_path / "endless.py"))
    drivers.append(driver)
    assert driver.is_running()
    stop_cluster(alone)
    assert not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE


# --- the master, asked


@pytest.mark.parametrize("case", read_cases(__file__), ids=lambda case: case["url"])
def test_a_master_that_is_not_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, case: dict[str, str]
) -> None:
    monkeypatch.setenv("SPARK_MASTER_URL", case["url"])
    started = time.monotonic()
    with pytest.raises(SessionError) as caught:
        check_cluster(docker(settings), session_settings(docker(settings), ()))
    assert str(caught.value).startswith(case["message"])
    assert time.monotonic() - started < 15


def test_what_listens_there_is_another_thing(
    settings: Settings, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ui = cluster.ui.rpartition(":")[2]
    monkeypatch.setenv("SPARK_MASTER_URL", f"spark://127.0.0.1:{ui}")
    monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", ui)
    belongs = (f"the web UI at {cluster.ui} belongs to {cluster.master}", f"127.0.0.1:{ui}")
    remedy = "; fix SPARK_MASTER_URL or SPARK_MASTER_WEBUI_PORT"
    with refused(SessionError, *belongs, remedy=remedy):
        check_cluster(docker(settings), session_settings(docker(settings), ()))
    with socket.socket() as silent:  # listens, and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        monkeypatch.setenv("SPARK_MASTER_URL", f"spark://127.0.0.1:{port}")
        monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", str(port))
        monkeypatch.setattr("hudilab_spark.cluster.ANSWER_TIMEOUT", 1.0)
        problem = f"http://127.0.0.1:{port} (timed out)"
        remedy = "; set SPARK_MASTER_WEBUI_PORT to its port"
        with refused(SessionError, f"spark://127.0.0.1:{port}", problem, remedy=remedy):
            check_cluster(docker(settings), session_settings(docker(settings), ()))
    monkeypatch.setenv("SPARK_MASTER_URL", f"spark://127.0.0.1:{ui}")
    monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", "web")
    with pytest.raises(SessionError, match="SPARK_MASTER_WEBUI_PORT='web' is not a port; set it"):
        check_cluster(docker(settings), session_settings(docker(settings), ()))


def test_executors_that_no_worker_can_hold(master: Master) -> None:
    for conf, what in (
        ({"spark.executor.memory": "64g"}, "65536 MB and 1 cores"),
        ({"spark.executor.memory": "1g", "spark.executor.cores": "3"}, "1024 MB and 3 cores"),
    ):
        problem = f"no worker of {master.url} is large enough for an executor with {what} "
        they_have = "they have 2048 MB and 2 cores, 2048 MB and 2 cores"
        remedy = "in spark-defaults.conf, or start the cluster with more (--memory, --cores)"
        with refused(ServiceError, problem, they_have, remedy=remedy):
            check_room(master, conf)
    check_room(master, {"spark.executor.memory": "2g", "spark.executor.cores": "2"})


def test_an_id_that_is_not_running(master: Master, settings: Settings) -> None:
    problem = f"no application or driver 'app-1' at {master.url}; "
    with refused(ServiceError, problem, remedy="; list all with: hudilab apps"):
        kill(master, "app-1", settings.home)


def test_no_master_for_the_commands(tmp_path: Path) -> None:
    for command in (["apps"], ["kill", "app-1"]):
        done = hudilab({"HUDILAB_HOME": str(tmp_path)}, *command)
        assert (done.returncode, done.stderr) == (
            1,
            f"hudilab: SPARK_MASTER_URL is not set and no cluster of {tmp_path} is running; "
            "set it, or start a cluster with: hudilab services start cluster\n",
        )
    home = {"HUDILAB_HOME": str(tmp_path), "SPARK_MASTER_URL": "spark://127.0.0.1:1"}
    done = hudilab(home, "apps")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("hudilab: no Spark master is listening at spark://127.0.0.1:1 (")


def test_a_job_that_is_not_there() -> None:
    done = hudilab({}, "submit", "stok_prices", "-p", "is", "the job's own")
    assert (done.returncode, done.stdout) == (1, "")
    problem = "hudilab: unknown job 'stok_prices'; give a Python file, or one of: "
    remedy = "stock_prices, stock_producer, stream, tidy"
    assert_refusal(done.stderr.rstrip("\n"), problem, remedy=remedy)
