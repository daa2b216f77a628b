"""The process of a session's JVM: the environment it starts in, its log, and how it ended."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from hudilab.errors import JavaError
from hudilab.settings import Settings
from hudilab_spark.conf import conf_folder, older_names
from hudilab_spark.environment import JAVA_OPTIONS, file_names
from hudilab_spark.java import (
    ARCHIVE,
    check_flags,
    complaint,
    find_java,
    quoted,
    spark_home,
    with_archive,
)
from hudilab_spark.preflight import java_flags, make_temporary, temporary_folder

DRIVER_OPTIONS = "spark.driver.extraJavaOptions"
ENDED = "hudilab: "  # what begins a line of a JVM's log that says how the JVM ended
# Exit codes of a JVM, what happened and what helps: Spark's own for an OutOfMemoryError, and signal
# 9, for which a larger heap would be the opposite of a remedy.
_ENDS = {
    52: ("Java ran out of memory", "raise"),
    -9: ("Java was killed, as happens if no memory is left", "free memory or lower"),
}
# The kernel has ended, or Java was killed.
_ON_PURPOSE = (0, -signal.SIGTERM, 128 + signal.SIGTERM, -signal.SIGINT, 128 + signal.SIGINT)


def environment(settings: Settings, app: str, session: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for the JVM, which reads them once, at startup."""
    java = find_java()
    set_here = {
        JAVA_OPTIONS: os.environ.get(JAVA_OPTIONS, ""),
        DRIVER_OPTIONS: session.get(DRIVER_OPTIONS, ""),
    }
    for origin, words in set_here.items():
        check_flags(java.home, words, origin)
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    log = settings.home / "logs" / f"{app}-{started}-{os.getpid()}.log"
    conf = str(conf_folder(settings))
    variables = {
        "JAVA_HOME": str(java.home),
        "HUDILAB_JAVA": java.notice,  # what was chosen and why; from now on JAVA_HOME is set
        # An inherited SPARK_HOME could start a Spark other than the pinned one.
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": conf,
        "HUDI_CONF_DIR": conf,
        # `hudilab run` has already chosen the file, and prints its name.
        "HUDILAB_LOG_FILE": os.environ.get("HUDILAB_LOG_FILE", str(log)),
        "HUDILAB_SPARK_SETTINGS": str(settings.spark_defaults),  # an error may name it
        # Workers run the system's python3 by default.
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    variables |= older_names() | file_names()
    temporary = temporary_folder(settings.home)
    make_temporary(temporary)
    # Spark puts shuffled rows there too, unless spark.local.dir names another folder.
    flags = [*java_flags(settings.home), f"-Djava.io.tmpdir={temporary}"]
    options = f"{quoted(flags)} {os.environ.get(JAVA_OPTIONS, '')}"
    variables["SPARK_SUBMIT_OPTS"] = with_archive(options, settings.project / "jars" / ARCHIVE)
    if settings.runtime == "LOCAL" or session.get("spark.driver.host") == "127.0.0.1":
        variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    return variables


def log_file() -> Path:
    """Return the log file of the running JVM."""
    return Path(os.environ["HUDILAB_LOG_FILE"])


def java_end(patience: float = 0.0) -> JavaError | None:
    """Return how the JVM that this process started has ended; None if it runs.

    Waits for `patience` seconds: a connection is lost a moment before its JVM has ended.
    """
    from pyspark import SparkContext  # here: what submits and lists programs needs no pyspark

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # none was started, or spark-submit's JVM started this process
        return None
    try:
        code = int(process.wait(patience))
    except subprocess.TimeoutExpired:
        return None
    end, remedy = _ENDS.get(code, (f"Java ended with exit code {code}", ""))
    log, file = os.environ.get("HUDILAB_LOG_FILE"), os.environ.get("HUDILAB_SPARK_SETTINGS")
    if log:  # a session that the reader opened without open_session has neither
        if not remedy and Path(log).is_file():
            end += f" ({complaint(Path(log).read_text('utf-8', 'replace'))})"
        end += f", see the log {log}"
    if remedy:
        where = f" in {file}" if file else ""
        remedy = f"{remedy} spark.driver.memory{where}, or use smaller batches, and "
    return JavaError(end, f"{remedy}restart the kernel or the job")


def note_end(jvm: subprocess.Popen[bytes], temporary: Path) -> None:
    """Wait until a JVM ends, and remove its folder of temporary files.

    If it wasn't stopped, write how it ended into its log.
    """
    log = log_file()
    code = jvm.wait()
    shutil.rmtree(temporary, ignore_errors=True)
    if code not in _ON_PURPOSE and (end := java_end()):
        with log.open("a", encoding="utf-8") as file:
            file.write(f"\n{ENDED}{end}\n")


@contextmanager
def output_to(file: Path) -> Iterator[None]:
    """Point file descriptors 1 and 2 at the log while the JVM starts: it inherits them."""
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
