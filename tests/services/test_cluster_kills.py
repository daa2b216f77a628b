"""A stream on a cluster: killed, resumed and watched; minutes long."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys

import psutil
import pytest
from kills import Killed, record, rows_of, rows_once
from refusals import refused
from services.clusters import Writer, clean, hudilab, submit

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.applications import application_rows, worker_rows
from hudilab_cli.servers.cluster import Cluster, start_cluster
from hudilab_spark.cluster import Master, check_room
from hudilab_spark.waiting import wait_for


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
        commands = [" ".join(child.cmdline()) for child in family]
        for process in family if victim == "executor" else (worker, *family):
            process.kill()
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


# Notebook 11 does the same each time, without looking at it with a second engine.
@pytest.mark.deep
@pytest.mark.kills
def test_submitted_listed_killed_and_resumed(
    settings: Settings, master: Master, env: dict[str, str], drivers: list[psutil.Process]
) -> None:
    writer = Writer(settings, env, "submitted", batches=8)
    id, driver, _ = submit(writer.env, *writer.command)
    drivers.append(driver)
    wait_for(lambda: writer.commits() >= 2 or not driver.is_running(), 240, "two commits")
    listed = hudilab(env, "apps")
    (line,) = [line for line in listed.stdout.splitlines() if id in line]
    assert re.search(r" writer +application +RUNNING +2 ", line), line
    problem = f"no worker of {master.url} has room for an executor with 1500 MB and 1 cores "
    remedy = "with: hudilab kill ID, or start the cluster with more workers"
    with refused(ServiceError, problem, f"held by {id} (writer)", remedy=remedy):
        check_room(master, {"spark.executor.memory": "1500m"})
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
