"""The session: loopback only, what it reports is what is loaded, other settings are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from running import run_program

from hudi_sink.files import java_class
from hudilab.errors import JarError, SessionError
from hudilab.generate import readings_table, sensor_readings, sensor_stream
from hudilab.groups import CATALOG
from hudilab.settings import load_settings, project_root
from hudilab_spark.jars import read_lock
from hudilab_spark.jvm import log_file
from hudilab_spark.session import UNREAD, describe, open_session

LISTENING = """
import psutil
from hudilab.settings import load_settings
from hudilab_spark.session import open_session

spark = open_session(load_settings())
spark.range(9).repartition(3).count()
(java,) = psutil.Process().children()
sockets = java.net_connections("inet")
print(*{s.laddr.ip.removeprefix("::ffff:") for s in sockets if s.status == psutil.CONN_LISTEN})
spark.stop()
"""


def test_listens_on_loopback_only(tmp_path: Path) -> None:
    """In a process of its own: Hudi's timeline server listens on all addresses during a write."""
    done = run_program(sys.executable, "-c", LISTENING, env={"HUDILAB_HOME": str(tmp_path)})
    assert done.stdout == "127.0.0.1\n", done.stderr[-3000:]


def test_an_exception_survives_kryo(spark: SparkSession) -> None:
    """A record's error travels in the status of its write; exceptions contain cycles."""
    jvm: Any = spark._jvm
    jsc: Any = spark._jsc
    error = jvm.java.lang.IllegalStateException(
        "outer", jvm.java.lang.NullPointerException("Array contains a null element")
    )
    error.addSuppressed(jvm.java.lang.IllegalArgumentException("beside", error))
    serializer = jvm.org.apache.spark.serializer.KryoSerializer(jsc.sc().conf()).newInstance()
    any_class = java_class(jvm, "scala.reflect.ClassTag$").__getattr__("MODULE$").Any()
    copy = serializer.deserialize(serializer.serialize(error, any_class), any_class)
    assert copy.getCause().getMessage() == "Array contains a null element"
    assert copy.getSuppressed()[0].getCause().getMessage() == "outer"


def test_jobs_carry_no_defaults_of_daemons(spark: SparkSession, tmp_path: Path) -> None:
    """Hadoop loads them again when a class adds further ones, such as at the first write."""
    table = f"file://{tmp_path}/written"
    options = readings_table(name="written").write_options()
    rows = sensor_readings(spark, 20, sensors=2, seed=1)
    rows.write.format("hudi").options(**options).save(table)
    spark.read.format("hudi").load(table).write.parquet(f"{table}.parquet")
    java: Any = spark._jsc
    conf = java.hadoopConfiguration()
    keys = set(conf.getPropsWithPrefix(""))
    assert not [key for key in keys if key.startswith(UNREAD)]
    given = {key.removeprefix("spark.hadoop.") for key, _ in spark.sparkContext.getConf().getAll()}
    assert {"fs.s3a.attempts.maximum"} <= keys & given
    assert 100 < len(keys) < 350


@pytest.mark.deep
@pytest.mark.parametrize(("words", "same"), [((), "True"), (("without",), "False")])
def test_an_executor_can_write_the_metadata_table_first(
    words: tuple[str, ...], same: str, tmp_path: Path
) -> None:
    program = Path(__file__).parents[1] / "programs" / "executor.py"
    # This process's own session, if another test has opened it, has named a folder of settings.
    env = {"SPARK_CONF_DIR": str(tmp_path)}
    done = run_program(sys.executable, program, *words, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [same]


def test_other_accounts_of_the_machine_do_not_get_in(spark: SparkSession) -> None:
    jvm: Any = spark._jvm
    manager = jvm.org.apache.spark.SparkEnv.get().securityManager()
    assert manager.isAuthenticationEnabled()
    assert len(manager.getSecretKey()) == 64
    assert "spark.authenticate.secret" not in dict(spark.sparkContext.getConf().getAll())
    assert spark.conf.get("spark.ui.killEnabled") == "false"


def test_the_log_is_a_file_and_nothing_else(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    jvm.org.apache.logging.log4j.LogManager.getLogger("tests").warn("a line of the tests")
    assert "a line of the tests" in log_file().read_text(encoding="utf-8")


def test_describe_names_what_is_loaded(spark: SparkSession) -> None:
    lines = describe(spark).splitlines()
    assert lines[0] == f"Spark {version('pyspark')} on local[*]"
    assert lines[1].startswith("Java  17.")
    core = read_lock(project_root() / "jars" / "jars.lock")["core"]
    assert lines[2] == f"Hudi  {core[0].file}"
    assert lines[3].startswith("UI    http://127.0.0.1:")
    assert lines[4] == f"log   {log_file()}"


def test_a_stream_s_session_is_not_taken_for_the_notebook_s(spark: SparkSession) -> None:
    """A stream runs in a clone, with other settings."""
    clones = []

    def note(batch: DataFrame, number: int) -> None:
        clones.append(batch.sparkSession)
        batch.sparkSession.createDataFrame([(number,)], "number int").collect()

    readings = sensor_stream(spark, rows_per_batch=10, sensors=1, seed=1, rows=10)
    readings.writeStream.foreachBatch(note).trigger(availableNow=True).start().awaitTermination()
    assert SparkSession.getActiveSession() is clones[0] is not spark
    assert open_session(load_settings(), app="another name") is spark


def test_hudi_s_catalog_works_under_spark_s_own_name_only(spark: SparkSession) -> None:
    """Why tables have their names there, whatever `catalog.name` is."""
    catalog = spark.conf.get("spark.sql.catalog.spark_catalog")
    assert catalog == "org.apache.spark.sql.hudi.catalog.HoodieCatalog"
    assert spark.sql(f"SHOW NAMESPACES IN {CATALOG}").count() == 1
    spark.conf.set("spark.sql.catalog.lake", catalog)
    try:
        with pytest.raises(Py4JJavaError, match="NullPointerException"):
            spark.sql("SHOW NAMESPACES IN lake")
    finally:
        spark.conf.unset("spark.sql.catalog.lake")


def test_other_static_settings_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    conf = tmp_path / "local"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("spark.master local[1]\n", encoding="utf-8")
    with pytest.raises(SessionError) as caught:
        open_session(replace(load_settings(), conf_dir=tmp_path))
    assert str(caught.value) == (
        "a Spark session is already running with spark.master=local[*], not local[1]; stop it "
        "with spark.stop(), or restart the kernel if the class path differs"
    )


def test_no_jar_no_session_and_no_download(tmp_path: Path) -> None:
    project = load_settings().project
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "jars.lock").write_bytes((project / "jars" / "jars.lock").read_bytes())
    with pytest.raises(JarError) as caught:
        open_session(replace(load_settings(), project=tmp_path))
    assert str(caught.value).endswith("run: hudilab jars core")
    assert not (tmp_path / "jars" / "core").exists()


def test_opening_and_stopping_prints_nothing(tmp_path: Path) -> None:
    code = (
        "from hudilab.settings import load_settings\n"
        "from hudilab_spark.session import open_session\n"
        "s = open_session(load_settings()); s.range(5).count(); s.stop()\n"
    )
    env = os.environ | {"HUDILAB_HOME": str(tmp_path)}
    env.pop("HUDILAB_LOG_FILE", None)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "tmp"]


def test_checkpoint_files_start_no_processes(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark._jvm
    folder = jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    manager = jvm.org.apache.spark.sql.execution.streaming.CheckpointFileManager.create
    assert "FileSystemBased" in manager(folder, conf).getClass().getSimpleName()


@pytest.mark.deep
def test_a_kernel_does_not_wait_for_a_java_that_has_ended(tmp_path: Path) -> None:
    code = (
        "import psutil, time\n"
        "from hudilab.settings import load_settings\n"
        "from hudilab_spark.session import open_session\n"
        "jvm = open_session(load_settings())._jvm\n"
        "java = jvm.java.lang.ProcessHandle.current().pid()\n"
        "psutil.Process(java).terminate()\n"
        "ends = time.monotonic() + 60\n"
        "while psutil.pid_exists(java) and time.monotonic() < ends:\n"
        "    time.sleep(0.05)\n"
        "print(psutil.Process().children())\n"
    )
    done = run_program(sys.executable, "-c", code, env={"HUDILAB_HOME": str(tmp_path)})
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_jars_that_a_running_java_does_not_have(tmp_path: Path) -> None:
    code = (
        "from hudilab.settings import load_settings\n"
        "from hudilab_spark.session import open_session\n"
        "open_session(load_settings()).stop()\n"
        "open_session(load_settings()).stop()\n"
        "open_session(load_settings(), groups=('core', 'msk'))\n"
    )
    done = run_program(sys.executable, "-c", code, env={"HUDILAB_HOME": str(tmp_path)})
    assert done.stderr.splitlines()[-1] == (
        "hudilab.errors.SessionError: this kernel's JVM was started without "
        "aws-msk-iam-auth-2.3.9-all.jar; restart the kernel"
    )


# As on a page of Hudi's documentation, whose tables have no LOCATION.
PASTED = """
from hudilab.settings import load_settings
from hudilab_spark.session import open_session
spark = open_session(load_settings())
spark.sql("CREATE TABLE hudi_table (ts BIGINT, uuid STRING, fare DOUBLE, city STRING)"
          " USING HUDI PARTITIONED BY (city)")
spark.sql("INSERT INTO hudi_table VALUES (1, 'a', 19.1, 'sf'), (2, 'b', 27.7, 'sf')")
spark.sql("CREATE TABLE plain USING parquet AS SELECT * FROM hudi_table")
print(spark.table("hudi_table").count(), spark.table("plain").count())
"""


@pytest.mark.deep
def test_statements_without_a_location_run_in_the_next_session_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    for _ in range(2):
        done = run_program(sys.executable, "-c", PASTED, env={"HUDILAB_HOME": str(tmp_path)})
        assert done.stdout == "2 2\n", done.stderr[-3000:]
    kept = sorted(tmp_path.glob("spark-warehouse/session-*/hudi_table"))
    assert [spark.read.format("hudi").load(str(table)).count() for table in kept] == [2, 2]


def test_a_procedure_that_sends_file_statuses_to_tasks(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "t"
    options = readings_table(name="t").write_options()
    rows = sensor_readings(spark, 20, sensors=2, seed=1)
    rows.write.format("hudi").options(**options).save(f"file://{table}")
    cut = next(table.rglob("*.parquet"))
    cut.write_bytes(b"PAR1")
    (row,) = spark.sql(f"CALL show_invalid_parquet(path => 'file://{table}')").collect()
    assert row.path.endswith(cut.name)
