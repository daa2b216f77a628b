"""Open the SparkSession: verified local jars, quiet, on loopback; or use spark-submit's own.

What only a session on a cluster, S3 or a metastore, or under spark-submit needs is imported where
it is needed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import MappingProxyType
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from hudilab.errors import JavaError, SessionError
from hudilab.settings import Settings
from hudilab.settings_file import read_options
from hudilab_spark.conf import (
    MEMORY,
    METASTORE_GROUP,
    SECRET,
    ZONE,
    add_hudi_defaults,
    managed_tables,
    needed,
    overlay,
    session_settings,
)
from hudilab_spark.environment import JAVA_OPTIONS, take_over
from hudilab_spark.jars import verify
from hudilab_spark.java import complaint
from hudilab_spark.jvm import environment, java_end, log_file, note_end, output_to
from hudilab_spark.preflight import check_machine, has_name, memory_limit, temporary_folder
from hudilab_spark.warehouse import make_home


def open_session(
    settings: Settings,
    app: str = "hudilab",
    groups: Sequence[str] = ("core",),
    *,
    names: bool = True,
    extra: Mapping[str, str] = MappingProxyType({}),
) -> SparkSession:
    """Return a session with Hudi on its class path; reuse a live one if its settings match.

    Never downloads: jars come from `jars/`, verified against `jars.lock`. Ignores what this shell
    sets for another Spark or Java, and prints only a line that names it. Under spark-submit, its
    class path and settings are checked instead. With `names`, SQL uses the settings' metastore, if
    any; a job must not depend on it. `extra` are more Spark settings.

    Raises:
        JavaError: no suitable Java was found, or it does not start.
        JarError: a jar is missing or altered.
        PathError: the home cannot be written, or its disk is full.
        SessionError: a live session has different static settings, its JVM has ended, this machine
            lacks what Java needs, or the cluster or the metastore does not answer, or the cluster
            has no room.
    """
    os.environ["TZ"] = ZONE
    time.tzset()
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        from hudilab_spark.submitted import submitted_session

        spark = submitted_session(settings, app, _metastore_settings(settings, names) | dict(extra))
        master = str(spark.sparkContext.master)
        _correct_hudi(spark._jvm, settings, master)
        # Elsewhere, YARN reads its own keys.
        if master.startswith(("local", "spark://")):
            drop_unread_defaults(spark, s3=True)
        return spark
    jars = verify(settings.project / "jars", needed(settings, groups))
    options = session_settings(settings, jars) | _metastore_settings(settings, names) | dict(extra)
    if end := java_end():
        raise SessionError(f"this kernel has no Spark any more: {end.problem}", end.remedy)
    if SparkSession.getActiveSession() is not None:
        # createDataFrame in a foreachBatch makes the stream's clone of the session the active one.
        active = SparkSession.builder.getOrCreate()
        _refuse_other(active, settings, options)
        return active
    make_home(settings.home)
    if SparkContext._gateway is None:
        check_machine(settings)
        take_over(settings.runtime)
        if (heap := options.get(MEMORY)) != overlay(settings).get(MEMORY):
            limit, what = memory_limit()
            print(f"hudilab: {what} is {limit} MB, so {MEMORY} is {heap} here", file=sys.stderr)
        (settings.home / "logs").mkdir(parents=True, exist_ok=True)
        os.environ |= environment(settings, app, options)
    if settings.on_cluster:
        from hudilab_spark.cluster import check_cluster

        check_cluster(settings, options)
    with output_to(log_file()), _explained_end():
        session = _start(settings, app, options)
    _refuse_other(session, settings, options)
    if _has_master(options):
        from hudilab_spark.registration import await_executor

        await_executor(session, settings)
    _check_class_path(session, jars)
    # With the metadata table on, Hudi 1.2 compares that table's schema by identity. If the first
    # thing a new JVM does is compact it (every tenth commit), a different schema object is cached
    # and the commit fails with "Index 7 out of bounds". Loading this class caches the right one.
    jvm: Any = session._jvm
    jvm.java.lang.Class.forName("org.apache.hudi.metadata.HoodieMetadataPayload")
    drop_unread_defaults(session, s3=any(jar.name.startswith("hadoop-aws") for jar in jars))
    # Without what an earlier session of this JVM has added.
    jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration.refreshGlobalProps()
    _correct_hudi(jvm, settings, str(session.sparkContext.master))
    return session


def _correct_hudi(jvm: Any, settings: Settings, master: str) -> None:
    """Change Hudi defaults that go wrong on S3 or a cluster, unless hudi-defaults.conf has them.

    Hudi 1.2 never closes its connection after it reads a log block of the metadata table on S3.
    With executors in other processes, the record index of a streaming metadata write can name file
    groups that the commit doesn't have: upserts fail, and queries for a key return no row.
    """
    options = {} if settings.is_local else {"hoodie.metadata.enable": "false"}
    if not master.startswith("local"):
        options["hoodie.metadata.streaming.write.enabled"] = "false"
    set_in_file = jvm.org.apache.hudi.common.config.DFSPropertiesConfiguration.getGlobalProps()
    add_hudi_defaults(
        jvm, {name: value for name, value in options.items() if not set_in_file.containsKey(name)}
    )


def close_session(spark: SparkSession) -> None:
    """Stop a session, unless its JVM has ended, whose own error is then the one to report."""
    if java_end() is None:
        spark.stop()


def _start(settings: Settings, app: str, options: Mapping[str, str]) -> SparkSession:
    """Create a session in this process's JVM; start the JVM if there is none."""
    named = options.get("spark.sql.catalogImplementation") == "hive"
    options = {**options, "spark.sql.warehouse.dir": str(managed_tables(settings.home, named))}
    if _has_master(options):
        from hudilab_spark.cluster import authentication

        options |= authentication(options["spark.master"], settings.home)
    # Set in any case: a JVM that ran a local session before keeps that session's value.
    common = read_options(settings.conf_file("spark-defaults.conf"))
    options.setdefault("spark.authenticate", common.get("spark.authenticate", "false"))
    # The JVM's command line is public: secrets follow over the Py4J bridge once the JVM runs.
    public = SparkConf(loadDefaults=False)
    public.setAll([(key, value) for key, value in options.items() if not SECRET.search(key)])
    if SparkContext._gateway is None:
        _launch(public)
        # A kernel that shuts down waits for its children, 2.5 s for one that ended but is not
        # waited for.
        jvm = cast(Any, SparkContext._gateway).proc
        arguments = (jvm, temporary_folder(settings.home))
        Thread(target=note_end, args=arguments, name="hudilab-jvm", daemon=True).start()
        if not has_name():
            _give_a_name()
    if secret := options.get("spark.authenticate.secret"):
        # Spark looks here first, and would find the secret that an earlier local session generated.
        hadoop = cast(Any, SparkContext._jvm).org.apache.hadoop
        credentials = hadoop.security.Credentials()
        credentials.addSecretKey(hadoop.io.Text("sparkCookie"), bytearray(secret, "utf-8"))
        hadoop.security.UserGroupInformation.getCurrentUser().addCredentials(credentials)
    builder = SparkSession.builder.appName(app)
    for key, value in options.items():
        builder = builder.config(key, value)
    if not _has_master(options):
        return builder.getOrCreate()
    from hudilab_spark.registration import create_session

    return create_session(builder, settings)


def _has_master(options: Mapping[str, str]) -> bool:
    """Return whether these are the settings of a session on a standalone cluster."""
    return options.get("spark.master", "").startswith("spark://")


def _metastore_settings(settings: Settings, wanted: bool) -> dict[str, str]:
    """Return the settings with which SQL finds the names of a metastore; empty without one."""
    if not wanted or METASTORE_GROUP not in settings.groups:
        return {}
    from hudilab_spark.metastore import catalog_settings

    return catalog_settings(settings)


@contextmanager
def _explained_end() -> Iterator[None]:
    """Turn the errors of a connection to a JVM that has ended into one that says how it ended."""
    try:
        yield
    except (Py4JError, ConnectionError):
        if (end := java_end(patience=2)) is None:
            raise
        raise SessionError("Spark did not start", f"{end}") from None


def _launch(conf: SparkConf) -> None:
    """Start the JVM.

    Raises:
        JavaError: it ended at once; the text has its own last words.
    """
    before = log_file().stat().st_size  # descriptors 1 and 2 are open on it
    try:
        SparkContext._ensure_initialized(conf=conf)
    except PySparkRuntimeError as error:
        if error.getErrorClass() != "JAVA_GATEWAY_EXITED":
            raise
        with log_file().open("rb") as log:
            log.seek(before)
            words = complaint(log.read().decode("utf-8", "replace"))
        options = " and ".join([JAVA_OPTIONS] * bool(os.environ.get(JAVA_OPTIONS)) + ["conf/"])
        raise JavaError(
            f"Java did not start: {words} (log: {log_file()})",
            f"fix the option in {options} if it is the cause, else check this machine: hudilab "
            "doctor",
        ) from None


def _give_a_name() -> None:
    """Log this account in to Hadoop under a name that stands for its number.

    Hadoop asks the system for the name, and would fail without one.
    """
    users = cast(Any, SparkContext._jvm).org.apache.hadoop.security.UserGroupInformation
    users.setLoginUser(users.createRemoteUser(f"uid{os.getuid()}"))


def _check_class_path(spark: SparkSession, jars: Sequence[Path]) -> None:
    """Stop the session if its JVM was started without some of the jars.

    A JVM that outlived an earlier session keeps the class path it was started with.
    """
    jvm: Any = spark._jvm
    loaded = str(jvm.java.lang.System.getProperty("java.class.path")).split(os.pathsep)
    if late := [jar.name for jar in jars if str(jar) not in loaded]:
        spark.stop()
        raise SessionError(
            f"this kernel's JVM was started without {', '.join(late)}", "restart the kernel"
        )


def _refuse_other(spark: SparkSession, settings: Settings, options: Mapping[str, str]) -> None:
    """Stop if a setting of conf/ is not in force, in a live session or in one of an older JVM."""
    conf = spark.sparkContext.getConf()
    wanted = read_options(settings.conf_file("spark-defaults.conf")) | dict(options)
    for key, value in sorted(wanted.items()):
        if SECRET.search(key):  # must not appear in the error message
            continue
        live = conf.get(key)
        # Spark prepends its own options.
        added = key.endswith("extraJavaOptions") and str(live).endswith(value)
        if live != value and not added:
            running = f"a Spark session is already running with {key}={live}, not {value}"
            if files := _spark_openers():
                raise SessionError(
                    f"{running}",
                    "IPython's start-up files may have opened it: take Spark out of "
                    f"{', '.join(map(str, files))}, and restart the kernel",
                )
            raise SessionError(
                f"{running}",
                "stop it with spark.stop(), or restart the kernel if the class path differs",
            )


def _spark_openers() -> list[Path]:
    """Return the start-up files of this process's IPython that mention Spark."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    profile = getattr(shell, "profile_dir", None)
    files = sorted(Path(profile.startup_dir).glob("*py")) if profile else []
    if given := os.environ.get("PYTHONSTARTUP"):
        files.append(Path(given))
    return [file for file in files if file.is_file() and b"spark" in file.read_bytes().lower()]


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


# Hadoop's defaults for MapReduce, YARN and other daemons, and for file systems without a jar here.
UNREAD = (
    *("mapreduce.", "yarn.", "ha.", "hadoop.http.", "hadoop.registry.", "hadoop.zk."),
    *("adl.", "fs.adl.", "fs.azure.", "fs.ftp.", "fs.viewfs."),
)
S3 = "fs.s3a."


def drop_unread_defaults(spark: SparkSession, *, s3: bool) -> None:
    """Remove defaults that nothing here reads from the session's Hadoop configuration.

    Of 970 keys, less than a third is left; in a new session, appends take a fifth less time. Keys
    of the settings (`spark.hadoop.*`) stay. Source: Hadoop 3.3.4 `Configuration.write`;
    benchmarks/HISTORY.md.

    Args:
        s3: Whether the session may read S3.
    """
    jvm: Any = spark._jvm
    hadoop, conf = jvm.org.apache.hadoop, cast(Any, spark)._jsc.hadoopConfiguration()
    # The first class that adds its own defaults makes Hadoop load all of them again.
    hadoop.hdfs.HdfsConfiguration.init()
    jvm.java.lang.Class.forName("org.apache.hadoop.mapred.JobConf")
    configured = {
        key.removeprefix("spark.hadoop.") for key, _ in spark.sparkContext.getConf().getAll()
    }
    keys = str(jvm.java.lang.String.join(",", conf.getPropsWithPrefix("").keySet())).split(",")
    unread = UNREAD if s3 else (*UNREAD, S3)
    for key in keys:
        if key.startswith(unread) and key not in configured:
            conf.unset(key)
