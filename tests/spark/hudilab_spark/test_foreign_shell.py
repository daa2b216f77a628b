"""A session in a shell that is set up for another Spark and Java, and a Java that can't start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from running import run_program

PROGRAM = """
import json, os
import pandas as pd
from hudilab import load_settings
from hudilab_spark import open_session
spark = open_session(load_settings())
java = spark._jvm.java
times = spark.createDataFrame(pd.DataFrame({"at": [pd.Timestamp("2026-01-01 10:00")]}))
hour = spark.udf.register("hour_of", lambda at: at.hour, "int")
print(json.dumps({
    "pandas": times.selectExpr("string(at)").first()[0],
    "worker": times.selectExpr("hour_of(at)").first()[0],
    "zone": spark.conf.get("spark.sql.session.timeZone"),
    "master": spark.sparkContext.master,
    "memory": spark.conf.get("spark.driver.memory"),
    "locale": java.util.Locale.getDefault().toString(),
    "name": java.lang.System.getenv("HADOOP_USER_NAME"),
    "left": [name for name in ("SPARK_REMOTE", "JAVA_TOOL_OPTIONS") if name in os.environ],
}))
"""
# A session of this process has marked the environment: its programs would print no notice.
UNMARKED = "import json, os\nos.environ.pop('HUDILAB_JAVA')"
SHELL = {
    "TZ": "Asia/Kathmandu",
    "PYSPARK_SUBMIT_ARGS": "--master local[1] --driver-memory 600m --conf "
    "spark.sql.session.timeZone=Asia/Tokyo pyspark-shell",
    "JAVA_TOOL_OPTIONS": "-Duser.language=ar -Duser.country=EG",
    "_JAVA_OPTIONS": "-XX:+UseG1GC",
    "SPARK_REMOTE": "sc://127.0.0.1:1",
    "SPARK_LOCAL_IP": "10.99.88.77",
    "HADOOP_USER_NAME": "hdfs",
    "PYSPARK_PYTHON": "/no/such/python",
    "HUDILAB_JAVA": "",
}


def test_a_session_is_the_same_in_every_shell(tmp_path: Path) -> None:
    env = SHELL | {"HUDILAB_HOME": str(tmp_path)}
    env["HUDILAB_LOG_FILE"] = str(tmp_path / "java.log")
    program = PROGRAM.replace("import json, os", UNMARKED)
    done = run_program(sys.executable, "-c", program, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == {
        "pandas": "2026-01-01 10:00:00",
        "worker": 10,
        "zone": "UTC",
        "master": "local[*]",
        "memory": "2g",
        "locale": "en_US",
        "name": None,
        "left": [],
    }
    [line] = done.stderr.splitlines()
    assert all(name in line for name in SHELL if name not in ("HUDILAB_JAVA", "TZ"))


def test_a_java_that_cannot_start_says_why(tmp_path: Path) -> None:
    env = {
        "HUDILAB_JAVA_OPTIONS": "-XX:+UseG1GC",
        "HUDILAB_HOME": str(tmp_path),
        "HUDILAB_LOG_FILE": str(tmp_path / "java.log"),
    }
    done = run_program(sys.executable, "-c", PROGRAM, env=env)
    line = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (1, "")
    assert line.startswith(
        "hudilab.errors.JavaError: Java did not start: Multiple garbage collectors selected "
        f"(log: {tmp_path}/java.log); fix the option in HUDILAB_JAVA_OPTIONS and conf/"
    )
    assert line.endswith("hudilab doctor")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["java.log", "logs", "tmp"]
    assert list((tmp_path / "logs").iterdir()) == []


def test_an_option_that_java_does_not_know(tmp_path: Path) -> None:
    env = {"HUDILAB_JAVA_OPTIONS": "-Xlog:gc -XX:+UseG1GCs", "HUDILAB_HOME": str(tmp_path)}
    done = run_program(sys.executable, "-c", PROGRAM, env=env)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == (
        "hudilab.errors.JavaError: Java refuses an option in HUDILAB_JAVA_OPTIONS: Unrecognized VM "
        "option 'UseG1GCs'; correct or remove it"
    )
