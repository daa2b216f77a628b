"""The same job through spark-submit, which brings class path and settings itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hudilab.settings import Settings
from hudilab_jobs import stock_prices
from hudilab_jobs.generated_prices import price_messages
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import create_topics, topic_rows
from hudilab_spark.jars import verify
from hudilab_spark.java import find_java

TOPICS = {"stocks-in": 3, "stocks-out": 3, "stocks-dead": 3}


def submit(
    settings: Settings, servers: str, groups: list[str], **env: str
) -> subprocess.CompletedProcess[str]:
    jars = os.pathsep.join(map(str, verify(settings.project / "jars", groups)))
    return subprocess.run(
        [
            str(Path(sys.executable).parent / "spark-submit"),
            *("--master", "local[2]", "--driver-class-path", jars),
            *(stock_prices.__file__, "--available-now", "--run-id", "submitted"),
        ],
        env=os.environ
        | {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(settings.conf_dir),
            "HUDI_CONF_DIR": str(settings.conf_dir),
            "HUDILAB_HOME": str(settings.home),
            "HUDILAB_LOG_FILE": str(settings.home / "submit.log"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "BOOTSTRAP_SERVERS": servers,
        }
        | env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_job_runs_with_spark_submit(settings: Settings, kafka: Access) -> None:
    create_topics(kafka, TOPICS, afresh=True)
    produce(kafka, "stocks-in", price_messages(340, seed=1))
    done = submit(settings, kafka.servers, ["core", "kafka"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert topic_rows(kafka, ["stocks-out"])["end"].sum() == 340
    table = settings.home / "warehouse" / "run-submitted" / "lab" / "stock_prices"
    assert (table / ".hoodie" / "hoodie.properties").exists()


def test_without_the_lab_s_spark_settings_it_is_refused(settings: Settings, kafka: Access) -> None:
    create_topics(kafka, TOPICS)
    done = submit(settings, kafka.servers, ["core", "kafka"], SPARK_CONF_DIR=str(settings.home))
    assert done.returncode == 1
    assert (
        "hudilab: spark-submit started without the lab's Spark settings (spark.serializer, "
        in done.stdout
    )
    assert (
        "spark.sql.parquet.datetimeRebaseModeInRead); pass --properties-file "
        f"{settings.conf_dir}/spark-defaults.conf, or set SPARK_CONF_DIR to its folder"
    ) in done.stdout  # spark-submit sends both streams there


@pytest.mark.deep
def test_without_hudi_it_is_refused(settings: Settings, kafka: Access) -> None:
    create_topics(kafka, TOPICS)
    done = submit(settings, kafka.servers, ["kafka"])
    assert done.returncode == 1
    assert (
        "hudilab: spark-submit started without Hudi on its class path; pass the jars in jars/core "
        "with --driver-class-path, or the bundle's jar with --jars"
    ) in done.stdout
