"""Kill the stock pipeline with SIGKILL at random moments: what is lost, and what is twice."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest
from kills import Killed, record, rows_once
from pyspark.sql import functions as F
from running import end_jvm
from services.programs import Programs, finished

from hudi_sink.commits import Commits
from hudilab.settings import Settings
from hudilab_jobs.generated_prices import price_messages, stock_prices
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import create_topics, topic_rows
from hudilab_jobs.prices import read_prices
from hudilab_spark.session import open_session

TOPICS = {"stocks-in": 3, "stocks-out": 3, "stocks-dead": 3}


# Kills for every day are those of tests/crash: the ledger does not know where rows come from.
@pytest.mark.deep
@pytest.mark.kills
@pytest.mark.parametrize(("rows", "kills", "limit"), [(6_000, 2, 500), (40_000, 5, 2_500)])
def test_the_table_is_exact_after_kills(
    settings: Settings, kafka: Access, programs: Programs, rows: int, kills: int, limit: int
) -> None:
    create_topics(kafka, TOPICS, afresh=True)
    produce(kafka, "stocks-in", price_messages(rows, seed=11))
    dice, run = random.Random(11), f"kill{rows}"
    job = (
        "hudilab_jobs.stock_prices",
        *("--available-now", "--run-id", run, "--rows-per-batch", str(limit)),
    )
    warehouse = settings.home / "warehouse" / f"run-{run}"
    commits = warehouse / "_checkpoints" / "lab" / "stock_prices" / "commits"
    path = warehouse / "lab" / "stock_prices"
    for number in range(kills):
        victim = programs.start(*job)
        ready = done(commits)
        ends = time.monotonic() + 60
        # Not while it only starts: from its first batch on, at a random moment.
        while done(commits) == ready and time.monotonic() < ends:
            assert victim.poll() is None, f"ended before kill {number}: {victim.communicate()}"
            time.sleep(0.1)
        time.sleep(dice.uniform(0, 4 if kills > 2 else 2))
        family = [psutil.Process(victim.pid), *psutil.Process(victim.pid).children(recursive=True)]
        assert victim.poll() is None, f"ended before kill {number}: {victim.communicate()}"
        for process in family:
            os.kill(process.pid, signal.SIGKILL)
        psutil.wait_procs(family, timeout=20)
        victim.communicate()
        rows_once(path)
    last = finished(programs.start(*job), patience=900)
    assert last.returncode == 0, last.stderr
    ends_of = topic_rows(kafka, list(TOPICS)).groupby("topic")["end"].sum()
    spark = open_session(settings, app="kill", groups=("core", "kafka"))
    try:
        options = kafka.spark_options() | {"subscribe": "stocks-out"}
        out = read_prices(spark.read.format("kafka").options(**options).load())
        unique = out.dropDuplicates(["ticker", "event_time"]).count()
        made = spark.createDataFrame(stock_prices(rows, seed=11)).select(
            "ticker", "event_time", (F.col("cents") / 100).cast("decimal(10,2)").alias("price")
        )
        table = spark.read.format("hudi").load(str(path)).select(made.columns)
        written = [c for c in Commits(spark, path.as_uri()).newest_first() if c.metadata]
        batches = {c.metadata.batch for c in written if c.metadata}
        lost, twice = made.exceptAll(table).count(), table.exceptAll(made).count()
        print(
            f"\n{rows} messages, {kills} kills: stocks-out {ends_of['stocks-out']}, of these "
            f"{ends_of['stocks-out'] - rows} duplicates, {unique} different; "
            f"table {table.count()}, lost {lost}, twice {twice}"
        )
        record(
            Killed("driver", "Kafka to upsert, COPY_ON_WRITE", "disk", kills, kills, lost, twice)
        )
        # An upsert by key hides a batch that is written twice: the commits do not.
        assert len(written) == len(batches) == done(commits)
        assert unique == rows <= ends_of["stocks-out"]
        assert ends_of["stocks-dead"] == 0
    finally:
        end_jvm(spark)


def done(commits: Path) -> int:
    """Batches that the table's checkpoint calls done."""
    return len(list(commits.glob("[0-9]*")))
