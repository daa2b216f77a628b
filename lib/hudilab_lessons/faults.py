"""The fault lab's plumbing: kill a program, copy a table, race writers, count what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_sink.files import delete_tree
from hudi_sink.jvm import file_system
from hudilab.errors import WaitError, root_cause

# What a session leaves in the environment and a program of its own must not take over.
SESSION = ("PYSPARK_", "HUDILAB_LOG_FILE")
PATIENCE = 180.0  # seconds
# Writes a stream into a place, both from its first argument, and stops by itself where a kill is to
# hit it: within the commit of batch `in`, or between the commit of batch `after` and Spark's note.
VICTIM = """
import json, sys, time
from pyspark.sql import functions as F
from hudi_sink import ExactlyOnceSink
from hudilab import TableLocation, load_settings
from hudilab_spark import drain, open_session
from hudilab import readings_table, sensor_stream

job = json.loads(sys.argv[1])
spark = open_session(load_settings(job["runtime"]), app="faults_victim")
location = TableLocation(**job["location"])
spec = readings_table(name=location.name)
sink = ExactlyOnceSink(spark, spec, location, job["source"], job["source"]["batches"])

def write_batch(batch, number):
    if number == job["in"]:
        last = (number + 1) * job["stream"]["rows_per_batch"] - 1
        hang = F.udf(lambda id: time.sleep(600) if id == last else id, "long")
        batch = batch.withColumn("reading_id", hang("reading_id"))
    sink.write_batch(batch, number)
    if number == job["after"]:
        time.sleep(600)

query = sensor_stream(spark, **job["stream"]).writeStream.foreachBatch(write_batch)
query = query.option("checkpointLocation", location.checkpoint).start()
drain(query, batches=job["source"]["batches"], deadline=600)
"""


def compare(wanted: DataFrame, table: str) -> dict[str, int]:
    """Return how many rows a table has, and how many of the wanted ones are lost or there twice.

    A row that should not be there at all counts as twice.
    """
    stored = wanted.sparkSession.read.format("hudi").load(table).select(wanted.columns)
    signed = wanted.withColumn("n", F.lit(1)).union(stored.withColumn("n", F.lit(-1)))
    differing = signed.groupBy(wanted.columns).agg(F.sum("n").alias("n"))
    more, fewer = (F.greatest(F.lit(sign) * F.col("n"), F.lit(0)) for sign in (1, -1))
    sums = differing.select(F.sum(more), F.sum(fewer)).first()
    lost, twice = (int(value or 0) for value in sums or (0, 0))
    return {"rows": wanted.count() - lost + twice, "lost": lost, "twice": twice}


def copy_tree(spark: SparkSession, uri: str, to: str) -> None:
    """Copy a folder; what is at `to` is replaced."""
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    delete_tree(spark, to)
    fs, path = file_system(spark, uri)

    # Not the folder as a whole: on S3 a trace of the removed one can remain, and Hadoop then copies
    # the folder into that.
    def copy(folder: Any, target: Any) -> None:
        fs.mkdirs(target)
        for status in fs.listStatus(folder):
            child = status.getPath()
            copied = hadoop.Path(target, child.getName())
            if status.isDirectory():
                copy(child, copied)
            else:
                hadoop.FileUtil.copy(fs, child, fs, copied, False, fs.getConf())

    copy(path, hadoop.Path(to))


def kill_when(
    condition: Callable[[], bool],
    program: str,
    job: Mapping[str, Any],
    patience: float = PATIENCE,
) -> None:
    """Run a Python program, and kill -9 it and all its processes as soon as `condition` is true.

    Args:
        program: Its text. It gets `job` as JSON, in its first argument.
        patience: Seconds to wait for the condition.

    Raises:
        WaitError: The program ended by itself, or the condition never became true.
    """
    env = {name: text for name, text in os.environ.items() if not name.startswith(SESSION)}
    with tempfile.TemporaryFile("w+") as errors:
        running = subprocess.Popen(
            [sys.executable, "-c", program, json.dumps(job)],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        ends = time.monotonic() + patience
        try:
            while not condition():
                if running.poll() is not None or time.monotonic() > ends:
                    errors.seek(0)
                    what = "is still not there" if running.poll() is None else "ended by itself"
                    raise WaitError(
                        f"the program that was to be killed {what}: {root_cause(errors.read())}",
                        "fix it and run the cell again",
                    )
                time.sleep(0.1)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def race(
    write: Callable[[int], None], *, writers: int = 2, each: int = 4, tries: int = 1
) -> dict[str, Any]:
    """Let writers write batches at the same time, each in a thread and its own batches in order.

    Args:
        write: Writes the batch of this number, 0 to `writers * each - 1`.
        tries: How often a writer tries a batch that is refused.

    Returns:
        acknowledged: numbers of the batches whose write returned; refused: the cause of each
        refusal; seconds.
    """
    acknowledged: list[int] = []
    refused: list[str] = []

    def work(first: int) -> None:
        for number in range(first, first + each):
            for attempt in range(tries):
                try:
                    write(number)
                    acknowledged.append(number)
                    break
                except (Py4JJavaError, PySparkException) as error:
                    refused.append(root_cause(str(error)))
                    time.sleep(0.1 * (attempt + first / each))

    started = time.monotonic()
    threads = [Thread(target=work, args=(number * each,)) for number in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - started
    return {"acknowledged": sorted(acknowledged), "refused": refused, "seconds": seconds}
