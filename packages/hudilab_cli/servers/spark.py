"""Commands and settings that Spark's master, worker and history server share."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hudilab.settings import Settings
from hudilab_cli.servers import process
from hudilab_spark.cluster import CONF
from hudilab_spark.conf import older_names
from hudilab_spark.environment import for_java
from hudilab_spark.jars import verify
from hudilab_spark.java import ARCHIVE, archive_options, class_path, find_java, spark_home


def write_conf(settings: Settings, folder: Path, defaults: Mapping[str, str]) -> None:
    """Write a Spark server's `defaults` and logging settings to `conf` in its folder."""
    conf = folder / CONF
    conf.mkdir(parents=True, exist_ok=True)
    process.copy_settings(settings, "log4j2.properties", conf)
    process.write_settings(conf / "spark-defaults.conf", defaults)


def command(
    settings: Settings, program: Sequence[str], conf: Path, jars: Sequence[Path] = ()
) -> list[str]:
    """Return the command of a Spark server on loopback.

    Args:
        program: a class in `org.apache.spark.deploy`, then its arguments.
        jars: further jars of the class path, after those of Hudi and Spark.
    """
    kind, *arguments = program
    home, known = find_java().home, settings.project / "jars"
    # The same prefix as a session's class path, so that the archive of classes fits both.
    path = f"{class_path([*verify(known, ['core']), *jars])}{os.pathsep}{conf}"
    # Fail instead of trying other ports, if the port was taken in the meantime.
    flags = [*process.JVM, *archive_options(known / ARCHIVE), "-Dspark.port.maxRetries=0"]
    java = [str(home / "bin" / "java"), *flags, "-cp", path]
    return [*java, f"org.apache.spark.deploy.{kind}", *arguments]


def environment(conf: Path) -> dict[str, str]:
    """Return the environment of a Spark server with its settings in a folder."""
    # Executors inherit it, so omit variables for a driver, or for another Spark.
    ours = ("SPARK_", "PYSPARK_", "HUDILAB_", "KAFKA_PASSWORD")
    env = {name: value for name, value in for_java().items() if not name.startswith(ours)}
    env |= {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": process.HOST,
        "SPARK_SCALA_VERSION": "2.12",  # set by Spark's scripts; required by executors
    }
    return env | older_names()
