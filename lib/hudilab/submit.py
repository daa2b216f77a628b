"""Jobs for spark-submit: the lab's pipelines, or a file of your own, with the settings' runtime."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from hudilab.config import Settings, read_options, run_options
from hudilab.drivers import note_driver
from hudilab.errors import BundleError, SessionError, WaitError
from hudilab.jars import verify
from hudilab.kafka import Access
from hudilab.master import Master, authentication, find_master, own_master
from hudilab.private import private_folder, write_private
from hudilab.session import check_cluster, environment, needed, session_settings
from hudilab.streams import root_cause
from hudilab.waiting import wait_for

__all__ = ["Submitted", "find_job", "master_of", "submit", "submit_and_wait"]

JOBS = Path(__file__).with_name("jobs")
PATIENCE = 90.0  # seconds for a session and its first executor
BRIEFLY = 15.0  # for a program to fail at once, if it fails


@dataclass(frozen=True)
class Submitted:
    """A job that runs: its application's id, its driver's process, and its log.

    The id is empty for a program whose application is not known: without a cluster, or not yet.
    """

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


def submit(
    settings: Settings, job: str, arguments: Sequence[str] = (), bundle: Path | None = None
) -> Submitted:
    """Start a job in the background, and return when its application is there.

    A job that has no application after `PATIENCE` seconds runs on, and is returned without an id;
    without a cluster, a program of your own after `BRIEFLY`: it need not say what it has become.
    With `bundle`: that zip's code and jar, which Spark sends to the executors, not the checkout's.
    Errors: SessionError when there is no such job, no master or no room, or it ends before that;
    BundleError for a zip that is none.
    """
    command, env = _command(settings, job, arguments, bundle)
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
    patience = BRIEFLY if job.endswith(".py") and settings.runtime != "DOCKER" else PATIENCE
    with suppress(WaitError):  # it waits for something itself, and has not failed
        wait_for(lambda: _begun(job, log) or driver.poll() is not None, patience, job)
    if found := _begun(job, log):
        if found.startswith("app-"):
            note_driver(settings.home, found, driver.pid, str(log))
        return Submitted(found, driver.pid, log)
    if driver.poll() is not None:
        text = log.read_text(encoding="utf-8", errors="replace")
        told = re.findall(r"(?m)^hudilab: (.+)$", text)
        why = told[-1] if told else root_cause(text)
        raise SessionError(f"{job} ended with code {driver.returncode}: {why}; see the log {log}")
    return Submitted("", driver.pid, log)


def _begun(job: str, log: Path) -> str:
    """The application's id as its log has it; empty as long as it has none.

    A job of the lab prints it when executors are there, any other program's Java when the master
    has taken the application in.
    """
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    found = re.search(r"(?m)^hudilab: application (\S+) on ", text)
    if not found and job.endswith(".py"):
        found = re.search(r"Connected to Spark cluster with app ID (\S+)", text)
    return found[1] if found else ""


def submit_and_wait(
    settings: Settings, job: str, arguments: Sequence[str] = (), bundle: Path | None = None
) -> int:
    """Run a job to its end on this terminal; the driver's exit code. Otherwise as `submit`."""
    command, env = _command(settings, job, arguments, bundle)
    log, known = Path(env["HUDILAB_LOG_FILE"]), ""
    # Ctrl-C is for the job, which ends when its batch is done; this process waits for it.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        driver = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
        while not known and driver.poll() is None:
            known = _begun(job, log)
            if known.startswith("app-"):  # hudilab kill finds it, from another terminal
                note_driver(settings.home, known, driver.pid, str(log))
            with suppress(subprocess.TimeoutExpired):
                driver.wait(0.2)
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
    settings: Settings, job: str, arguments: Sequence[str], bundle: Path | None
) -> tuple[list[str], dict[str, str]]:
    """What to run, with which environment; whatever can be checked before is checked here."""
    file, words = find_job(job), list(arguments)
    title = file.stem
    groups = [] if bundle else _groups(settings)
    jars = verify(settings.project / "jars", needed(settings, groups))
    asked = session_settings(settings, jars)
    if bundle:
        if job.endswith(".py"):
            raise BundleError(f"{job} is not in {bundle}; name a job of the lab, or no bundle")
        run, root = run_options(settings), _unpack(bundle, settings.home / "submitted")
        asked["spark.jars"] = str(root / run.jarfile)
        file, words = root / run.python, [job, *words]
    asked["spark.sql.warehouse.dir"] = str(settings.home / "spark-warehouse")
    if settings.runtime == "DOCKER":
        check_cluster(settings, asked)
    env = _environment(settings, title, asked)
    if not bundle:  # which brings its own package
        path = (str(JOBS.parents[1]), os.environ.get("PYTHONPATH"))
        env["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    properties = Path(env["HUDILAB_LOG_FILE"]).with_suffix(".conf")
    _write_properties(properties, settings, asked)
    tool = str(Path(env["SPARK_HOME"], "bin", "spark-submit"))
    return [tool, "--properties-file", str(properties), str(file), *words], env


def _environment(settings: Settings, title: str, asked: Mapping[str, str]) -> dict[str, str]:
    """A driver's own: not the log of this session, nor its gateway."""
    gone = ("HUDILAB_LOG_FILE", "PYSPARK_GATEWAY")
    env = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    env |= environment(settings, title, asked)
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    logs = private_folder(settings.home / "submitted")
    return env | {
        "HUDILAB_LOG_FILE": str(logs / f"{title}-{started}.log"),
        "HUDILAB_SUBMITTED": "1",
        "HUDILAB_HOME": str(settings.home),
        "HUDILAB_CONF": str(settings.conf_dir),
        "RUNTIME_ENV": settings.runtime,
    }


def _write_properties(file: Path, settings: Settings, asked: Mapping[str, str]) -> None:
    """All that spark-submit is told, in a file: a command line would show a secret to everybody."""
    # Spark reads no spark-defaults.conf beside this file.
    everything = read_options(settings.conf_dir / "spark-defaults.conf") | dict(asked)
    everything |= authentication(asked.get("spark.master", ""), settings.home)
    escaped = {key: value.replace("\\", "\\\\") for key, value in everything.items()}
    write_private(file, "".join(f"{key} {value}\n" for key, value in escaped.items()))


def _unpack(bundle: Path, folder: Path) -> Path:
    """The bundle's files in a folder that has its hash for a name: the same ones only once."""
    try:
        root = folder / f"bundle-{hashlib.sha256(bundle.read_bytes()).hexdigest()[:16]}"
        if not root.exists():
            with ZipFile(bundle) as archive:
                archive.getinfo("MANIFEST.json")
                half = root.with_name(f".{root.name}.{os.getpid()}")
                archive.extractall(half)
            try:
                half.rename(root)
            except OSError:
                shutil.rmtree(half)
                if not root.exists():  # unless another submit was first: it has the same files
                    raise
    except (OSError, BadZipFile, KeyError) as error:
        why = getattr(error, "strerror", None) or "it is another kind of file"
        raise BundleError(f"{bundle} is not a bundle ({why}); make one with: make bundle") from None
    return root


def _groups(settings: Settings) -> list[str]:
    """The jars of all pipelines."""
    clients = [one for one in (settings.consumer, settings.producer) if one is not None]
    iam = any(Access(one.bootstrap_servers).iam for one in clients)
    return ["core", "kafka", *(["msk"] if iam else [])]
