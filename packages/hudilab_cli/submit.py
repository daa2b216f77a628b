"""Run the lab's jobs or your own Python file with spark-submit on the settings' runtime."""

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

import hudilab_jobs
from hudilab.errors import BundleError, SessionError, WaitError, root_cause
from hudilab.files import private_folder, properties, write_private
from hudilab.python_path import source_folders
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_jobs import PIPELINE_JOBS, PROGRAMS
from hudilab_jobs.groups import Client
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.settings import load_pipeline, pipelines, run_options
from hudilab_spark.cluster import (
    Master,
    authentication,
    check_cluster,
    find_master,
    note_driver,
    own_master,
)
from hudilab_spark.conf import (
    METASTORE_GROUP,
    conf_folder,
    managed_tables,
    needed,
    session_settings,
)
from hudilab_spark.environment import take_over
from hudilab_spark.hive_group import Hive
from hudilab_spark.jars import verify
from hudilab_spark.jvm import environment
from hudilab_spark.preflight import check_machine
from hudilab_spark.waiting import wait_for

START_SECONDS = 90.0  # for a session and its first executor
BRIEFLY = 15.0  # seconds within which a broken program should fail


@dataclass(frozen=True)
class Submitted:
    """A running job: the application's id, the driver's process id and its log."""

    id: str  # empty without a cluster, or if the application hasn't started
    pid: int
    log: Path


def find_job(job: str) -> Path:
    """Return the file of a job of the lab, or your own Python file.

    Raises:
        SessionError: there is no such job or file.
    """
    path = Path(hudilab_jobs.__file__).with_name(f"{job}.py") if job in PROGRAMS else Path(job)
    if job not in PROGRAMS and not (job.endswith(".py") and path.is_file()):
        raise SessionError(
            f"unknown job {job!r}", f"give a Python file, or one of: {', '.join(PROGRAMS)}"
        )
    return path.resolve()


def submit(
    settings: Settings,
    job: str,
    arguments: Sequence[str] = (),
    bundle: Path | None = None,
) -> Submitted:
    """Start a job in the background, and return once its application has started.

    A job without an application after `START_SECONDS` continues and is returned without an id. For
    your own Python file without a cluster, the limit is `BRIEFLY`.

    Args:
        bundle: run the code and jar of this zip instead of the checkout's.

    Raises:
        SessionError: there is no such job, no master or no room on the cluster, or the job ends
            before its application has started.
        BundleError: `bundle` is not a bundle, or `job` is your own file.
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
    patience = BRIEFLY if job.endswith(".py") and not settings.on_cluster else START_SECONDS
    with suppress(WaitError):  # the job has not failed
        wait_for(lambda: _begun(job, log) or driver.poll() is not None, patience, job)
    if application := _begun(job, log):
        if application.startswith("app-"):
            note_driver(settings.home, application, driver.pid, str(log))
        return Submitted(application, driver.pid, log)
    if driver.poll() is not None:
        text = log.read_text(encoding="utf-8", errors="replace")
        lines = re.findall(r"(?m)^hudilab: (.+)$", text)
        why = lines[-1] if lines else root_cause(text)
        raise SessionError(
            f"{job} exited with code {driver.returncode}: {why}", f"see the log {log}"
        )
    return Submitted("", driver.pid, log)


def _begun(job: str, log: Path) -> str:
    """Return the application's id from the log, or an empty string.

    A job of the lab prints it after an executor has registered. In other programs, Spark logs it
    after the master has accepted the application.
    """
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    match = re.search(r"(?m)^hudilab: application (\S+) on ", text)
    if not match and job.endswith(".py"):
        match = re.search(r"Connected to Spark cluster with app ID (\S+)", text)
    return match[1] if match else ""


def submit_and_wait(
    settings: Settings, job: str, arguments: Sequence[str] = (), bundle: Path | None = None
) -> int:
    """Run a job like `submit`, but in this terminal; return the driver's exit code."""
    command, env = _command(settings, job, arguments, bundle)
    log, known = Path(env["HUDILAB_LOG_FILE"]), ""
    # Ctrl-C lets the job finish its batch and end, while this process waits.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        driver = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
        while not known and driver.poll() is None:
            known = _begun(job, log)
            if known.startswith("app-"):  # for hudilab kill, from another terminal
                note_driver(settings.home, known, driver.pid, str(log))
            with suppress(subprocess.TimeoutExpired):
                driver.wait(0.2)
        return driver.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def master_of(settings: Settings) -> Master:
    """Return the master in the settings, else the master of this home's cluster.

    Raises:
        ServiceError: there is no master, or it doesn't answer.
    """
    named = os.environ.get("SPARK_MASTER_URL", "").strip()
    if settings.on_cluster:
        named = session_settings(settings, ())["spark.master"]
    return find_master(named or own_master(settings.home), settings.home)


def _command(
    settings: Settings, job: str, arguments: Sequence[str], bundle: Path | None
) -> tuple[list[str], dict[str, str]]:
    """Check the job and the cluster; return the command and its environment."""
    check_machine(settings)
    take_over(settings.runtime)
    file, words = find_job(job), list(arguments)
    own = [word for word in words if word.endswith(".json")] if job in PIPELINE_JOBS else []
    if own:
        settings, _ = load_pipeline(own[0])
    title = file.stem
    groups = [] if bundle else jar_groups(settings)
    extra = {}
    if bundle:
        if job.endswith(".py"):
            raise BundleError(f"{job} is not in {bundle}", "use a job of the lab, or omit --bundle")
        run, root = run_options(settings), _unpack(bundle, settings.home / "submitted")
        extra["spark.jars"] = str(root / run.jarfile)
        file, words = root / run.python, [job, *words]
    folder = managed_tables(settings.home, named=settings.group(METASTORE_GROUP, Hive) is not None)
    extra["spark.sql.warehouse.dir"] = str(folder)
    file_of_settings, env = driver_files(settings, title, groups, extra)
    if bundle:  # the bundle's code must not use files of the checkout
        env["HUDILAB_CONF"] = str(conf_folder(settings))
    else:
        path = (*map(str, source_folders()), os.environ.get("PYTHONPATH"))
        env["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    tool = str(Path(env["SPARK_HOME"], "bin", "spark-submit"))
    return [tool, "--properties-file", str(file_of_settings), str(file), *words], env


def driver_files(
    settings: Settings, title: str, groups: Sequence[str], extra: Mapping[str, str]
) -> tuple[Path, dict[str, str]]:
    """Write the settings file for a driver of spark-submit; return it and the environment.

    Args:
        groups: The driver's groups of jars, without the group of S3.
        extra: More Spark settings.

    Raises:
        JarError: a jar is missing or altered.
        SessionError: the cluster does not answer or has no room.
    """
    jars = verify(settings.project / "jars", needed(settings, groups))
    session = {**session_settings(settings, jars), **extra}
    if settings.on_cluster:
        check_cluster(settings, session)
    env = _environment(settings, title, session)
    file = Path(env["HUDILAB_LOG_FILE"]).with_suffix(".conf")
    _write_properties(file, settings, session)
    return file, env


def _environment(settings: Settings, title: str, session: Mapping[str, str]) -> dict[str, str]:
    """Return the driver's environment, without this session's log file and gateway."""
    gone = ("HUDILAB_LOG_FILE", "PYSPARK_GATEWAY")
    env = {name: value for name, value in os.environ.items() if not name.startswith(gone)}
    env |= environment(settings, title, session)
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    logs = private_folder(settings.home / "submitted")
    return env | {
        "HUDILAB_LOG_FILE": str(logs / f"{title}-{started}.log"),
        "HUDILAB_SUBMITTED": "1",
        "HUDILAB_HOME": str(settings.home),
        "HUDILAB_CONF": str(settings.conf_dir),
        "RUNTIME_ENV": settings.runtime,
    }


def _write_properties(file: Path, settings: Settings, session: Mapping[str, str]) -> None:
    """Write spark-submit's settings to a file, because a command line would reveal secrets."""
    # With this file, Spark does not read spark-defaults.conf.
    everything = read_options(settings.conf_file("spark-defaults.conf")) | dict(session)
    everything |= authentication(session.get("spark.master", ""), settings.home)
    write_private(file, properties(everything))


def _unpack(bundle: Path, folder: Path) -> Path:
    """Unpack the bundle once into a folder named after its hash, and return the folder."""
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
                if not root.exists():  # else another submit has unpacked the same files
                    raise
    except (OSError, BadZipFile, KeyError) as error:
        why = getattr(error, "strerror", None) or "it is another kind of file"
        raise BundleError(
            f"{bundle} is not a bundle ({why})", "build one with: make bundle"
        ) from None
    return root


def jar_groups(settings: Settings) -> list[str]:
    """Return the jar groups of the pipelines."""
    clients = [group for group in settings.groups.values() if isinstance(group, Client)]
    iam = any(Access(client.bootstrap_servers).iam for client in clients)
    avro = any(group.is_avro for group in pipelines(settings).values())
    return ["core", "kafka", *(["msk"] if iam else []), *(["avro"] if avro else [])]
