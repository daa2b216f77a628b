"""Which Spark settings follow from the lab's settings, and from the jars of a session."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from hudi_sink.metastore import trouble
from hudilab.environment import JAVA_OPTIONS
from hudilab.errors import SessionError
from hudilab.groups import CATALOG, METASTORE_GROUP
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_spark.class_archive import ARCHIVE, class_path, with_archive
from hudilab_spark.java import COMPILER
from hudilab_spark.master import megabytes
from hudilab_spark.preflight import heap_that_fits
from hudilab_spark.s3 import older_names, spark_settings

MEMORY = "spark.driver.memory"
# Settings with a matching name never go on a command line.
SECRET = re.compile(r"(?i)secret|password|token|access[.]?key")
# Names and locations of credentials that executors get.
AWS_NAMES = (
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_REGION",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
)


def overlay(settings: Settings) -> dict[str, str]:
    """Return the Spark settings that conf/<runtime>/spark-defaults.conf adds for this runtime.

    Raises:
        SessionError: the file is missing.
    """
    file = settings.spark_defaults
    if not file.is_file():
        raise SessionError(
            f"RUNTIME_ENV={settings.runtime} has no Spark settings: {file} does not exist",
            "create it with spark.master and whatever else this runtime needs, or use "
            "RUNTIME_ENV=LOCAL",
        )
    return read_options(file)


def needed(settings: Settings, groups: Sequence[str] = ("core",)) -> list[str]:
    """Return the jar groups of a session: those requested, plus `s3` if the warehouse is on S3."""
    return [*groups, *(["s3"] if not settings.is_local and "s3" not in groups else [])]


def session_settings(settings: Settings, jars: Sequence[Path]) -> dict[str, str]:
    """Return the runtime's Spark settings beyond conf/spark-defaults.conf, without side effects."""
    chosen = {"spark.driver.extraClassPath": class_path(jars), **overlay(settings)}
    chosen["spark.sql.defaultCatalog"] = CATALOG
    if memory := chosen.get(MEMORY):
        wanted = megabytes(memory, MEMORY)
        if (heap := heap_that_fits(wanted)) < wanted:
            chosen[MEMORY] = f"{heap}m"
    chosen |= {} if settings.is_local else spark_settings(settings)
    return chosen | _cluster(settings, chosen) if settings.on_cluster else chosen


def catalog_settings(settings: Settings) -> dict[str, str]:
    """Return the Spark settings with which SQL finds the names of the settings' metastore.

    Raises:
        SessionError: the metastore does not answer; Spark would try for minutes.
    """
    if settings.metastore is None:
        return {}
    uri = settings.metastore.uri
    if problem := trouble(uri):
        raise SessionError(
            f"the metastore {uri} of group {METASTORE_GROUP!r} in "
            f"{settings.origin(METASTORE_GROUP, 'uri')} is not usable: {problem}",
            "start it (on this machine: hudilab services start metastore), or remove the group",
        )
    return {
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": uri,
        "spark.hadoop.hive.metastore.client.socket.timeout": "20s",  # the default: ten minutes
    }


def _compiler() -> str:
    """Return which of Java's compilers the driver was told to use, for its executors."""
    words = os.environ.get(JAVA_OPTIONS, "").split()
    return " ".join(word for word in words if word.startswith(COMPILER))


def _cluster(settings: Settings, session: Mapping[str, str]) -> dict[str, str]:
    """Return what executors in other processes need, here or on a machine set up the same way."""
    master = os.environ.get("SPARK_MASTER_URL", "").strip() or session.get("spark.master", "")
    cluster = {
        "spark.master": master,
        # Not spark.jars: executors would load Hudi in a different class loader from Spark's.
        "spark.executor.extraClassPath": session["spark.driver.extraClassPath"],
        "spark.executor.extraJavaOptions": with_archive(
            f"{session.get('spark.executor.extraJavaOptions', '')} {_compiler()}".strip(),
            settings.project / "jars" / ARCHIVE,
        ),
        "spark.executorEnv.HUDI_CONF_DIR": str(settings.conf_file("hudi-defaults.conf").parent),
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[1]),
    }
    if "spark.eventLog.dir" not in session:
        # A path, not a URI: Spark takes it literally, spaces included.
        cluster["spark.eventLog.dir"] = str(settings.home / "spark-events")
    # Names and locations of credentials, never the credentials: UI and event log show these.
    cluster |= {
        f"spark.executorEnv.{name}": value for name in AWS_NAMES if (value := os.environ.get(name))
    }
    cluster |= {f"spark.executorEnv.{name}": value for name, value in older_names().items()}
    if re.match(r"spark://(127\.|localhost:)", master):
        cluster |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return cluster
