"""What befalls a checkpoint, and a table that is read from: no row is lost or doubled."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from running import start_program
from spark.programs import feeds

from hudilab.settings import project_root
from hudilab_spark.fetch import fetch

pytestmark = pytest.mark.deep
EXACT, OTHER = "exact", "refused: other offsets"
# A batch of these takes whatever has arrived. If more has arrived since, the batch is another one.
WHOLE = {
    "replayed": EXACT,
    "planned_again": EXACT,
    "planned_with_more": OTHER,
    "one_back": EXACT,
    "one_back_with_more": OTHER,
    "many_back": "refused: set back",
    "deleted": "refused: checkpoint gone",
    "log_lost": EXACT,
    "copied": f"{EXACT}, then {OTHER}",
}
FILES = WHOLE | {"log_lost": OTHER}
# A batch of these has one file, so it is the same again.
SINGLE = FILES | {"one_back_with_more": EXACT, "copied": f"{EXACT}, then {EXACT}"}
RATE = WHOLE | {"planned_again": OTHER, "one_back": OTHER}
RATE["log_lost"] = "stopped"  # it counts from its new start, and has not come so far yet
STEADY = dict.fromkeys(WHOLE, EXACT) | {
    "many_back": "refused: set back",
    "deleted": "refused: checkpoint gone",
    "copied": f"{EXACT}, then {EXACT}",
}
HERE = {
    "rate": RATE,
    "rate-micro-batch": STEADY,
    **dict.fromkeys(("json", "csv", "parquet", "orc", "text"), SINGLE),
    "json, all at once": FILES,
    "json, latest first": FILES,
    "json, archived": SINGLE,
    "json, deleted": SINGLE,
    "hudi": WHOLE,
}
ELSEWHERE = {"delta": WHOLE, "iceberg": WHOLE, "kafka": WHOLE}  # with jars of their own
# What befalls the table that is read. Delta numbers its commits: from a copy of it other rows come
# under numbers that were read. That is a limit, see docs/exactly-once.md.
ITS_TABLE = {
    "hudi": {
        "rewritten": f"{OTHER}, then {OTHER}",
        "restored": "0 rows lost, 0 twice",
        "restored_from_a_copy": "0 rows lost, 0 twice",
    },
    "delta": {
        "rewritten": f"{OTHER}, then {OTHER}",
        "restored": "stopped",  # DELTA_SOURCE_IGNORE_DELETE
        "restored_from_a_copy": "10 rows lost, 0 twice",
    },
    "iceberg": {
        "rewritten": f"{EXACT}, then {EXACT}",
        "restored": "stopped",
        "restored_from_a_copy": "stopped",
    },
}


def short(results: dict[str, str]) -> dict[str, str]:
    """Without what a source says itself; it has to be the source's words, not Spark's."""
    print(json.dumps(results, indent=1))
    assert "INTERNAL_ERROR" not in str(results)
    return {
        name: "stopped" if what.startswith("stopped") else what for name, what in results.items()
    }


@pytest.mark.parametrize("kind", HERE)
def test_a_source(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    tried = feeds.tried(feeds.makers(spark)[kind], tmp_path / kind.replace(", ", "-"))
    assert short(tried) == HERE[kind] | ITS_TABLE.get(kind, {})


@pytest.mark.parametrize("kind", ELSEWHERE)
def test_a_source_with_jars_of_its_own(tmp_path: Path, kind: str) -> None:
    env = {"HUDILAB_HOME": str(tmp_path / "home"), "RUNTIME_ENV": "", "IS_LOCAL": ""}
    if kind != "kafka":
        fetch(project_root() / "jars", [kind], say=lambda line: None)
    running = start_program(feeds.__file__, str(tmp_path / "feeds"), kind, env=env)
    try:
        out, err = running.communicate(timeout=900)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGINT)  # it stops its server
            running.communicate(timeout=60)
    assert running.returncode == 0, err[-3000:]
    tried = json.loads(out.splitlines()[-1])[kind]
    assert short(tried) == ELSEWHERE[kind] | ITS_TABLE.get(kind, {})
