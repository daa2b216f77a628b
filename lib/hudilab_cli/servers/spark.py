"""Start Spark's own servers from pyspark's jars: code that master, worker and history share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from hudilab.environment import for_java
from hudilab.files import write_private
from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_spark.class_archive import ARCHIVE, archive_options, class_path
from hudilab_spark.cluster import CONF
from hudilab_spark.jars import verify
from hudilab_spark.java import complaint, find_java, spark_home
from hudilab_spark.s3 import older_names

# Executors log to stderr, which the worker keeps and shows in its web UI.
LOGGING = """status = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC} %p %c{1}: %m%n%ex
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = info
"""


def write_conf(folder: Path, defaults: str) -> Path:
    """Write a Spark server's settings, `defaults` and logging; return their folder."""
    conf = folder / CONF
    conf.mkdir(parents=True, exist_ok=True)
    (conf / "log4j2.properties").write_text(LOGGING, encoding="utf-8")
    write_private(conf / "spark-defaults.conf", defaults)  # it may hold a secret
    return conf


def launch(
    settings: Settings,
    folder: Path,
    program: Sequence[str],
    conf: Path,
    log: Path,
    jars: Sequence[Path] = (),
) -> process.Launched:
    """Start a server of Spark's on loopback.

    Args:
        program: a class below `org.apache.spark.deploy`, then its arguments.
        jars: what it needs on its class path besides Hudi's and Spark's jars.
    """
    kind, *arguments = program
    home, known = find_java().home, settings.project / "jars"
    # The same prefix as a session's class path, so that the archive of classes fits both.
    path = f"{class_path([*verify(known, ['core']), *jars])}{os.pathsep}{conf}"
    # No retry on other ports: if the port has been taken in the meantime, fail.
    flags = [*process.JVM, *archive_options(known / ARCHIVE), "-Dspark.port.maxRetries=0"]
    command = [str(home / "bin" / "java"), *flags, "-cp", path, f"org.apache.spark.deploy.{kind}"]
    # Executors inherit it: leave out what is meant for a driver, or for another Spark.
    ours = ("SPARK_", "PYSPARK_", "HUDILAB_", "KAFKA_PASSWORD")
    env = {name: value for name, value in for_java().items() if not name.startswith(ours)}
    env |= {
        "JAVA_HOME": str(home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": process.HOST,
        "SPARK_SCALA_VERSION": "2.12",  # Spark's scripts set it; without it no executor starts
    }
    env |= older_names()
    return process.launch(folder, [*command, *arguments], log, env)


def why(text: str, code: int, log: Path) -> str:
    """Return one line on why a Spark server ended: its last error, and where its log is."""
    if "Address already in use" in text:
        return f"another program took one of Spark's ports; start again (log: {log})"
    return f"Spark's {log.stem} exited with code {code}: {complaint(text)}; see {log}"
