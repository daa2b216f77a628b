"""The lab's work on a cluster: jobs, executors, the history of applications, lessons, a bundle."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest
from contract import checks
from contract.measure import tags
from refusals import refused
from services import objects as s3_objects
from services.clusters import (
    APPEND,
    PROJECT,
    clean,
    hudilab,
    objects,
)

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.servers.history import find_history, start_history, stop_history
from hudilab_cli.servers.s3 import S3Server
from hudilab_jobs.kafka.connection import Access
from hudilab_spark.waiting import wait_for


def facts(notebook: Path) -> dict[str, str]:
    """What each compared cell of a notebook printed, by its source."""
    cells = [cell for cell in checks.code(checks.read(notebook)) if cell.outputs]
    compared = [cell for cell in cells if "nbval-check-output" in tags(cell)]
    outputs = {cell.source: "".join(checks.texts(cell)) for cell in compared}
    # The one line that a warehouse on S3 adds.
    return {
        source: re.sub(r"(?m)^s3:// rewritten .*\n", "", text) for source, text in outputs.items()
    }


def ended(history: str) -> set[str]:
    """Names of the applications that a history server has as ended."""
    with urlopen(f"{history}/api/v1/applications?status=completed", timeout=60) as answer:
        return {application["name"] for application in json.load(answer)}


@pytest.mark.deep
def test_the_preflight_asks_the_executors_and_is_in_the_history(
    settings: Settings, env: dict[str, str], used: S3Server
) -> None:
    preflight = hudilab(env, "doctor", "--json")
    checks_by_name = {check["name"]: check for check in json.loads(preflight.stdout)}
    assert preflight.returncode == 0, preflight.stdout
    assert checks_by_name["cluster"]["result"].startswith(
        f"{env['SPARK_MASTER_URL']}, 2 workers, 4 cores"
    )
    python = f"{sys.version_info.major}.{sys.version_info.minor} with hudilab 0.1.0"
    assert checks_by_name["worker python"]["result"] == f"{python}; driver {python}"
    events = settings.home / "spark-events"
    running = start_history(settings)
    assert running.describe().startswith(f"history at {running.ui} of {events}, process ")
    wait_for(lambda: "doctor" in ended(running.ui), 60, "the history of doctor")
    elsewhere = "s3a://hudilab/events"
    remedy = "; stop it with: hudilab services stop history"
    with refused(ServiceError, running.describe(), "other settings", remedy=remedy):
        start_history(settings, elsewhere)
    assert stop_history(settings) == running.pid
    problem = "Spark's history exited with code 1: Caused by: java.io.FileNotFoundException: "
    remedy = f"s3a://hudilab/nothing; see {settings.home}/services/history/history.log"
    with refused(ServiceError, problem, remedy=remedy):
        start_history(settings, "s3a://hudilab/nothing")
    assert find_history(settings) is None
    log = next(path for path in events.iterdir() if '"doctor"' in path.read_text()[:100_000])
    s3_objects.client(used).upload_file(str(log), "hudilab", f"events/{log.name}")
    with_s3 = start_history(settings, elsewhere)
    try:
        wait_for(lambda: ended(with_s3.ui) == {"doctor"}, 60, "the history on S3")
    finally:
        assert stop_history(settings) == with_s3.pid


@pytest.mark.deep
def test_executors_with_another_python(env: dict[str, str], tmp_path: Path) -> None:
    other = tmp_path / "python3.10"
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nfrom collections import namedtuple\n"
        'info = namedtuple("version_info", "major minor micro releaselevel serial")\n'
        'sys.version_info = info(3, 10, 0, "final", 0)\n'
    )
    other.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    )
    other.chmod(0o755)
    done = hudilab(env | {"PYSPARK_PYTHON": str(other)}, "doctor", "--json")
    checks_by_name = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 1
    assert "[PYTHON_VERSION_MISMATCH]" in checks_by_name["worker python"]["result"]
    assert checks_by_name["worker python"]["remedy"] == (
        "run driver and workers with the same Python and package: set PYSPARK_PYTHON"
    )


@pytest.mark.deep
@pytest.mark.parametrize("command", ["doctor", "submit"])
def test_executors_that_do_not_start(
    env: dict[str, str], settings: Settings, tmp_path: Path, command: str
) -> None:
    conf = tmp_path / "conf"
    shutil.copytree(PROJECT / "conf", conf)
    file = conf / "docker" / "spark-defaults.conf"
    file.write_text(f"{file.read_text()}\nspark.executor.extraJavaOptions -XX:+UseSerialGC\n")
    arguments = ("--json",) if command == "doctor" else ("sensor_readings",)
    done = hudilab(env | {"HUDILAB_CONF": str(conf)}, command, *arguments)
    assert done.returncode == 1
    output = done.stdout  # where spark-submit has put the driver's stderr
    if command == "doctor":
        (check,) = [row for row in json.loads(done.stdout) if row["name"] == "spark"]
        output = f"{check['result']}; {check['remedy']}"
    work = f"{settings.home}/services/cluster/worker-[12]/work"
    assert re.search(
        rf"no executor of (app-\S+) started at {env['SPARK_MASTER_URL']}; the first one failed: "
        rf"Multiple garbage collectors selected; see {work}/\1/[01], and fix spark.executor.\* in "
        rf"{file}\n?$",
        output,
    ), output


@pytest.fixture
def on_s3(env: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """A driver without a cluster, whose warehouse is on S3."""
    conf = shutil.copytree(PROJECT / "conf", tmp_path / "conf")
    file = conf / "application_properties.json"
    named = re.compile(r'("warehouse.path": )"[^"]*"')
    file.write_text(named.sub(r'\1"s3://hudilab/warehouse"', file.read_text("utf-8")), "utf-8")
    alone = {"RUNTIME_ENV": "", "SPARK_MASTER_URL": "", "IS_LOCAL": "false"}
    return env | alone | {"HUDILAB_CONF": str(conf)}


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("02_write_hudi_stream", "env"),
        ("10_update_delete_merge", "env"),  # its erasure opens every object of the table on S3
        ("11_merge_on_read", "env"),
        ("13_table_services", "env"),
        ("12_indexes", "env"),  # its metadata tables are compacted by each commit on S3
        ("20_kafka_stock_prices", "env"),
        ("32_change_a_stream", "env"),
        ("32_change_a_stream", "on_s3"),  # in the warehouse where it has just run
        ("33_crash_and_repair", "env"),  # kills an application
        ("34_two_writers", "env"),
        ("34_two_writers", "on_s3"),  # both writers are one process
    ],
)
def test_a_lesson_gives_the_same_results(
    name: str, where: str, request: pytest.FixtureRequest, kafka: Access, tmp_path: Path
) -> None:
    """Run with its exercises, a notebook has the facts of its outputs in git."""
    env = request.getfixturevalue(where) | {"BOOTSTRAP_SERVERS": kafka.servers}
    folder = tmp_path / "out"
    done = hudilab(env, "run", name, "--exercises", "--out", str(folder))
    assert done.returncode == 0, done.stderr[-3000:]
    on_disk = facts(PROJECT / "notebooks" / f"{name}.ipynb")
    on_s3 = facts(folder / f"{name}.ipynb")
    assert len(on_disk) >= 7
    of_files = [source for source in on_disk if "meets_lock" in source]  # S3 has no lock files
    for source in of_files:
        del on_disk[source], on_s3[source]
    # In lesson 12 a commit to S3 also compacts the metadata table: as many files again.
    metadata_files = re.compile(r"(?m) ?\b[47](?=</td>|$)")
    for source in [source for source in on_disk if "added(without)" in source]:
        on_disk[source] = metadata_files.sub(
            lambda found: str(2 * int(found[0])).rjust(len(found[0])), on_disk[source]
        )
    assert on_s3 == on_disk


@pytest.mark.deep
def test_a_bundle_is_submitted(env: dict[str, str], settings: Settings, tmp_path: Path) -> None:
    bundle = tmp_path / "hudilab-bundle.zip"
    assert hudilab(env, "bundle", "--out", str(bundle)).returncode == 0
    job = ("sensor_readings", "--rows", "200", "--batches", "2", "--run-id", "bundle")
    done = hudilab(env, "submit", "--bundle", str(bundle), *job)
    assert done.stdout.splitlines()[-1] == (
        "hudilab: rows=200 commits=2 partitions=11 "
        "table=s3a://hudilab/warehouse/run-bundle/lab/sensor_readings"
    ), done.stdout[-3000:]
    (root,) = settings.home.glob("submitted/bundle-*")
    logs = (settings.home / "spark-events").iterdir()
    (log,) = (text for file in logs if f"{root}/lib" in (text := file.read_text()))
    events = {event["Event"]: event for event in map(json.loads, log.splitlines())}
    conf = dict(events["SparkListenerEnvironmentUpdate"]["Spark Properties"])
    assert conf["spark.jars"].endswith(f"{root}/lib/hudilab-dependencies.jar")
    assert conf["spark.app.name"] == "sensor_readings"
    # No jar of the checkout but what a platform has of its own, beside Spark's.
    for side in ("driver", "executor"):
        path = conf[f"spark.{side}.extraClassPath"].split(os.pathsep)
        assert {Path(jar).parent.name for jar in path} == {"jars", "s3"}


@pytest.mark.deep
def test_a_new_executor_may_compact_the_metadata_table(
    settings: Settings, env: dict[str, str]
) -> None:
    # Its tenth commit compacts it: here that is the first work of new executors.
    for commits, rows in ((5, 5), (4, 9), (1, 10), (1, 11)):
        done = subprocess.run(
            [sys.executable, str(APPEND), "s3a://hudilab/warehouse/meta", str(commits)],
            env=clean() | env,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert int(done.stdout) == rows
    timeline = objects(settings, "meta/.hoodie/metadata/.hoodie/timeline")
    assert len(list(timeline.glob("*_*.commit"))) == 1, "no compaction: the moment was missed"
