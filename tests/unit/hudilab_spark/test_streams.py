"""The root cause of real failures: the texts in samples/ are Spark 3.5's and Hudi 1.2's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from hudilab.errors import root_cause
from hudilab_spark import streams
from hudilab_spark.jvm import java_end
from hudilab_spark.signals import stop_on_signal

SAMPLES = Path(__file__).parents[1] / "samples"
CAUSES = {
    # A batch write: Py4J's first line names a call, Java's goes on over two lines.
    "key_conflict": "org.apache.hudi.exception.HoodieException: Config conflict(key current value "
    "existing value): RecordKey: sensor_id sensor_id,reading_id",
    # A stream: a Python traceback, then Py4J, then three Java errors, then the query's plan.
    "q_stream_nested": "org.apache.hudi.exception.HoodieKeyException: "
    'recordKey value: "null" for field: "reading_id" cannot be null or empty.',
    # An error of the lab, raised inside foreachBatch.
    "stream_python": "the stream does not use the checkpoint "
    "file:///lab/_checkpoints/lab/t, so a restart would write everything again; "
    'add .option("checkpointLocation", location.checkpoint) to writeStream',
    # Spark's own errors are followed by a plan.
    "stream_analysis": "pyspark.errors.exceptions.captured.AnalysisException: "
    "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column or function parameter with name "
    "`no_such_column` cannot be resolved. Did you mean one of the following? "
    "[`sensor_id`, `reading_id`, `temperature`, `measurement_time`].",
    "missing_attributes": "[MISSING_ATTRIBUTES.RESOLVED_ATTRIBUTE_MISSING_FROM_INPUT] Resolved "
    'attribute(s) "x" missing from "reading_id", "sensor_id", "temperature", "measurement_time" '
    "in operator !Project [x#53L].",
    # Python in a worker, carried back through Java.
    "stream_udf": "ValueError: bad reading 0",
    "task": "ZeroDivisionError: division by zero",
}
CAUSES["q_stream_analysis"] = CAUSES["stream_analysis"]


def test_every_sample_is_used() -> None:
    assert {path.stem for path in SAMPLES.glob("*.txt")} == set(CAUSES)


@pytest.mark.parametrize("name", CAUSES)
def test_the_cause_of_a_real_failure(name: str) -> None:
    assert root_cause((SAMPLES / f"{name}.txt").read_text()) == CAUSES[name]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "no message"),
        ("\n \n", "no message"),
        ("a plain text\nof two lines", "a plain text"),
        ("Traceback (most recent call last):\n  File x\nQuit: now", "Quit: now"),
        ("AssertionError: ", "AssertionError"),
        ("KeyError: 'a key'", "KeyError: 'a key'"),
        ("java.lang.NullPointerException\n\tat a.b(c:1)", "java.lang.NullPointerException"),
        (
            "x.AException: one\nCaused by: x.BError: two\n\t... 9 more",
            "x.BError: two, in x.AException: one",
        ),
        (
            "py4j.protocol.Py4JNetworkError: Answer from Java side is empty",
            "py4j.protocol.Py4JNetworkError: Answer from Java side is empty",
        ),
        (
            "py4j.protocol.Py4JJavaError: An error occurred while calling o1.save.\n"
            ": java.lang.NullPointerException\n\tat a.b(c:1)",
            "java.lang.NullPointerException",
        ),
        ("a.B$CException: inner class", "a.B$CException: inner class"),
        ("a.AException: list:\nb\nc\n\nd", "a.AException: list: b c"),
        ("a.AException: list:\na.BException: next", "a.BException: next, in a.AException: list"),
    ],
)
def test_the_cause_of_short_texts(text: str, cause: str) -> None:
    assert root_cause(text) == cause


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.txt")), ids=lambda path: path.stem)
def test_a_cause_is_one_line_without_tabs(path: Path) -> None:
    assert len(root_cause(path.read_text()).splitlines()) == 1
    assert "\t" not in root_cause(path.read_text())


NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_is_collected_and_answered(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    before = [signal.getsignal(each) for each in NUMBERS]
    with stop_on_signal() as received:
        os.kill(os.getpid(), number)
    assert received == [number]
    assert capfd.readouterr().err == (
        "hudilab: stopping after this batch; press Ctrl-C again to stop at once\n"
    )
    assert [signal.getsignal(each) for each in NUMBERS] == before


def test_a_signal_interrupts_what_need_not_be_finished() -> None:
    signals: list[int] = []
    with pytest.raises(KeyboardInterrupt), stop_on_signal(signals, at_once=True):
        os.kill(os.getpid(), signal.SIGTERM)
    assert signals == [signal.SIGTERM]


TWICE = """
import os, signal, subprocess, sys
from types import SimpleNamespace
from hudilab_spark.signals import stop_on_signal
java = subprocess.Popen(["sleep", "100"])
print(java.pid, flush=True)
gateway = SimpleNamespace(_gateway=SimpleNamespace(proc=java))
sys.modules["pyspark"] = SimpleNamespace(SparkContext=gateway)
with stop_on_signal():
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), int(sys.argv[1]))
print("goes on")
"""


@pytest.mark.parametrize("number", NUMBERS)
def test_a_second_signal_ends_the_process_and_its_java(number: signal.Signals) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TWICE, str(int(number))],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 128 + number
    with pytest.raises(ProcessLookupError):
        os.kill(int(done.stdout), 0)


@pytest.mark.parametrize(
    ("batches", "done"), [(5, "2 of 5 batches"), (None, "2 batches")], ids=["bounded", "unbounded"]
)
def test_a_stream_that_was_stopped(batches: int | None, done: str) -> None:
    stopped: Any = SimpleNamespace(exception=lambda: None)
    assert str(streams._end(stopped, 2, batches)) == (
        f"the stream ended after {done}: it was stopped; fix the cause and start again: the stream "
        "resumes from its checkpoint"
    )


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            52,
            "Java ran out of memory; raise spark.driver.memory, or use smaller batches, and "
            "restart the kernel or the job",
        ),
        (1, "Java ended with exit code 1; restart the kernel or the job"),
    ],
)
def test_a_java_that_the_reader_started_without_the_lab_has_ended(
    monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    """Then nothing says where its log and its settings are."""
    for name in ("HUDILAB_LOG_FILE", "HUDILAB_SPARK_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    java = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({code})"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=java))
    assert str(java_end(patience=30)) == message
