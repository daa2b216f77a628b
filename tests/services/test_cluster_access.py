"""Who may do what with the lab's cluster: its own account everything, any other one only look."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode

import psutil
import pyspark
import pytest
from others import why_not
from refusals import refused
from services.clusters import PROJECT, clean, hudilab, submit

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.applications import application_rows, kill, worker_rows
from hudilab_cli.servers.cluster import Cluster, start_cluster
from hudilab_jobs.settings import load_settings
from hudilab_spark.cluster import Master, authentication, end_driver, find_driver, open_directly
from hudilab_spark.java import find_java
from hudilab_spark.waiting import wait_for

GUEST = Path(__file__).with_name("guest.py")
# A program that knows nothing of the lab. It counts, and says how often, until it is ended.
COUNTING = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("counting").config("spark.executor.memory", "MEMORY")
spark, done = spark.getOrCreate(), Path(sys.argv[1])
print(spark.sparkContext.uiWebUrl, flush=True)
for number in range(100_000):
    spark.sparkContext.parallelize(range(4), 2).count()
    half = done.with_suffix(".half")
    half.write_text(str(number))
    half.replace(done)
"""
# The session of a notebook, in a process like a kernel: `ready`, and then lines are waited for.
NOTEBOOK = """
from hudilab_jobs.settings import load_settings
from hudilab_spark.session import open_session
local = open_session(load_settings("LOCAL"), groups=("core", "s3"))
local.stop()
spark = open_session(load_settings("DOCKER"), app="notebook")
assert spark.sparkContext.parallelize(range(4), 2).count() == 4
print(spark.sparkContext.applicationId, flush=True)
input()
print("the notebook is still there", flush=True)
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return replace(load_settings(env={}), home=tmp_path_factory.mktemp("access"))


@pytest.fixture
def counting(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(COUNTING.replace("MEMORY", "512m"))
    return tmp_path / "counting.py"


def environment(home: Path, cluster: Cluster, **more: str) -> dict[str, str]:
    env = {"HUDILAB_HOME": str(home), "RUNTIME_ENV": "DOCKER", "SPARK_MASTER_URL": cluster.master}
    return clean() | env | more


def state(master: Master, id: str) -> str:
    return str(application_rows(master).set_index("id")["state"].get(id, ""))


def gone(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def post(address: str, **data: str) -> int:
    """The status that the page answers with."""
    try:
        with open_directly(address, urlencode(data).encode(), timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_another_account_runs_no_code_in_it(
    cluster: Cluster, master: Master, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # The guest's driver is a JVM, which it starts as nobody.
    if reason := why_not(find_java().home / "bin" / "java", Path(pyspark.__file__)):
        pytest.skip(reason)
    for folder in (tmp_path, *tmp_path.parents):  # a place that is the guest's own
        if folder.is_relative_to(tmp_path_factory.getbasetemp().parent):
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)
    location = tmp_path / "guest"
    location.mkdir()
    os.chown(location, 65534, 65534)
    with (tmp_path / "said").open("wb") as out:
        guest = subprocess.Popen(
            [sys.executable, str(GUEST), cluster.master, str(location)],
            env=environment(location, cluster),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        answer_file = tmp_path / "said"
        answers = ("Failed to connect to master", "ran as", "refused: ")
        wait_for(
            lambda: any(answer in answer_file.read_text() for answer in answers), 120, "an answer"
        )
        text = answer_file.read_text()
        java = psutil.Process(guest.pid).children(recursive=True)
        assert {process.uids().real for process in java} == {65534}
    finally:
        os.killpg(guest.pid, signal.SIGKILL)
        guest.wait()
    assert "ran as" not in text, text
    assert "Failed to connect to master" in text
    assert "Expected SaslMessage" in text  # it has reached the master, which wants a secret
    assert "guest" not in set(application_rows(master)["name"])


@pytest.mark.deep
def test_a_program_of_another_make_is_submitted_seen_and_ended(
    settings: Settings, cluster: Cluster, master: Master, counting: Path, tmp_path: Path
) -> None:
    env, done = environment(settings.home, cluster), tmp_path / "done"
    id, driver, log = submit(env, str(counting), str(done))
    family = [driver]
    try:
        wait_for(done.exists, 120, "the first count", f"see {log}")
        family += driver.children(recursive=True)
        assert len(family) >= 2  # Java, and the program
        page = re.findall(r"(?m)^http://127\.0\.0\.1:\d+$", log.read_text())[0]
        # Its pages and the master's end nothing, whoever asks.
        post(f"{master.ui}/app/kill/", id=id, terminate="true")
        assert post(f"{master.ui}/workers/kill/", host="127.0.0.1") == 405
        before = int(done.read_text())
        for job in range(before, before + 20):
            post(f"{page}/jobs/job/kill/", id=str(job))
        wait_for(lambda: int(done.read_text()) > before + 5, 120, "more counts", f"see {log}")
        assert state(master, id) == "RUNNING"
        assert len(worker_rows(master)) == 2
        assert_unseen(settings, cluster, f"{page}/api/v1/applications/{id}")
        killed = hudilab(env, "kill", id)
        assert killed.stdout == f"{id} has ended, its state is FINISHED\n", killed.stderr
        assert [child for child in family if not gone(child)] == []
        assert state(master, id) == "FINISHED"
    finally:
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def assert_unseen(settings: Settings, cluster: Cluster, api: str) -> None:
    """The secret is in files of this account alone, and nowhere that another one can look."""
    secret = authentication(cluster.master, settings.home)["spark.authenticate.secret"]
    assert len(secret) == 64
    with open_directly(f"{api}/environment", timeout=60) as answer:
        properties = dict(json.load(answer)["sparkProperties"])
    assert properties["spark.authenticate"] == "true"
    assert properties["spark.authenticate.secret"] == "*********(redacted)"
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            assert secret not in " ".join(process.cmdline())
    holders = [
        file
        for file in settings.home.rglob("*")
        if file.is_file() and secret.encode() in file.read_bytes()
    ]
    assert settings.home / "services" / "cluster" / "conf" / "spark-defaults.conf" in holders
    for file in holders:
        assert file.suffix == ".conf", file
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    assert list((settings.home / "spark-events").iterdir())
    assert stat.S_IMODE((settings.home / "submitted").stat().st_mode) == 0o700


@pytest.mark.deep
def test_a_program_that_waits_for_room_is_left_waiting(
    settings: Settings, cluster: Cluster, master: Master, tmp_path: Path
) -> None:
    (tmp_path / "large.py").write_text(COUNTING.replace("MEMORY", "64g"))
    env = environment(settings.home, cluster)
    id, driver, _ = submit(env, str(tmp_path / "large.py"), str(tmp_path / "done"))
    try:
        assert state(master, id) == "WAITING"
        assert not gone(driver)
        assert hudilab(env, "kill", id).returncode == 0
        assert gone(driver)
    finally:
        with suppress(psutil.NoSuchProcess):
            end_driver(driver)


@pytest.mark.deep
def test_the_session_of_a_notebook_is_ended_and_the_notebook_stays(
    settings: Settings, cluster: Cluster, master: Master
) -> None:
    """It had a local session before, whose secret was another one."""
    notebook = subprocess.Popen(
        [sys.executable, "-c", NOTEBOOK],
        env=environment(settings.home, cluster),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert notebook.stdout is not None
        id = notebook.stdout.readline().strip()
        assert state(master, id) == "RUNNING"
        driver = find_driver(settings.home, id)
        assert driver is not None
        assert driver.ppid() == notebook.pid
        assert kill(master, id, settings.home) == "FINISHED"
        assert gone(driver)
        out, _ = notebook.communicate("\n", timeout=60)
        assert out == "the notebook is still there\n"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(notebook.pid, signal.SIGKILL)
        notebook.wait()


@pytest.mark.deep
def test_a_cluster_of_somebody_else(
    settings: Settings, cluster: Cluster, master: Master, counting: Path, tmp_path: Path
) -> None:
    """Its secret is written into the settings; what was started elsewhere is not ours to end."""
    conf, own = tmp_path / "conf", tmp_path / "mine"
    shutil.copytree(PROJECT / "conf", conf)
    login = authentication(cluster.master, settings.home)
    assert authentication(cluster.master, own) == {}
    with (conf / "docker" / "spark-defaults.conf").open("a") as out:
        out.writelines(f"{key} {value}\n" for key, value in login.items())
    env = environment(own, cluster, HUDILAB_CONF=str(conf))
    env["SPARK_MASTER_WEBUI_PORT"] = cluster.ui.rpartition(":")[2]
    id, driver, _ = submit(env, str(counting), str(tmp_path / "done"))
    try:
        remedy = "stop it where it was started: press Ctrl-C, or call spark.stop() in its notebook"
        with refused(ServiceError, f"{id} was not started from {settings.home}", remedy=remedy):
            kill(master, id, settings.home)
        remedy = f"see {master.ui}, and check that spark.ui.killEnabled is not false there"
        with refused(ServiceError, "timed out after 10 s", id, remedy=remedy):
            kill(master, id, tmp_path)
        assert state(master, id) in ("RUNNING", "WAITING")
        done = hudilab(env, "kill", id)
        assert done.stdout == f"{id} has ended, its state is FINISHED\n", done.stderr
        assert gone(driver)
    finally:
        with suppress(psutil.NoSuchProcess):
            end_driver(driver)


# --- minutes long


@pytest.mark.deep
def test_without_its_secret_the_lab_says_what_is_missing(cluster: Cluster, tmp_path: Path) -> None:
    env = environment(tmp_path, cluster)
    env["SPARK_MASTER_WEBUI_PORT"] = cluster.ui.rpartition(":")[2]
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert re.fullmatch(
        "hudilab.errors.SessionError: the Spark master did not accept the application, see the "
        rf"log {tmp_path}/logs/\S+\.log; if the cluster requires a secret, set spark.authenticate "
        rf"true and spark.authenticate.secret in {PROJECT}/conf/docker/spark-defaults.conf",
        done.stderr.splitlines()[-1],
    ), done.stderr


@pytest.mark.deep
def test_a_master_that_lets_everybody_end_is_asked(
    alone: Settings, conf: Path, counting: Path, tmp_path: Path
) -> None:
    file = conf / "services" / "cluster.conf"
    text, number = re.subn(r"(spark\.ui\.killEnabled +)false", r"\1true", file.read_text())
    file.write_text(text)
    assert number == 1
    running = start_cluster(replace(alone, conf_dir=conf), workers=1)
    id, driver, _ = submit(environment(alone.home, running), str(counting), str(tmp_path / "done"))
    try:
        assert kill(Master(running.master, running.ui), id, tmp_path) == "KILLED"
    finally:
        with suppress(psutil.NoSuchProcess):
            end_driver(driver)
