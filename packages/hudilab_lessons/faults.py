"""Functions of the fault lab: run and kill programs, damage tables, race writers, count losses."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_sink.checkpoints import CheckpointFiles
from hudi_sink.files import delete_tree, file_system, write_text
from hudilab.errors import LabError, WaitError, root_cause
from hudilab.paths import TableLocation
from hudilab_lessons.timeline import INSTANT, instants

if TYPE_CHECKING:
    from hudilab_lessons.lesson import Lab

# Variables of a session that a separate program must not inherit.
SESSION = ("PYSPARK_", "HUDILAB_LOG_FILE")
TIMEOUT = 180.0  # seconds
VICTIM = "hudilab_lessons.programs.killed_sink"


def states(spark: SparkSession, table: str) -> list[str]:
    """Return the active timeline as texts such as "commit completed", oldest first."""
    timeline = instants(spark, table)
    pairs = zip(timeline["action"], timeline["state"], strict=True)
    return [f"{action} {state}".lower() for action, state in pairs]


def counts(spark: SparkSession, location: TableLocation) -> dict[str, int]:
    """Return a table's numbers of instants by kind, and its checkpoint's newest batches."""
    timeline, files = states(spark, location.table), CheckpointFiles(spark, location.checkpoint)
    kinds = ("commit completed", "commit inflight", "rollback completed")
    newest = {folder: max(files.batches(folder), default=-1) for folder in ("offsets", "commits")}
    return {kind: timeline.count(kind) for kind in kinds} | {
        "newest batch planned": newest["offsets"],
        "newest batch recorded as done": newest["commits"],
    }


def raised(
    action: Callable[..., object], *arguments: Any, **options: Any
) -> LabError | Py4JJavaError | PySparkException | None:
    """Call a function; return the error of the lab, of Java or of Spark that it raises, or None."""
    try:
        action(*arguments, **options)
    except (LabError, Py4JJavaError, PySparkException) as error:
        return error
    return None


def error_of(write: Callable[..., object], *arguments: Any, **options: Any) -> str:
    """Call a function that writes; return its error or the cause of a Java error, else ""."""
    error = raised(write, *arguments, **options)
    if error is None or isinstance(error, LabError):
        return str(error or "")
    return root_cause(str(error))


def shorten(error: Exception | None, location: TableLocation) -> str:
    """Return an error's problem without the table's paths and times; "" without an error.

    For an error of Java or Spark, the problem is its root cause.
    """
    if error is None:
        return ""
    text = error.problem if isinstance(error, LabError) else root_cause(str(error))
    text = re.sub(r"^\[STREAM_FAILED\] Query .* terminated with exception: ", "", text)
    text = text.replace("file:///", "file:/")
    for uri, name in ((location.table, "<table>"), (location.checkpoint, "<checkpoint>")):
        path = uri.replace("file:///", "file:/")
        text = text.replace(f"{path}/", "").replace(path, name)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?", "<time>", text)
    return INSTANT.sub("<instant>", text)


def leave_lock(spark: SparkSession, table: str, minutes: int) -> None:
    """Create the lock file of a dead writer, `minutes` old."""
    fs, path = file_system(spark, f"{table}/.hoodie/lock")
    fs.create(path, True).close()
    fs.setTimes(path, int(1000 * (time.time() - 60 * minutes)), -1)


def copy_pair(spark: SparkSession, location: TableLocation, to: TableLocation) -> None:
    """Copy a table with its checkpoint, and replace the table and checkpoint at `to`."""
    copy_tree(spark, location.table, to.table)
    copy_tree(spark, location.checkpoint, to.checkpoint)


def damages(
    spark: SparkSession, batch: int, early: TableLocation
) -> dict[str, Callable[[TableLocation], object]]:
    """Return functions by name that damage a table or its checkpoint.

    Args:
        batch: The newest batch of the table and checkpoint, called k in the names.
        early: A backup that is some batches older.
    """
    note, plan = f"commits/{batch}", f"offsets/{batch}"
    return {
        "commits/k removed": lambda pair: delete_tree(spark, f"{pair.checkpoint}/{note}"),
        "commits/k emptied": lambda pair: write_text(spark, f"{pair.checkpoint}/{note}", ""),
        "offsets/k garbage": lambda pair: write_text(
            spark, f"{pair.checkpoint}/{plan}", "v1 garbage"
        ),
        "checkpoint lost": lambda pair: delete_tree(spark, pair.checkpoint),
        "checkpoint set back": lambda pair: copy_tree(spark, early.checkpoint, pair.checkpoint),
        "table set back": lambda pair: copy_tree(spark, early.table, pair.table),
    }


class SlowWrite:
    """A write in a thread that pauses in the middle until `finish` resumes it.

    It pauses when Spark evaluates the rows, after Hudi has announced the commit.
    """

    def __init__(
        self, spark: SparkSession, write: Callable[[DataFrame], object], rows: DataFrame
    ) -> None:
        """Start the write, and return once it has paused.

        Raises:
            WaitError: The write ended or never evaluated its rows.
        """
        host = spark.sparkContext.getConf().get("spark.driver.host") or "127.0.0.1"
        self._server = socket.create_server((host, 0))
        self._stopped, self._released = Event(), Event()
        self.error: Exception | None = None  # why the write failed
        address = (host, self._server.getsockname()[1])

        def wait(_: Any) -> bool:
            with socket.create_connection(address) as connection:
                connection.recv(1)
            return True

        # A single task, because it occupies its core until the end.
        held = rows.coalesce(1).where(F.udf(wait, "boolean")(F.col(rows.columns[0])))
        self._thread = Thread(target=self._write, args=(write, held))
        Thread(target=self._serve, daemon=True).start()
        self._thread.start()
        ends = time.monotonic() + TIMEOUT
        while not self._stopped.wait(0.1):
            if not self._thread.is_alive() or time.monotonic() > ends:
                error = self.finish()
                why = root_cause(str(error)) if error else "it never evaluated its rows"
                raise WaitError(
                    f"the slow write did not stop in the middle: {why}", "run the cell again"
                )

    def finish(self) -> Exception | None:
        """Resume the write and wait for it; return its error, or None."""
        self._released.set()
        self._thread.join()
        self._server.close()
        return self.error

    def _write(self, write: Callable[[DataFrame], object], rows: DataFrame) -> None:
        try:
            write(rows)
        except (Py4JJavaError, PySparkException) as error:
            self.error = error

    def _serve(self) -> None:
        connections = []
        while True:
            try:
                connections.append(self._server.accept()[0])
            except OSError:  # closed
                return
            self._stopped.set()
            Thread(target=self._release, args=(connections[-1],), daemon=True).start()

    def _release(self, connection: socket.socket) -> None:
        self._released.wait(TIMEOUT)
        connection.close()


def compare(wanted: DataFrame, table: str) -> dict[str, int]:
    """Return the numbers of a table's rows, and of lost and unexpected rows.

    A row is unexpected if the table contains it more often than `wanted`.
    """
    stored = wanted.sparkSession.read.format("hudi").load(table).select(wanted.columns)
    signed = wanted.withColumn("n", F.lit(1)).union(stored.withColumn("n", F.lit(-1)))
    differing = signed.groupBy(wanted.columns).agg(F.sum("n").alias("n"))
    more, fewer = (F.greatest(F.lit(sign) * F.col("n"), F.lit(0)) for sign in (1, -1))
    sums = differing.select(F.sum(more), F.sum(fewer)).first()
    lost, unexpected = (int(value or 0) for value in sums or (0, 0))
    return {"rows": wanted.count() - lost + unexpected, "lost": lost, "unexpected": unexpected}


def summary(counted: Mapping[str, int]) -> str:
    """Return the numbers of `compare` as a text: "600 rows, 0 lost, 0 unexpected"."""
    return ", ".join(f"{count} {what}" for what, count in counted.items())


def copy_tree(spark: SparkSession, uri: str, to: str) -> None:
    """Copy a folder, and replace an existing folder at `to`."""
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    delete_tree(spark, to)
    fs, path = file_system(spark, uri)

    # File by file, because on S3 a marker of the removed folder can remain, and Hadoop would copy
    # the new folder into it.
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


def without_session(env: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables for another program, without those of this process's session."""
    return {name: text for name, text in env.items() if not name.startswith(SESSION)}


def kill_when(condition: Callable[[], bool], program: str, job: Mapping[str, Any]) -> None:
    """Run a Python program, and kill -9 all its processes as soon as `condition` is true.

    Args:
        program: The name of its module.
        job: The JSON for its standard input, because other accounts can see a process's arguments.

    Raises:
        WaitError: The program ended, or the condition never became true.
    """
    with tempfile.TemporaryFile("w+") as work, tempfile.TemporaryFile("w+") as errors:
        json.dump(job, work)
        work.seek(0)
        running = subprocess.Popen(
            [sys.executable, "-m", program],
            env=without_session(),
            stdin=work,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        ends = time.monotonic() + TIMEOUT
        try:
            while not condition():
                if running.poll() is not None or time.monotonic() > ends:
                    errors.seek(0)
                    what = "did not get ready" if running.poll() is None else "ended by itself"
                    raise WaitError(
                        f"the program that was to be killed {what}: {root_cause(errors.read())}",
                        "fix it and run the cell again",
                    )
                time.sleep(0.1)
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def kill_driver(
    lab: Lab,
    location: TableLocation,
    rows_per_batch: int,
    *,
    within: int | None = None,
    after: int | None = None,
) -> None:
    """Run the stream of lesson 33 in a separate program, and kill -9 it at a moment.

    Args:
        within: The number of the batch that is half written at that moment.
        after: The number of the batch that Hudi has committed and Spark hasn't recorded.

    Raises:
        WaitError: The program ended, or the moment never came.
    """

    def is_the_moment() -> bool:
        timeline = states(lab.spark, location.table)
        if after is not None:
            return timeline.count("commit completed") == after + 1
        begun = timeline.count("commit completed") == within and "commit inflight" in timeline
        return begun and bool(lab.files(f"{location.table}/.hoodie/.temp"))

    sizes = {name: lab.sizes[name] for name in ("rows", "sensors", "seed")}
    job = {"in": within, "after": after, "runtime": lab.settings.runtime, "source": lab.sizes}
    stream = {"rows_per_batch": rows_per_batch} | sizes
    kill_when(is_the_moment, VICTIM, job | {"location": vars(location), "stream": stream})


def race(
    write: Callable[[int], None], *, writers: int = 2, each: int = 4, tries: int = 1
) -> dict[str, Any]:
    """Run writers at the same time, each in a thread with its own batches in order.

    Args:
        write: Writes a batch by its number, 0 to `writers * each - 1`.
        tries: The number of attempts to write a refused batch.

    Returns:
        acknowledged: numbers of the written batches; refused: the cause of each refusal; seconds.
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
