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
from cases import read_cases
from pyspark import SparkContext

from hudilab.errors import root_cause
from hudilab_spark import streams
from hudilab_spark.jvm import java_end
from hudilab_spark.signals import stop_on_signal

SAMPLES = Path(__file__).parents[1] / "samples"
CASES = read_cases(__file__)


def test_every_sample_has_a_cause() -> None:
    assert {path.stem for path in SAMPLES.glob("*.txt")} == set(CASES["causes"])


@pytest.mark.parametrize(("name", "cause"), CASES["causes"].items())
def test_the_cause_of_a_real_failure(name: str, cause: str) -> None:
    assert root_cause((SAMPLES / f"{name}.txt").read_text()) == cause


@pytest.mark.parametrize(("text", "cause"), CASES["short texts"])
def test_the_cause_of_short_texts(text: str, cause: str) -> None:
    assert root_cause(text) == cause


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
