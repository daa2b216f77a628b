"""The JVM ends in the middle of a stream: what the program is told, and that nothing is lost."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from running import run_program

TESTS = Path(__file__).resolve().parents[2]

PROGRAM = """
import os, signal, sys
from spark.programs.driver import spec
from hudi_sink import ExactlyOnceSink
from hudilab import load_settings
from hudilab_spark import drain, open_session
from hudilab.errors import SessionError, StreamError
from hudilab.generate import sensor_readings, sensor_stream
from hudilab_spark.warehouse import prepare
from hudilab_spark.streams import run_until_end

end, wait = sys.argv[1:]
settings = load_settings()
location = prepare(settings)
spark = open_session(settings)
sink = ExactlyOnceSink(spark, spec("bulk_insert"), location, {"seed": 1})

def write(batch, number):
    sink.write_batch(batch, number)
    if end == "memory" and number == 1:
        # Two gigabytes in one task: more than the heap has.
        batch.sparkSession.range(1).selectExpr("repeat('x', int(id + 2000000000)) x").collect()
    if end == "signal" and number == 1:
        pid = spark._jvm.java.lang.ProcessHandle.current().pid()
        os.kill(pid, signal.SIGKILL)

readings = sensor_stream(spark, rows_per_batch=10, sensors=2, seed=1, rows=40)
query = readings.writeStream.foreachBatch(write).option("checkpointLocation", location.checkpoint)
query = query.start()
try:
    if wait == "drain":
        drain(query, batches=4, deadline=120)
    else:
        run_until_end([query])
except StreamError as error:
    print("StreamError:", error)
    try:
        open_session(settings)
    except SessionError as error:
        print("SessionError:", error)
    sys.exit()
rows = sensor_readings(spark, 40, sensors=2, seed=1)
table = spark.read.format("hudi").load(location.table).select(rows.columns)
print("different rows:", rows.exceptAll(table).count() + table.exceptAll(rows).count())
"""


def run(home: Path, end: str, wait: str) -> str:
    log = home / "logs" / "program.log"  # else the one of this process's session
    log.parent.mkdir(exist_ok=True)
    env = {"HUDILAB_HOME": str(home), "HUDILAB_LOG_FILE": str(log), "PYTHONPATH": str(TESTS)}
    done = run_program(sys.executable, "-c", PROGRAM, end, wait, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    ("end", "wait", "how"),
    [
        ("memory", "drain", "Java ran out of memory"),
        ("signal", "run_until_end", "Java was killed, as happens if no memory is left"),
    ],
)
def test_a_stream_says_how_java_ended(tmp_path: Path, end: str, wait: str, how: str) -> None:
    lines = run(tmp_path, end, wait).splitlines()
    remedy = "raise" if end == "memory" else "free memory or lower"
    log = re.escape(f"{tmp_path}/logs/program.log")
    settings = r"\S+/conf/local/spark-defaults\.conf"
    reason = (
        f"{how}, see the log {log}; {remedy} spark.driver.memory in {settings}, or use smaller "
        "batches, and restart the kernel or the job"
    )
    ended = f"StreamError: the stream ended: {reason}: the stream resumes from its checkpoint"
    assert re.fullmatch(ended, lines[0])
    assert [*(tmp_path / "tmp").iterdir()] == []  # no row of a JVM that was killed
    assert re.fullmatch(f"SessionError: this kernel has no Spark any more: {reason}", lines[1])
    assert run(tmp_path, "none", "drain") == "different rows: 0\n"
