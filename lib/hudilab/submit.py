"""Jobs for spark-submit: the lab's pipelines, or a file of your own, with the settings' runtime."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hudilab.config import Settings
from hudilab.errors import SessionError
from hudilab.jars import verify
from hudilab.kafka import Access
from hudilab.master import Master, find_master, own_master
from hudilab.session import check_cluster, environment, needed, session_settings
from hudilab.streams import root_cause

__all__ = ["Submitted", "find_job", "master_of", "submit", "submit_and_wait"]

JOBS = Path(__file__).with_name("jobs")
PATIENCE = 90.0


@dataclass(frozen=True)
class Submitted:
    """An application that runs: its id at the master, its driver's process, and its log."""

    id: str
    pid: int
    log: Path


def find_job(job: str) -> Path:
    """The file of a job of `hudilab/jobs`, or a Python file. Errors: SessionError."""
    path = Path(job) if job.endswith(".py") else JOBS / f"{job}.py"
    if not path.is_file() or path.stem == "__init__":
        names = sorted(found.stem for found in JOBS.glob("[a-z]*.py"))
        raise SessionError(f"no job {job!r}; give a Python file, or one of: {', '.join(names)}")
    return path.resolve()


def submit(settings: Settings, job: str, arguments: Sequence[str] = ()) -> Submitted:
    """Start a job in the background, and return when its application is there.

    Errors: SessionError when there is no such job, no master or no room, or it ends before that.
    """
    command, env = _command(settings, job, arguments)
    log = Path(env["HUDILAB_LOG_FILE"])
    with log.open("ab") as out:
        driver = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends:
        code = driver.poll()
        text = log.read_text(encoding="utf-8", errors="replace")
        if found := re.search(r"(?m)^hudilab: application (\S+) on ", text):
            return Submitted(found[1], driver.pid, log)
        if code is not None:
            told = re.findall(r"(?m)^hudilab: (.+)$", text)
            why = told[-1] if told else root_cause(text)
            raise SessionError(f"{job} ended with code {code}: {why}; see the log {log}")
        time.sleep(0.1)
    driver.kill()
    raise SessionError(f"{job} has opened no session after {PATIENCE:.0f} s; see the log {log}")


def submit_and_wait(settings: Settings, job: str, arguments: Sequence[str] = ()) -> int:
    """Run a job to its end on this terminal; the driver's exit code."""
    command, env = _command(settings, job, arguments)
    # Ctrl-C is for the job, which ends between two batches; this process waits for it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        driver = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
        return driver.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def master_of(settings: Settings) -> Master:
    """The master that the settings name; else the cluster that runs in this home.

    Errors: ServiceError when there is none, or nobody listens.
    """
    named = os.environ.get("SPARK_MASTER_URL", "").strip()
    if settings.runtime == "DOCKER":
        named = session_settings(settings, ())["spark.master"]
    return find_master(named or own_master(settings.home), settings.home)


def _command(
    settings: Settings, job: str, arguments: Sequence[str]
) -> tuple[list[str], dict[str, str]]:
    """What to run, with which environment; whatever can be checked before is checked here."""
    file = find_job(job)
    jars = verify(settings.project / "jars", needed(settings, _groups(settings)))
    asked = session_settings(settings, jars)
    asked["spark.sql.warehouse.dir"] = str(settings.home / "spark-warehouse")
    if settings.runtime == "DOCKER":
        check_cluster(settings, asked)
    # A driver of its own: not the log of this session, nor its gateway.
    gone = ("HUDILAB_LOG_FILE", "PYSPARK_GATEWAY")
    env = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    env |= environment(settings, file.stem, asked)
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    logs = settings.home / "submitted"
    logs.mkdir(parents=True, exist_ok=True)
    env |= {
        "HUDILAB_LOG_FILE": str(logs / f"{file.stem}-{started}.log"),
        "HUDILAB_SUBMITTED": "1",
        "HUDILAB_HOME": str(settings.home),
        "HUDILAB_CONF": str(settings.conf_dir),
        "RUNTIME_ENV": settings.runtime,
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(JOBS.parents[1]), os.environ.get("PYTHONPATH")))
        ),
    }
    conf = [word for key, value in sorted(asked.items()) for word in ("--conf", f"{key}={value}")]
    tool = str(Path(env["SPARK_HOME"], "bin", "spark-submit"))
    return [tool, *conf, str(file), *arguments], env


def _groups(settings: Settings) -> list[str]:
    """The jars of all pipelines."""
    clients = [one for one in (settings.consumer, settings.producer) if one is not None]
    iam = any(Access(one.bootstrap_servers).iam for one in clients)
    return ["core", "kafka", *(["msk"] if iam else [])]
