"""What befalls a checkpoint, and a table that is read from: no row is lost or doubled."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import finish, start_program
from spark.programs import feeds

from hudilab.settings import project_root
from hudilab_spark.fetch import fetch

pytestmark = pytest.mark.deep
ELSEWHERE = ("delta", "iceberg", "kafka")  # with jars of their own
# Source -> fault -> outcome. A batch that takes whatever has arrived is another one if more has
# arrived since; one that has one file is the same again. What befalls the table that is read stands
# last. Delta numbers its commits: from a copy of it other rows come under numbers that were read.
# That is a limit, see docs/exactly-once.md.
with Path(__file__).with_name("sources.csv").open(encoding="utf-8", newline="") as file:
    OUTCOMES = {row["source"]: row for row in csv.DictReader(file)}


def expected(kind: str) -> dict[str, str]:
    return {fault: what for fault, what in OUTCOMES[kind].items() if what and fault != "source"}


def short(results: dict[str, str]) -> dict[str, str]:
    """Without what a source says itself; it has to be the source's words, not Spark's."""
    print(json.dumps(results, indent=1))
    assert "INTERNAL_ERROR" not in str(results)
    return {
        name: "stopped" if what.startswith("stopped") else what for name, what in results.items()
    }


@pytest.mark.parametrize("kind", [kind for kind in OUTCOMES if kind not in ELSEWHERE])
def test_a_source(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    tried = feeds.tried(feeds.makers(spark)[kind], tmp_path / kind.replace(", ", "-"))
    assert short(tried) == expected(kind)


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_source_with_jars_of_its_own(tmp_path: Path, kind: str) -> None:
    env = {"HUDILAB_HOME": str(tmp_path / "home"), "RUNTIME_ENV": "", "IS_LOCAL": ""}
    if kind != "kafka":
        fetch(project_root() / "jars", [kind], say=lambda line: None)
    running = start_program(feeds.__file__, str(tmp_path / "feeds"), kind, env=env)
    tried = json.loads(finish(running, 900).splitlines()[-1])[kind]
    assert short(tried) == expected(kind)
