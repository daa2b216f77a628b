"""The only place that builds a SparkSession: verified local jars, quiet, on loopback when local."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from threading import Thread
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from hudilab.errors import ServiceError, SessionError
from hudilab.paths import local_path
from hudilab.runtime.cluster.master import (
    Master,
    authentication,
    check_room,
    executor_folders,
    find_master,
)
from hudilab.runtime.java.find import complaint, find_java, spark_home
from hudilab.runtime.java.jars import verify
from hudilab.runtime.places import make_home
from hudilab.runtime.private import private_folder, write_private
from hudilab.runtime.s3 import older_names, spark_settings
from hudilab.runtime.settings import Settings, read_options

__all__ = [
    "ARCHIVE",
    "archive_options",
    "check_cluster",
    "class_path",
    "describe",
    "environment",
    "java_end",
    "log_file",
    "needed",
    "note_driver",
    "open_session",
    "overlay",
    "session_settings",
]

# The archive of Spark's and Hudi's classes, in jars/; `hudilab jars core` makes it.
ARCHIVE = Path("core", "classes.jsa")
# Settings with a matching name never go on a command line.
SECRET = re.compile(r"(?i)secret|password|token|access[.]?key")
EXECUTOR_PATIENCE = 60.0  # seconds
EXECUTOR_TRIES = 10
AWS_NAMES = (
    "AWS_PROFILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_CONFIG_FILE",
    "AWS_REGION",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
)

# Without these, writing a table fails, or the result differs from other sessions.
_NEEDED = (
    "spark.serializer",
    "spark.kryo.registrator",
    "spark.sql.extensions",
    "spark.sql.catalog.spark_catalog",
    "spark.sql.session.timeZone",
)

# Exit codes of a JVM: Spark's own for an OutOfMemoryError, and signal 9.
_ENDS = {
    52: "Java ran out of memory",
    -9: "Java was killed, as happens if the machine has no memory left",
}


def overlay(settings: Settings) -> dict[str, str]:
    """Return the Spark settings that conf/<runtime>/spark-defaults.conf adds for this runtime.

    Raises:
        SessionError: the file is missing.
    """
    file = _file(settings)
    if not file.is_file():
        raise SessionError(
            f"RUNTIME_ENV={settings.runtime} has no Spark settings: {file} does not exist; create "
            "it with spark.master and whatever else this runtime needs, or use RUNTIME_ENV=LOCAL"
        )
    return read_options(file)


def needed(settings: Settings, groups: Sequence[str] = ("core",)) -> list[str]:
    """Return the jar groups of a session: those requested, plus `s3` if the warehouse is on S3."""
    return [*groups, *(["s3"] if not settings.is_local and "s3" not in groups else [])]


def session_settings(settings: Settings, jars: Sequence[Path]) -> dict[str, str]:
    """Return the runtime's Spark settings beyond conf/spark-defaults.conf, without side effects."""
    asked = {"spark.driver.extraClassPath": class_path(jars), **overlay(settings)}
    asked["spark.sql.defaultCatalog"] = settings.catalog_name
    asked |= {} if settings.is_local else spark_settings(settings)
    return asked | _cluster(settings, asked) if settings.on_cluster else asked


def class_path(jars: Sequence[Path]) -> str:
    """Return a JVM's class path: group core, then Spark's own jars, then those of other groups.

    All class paths then share a prefix, as an archive of classes requires.
    """
    core = [str(jar) for jar in jars if jar.parent.name == "core"]
    others = [str(jar) for jar in jars if jar.parent.name != "core"]
    return os.pathsep.join([*core, str(spark_home() / "jars" / "*"), *others])


def _cluster(settings: Settings, asked: Mapping[str, str]) -> dict[str, str]:
    """Return what executors in other processes need, here or on a machine set up the same way."""
    master = os.environ.get("SPARK_MASTER_URL", "").strip() or asked.get("spark.master", "")
    found = {
        "spark.master": master,
        # Not spark.jars: executors would load Hudi in a different class loader from Spark's.
        "spark.executor.extraClassPath": asked["spark.driver.extraClassPath"],
        "spark.executor.extraJavaOptions": _with_archive(
            asked.get("spark.executor.extraJavaOptions", ""), settings.project / "jars" / ARCHIVE
        ),
        "spark.executorEnv.HUDI_CONF_DIR": str(settings.conf_dir),
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }
    if "spark.eventLog.dir" not in asked:
        # A path, not a URI: Spark takes it literally, spaces included.
        found["spark.eventLog.dir"] = str(settings.home / "spark-events")
    # Names and locations of credentials, never the credentials: UI and event log show these.
    found |= {
        f"spark.executorEnv.{name}": value for name in AWS_NAMES if (value := os.environ.get(name))
    }
    found |= {f"spark.executorEnv.{name}": value for name, value in older_names().items()}
    if re.match(r"spark://(127\.|localhost:)", master):
        found |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return found


def check_cluster(settings: Settings, asked: Mapping[str, str]) -> Master:
    """Return the master that `asked` names, after checking that it has room.

    Creates the event log folder if it is on this disk: Spark requires it to exist.

    Raises:
        SessionError: the master does not answer or has no room.
    """
    events = asked.get("spark.eventLog.dir", "")
    if folder := Path(events) if events.startswith("/") else local_path(events):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        master = find_master(asked["spark.master"], settings.home)
        check_room(master, asked)
    except ServiceError as error:
        raise SessionError(str(error)) from None
    return master


def log_file() -> Path:
    """Return the log file of the running JVM."""
    return Path(os.environ["HUDILAB_LOG_FILE"])


def java_end(patience: float = 0.0) -> str | None:
    """Return how the JVM that this process started has ended, and the remedy; None if it runs.

    Args:
        patience: In seconds; a connection is lost a moment before its JVM has ended.
    """
    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:  # none was started, or spark-submit's JVM started this process
        return None
    try:
        code = int(process.wait(patience))
    except subprocess.TimeoutExpired:
        return None
    end = _ENDS.get(code, f"Java ended with exit code {code}")
    log, file = os.environ.get("HUDILAB_LOG_FILE"), os.environ.get("HUDILAB_SPARK_SETTINGS")
    if log:  # a session that the reader opened without open_session has neither
        end += f", see the log {log}"
    if code in _ENDS:
        where = f" in {file}" if file else ""
        end += f"; raise spark.driver.memory{where}, or use smaller batches, and restart"
    else:
        end += "; restart"
    return f"{end} the kernel or the job"


def open_session(
    settings: Settings, app: str = "hudilab", groups: Sequence[str] = ("core",)
) -> SparkSession:
    """Return a session with Hudi on its class path; reuse a live one if its settings match.

    Never downloads: jars come from `jars/`, verified against `jars.lock`. Prints nothing. Under
    spark-submit, its class path and settings are checked instead.

    Raises:
        JavaError: no suitable Java was found.
        JarError: a jar is missing or altered.
        PathError: the home cannot be written.
        SessionError: a live session has different static settings, its JVM has ended, or the
            cluster does not answer or has no room.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _submitted(settings, app)
    jars = verify(settings.project / "jars", needed(settings, groups))
    asked = session_settings(settings, jars)
    if end := java_end():
        raise SessionError(f"this kernel has no Spark any more: {end}")
    if SparkSession.getActiveSession() is not None:
        # createDataFrame in a foreachBatch makes the stream's clone of the session the active one.
        active = SparkSession.builder.getOrCreate()
        _refuse_other(active, asked)
        return active
    make_home(settings.home)
    if SparkContext._gateway is None:
        (settings.home / "logs").mkdir(parents=True, exist_ok=True)
        os.environ |= environment(settings, app, asked)
    if settings.on_cluster:
        check_cluster(settings, asked)
    with _output_to(log_file()):
        session = _start(settings, app, asked)
    _refuse_other(session, asked)
    _await_executor(session, settings)
    jvm: Any = session._jvm
    # A JVM that outlived an earlier session keeps the class path it was started with.
    loaded = str(jvm.java.lang.System.getProperty("java.class.path")).split(os.pathsep)
    if late := [jar.name for jar in jars if str(jar) not in loaded]:
        session.stop()
        raise SessionError(
            f"this kernel's JVM was started without {', '.join(late)}; restart the kernel"
        )
    # With the metadata table on, Hudi 1.2 compares that table's schema by identity. If the first
    # thing a new JVM does is compact it (every tenth commit), a different schema object is cached
    # and the commit fails with "Index 7 out of bounds". Loading this class caches the right one.
    jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload")
    return session


def _start(settings: Settings, app: str, asked: Mapping[str, str]) -> SparkSession:
    """Create a session in this process's JVM; start the JVM if there is none."""
    # Keep managed tables and the default database out of the kernel's working directory.
    asked = {**asked, "spark.sql.warehouse.dir": str(settings.home / "spark-warehouse")}
    asked |= authentication(asked.get("spark.master", ""), settings.home)
    # Set in any case: a JVM that ran a local session before keeps that session's value.
    common = read_options(settings.conf_dir / "spark-defaults.conf")
    asked.setdefault("spark.authenticate", common.get("spark.authenticate", "false"))
    # The JVM's command line is public: secrets follow over the Py4J bridge once the JVM runs.
    public = SparkConf(loadDefaults=False)
    public.setAll([(key, value) for key, value in asked.items() if not SECRET.search(key)])
    if SparkContext._gateway is None:
        SparkContext._ensure_initialized(conf=public)
        # A kernel that shuts down waits for its children, 2.5 s for one that ended but is not
        # waited for.
        jvm = cast(Any, SparkContext._gateway).proc
        Thread(target=jvm.wait, name="hudilab-jvm", daemon=True).start()
    if secret := asked.get("spark.authenticate.secret"):
        # Spark looks here first, and would find the secret that an earlier local session generated.
        hadoop = cast(Any, SparkContext._jvm).org.apache.hadoop
        credentials = hadoop.security.Credentials()
        credentials.addSecretKey(hadoop.io.Text("sparkCookie"), bytearray(secret, "utf-8"))
        hadoop.security.UserGroupInformation.getCurrentUser().addCredentials(credentials)
    builder = SparkSession.builder.appName(app)
    for key, value in asked.items():
        builder = builder.config(key, value)
    return _create(builder, settings)


def _create(builder: SparkSession.Builder, settings: Settings) -> SparkSession:
    """Create the session; on a cluster, note its process so that `hudilab kill` can find it.

    Raises SessionError if the master did not accept the application and Spark gave up.
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
    if not app.startswith("app-"):  # the form of an id assigned by a master
        if active := SparkContext._active_spark_context:
            active.stop()
        raise SessionError(
            f"the Spark master did not accept the application, see the log {log}; if the cluster "
            "requires a secret, set spark.authenticate true and spark.authenticate.secret in "
            f"{_file(settings)}"
        )
    if log:
        pid = cast(Any, spark._jvm).java.lang.ProcessHandle.current().pid()
        note_driver(settings.home, app, pid, log)
    return spark


def note_driver(home: Path, app: str, pid: int, log: str) -> None:
    """Record an application's JVM process id and log file in `<home>/submitted`."""
    folder = private_folder(home / "submitted")
    write_private(folder / f"{app}.json", json.dumps({"pid": pid, "log": log}))


def _file(settings: Settings) -> Path:
    return settings.conf_dir / settings.runtime.lower() / "spark-defaults.conf"


def _submitted(settings: Settings, app: str) -> SparkSession:
    """Return spark-submit's session: it has started the JVM and chosen class path and settings."""
    builder = SparkSession.builder.appName(app)
    asked = {} if settings.is_local else spark_settings(settings)
    asked["spark.sql.defaultCatalog"] = settings.catalog_name
    for key, value in asked.items():
        builder = builder.config(key, value)
    spark = _create(builder, settings)
    _await_executor(spark, settings)
    defaults = settings.conf_dir / "spark-defaults.conf"
    wanted = read_options(defaults)
    missing = [key for key in _NEEDED if spark.conf.get(key, None) != wanted[key]]
    if missing:
        raise SessionError(
            f"spark-submit started without the lab's Spark settings ({', '.join(missing)}); "
            f"pass --properties-file {defaults}, or set SPARK_CONF_DIR to its folder"
        )
    jvm: Any = spark._jvm
    # Only this class loader sees jars given with --jars.
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload", True, loader)
    except Py4JError:
        raise SessionError(
            "spark-submit started without Hudi on its class path; "
            "pass the jars in jars/core with --driver-class-path, or the bundle's jar with --jars"
        ) from None
    if not jvm.java.lang.System.getenv("HUDI_CONF_DIR"):
        # Hudi did not read its defaults itself: a platform that starts the JVM rarely sets this.
        options = read_options(settings.conf_dir / "hudi-defaults.conf")
        added = settings.conf_dir / settings.runtime.lower() / "hudi-defaults.conf"
        options |= read_options(added) if added.is_file() else {}
        for key, value in options.items():
            jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration.addToGlobalProps(
                key, value
            )
    if os.environ.get("HUDILAB_SUBMITTED"):  # hudilab submit waits for this line
        context = spark.sparkContext
        print(f"hudilab: application {context.applicationId} on {context.master}", flush=True)
    return spark


def _await_executor(spark: SparkSession, settings: Settings) -> None:
    """On a standalone cluster, wait for the first executor: without one, every job would hang.

    Raises SessionError; on the lab's own workers it quotes an executor's last error.
    """
    context = spark.sparkContext
    if not str(context.master).startswith("spark://"):
        return
    app, inner = context.applicationId, spark._jsc.sc()
    ends, tried = time.monotonic() + EXECUTOR_PATIENCE, executor_folders(settings.home, app)
    try:
        # The list includes the driver.
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
    said = "look at their stdout and stderr in the master's web UI"
    if tried:
        first = tried[0]
        # A JVM that cannot start says why on stdout.
        words = [(first / name).read_text("utf-8", "replace") for name in ("stderr", "stdout")]
        said = f"the first one failed: {complaint(''.join(words))}; see {first}"
    spark.stop()
    raise SessionError(
        f"no executor of {app} started at {context.master}; {said}, "
        f"and fix spark.executor.* in {_file(settings)}"
    )


def describe(spark: SparkSession) -> str:
    """Return what is actually running, one line each: Spark, Java, the loaded Hudi jar, UI, log."""
    jvm: Any = spark._jvm
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
        if SECRET.search(key):  # must not appear in the error message
            continue
        live = conf.get(key)
        # Spark prepends options of its own.
        added = key.endswith("extraJavaOptions") and str(live).endswith(value)
        if live != value and not added:
            raise SessionError(
                f"a Spark session is already running with {key}={live}, not {value}; stop it with "
                "spark.stop(), or restart the kernel if the class path differs"
            )


def environment(settings: Settings, app: str, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for the JVM, which reads them once, at startup."""
    java = find_java()
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    log = settings.home / "logs" / f"{app}-{started}-{os.getpid()}.log"
    found = {
        "JAVA_HOME": str(java.home),
        "HUDILAB_JAVA": java.notice,  # what was chosen and why; from now on JAVA_HOME is set
        # An inherited SPARK_HOME could start a Spark other than the pinned one.
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(settings.conf_dir),
        "HUDI_CONF_DIR": str(settings.conf_dir),
        # `hudilab run` has already chosen the file, and tells the user its name.
        "HUDILAB_LOG_FILE": os.environ.get("HUDILAB_LOG_FILE", str(log)),
        "HUDILAB_SPARK_SETTINGS": str(_file(settings)),  # an error may name it
        # Workers run the system's python3 unless told otherwise.
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    found |= older_names()
    found["SPARK_SUBMIT_OPTS"] = _with_archive(
        os.environ.get("SPARK_SUBMIT_OPTS", ""), settings.project / "jars" / ARCHIVE
    )
    if settings.runtime == "LOCAL" or asked.get("spark.driver.host") == "127.0.0.1":
        found["SPARK_LOCAL_IP"] = "127.0.0.1"
    return found


def archive_options(archive: Path) -> list[str]:
    """Return the JVM options that use the archive of classes; none if there is no archive."""
    if not archive.is_file() or os.pathsep in str(archive):
        return []
    # A JVM that cannot use it, because its Java or class path differs, silently starts without it.
    return ["-Xshare:auto", "-Xlog:cds=off", f"-XX:SharedArchiveFile={archive}"]


def _with_archive(options: str, archive: Path) -> str:
    """Return a line of JVM options with those that use the archive, each quoted for Spark."""
    added = [] if "SharedArchiveFile" in options else archive_options(archive)
    escaped = [one.replace("\\", "\\\\").replace('"', '\\"') for one in added]
    return " ".join([options, *(f'"{one}"' for one in escaped)]).strip()


@contextmanager
def _output_to(file: Path) -> Iterator[None]:
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
