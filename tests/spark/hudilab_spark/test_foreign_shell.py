"""A session in a shell that is set up for another Spark and Java, and a Java that can't start."""

from __future__ import annotations

import json
from pathlib import Path

from running import start_program

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
    program = start_program("-c", PROGRAM.replace("import json, os", UNMARKED), env=env)
    out, err = program.communicate(timeout=120)
    assert program.returncode == 0, err[-2000:]
    assert json.loads(out) == {
        "pandas": "2026-01-01 10:00:00",
        "worker": 10,
        "zone": "UTC",
        "master": "local[*]",
        "memory": "2g",
        "locale": "en_US",
        "name": None,
        "left": [],
    }
    [line] = err.splitlines()
    assert all(name in line for name in SHELL if name not in ("HUDILAB_JAVA", "TZ"))


def test_a_java_that_cannot_start_says_why(tmp_path: Path) -> None:
    env = {
        "HUDILAB_JAVA_OPTIONS": "-XX:+UseG1GC",
        "HUDILAB_HOME": str(tmp_path),
        "HUDILAB_LOG_FILE": str(tmp_path / "java.log"),
    }
    program = start_program("-c", PROGRAM, env=env)
    out, err = program.communicate(timeout=120)
    line = err.splitlines()[-1]
    assert (program.returncode, out) == (1, "")
    assert line.startswith(
        "hudilab.errors.JavaError: Java did not start: Multiple garbage collectors selected "
        f"(log: {tmp_path}/java.log); fix the option in HUDILAB_JAVA_OPTIONS and conf/"
    )
    assert line.endswith("hudilab doctor")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["java.log", "logs", "tmp"]
    assert list((tmp_path / "logs").iterdir()) == []


def test_an_option_that_java_does_not_know(tmp_path: Path) -> None:
    env = {"HUDILAB_JAVA_OPTIONS": "-Xlog:gc -XX:+UseG1GCs", "HUDILAB_HOME": str(tmp_path)}
    program = start_program("-c", PROGRAM, env=env)
    out, err = program.communicate(timeout=120)
    assert (program.returncode, out) == (1, "")
    assert err.splitlines()[-1] == (
        "hudilab.errors.JavaError: Java refuses an option in HUDILAB_JAVA_OPTIONS: Unrecognized VM "
        "option 'UseG1GCs'; correct or remove it"
    )
