"""The only place that builds a SparkSession: local verified jars, quiet, on loopback when local."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from hudilab.config import Settings
from hudilab.errors import SessionError
from hudilab.jars import verify
from hudilab.java import Java, find_java

__all__ = ["describe", "log_file", "open_session", "overlay"]


def overlay(settings: Settings) -> dict[str, str]:
    """Spark settings that conf/<runtime>/spark-defaults.conf adds for this runtime."""
    file = settings.conf_dir / settings.runtime.lower() / "spark-defaults.conf"
    if not file.is_file():
        raise SessionError(
            f"RUNTIME_ENV={settings.runtime} has no Spark settings: {file} is missing; "
            "write spark.master and what else this runtime needs into it, or use RUNTIME_ENV=LOCAL"
        )
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (line.split(None, 1) for line in lines if line and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def log_file() -> Path:
    """The file that the running JVM logs to."""
    return Path(os.environ["HUDILAB_LOG_FILE"])


def open_session(
    settings: Settings, app: str = "hudilab", groups: Sequence[str] = ("core",)
) -> SparkSession:
    """A session with Hudi on its class path; a live one is returned if its settings are the same.

    Never downloads: jars come from `jars/`, verified against `jars.lock`. Prints nothing.
    Errors: JavaError, JarError, and SessionError when a live session has other static settings.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(app)
    java = find_java()
    jars = verify(settings.project / "jars", groups)
    asked = {"spark.driver.extraClassPath": os.pathsep.join(map(str, jars)), **overlay(settings)}
    active = SparkSession.getActiveSession()
    if active is not None:
        _refuse_other(active, asked)
        return active
    if SparkContext._gateway is None:
        _environment(settings, app, java)
    builder = SparkSession.builder.appName(app)
    # Managed tables, and the folder of the default database, are not left where the kernel runs.
    builder = builder.config("spark.sql.warehouse.dir", str(settings.home / "spark-warehouse"))
    for key, value in asked.items():
        builder = builder.config(key, value)
    with _output_to(log_file()):
        session = builder.getOrCreate()
    _refuse_other(session, asked)
    jvm = session._jvm
    assert jvm is not None
    # Where its metadata table is on, Hudi 1.2.0 compares that table's schema by identity. If the
    # first thing that a new JVM does is to compact it (every tenth commit), another object of the
    # schema is cached, and the commit fails with "Index 7 out of bounds"; this class caches the
    # right one.
    jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload")
    return session


def _submitted(app: str) -> SparkSession:
    """The session of spark-submit, which has started the JVM and chosen class path and settings."""
    spark = SparkSession.builder.appName(app).getOrCreate()
    jvm: Any = spark._jvm
    try:
        jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload")
    except Py4JError:
        raise SessionError(
            "spark-submit started without Hudi on its class path; "
            "name the jars of jars/core with --driver-class-path, or the bundle with --jars"
        ) from None
    if not jvm.java.lang.System.getenv("HUDI_CONF_DIR"):
        raise SessionError(
            "HUDI_CONF_DIR is not set, so none of the lab's Hudi settings would count; "
            "export it, and SPARK_CONF_DIR, as the lab's conf directory before spark-submit"
        )
    return spark


def describe(spark: SparkSession) -> str:
    """What really runs: Spark, Java, the Hudi jar loaded, UI and log, a line each."""
    jvm = spark._jvm
    assert jvm is not None
    hudi = jvm.java.lang.Class.forName("org.apache.hudi.common.table.HoodieTableMetaClient")
    jar = Path(hudi.getProtectionDomain().getCodeSource().getLocation().getPath())
    java = jvm.java.lang.System.getProperty("java.version")
    return "\n".join(
        (
            f"Spark {spark.version} on {spark.sparkContext.master}",
            f"Java  {java}, {os.environ['HUDILAB_JAVA']}",
            f"Hudi  {jar.name}",
            f"UI    {spark.sparkContext.uiWebUrl}",
            f"log   {log_file()}",
        )
    )


def _refuse_other(spark: SparkSession, asked: Mapping[str, str]) -> None:
    conf = spark.sparkContext.getConf()
    for key, value in sorted(asked.items()):
        live = conf.get(key)
        if live != value:
            raise SessionError(
                f"a Spark session is running with {key}={live}, and {value} is asked for; "
                "stop it with spark.stop(), or restart the kernel when the class path differs"
            )


def _environment(settings: Settings, app: str, java: Java) -> None:
    """Set what the JVM inherits; it reads these once, when it starts."""
    logs = settings.home / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    os.environ |= {
        "JAVA_HOME": str(java.home),
        "HUDILAB_JAVA": java.notice,  # what was chosen and why; JAVA_HOME is set from now on
        # Another Spark named here would be started instead of the pinned one.
        "SPARK_HOME": str(Path(spec.origin).parent),
        "SPARK_CONF_DIR": str(settings.conf_dir),
        "HUDI_CONF_DIR": str(settings.conf_dir),
    }
    # `hudilab run` has named the file already, and tells its user so.
    os.environ.setdefault("HUDILAB_LOG_FILE", str(logs / f"{app}-{started}-{os.getpid()}.log"))
    # Workers run the system's python3 unless told otherwise.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if settings.runtime == "LOCAL":
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"


@contextmanager
def _output_to(file: Path) -> Iterator[None]:
    """Point file descriptors 1 and 2 at the log while the JVM starts, which inherits them."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        for target, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, target)
            os.close(copy)
