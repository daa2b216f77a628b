"""Statements as on Hudi's pages do the same in the lab's session as in a plain one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import run_program
from spark.hudi_pages import run

QUICK = ("ddl", "keys", "table_functions")


@pytest.mark.parametrize("topic", QUICK)
def test_the_lab_does_what_a_plain_session_did(
    spark: SparkSession, tmp_path: Path, topic: str
) -> None:
    found = run.run_topic(spark, topic, tmp_path)
    assert run.differences({"kept": run.kept(topic), "lab": found}, topic) == []


@pytest.mark.deep
@pytest.mark.parametrize("topic", run.TOPICS)
def test_the_lab_does_what_a_plain_session_does(topic: str) -> None:
    done = run_program(sys.executable, run.__file__, topic, env={}, timeout=1000)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_step_has_its_kept_result() -> None:
    for topic in run.TOPICS:
        assert [name for name, _ in run.kept(topic)] == [name for name, _ in run.steps(topic)], (
            topic
        )
