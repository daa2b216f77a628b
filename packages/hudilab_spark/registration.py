"""Register a session with a standalone cluster's master, and wait for its first executor."""

from __future__ import annotations

import os
import time
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from hudilab.errors import SessionError
from hudilab.settings import Settings
from hudilab_spark.cluster import executor_folders, note_driver
from hudilab_spark.java import complaint

EXECUTOR_TIMEOUT = 60.0  # seconds
EXECUTOR_TRIES = 10


def create_session(builder: SparkSession.Builder, settings: Settings) -> SparkSession:
    """Create the session; on a cluster, record its process for `hudilab kill`.

    Raises:
        SessionError: the master did not accept the application.
    """
    try:
        spark = builder.getOrCreate()
        app, master = str(spark.sparkContext.applicationId), str(spark.sparkContext.master)
        if not master.startswith("spark://"):
            return spark
    except Py4JError as error:
        if "stopped SparkContext" not in str(error):
            raise
        app = ""
    log = os.environ.get("HUDILAB_LOG_FILE")
    if not app.startswith("app-"):  # a master's id starts with this
        if active := SparkContext._active_spark_context:
            active.stop()
        raise SessionError(
            f"the Spark master did not accept the application, see the log {log}",
            "if the cluster requires a secret, set spark.authenticate true and "
            f"spark.authenticate.secret in {settings.spark_defaults}",
        )
    if log:
        pid = cast(Any, spark._jvm).java.lang.ProcessHandle.current().pid()
        note_driver(settings.home, app, pid, log)
    return spark


def await_executor(spark: SparkSession, settings: Settings) -> None:
    """On a standalone cluster, wait for the first executor, without which every job would hang.

    Raises:
        SessionError: no executor started; for the lab's own workers, it contains the last error.
    """
    context = spark.sparkContext
    if not str(context.master).startswith("spark://"):
        return
    app, inner = context.applicationId, spark._jsc.sc()
    ends, tried = time.monotonic() + EXECUTOR_TIMEOUT, executor_folders(settings.home, app)
    try:
        # The list also contains the driver.
        while len(inner.statusTracker().getExecutorInfos()) < 2:
            # With several workers, a master restarts executors that exit at once forever.
            tried = executor_folders(settings.home, app)
            if inner.isStopped() or len(tried) >= EXECUTOR_TRIES or time.monotonic() > ends:
                break
            time.sleep(0.05)
        else:
            return
    except Py4JError:  # the context stopped between two calls
        pass
    problem = f"no executor of {app} started at {context.master}"
    look = "look at their stdout and stderr in the master's web UI"
    if tried:
        first = tried[0]
        # A JVM that cannot start prints the cause on stdout.
        words = [(first / name).read_text("utf-8", "replace") for name in ("stderr", "stdout")]
        problem += f"; the first one failed: {complaint(''.join(words))}"
        look = f"see {first}"
    spark.stop()
    raise SessionError(problem, f"{look}, and fix spark.executor.* in {settings.spark_defaults}")
