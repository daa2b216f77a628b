"""A Spark standalone cluster: ready when its master says so, faults named, the lab's work on it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import boto3
import psutil
import pytest
from contract import checks
from kills import Killed, record, rows_of, rows_once

from hudilab.errors import ServiceError, SessionError
from hudilab.lessons.prices import messages
from hudilab.operations.servers import cluster as service
from hudilab.operations.servers import process
from hudilab.operations.servers.cluster import Cluster, find_cluster, start_cluster, stop_cluster
from hudilab.operations.servers.history import find_history, start_history, stop_history
from hudilab.operations.servers.s3 import S3Server, running_s3
from hudilab.runtime.cluster.applications import application_rows, kill, worker_rows
from hudilab.runtime.cluster.master import (
    Master,
    authentication,
    check_room,
    find_master,
    own_master,
)
from hudilab.runtime.cluster.submit import find_job
from hudilab.runtime.java.find import spark_home
from hudilab.runtime.kafka.topics import Access, create_topics, produce, topic_rows
from hudilab.runtime.session import ARCHIVE, check_cluster, session_settings
from hudilab.runtime.settings import Settings, load_settings
from hudilab.waiting import wait_for

PROJECT = Path(__file__).resolve().parents[2]
WRITER = PROJECT / "tests" / "spark" / "programs" / "writer.py"
APPEND = PROJECT / "tests" / "spark" / "programs" / "append.py"
TOPICS = {"stocks-in": 3, "stocks-out": 3, "stocks-dead": 3}


# --- the service


@pytest.fixture
def drivers() -> Iterator[list[psutil.Process]]:
    """What a test submits: ended after it, with its Python, where it has not ended by itself."""
    started: list[psutil.Process] = []
    yield started
    for driver in started:
        with suppress(psutil.NoSuchProcess):
            for one in (*driver.children(recursive=True), driver):
                one.kill()


def test_it_listens_on_loopback_and_is_gone_when_stopped(alone: Settings) -> None:
    first = start_cluster(alone, workers=2)
    assert start_cluster(alone, workers=2) == first  # one that runs is returned
    family = [psutil.Process(pid) for pid in (first.pid, *first.workers)]
    assert len(family) == 3
    for one in family:
        heard = {c.laddr.ip for c in one.net_connections("inet") if c.status == "LISTEN"}
        assert heard
        assert heard <= {"127.0.0.1", "::ffff:127.0.0.1"}
    asked = authentication(first.master, alone.home)
    assert sorted(asked) == ["spark.authenticate", "spark.authenticate.secret"]
    assert authentication(first.master.replace("127.0.0.1", "localhost"), alone.home) == asked
    assert authentication("spark://elsewhere:7077", alone.home) == {}
    assert authentication("local[*]", alone.home) == {}
    assert stop_cluster(alone) == first.pid
    assert not any(one.is_running() for one in family)
    assert authentication(first.master, alone.home) == {}  # another master may be there by now
    assert (find_cluster(alone), stop_cluster(alone)) == (None, None)
    with service.running_cluster(alone, workers=1, cores=1, memory="600m") as again:
        assert again.master == first.master  # the address stays
        assert authentication(again.master, alone.home) != asked  # and the secret does not
        assert (len(again.workers), again.cores, again.memory) == (1, 1, 600)
        with service.running_cluster(alone, workers=1, cores=1, memory="600m") as inner:
            assert inner == again
        assert find_cluster(alone) == again
    assert find_cluster(alone) is None


def test_a_worker_that_was_killed_comes_back(alone: Settings) -> None:
    first = start_cluster(alone, workers=1)
    psutil.Process(first.workers[0]).kill()
    master = Master(first.master, first.ui)
    wait_for(lambda: worker_rows(master).empty, 120, "a master without workers")
    with pytest.raises(ServiceError) as caught:
        check_room(master, {})
    assert str(caught.value) == (
        f"the master {first.master} has no live worker; start one, on this machine with: hudilab "
        "services start cluster"
    )
    again = start_cluster(alone, workers=1)
    assert again.pid == first.pid
    assert again.workers != first.workers
    assert len(worker_rows(Master(again.master, again.ui))) == 1


def test_workers_that_have_outlived_their_master_are_replaced(alone: Settings) -> None:
    first = start_cluster(alone, workers=1)
    psutil.Process(first.pid).kill()
    psutil.Process(first.pid).wait(10)
    assert find_cluster(alone) is None
    again = start_cluster(alone, workers=1)
    assert not psutil.pid_exists(first.workers[0])
    assert len(worker_rows(Master(again.master, again.ui))) == 1


def test_a_second_cluster_is_refused(alone: Settings) -> None:
    running = start_cluster(alone, workers=1)
    for other in ({"workers": 2}, {"cores": 1}, {"memory": "1g"}, {"port": process.free_port()}):
        with pytest.raises(ServiceError) as caught:
            start_cluster(alone, **{"workers": 1, **other})  # type: ignore[arg-type]
        assert str(caught.value) == (
            f"{running.describe()} is already running with other settings; stop it with: hudilab "
            "services stop cluster"
        )
    assert find_cluster(alone) == running


@pytest.mark.parametrize(
    ("memory", "said"),
    [
        ("100m", "100 MB per worker is too little for an executor; use --memory 512m or more"),
        ("plenty", "--memory='plenty' is not a memory size; use a value such as 512m or 2g"),
    ],
)
def test_an_amount_of_memory_that_cannot_be(alone: Settings, memory: str, said: str) -> None:
    with pytest.raises(ServiceError) as caught:
        start_cluster(alone, memory=memory)
    assert str(caught.value) == said
    assert not (alone.home / "services").exists()


def test_more_memory_than_the_machine_has_is_refused(alone: Settings) -> None:
    there = psutil.virtual_memory().total // 1024**2
    with pytest.raises(ServiceError) as caught:
        start_cluster(alone, workers=3, memory=f"{there}m")
    assert str(caught.value) == (
        f"3 workers with {there} MB each need more than the {there} MB of this machine; use fewer "
        "--workers or less --memory"
    )


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
    monkeypatch.setattr(service, "PATIENCE", 6.0)
    with pytest.raises(ServiceError) as caught:
        start_cluster(alone, workers=1)
    assert str(caught.value) == (
        "the cluster did not start all 1 workers within 6 s; "
        f"see {alone.home}/services/cluster/worker-1/worker.log, then start again"
    )
    assert find_cluster(alone) is None


def test_a_process_that_ends_says_why(alone: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "JVM", ("-XX:+NoSuchFlag",))
    with pytest.raises(ServiceError) as caught:
        start_cluster(alone)
    assert str(caught.value).startswith("Spark's master exited with code 1: Error: ")
    assert str(caught.value).endswith(f"; see {alone.home}/services/cluster/master.log")
    assert find_cluster(alone) is None


ENDLESS = """
from hudilab.runtime.settings import load_settings
from hudilab.runtime.session import open_session
spark = open_session(load_settings(), app="endless")
while True:
    spark.range(10).count()
"""


def test_an_application_ends_with_its_cluster(
    alone: Settings, tmp_path: Path, drivers: list[psutil.Process]
) -> None:
    found = start_cluster(alone, workers=1)
    (tmp_path / "endless.py").write_text(ENDLESS)
    env = {
        "HUDILAB_HOME": str(alone.home),
        "RUNTIME_ENV": "DOCKER",
        "SPARK_MASTER_URL": found.master,
    }
    started = hudilab(env, "submit", "--detach", str(tmp_path / "endless.py"))
    assert started.returncode == 0, started.stderr
    _, driver = parts(started.stdout)
    drivers.append(driver)
    assert driver.is_running()
    stop_cluster(alone)
    assert not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE


# --- the master, asked


@pytest.fixture(scope="module")
def cluster(settings: Settings) -> Iterator[Cluster]:
    with service.running_cluster(settings) as found:
        yield found


@pytest.fixture(scope="module")
def master(cluster: Cluster, settings: Settings) -> Master:
    return find_master(cluster.master, settings.home, {})


def docker(settings: Settings) -> Settings:
    return replace(load_settings("DOCKER", {}), home=settings.home)


def test_the_command_shows_it(settings: Settings, cluster: Cluster) -> None:
    home = {"HUDILAB_HOME": str(settings.home)}
    port = cluster.master.rpartition(":")[2]
    up = hudilab(home, "services", "start", "cluster", "--workers", "2", "--port", port)
    assert (up.returncode, up.stderr) == (0, "")
    assert up.stdout == (
        f"{cluster.describe()}\nexport RUNTIME_ENV=DOCKER SPARK_MASTER_URL={cluster.master}\n"
    )
    shown = hudilab(home, "services", "status")
    assert f"{cluster.describe()}\n" in shown.stdout
    assert own_master(settings.home) == cluster.master
    listed = hudilab(home, "apps")
    assert listed.returncode == 0, listed.stderr


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "127.0.0.1:7077",
            "SPARK_MASTER_URL='127.0.0.1:7077' is not spark://host:port; "
            "fix it, or unset it to use spark.master from the settings",
        ),
        ("spark://127.0.0.1", "SPARK_MASTER_URL='spark://127.0.0.1' is not spark://host:port; "),
        ("spark://h:99999", "SPARK_MASTER_URL='spark://h:99999' is not spark://host:port; "),
        (
            "spark://127.0.0.1:1",
            "no Spark master is listening at spark://127.0.0.1:1 (Connection refused); fix "
            "SPARK_MASTER_URL, or start a cluster with: hudilab services start cluster",
        ),
        (
            "spark://no.such.host.invalid:7077",
            "no Spark master is listening at spark://no.such.host",
        ),
    ],
)
def test_a_master_that_is_not_there(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, url: str, said: str
) -> None:
    monkeypatch.setenv("SPARK_MASTER_URL", url)
    started = time.monotonic()
    with pytest.raises(SessionError) as caught:
        check_cluster(docker(settings), session_settings(docker(settings), ()))
    assert str(caught.value).startswith(said)
    assert time.monotonic() - started < 15


def test_what_listens_there_is_another_thing(
    settings: Settings, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ui = cluster.ui.rpartition(":")[2]
    monkeypatch.setenv("SPARK_MASTER_URL", f"spark://127.0.0.1:{ui}")
    monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", ui)
    with pytest.raises(SessionError) as caught:
        check_cluster(docker(settings), session_settings(docker(settings), ()))
    assert str(caught.value) == (
        f"the web UI at {cluster.ui} belongs to {cluster.master}, not to spark://127.0.0.1:{ui}; "
        "fix SPARK_MASTER_URL or SPARK_MASTER_WEBUI_PORT"
    )
    with socket.socket() as silent:  # listens, and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        monkeypatch.setenv("SPARK_MASTER_URL", f"spark://127.0.0.1:{port}")
        monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", str(port))
        with pytest.raises(SessionError) as caught:
            check_cluster(docker(settings), session_settings(docker(settings), ()))
    assert str(caught.value) == (
        f"the web UI of the Spark master spark://127.0.0.1:{port} does not answer at "
        f"http://127.0.0.1:{port} (timed out); set SPARK_MASTER_WEBUI_PORT to its port"
    )
    monkeypatch.setenv("SPARK_MASTER_URL", f"spark://127.0.0.1:{ui}")
    monkeypatch.setenv("SPARK_MASTER_WEBUI_PORT", "web")
    with pytest.raises(SessionError, match="SPARK_MASTER_WEBUI_PORT='web' is not a port; set it"):
        check_cluster(docker(settings), session_settings(docker(settings), ()))


def test_executors_that_no_worker_can_hold(master: Master) -> None:
    for conf, what in (
        ({"spark.executor.memory": "64g"}, "65536 MB and 1 cores"),
        ({"spark.executor.memory": "1g", "spark.executor.cores": "3"}, "1024 MB and 3 cores"),
    ):
        with pytest.raises(ServiceError) as caught:
            check_room(master, conf)
        assert str(caught.value) == (
            f"no worker of {master.url} is large enough for an executor with {what} "
            "(spark.executor.memory, .cores), they have 2048 MB and 2 cores, 2048 MB and 2 cores; "
            "request less in spark-defaults.conf, or start the cluster with more (--memory, "
            "--cores)"
        )
    check_room(master, {"spark.executor.memory": "2g", "spark.executor.cores": "2"})


def test_an_id_that_is_not_running(master: Master, settings: Settings) -> None:
    with pytest.raises(ServiceError) as caught:
        kill(master, "app-1", settings.home)
    assert str(caught.value).startswith(f"no application or driver 'app-1' at {master.url}; ")
    assert str(caught.value).endswith("; list all with: hudilab apps")


def test_no_master_for_the_commands(tmp_path: Path) -> None:
    for command in (["apps"], ["kill", "app-1"]):
        done = hudilab({"HUDILAB_HOME": str(tmp_path)}, *command)
        assert (done.returncode, done.stderr) == (
            1,
            "hudilab: SPARK_MASTER_URL is not set and no cluster has been started here; set it, "
            "or start a cluster with: hudilab services start cluster\n",
        )
    home = {"HUDILAB_HOME": str(tmp_path), "SPARK_MASTER_URL": "spark://127.0.0.1:1"}
    done = hudilab(home, "apps")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("hudilab: no Spark master is listening at spark://127.0.0.1:1 (")


def test_a_job_that_is_not_there() -> None:
    with pytest.raises(SessionError) as caught:
        find_job("stok_prices")
    assert str(caught.value).startswith(
        "unknown job 'stok_prices'; give a Python file, or one of: "
    )
    assert "stock_prices" in str(caught.value)
    done = hudilab({}, "submit", "stok_prices", "-p", "is", "the job's own")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("hudilab: unknown job 'stok_prices'; ")


def test_executors_are_told_where_credentials_are_and_never_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_MASTER_URL", "spark://127.0.0.1:7")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "KAFKA_PASSWORD"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/a/file")
    asked = session_settings(docker(settings), [Path("/a.jar"), Path("/b.jar")])
    assert asked["spark.master"] == "spark://127.0.0.1:7"
    assert asked["spark.executor.extraClassPath"] == f"{spark_home()}/jars/*:/a.jar:/b.jar"
    assert asked["spark.executor.extraJavaOptions"].startswith("-Duser.timezone=UTC ")
    archive = settings.project / "jars" / ARCHIVE
    assert asked["spark.executor.extraJavaOptions"].endswith(f' "-XX:SharedArchiveFile={archive}"')
    assert asked["spark.executorEnv.PYTHONPATH"] == str(PROJECT / "lib")
    assert asked["spark.executorEnv.AWS_PROFILE"] == "lab"
    assert asked["spark.executorEnv.AWS_SHARED_CREDENTIALS_FILE"] == "/a/file"
    assert "canary" not in asked.values()
    assert asked["spark.driver.host"] == "127.0.0.1"
    monkeypatch.setenv("SPARK_MASTER_URL", "spark://spark-master:7077")
    # Executors elsewhere could not reach a driver on loopback.
    assert "spark.driver.host" not in session_settings(docker(settings), ())


# --- the lab's work on it


@pytest.fixture(scope="module")
def s3(settings: Settings) -> Iterator[S3Server]:
    with running_s3(settings) as server:
        yield server


@pytest.fixture(scope="module")
def env(settings: Settings, cluster: Cluster, s3: S3Server) -> dict[str, str]:
    """All that is said to move the lab's work to the cluster and to S3."""
    return {
        "HUDILAB_HOME": str(settings.home),
        "RUNTIME_ENV": "DOCKER",
        "SPARK_MASTER_URL": cluster.master,
        **s3.env(),
    }


def hudilab(env: Mapping[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).with_name("hudilab")), *command],
        env=clean() | dict(env),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def parts(line: str) -> tuple[str, psutil.Process]:
    """Id and driver in what `hudilab submit --detach` prints."""
    found = re.fullmatch(r"(app-\S+), driver's process (\d+), log .+\n", line)
    assert found, line
    return found[1], psutil.Process(int(found[2]))


def clean() -> dict[str, str]:
    """This environment without what chooses settings, or what a session here has set."""
    named = ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_", "SPARK_", "PYSPARK_", "AWS_", "BOOTSTRAP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(named)}


def objects(settings: Settings, path: str) -> Path:
    """Where the S3 server keeps what lies below a path of the warehouse: plain files."""
    return settings.home / "services" / "s3" / "data" / "hudilab" / "warehouse" / path


def facts(notebook: Path) -> dict[str, str]:
    """What each compared cell of a notebook printed, by its source."""
    cells = [cell for cell in checks.code(checks.read(notebook)) if cell.outputs]
    compared = [cell for cell in cells if "nbval-check-output" in checks.tags(cell)]
    said = {cell.source: "".join(checks.texts(cell)) for cell in compared}
    # The one line that a warehouse on S3 adds.
    return {source: re.sub(r"(?m)^s3:// rewritten .*\n", "", text) for source, text in said.items()}


def test_a_job_that_ends_before_it_begins_says_why(env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise ValueError('nothing to do')\n")
    done = hudilab(env, "submit", "--detach", str(tmp_path / "broken.py"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(
        f"hudilab: {tmp_path}/broken.py exited with code 1: ValueError: nothing to do; see the log "
    )


@pytest.fixture(scope="module")
def preflight(env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What the preflight says of the cluster: an application that has ended."""
    return hudilab(env, "doctor", "--json")


def test_the_preflight_asks_the_executors(
    env: dict[str, str], preflight: subprocess.CompletedProcess[str]
) -> None:
    found = {check["name"]: check for check in json.loads(preflight.stdout)}
    assert preflight.returncode == 0, preflight.stdout
    assert found["cluster"]["found"].startswith(f"{env['SPARK_MASTER_URL']}, 2 workers, 4 cores")
    python = f"{sys.version_info.major}.{sys.version_info.minor} with hudilab 0.1.0"
    assert found["worker python"]["found"] == f"{python}; driver {python}"


def ended(history: str) -> set[str]:
    """Names of the applications that a history server has as ended."""
    with urlopen(f"{history}/api/v1/applications?status=completed", timeout=60) as answer:
        return {one["name"] for one in json.load(answer)}


@pytest.mark.usefixtures("preflight")
def test_an_application_that_has_ended_is_in_the_history(
    settings: Settings, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    events, mine = settings.home / "spark-events", {"HUDILAB_HOME": str(settings.home)}
    up = hudilab(mine, "services", "start", "history")
    running = find_history(settings)
    assert running is not None, up.stderr
    assert up.stdout == f"{running.describe()}\n"
    assert running.describe() == (
        f"history at {running.ui} of {events}, process {running.pid}, "
        f"log {settings.home}/services/history/history.log"
    )
    wait_for(lambda: "doctor" in ended(running.ui), 60, "the history of doctor")
    open_ones = psutil.Process(running.pid).net_connections("tcp")
    assert {one.laddr.ip.removeprefix("::ffff:") for one in open_ones} == {"127.0.0.1"}
    assert start_history(settings) == running  # one that runs is returned
    for name, value in s3.env().items():
        monkeypatch.setenv(name, value)
    elsewhere = "s3a://hudilab/events"
    with pytest.raises(ServiceError) as caught:
        start_history(settings, elsewhere)
    assert str(caught.value) == (
        f"{running.describe()} is already running with other settings; stop it with: hudilab "
        "services stop history"
    )
    down = hudilab(mine, "services", "stop", "history")
    assert down.stdout == f"history stopped, process {running.pid}\n"
    assert find_history(settings) is None
    with pytest.raises(ServiceError) as caught:
        start_history(settings, "s3a://hudilab/nothing")
    assert str(caught.value) == (
        "Spark's history exited with code 1: Caused by: java.io.FileNotFoundException: No such "
        "file or directory: s3a://hudilab/nothing; see "
        f"{settings.home}/services/history/history.log"
    )
    assert find_history(settings) is None
    log = next(one for one in events.iterdir() if '"doctor"' in one.read_text()[:100_000])
    boto3.client("s3").upload_file(str(log), "hudilab", f"events/{log.name}")
    with_s3 = start_history(settings, elsewhere)
    try:
        wait_for(lambda: ended(with_s3.ui) == {"doctor"}, 60, "the history on S3")
    finally:
        assert stop_history(settings) == with_s3.pid


def test_executors_with_another_python(env: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "python3.10"
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfrom collections import namedtuple\n"
        'info = namedtuple("version_info", "major minor micro releaselevel serial")\n'
        'sys.version_info = info(3, 10, 0, "final", 0)\n'
    )
    other.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    )
    other.chmod(0o755)
    done = hudilab(env | {"PYSPARK_PYTHON": str(other)}, "doctor", "--json")
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 1
    assert "[PYTHON_VERSION_MISMATCH]" in found["worker python"]["found"]
    assert found["worker python"]["remedy"] == (
        "run driver and workers with the same Python and package: set PYSPARK_PYTHON"
    )


@pytest.mark.parametrize("command", ["doctor", "submit"])
def test_executors_that_do_not_start(
    env: dict[str, str], settings: Settings, tmp_path: Path, command: str
) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(PROJECT / "conf", conf)
    file = conf / "docker" / "spark-defaults.conf"
    file.write_text(f"{file.read_text()}\nspark.executor.extraJavaOptions -XX:+UseSerialGC\n")
    arguments = ("--json",) if command == "doctor" else ("sensor_readings",)
    done = hudilab(env | {"HUDILAB_CONF": str(conf)}, command, *arguments)
    assert done.returncode == 1
    told = done.stdout  # where spark-submit has put the driver's stderr
    if command == "doctor":
        (check,) = [one for one in json.loads(done.stdout) if one["name"] == "spark"]
        told = f"{check['found']}; {check['remedy']}"
    work = f"{settings.home}/services/cluster/worker-[12]/work"
    assert re.search(
        rf"no executor of (app-\S+) started at {env['SPARK_MASTER_URL']}; the first one failed: "
        rf"Multiple garbage collectors selected; see {work}/\1/[01], and fix spark.executor.\* in "
        rf"{file}\n?$",
        told,
    ), told


def test_a_run_without_its_cluster_ends_at_once(env: dict[str, str]) -> None:
    started = time.monotonic()
    done = hudilab(env | {"SPARK_MASTER_URL": "spark://127.0.0.1:1"}, "run", "02", "--out", "/tmp")
    assert done.returncode == 1
    assert "SessionError: no Spark master is listening at spark://127.0.0.1:1 (" in done.stderr
    assert time.monotonic() - started < 40  # with the kernel's start


def run_with_the_same_facts(
    env: Mapping[str, str], name: str, folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a notebook; its facts must be those of the outputs in git."""
    done = hudilab(env, "run", name, "--exercises", "--out", str(folder), *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    local = facts(PROJECT / "notebooks" / f"{name}.ipynb")
    assert len(local) >= 7
    of_disk = [source for source in local if "meets_lock" in source]  # S3 has no lock files
    for source in of_disk:
        del local[source]
    assert facts(folder / f"{name}.ipynb") == local
    return done


@pytest.mark.deep
def test_notebook_02_gives_the_same_results(env: dict[str, str], tmp_path: Path) -> None:
    more = ("-p", "run_id", "nb")
    done = run_with_the_same_facts(env, "02_write_hudi_stream", tmp_path, *more)
    assert done.stdout.splitlines()[-1] == (
        "hudilab: rows=5000 commits=5 partitions=11 "
        "table=s3a://hudilab/warehouse/run-nb/lessons/sensor_readings"
    )


@pytest.fixture
def on_s3(env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A driver without a cluster, whose warehouse is on S3."""
    conf = shutil.copytree(PROJECT / "conf", tmp_path / "conf")
    file = conf / "application_properties.json"
    named = re.compile(r'("warehouse.path": )"[^"]*"')
    file.write_text(named.sub(r'\1"s3://hudilab/warehouse"', file.read_text("utf-8")), "utf-8")
    alone = {"RUNTIME_ENV": "", "SPARK_MASTER_URL": "", "IS_LOCAL": "false"}
    return env | alone | {"HUDILAB_CONF": str(conf)}


@pytest.mark.deep
@pytest.mark.parametrize("where", ["env", "on_s3"])
@pytest.mark.parametrize(
    "name",
    [
        "04_update_delete_merge",  # its erasure opens every object of the table on S3
        "05_merge_on_read_and_table_services",
        "06_schema_and_indexes",  # its metadata tables are compacted by each commit on S3
        "10_break_it",  # kills an application
    ],
)
def test_a_lesson_gives_the_same_results(
    name: str, where: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run_with_the_same_facts(request.getfixturevalue(where), name, tmp_path / "out")


@pytest.mark.deep
def test_notebook_07_gives_the_same_results(
    env: dict[str, str], kafka: Access, tmp_path: Path
) -> None:
    with_kafka = env | {"BOOTSTRAP_SERVERS": kafka.servers}
    run_with_the_same_facts(with_kafka, "07_kafka_stock_prices", tmp_path)


@pytest.mark.deep
def test_stock_prices_go_through(env: dict[str, str], kafka: Access, settings: Settings) -> None:
    create_topics(kafka, TOPICS, afresh=True)
    produce(kafka, "stocks-in", messages(340, seed=1))
    job = ("submit", "stock_prices", "--available-now", "--run-id", "prices")
    done = hudilab(env | {"BOOTSTRAP_SERVERS": kafka.servers}, *job)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "hudilab: application app-" in done.stdout
    assert topic_rows(kafka, ["stocks-out"])["end"].sum() == 340
    assert rows_of(objects(settings, "run-prices/lab/stock_prices")) == (340, 340)


@pytest.mark.deep
def test_a_bundle_is_submitted(env: dict[str, str], settings: Settings, tmp_path: Path) -> None:
    bundle = tmp_path / "hudilab-bundle.zip"
    assert hudilab(env, "bundle", "--out", str(bundle)).returncode == 0
    job = ("sensor_readings", "--rows", "200", "--batches", "2", "--run-id", "bundle")
    done = hudilab(env, "submit", "--bundle", str(bundle), *job)
    assert done.stdout.splitlines()[-1] == (
        "hudilab: rows=200 commits=2 partitions=11 "
        "table=s3a://hudilab/warehouse/run-bundle/lab/sensor_readings"
    ), done.stdout[-3000:]
    (root,) = settings.home.glob("submitted/bundle-*")
    logs = (settings.home / "spark-events").iterdir()
    (log,) = (text for one in logs if f"{root}/lib" in (text := one.read_text()))
    events = {one["Event"]: one for one in map(json.loads, log.splitlines())}
    conf = dict(events["SparkListenerEnvironmentUpdate"]["Spark Properties"])
    assert conf["spark.jars"].endswith(f"{root}/lib/hudilab-dependencies.jar")
    assert conf["spark.app.name"] == "sensor_readings"
    # No jar of the checkout but what a platform has of its own, beside Spark's.
    for side in ("driver", "executor"):
        path = conf[f"spark.{side}.extraClassPath"].split(os.pathsep)
        assert {Path(one).parent.name for one in path} == {"jars", "s3"}


class Writer:
    """The stream of notebook 02 as a program on the cluster, below a warehouse of its own."""

    def __init__(self, settings: Settings, env: Mapping[str, str], run: str, batches: int) -> None:
        self.conf = settings.home / f"conf-{run}"
        shutil.copytree(PROJECT / "conf", self.conf)
        file = self.conf / "docker" / "application_properties.json"
        file.write_text(file.read_text().replace("/warehouse", f"/warehouse/{run}"))
        self.env = dict(env) | {"HUDILAB_CONF": str(self.conf)}
        self.table = objects(settings, f"{run}/lab/sensor_readings")
        self.batches, self.rows = batches, batches * 100
        self.command = [str(WRITER), "COPY_ON_WRITE", str(self.rows), str(batches)]

    def timeline(self, pattern: str) -> int:
        return len(list((self.table / ".hoodie" / "timeline").glob(pattern)))

    def commits(self) -> int:
        return self.timeline("*_*commit")

    def assert_exact(self, out: str) -> None:
        result = json.loads(out.splitlines()[-1])
        assert (result["rows"], result["lost"], result["twice"]) == (self.rows, 0, 0)
        assert result["commits"] == self.batches


@pytest.mark.deep
@pytest.mark.kills
@pytest.mark.parametrize("victim", ["executor", "worker and its executors"])
def test_a_worker_killed_in_mid_batch_loses_nothing(
    settings: Settings, cluster: Cluster, master: Master, env: dict[str, str], victim: str
) -> None:
    writer = Writer(settings, env, f"killed-{victim.split()[0]}", batches=6)
    driver = subprocess.Popen(
        [sys.executable, *writer.command],
        env=clean() | writer.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        # A commit is requested and not completed: the batch is being written.
        wait_for(lambda: writer.commits() >= 2, 240, "two commits")
        requested = "*.commit.requested"
        wait_for(lambda: writer.timeline(requested) > writer.commits(), 120, "a batch in hand")
        worker = psutil.Process(cluster.workers[0])
        family = worker.children(recursive=True)
        commands = [" ".join(one.cmdline()) for one in family]
        for one in family if victim == "executor" else (worker, *family):
            one.kill()
        rows_once(writer.table)
        assert any("CoarseGrainedExecutorBackend" in command for command in commands)
        done = writer.commits()
        out, err = driver.communicate(timeout=300)
        assert driver.returncode == 0, err[-3000:]
        assert done < writer.batches
        writer.assert_exact(out)
        record(Killed(victim, "append, COPY_ON_WRITE", "cluster, S3", 1, 1, 0, 0))
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
        start_cluster(settings)
    assert len(worker_rows(master)) == 2


# Notebook 09 does the same each time, without looking at it with a second engine.
@pytest.mark.deep
@pytest.mark.kills
def test_submitted_listed_killed_and_resumed(
    settings: Settings, master: Master, env: dict[str, str], drivers: list[psutil.Process]
) -> None:
    writer = Writer(settings, env, "submitted", batches=8)
    started = hudilab(writer.env, "submit", "--detach", *writer.command)
    assert started.returncode == 0, started.stderr
    id, driver = parts(started.stdout)
    drivers.append(driver)
    wait_for(lambda: writer.commits() >= 2 or not driver.is_running(), 240, "two commits")
    listed = hudilab(env, "apps")
    (line,) = [line for line in listed.stdout.splitlines() if id in line]
    assert re.search(r" writer +application +RUNNING +2 ", line), line
    with pytest.raises(ServiceError) as caught:
        check_room(master, {"spark.executor.memory": "1500m"})
    assert str(caught.value) == (
        f"no worker of {master.url} has room for an executor with 1500 MB and 1 cores "
        f"(spark.executor.memory, .cores), all resources are held by {id} (writer); wait, kill an "
        "application with: hudilab kill ID, or start the cluster with more workers"
    )
    killed = hudilab(env, "kill", id)
    assert killed.stdout == f"{id} has ended, its state is FINISHED\n", killed.stderr
    assert not driver.is_running() or driver.status() == psutil.STATUS_ZOMBIE
    again = hudilab(env, "kill", id)
    assert again.returncode == 1
    assert again.stderr.startswith(f"hudilab: {id} has already ended (FINISHED) at {master.url}; ")
    done = writer.commits()
    assert 2 <= done < writer.batches
    assert rows_of(writer.table) == (done * 100, done * 100)
    resumed = hudilab(writer.env, "submit", *writer.command)
    assert resumed.returncode == 0, resumed.stderr
    writer.assert_exact(resumed.stdout)
    record(Killed("driver, submitted", "append, COPY_ON_WRITE", "cluster, S3", 1, 1, 0, 0))
    states = application_rows(master).set_index("id")["state"]
    assert set(states) == {"FINISHED"}


# --- minutes long


@pytest.mark.deep
def test_a_new_executor_may_compact_the_metadata_table(
    settings: Settings, env: dict[str, str]
) -> None:
    # Its tenth commit compacts it: here that is the first work of new executors.
    for commits, rows in ((5, 5), (4, 9), (1, 10), (1, 11)):
        done = subprocess.run(
            [sys.executable, str(APPEND), "s3a://hudilab/warehouse/meta", str(commits)],
            env=clean() | env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert int(done.stdout) == rows
    timeline = objects(settings, "meta/.hoodie/metadata/.hoodie/timeline")
    assert len(list(timeline.glob("*_*.commit"))) == 1, "no compaction: the moment was missed"


@pytest.mark.deep
def test_the_masters_page_with_a_running_application(
    settings: Settings, master: Master, env: dict[str, str], drivers: list[psutil.Process]
) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    assert chromium, "no Chromium on PATH; install it (Debian: apt-get install chromium)"
    writer = Writer(settings, env, "shown", batches=100)
    started = hudilab(writer.env, "submit", "--detach", *writer.command)
    assert started.returncode == 0, started.stderr
    id, driver = parts(started.stdout)
    drivers.append(driver)
    try:
        folder = Path(os.environ.get("HUDILAB_SCREENSHOTS", PROJECT / ".lab" / "screenshots"))
        folder.mkdir(parents=True, exist_ok=True)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
            )
            page = browser.new_page(viewport={"width": 1300, "height": 900})
            page.goto(master.ui)
            text = page.inner_text("body")
            page.screenshot(path=folder / "master.png")
            browser.close()
    finally:
        kill(master, id, settings.home)
    assert id in text
    assert "RUNNING" in text
    assert text.count("ALIVE") >= 3  # the master and two workers
