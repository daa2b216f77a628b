"""The session of a program that spark-submit runs: its JVM runs already, so it is only checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from hudilab.errors import SessionError
from hudilab.groups import CATALOG
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_spark.conf import add_hudi_defaults
from hudilab_spark.registration import await_executor, create_session
from hudilab_spark.s3 import spark_settings

# Without these, writing a table fails, or the result differs from other sessions.
_NEEDED = (
    "spark.serializer",
    "spark.kryo.registrator",
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.session.timeZone",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.datetimeRebaseModeInRead",
)


def submitted_session(settings: Settings, app: str, extra: Mapping[str, str]) -> SparkSession:
    """Return the session of spark-submit, which chose the class path and the settings.

    Raises:
        SessionError: Hudi or one of the settings that a table needs is missing, or the cluster has
            no room.
    """
    builder = SparkSession.builder.appName(app)
    options = {} if settings.is_local else spark_settings(settings)
    options["spark.sql.defaultCatalog"] = CATALOG
    options |= extra
    for key, value in options.items():
        builder = builder.config(key, value)
    spark = create_session(builder, settings)
    await_executor(spark, settings)
    defaults = settings.conf_file("spark-defaults.conf")
    wanted = read_options(defaults)
    missing = [key for key in _NEEDED if spark.conf.get(key, None) != wanted[key]]
    if missing:
        raise SessionError(
            f"spark-submit started without the lab's Spark settings ({', '.join(missing)})",
            f"pass --properties-file {defaults}, or set SPARK_CONF_DIR to its folder",
        )
    jvm: Any = spark._jvm
    # Only this class loader sees jars given with --jars.
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload", True, loader)
    except Py4JError:
        raise SessionError(
            "spark-submit started without Hudi on its class path",
            "pass the jars in jars/core with --driver-class-path, or the bundle's jar with --jars",
        ) from None
    if not jvm.java.lang.System.getenv("HUDI_CONF_DIR"):
        _add_lab_defaults(jvm, settings)
    if os.environ.get("HUDILAB_SUBMITTED"):  # hudilab submit waits for this line
        context = spark.sparkContext
        print(f"hudilab: application {context.applicationId} on {context.master}", flush=True)
    return spark


def _add_lab_defaults(jvm: Any, settings: Settings) -> None:
    """Give Hudi the lab's defaults: a platform that starts the JVM rarely sets HUDI_CONF_DIR."""
    options = read_options(settings.conf_file("hudi-defaults.conf"))
    added = settings.conf_file("hudi-defaults.conf", of_runtime=True)
    options |= read_options(added) if added.is_file() else {}
    add_hudi_defaults(jvm, options)
