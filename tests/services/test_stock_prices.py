"""The pipeline's programs against a real broker: from the producer to both ends of the stream."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
from cases import read_cases
from kills import Killed, record, rows_once
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from refusals import refused
from running import kill
from services.own_topic import delete_records
from services.programs import SECRET, USER, Programs, finished

from hudi_sink.commits import Commits
from hudilab.errors import KafkaError, StreamError
from hudilab.settings import Settings
from hudilab_cli.servers.kafka import Broker, start_broker
from hudilab_jobs import stock_prices as stock_job
from hudilab_jobs.generated_prices import Message, price_messages, stock_prices
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.sender import produce
from hudilab_jobs.kafka.topics import create_topics, topic_rows
from hudilab_jobs.prices import outgoing, read_prices
from hudilab_jobs.settings import load_settings
from hudilab_jobs.stock_prices import write
from hudilab_spark.jars import verify
from hudilab_spark.java import find_java
from hudilab_spark.streams import drain
from hudilab_spark.waiting import wait_for
from hudilab_spark.warehouse import prepare

TOPICS = {"stocks-in": 3, "stocks-out": 3, "stocks-dead": 3}
KEY = b'{"ticker":"IBM"}'
GOOD = b'{"event_time":"2026-01-01T09:00:00.123456","ticker":"IBM","price":99.50}'


def as_bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("latin-1")


def broken(case: dict[str, Any]) -> Message:
    """Return the good message with the changes of a case, whose characters are bytes."""
    texts = {"key": KEY.decode(), "value": GOOD.decode()} | case
    if "replace" in case:
        texts["value"] = GOOD.decode().replace(*case["replace"])
    return Message(as_bytes(texts["key"]), as_bytes(texts["value"]))


# Why a message is a dead letter.
BROKEN = [(broken(case), case["reason"]) for case in read_cases(__file__)]
BROKEN.append((Message(KEY, b" " * 100_000 + GOOD), "value has 100072 bytes, more than 100000"))


@pytest.fixture
def topics(kafka: Access) -> None:
    create_topics(kafka, TOPICS, afresh=True)


def read(spark: SparkSession, kafka: Access, topic: str) -> DataFrame:
    options = kafka.spark_options() | {"subscribe": topic, "includeHeaders": "true"}
    return spark.read.format("kafka").options(**options).load()


def table(spark: SparkSession, settings: Settings, run_id: str) -> DataFrame:
    path = settings.home / "warehouse" / f"run-{run_id}" / "lab" / "stock_prices"
    return spark.read.format("hudi").load(str(path))


def assert_exact(spark: SparkSession, stored: DataFrame, rows: int, seed: int) -> None:
    made = spark.createDataFrame(stock_prices(rows, seed=seed)).select(
        "ticker", "event_time", (F.col("cents") / 100).cast("decimal(10,2)").alias("price")
    )
    stored = stored.select(made.columns)
    assert (made.exceptAll(stored).count(), stored.exceptAll(made).count()) == (0, 0)


@pytest.mark.usefixtures("topics")
@pytest.mark.deep
def test_from_the_producer_to_topic_and_table(
    spark: SparkSession, settings: Settings, kafka: Access, programs: Programs
) -> None:
    sender = programs.run(
        "hudilab_jobs.stock_producer", "--wait-seconds", "0", "--seed", "5", MAX_RUN="40"
    )
    assert sender.returncode == 0, sender.stderr
    assert sender.stdout == "hudilab: rounds=40 sent=680 acknowledged=680 topic=stocks-in\n"
    for preview in (1, 0):  # the second run finds nothing to do
        job = programs.run("hudilab_jobs.stock_prices", "--available-now", "--run-id", "whole")
        assert job.returncode == 0, job.stderr
        assert job.stdout.count("|ticker|event_time") == preview  # of each batch, in a local run
    ends = topic_rows(kafka, list(TOPICS)).groupby("topic")["end"].sum()
    assert dict(ends) == {"stocks-in": 680, "stocks-out": 680, "stocks-dead": 0}
    assert_exact(spark, table(spark, settings, "whole"), 680, seed=5)
    sent, passed = (read(spark, kafka, topic) for topic in ("stocks-in", "stocks-out"))
    columns = ["key", "value", "partition"]  # the same bytes, in the same partition
    assert sent.select(columns).exceptAll(passed.select(columns)).count() == 0


@pytest.mark.usefixtures("topics")
@pytest.mark.deep
def test_the_tutorial_s_settings_file_runs_unchanged(
    spark: SparkSession, settings: Settings, kafka: Access, programs: Programs
) -> None:
    conf = Path(__file__).parents[1] / "unit" / "samples" / "flink" / "kafka"
    produce(kafka, "stocks-in", price_messages(340, seed=3))
    job = programs.run(
        *("hudilab_jobs.stock_prices", "--available-now"),
        HUDILAB_CONF=str(conf),
        RUNTIME_ENV="LOCAL",
    )
    assert job.returncode == 0, job.stderr
    assert job.stdout.startswith(f"{conf}/application_properties.json: not used: group kinesis.")
    assert topic_rows(kafka, ["stocks-out"])["end"].sum() == 340
    stored = spark.read.format("hudi").load(str(settings.home / "warehouse" / "lab" / "sink_table"))
    assert_exact(spark, stored, 340, seed=3)


@pytest.mark.usefixtures("topics")
def test_ctrl_c_leaves_no_round_half_sent(programs: Programs, kafka: Access) -> None:
    sender = programs.start("hudilab_jobs.stock_producer", "--wait-seconds", "0.2")
    try:
        wait_for(lambda: topic_rows(kafka, ["stocks-in"])["end"].sum() >= 34, 60, "34 messages")
        sender.send_signal(signal.SIGINT)
        out, err = sender.communicate(timeout=30)
    finally:
        sender.kill()
    assert sender.returncode == 0, err
    sent = topic_rows(kafka, ["stocks-in"])["end"].sum()
    assert sent >= 34
    assert sent % 17 == 0
    assert out == f"hudilab: rounds={sent // 17} sent={sent} acknowledged={sent} topic=stocks-in\n"


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    ("job", "env", "message"),
    [
        ("stock_producer", "MAX_RUN=many", "MAX_RUN='many' is not a number of rounds; set it to 1"),
        ("stock_producer", "TOPIC_NAME=stoks", "no topic 'stoks' at "),
        ("stock_producer", "BOOTSTRAP_SERVERS=localhost", "BOOTSTRAP_SERVERS='localhost' is not "),
        ("stock_prices", "BOOTSTRAP_SERVERS=127.0.0.1:1", "no broker answers at 127.0.0.1:1 ("),
    ],
)
def test_a_job_that_cannot_start(programs: Programs, job: str, env: str, message: str) -> None:
    name, _, value = env.partition("=")
    started = time.monotonic()
    done = programs.run(f"hudilab_jobs.{job}", **{name: value})
    assert time.monotonic() - started < 15
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"hudilab: {message}")


@pytest.mark.usefixtures("topics")
def test_each_broken_message_has_its_reason(
    spark: SparkSession, kafka: Access, tmp_path: Path
) -> None:
    produce(kafka, "stocks-in", [Message(KEY, GOOD), *(message for message, _ in BROKEN)])
    stream = (
        spark.readStream.format("kafka")
        .options(**kafka.spark_options())
        .option("subscribe", "stocks-in")
        .option("startingOffsets", "earliest")
        .load()
    )
    query = (
        outgoing(read_prices(stream), "stocks-out", "stocks-dead")
        .writeStream.format("kafka")
        .options(**kafka.spark_options())
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    drain(query, deadline=60)
    letters = read(spark, kafka, "stocks-dead").selectExpr(
        "key", "value", "map_from_entries(headers) AS h"
    )
    reason, *location = (
        F.col("h")[name].cast("string") for name in ("reason", "topic", "partition", "offset")
    )
    got = {
        tuple(None if field is None else bytes(field) for field in row[:2]): row[2]
        for row in letters.select("key", "value", reason).collect()
    }
    assert got == {(message.key, kept(message.value)): why for message, why in BROKEN}
    # Where each came from: every offset of the topic is in one of the two topics, once.
    places = {(row[0], row[1], row[2]) for row in letters.select(*location).collect()}
    assert len(places) == len(BROKEN)
    assert {topic for topic, _, _ in places} == {"stocks-in"}
    assert [bytes(row.value) for row in read(spark, kafka, "stocks-out").collect()] == [GOOD]


def kept(value: bytes | None) -> bytes | None:
    """Of a value that is too long the first thousand bytes."""
    return value[:1000] if value and len(value) > 100_000 else value


@pytest.fixture
def here(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, broker: Broker, spark: SparkSession
) -> Callable[..., None]:
    """The job's streams in this process and its session, to the end of what is there."""
    monkeypatch.setenv("HUDILAB_HOME", str(settings.home))
    monkeypatch.setenv("BOOTSTRAP_SERVERS", broker.address)

    def job(run_id: str, *, fail_on_data_loss: bool = True) -> None:
        here = load_settings()
        location = prepare(here, run_id=run_id, table="stock_prices")
        trigger = {"availableNow": True}
        write(spark, here, location, trigger, fail_on_data_loss=fail_on_data_loss)

    return job


@pytest.mark.deep  # Spark asks again and again for what is gone, half a minute long
@pytest.mark.usefixtures("topics")
def test_offsets_that_are_gone_stop_the_stream_unless_asked_otherwise(
    spark: SparkSession, settings: Settings, kafka: Access, here: Callable[..., None]
) -> None:
    produce(kafka, "stocks-in", price_messages(300, seed=1))
    here("gone")
    produce(kafka, "stocks-in", price_messages(600, seed=1, first=300))
    ends = topic_rows(kafka, ["stocks-in"])["end"]
    delete_records(kafka, "stocks-in", [end - 50 for end in ends])
    remedy = "(retention.ms), and resume without them with --no-fail-on-data-loss"
    with refused(KafkaError, "messages of topic 'stocks-in' were deleted (", remedy=remedy):
        here("gone")
    here("gone", fail_on_data_loss=False)
    assert table(spark, settings, "gone").count() == 300 + 3 * 50


@pytest.mark.usefixtures("topics")
def test_a_topic_that_was_made_anew_is_another_source(
    spark: SparkSession, settings: Settings, kafka: Access, here: Callable[..., None]
) -> None:
    produce(kafka, "stocks-in", price_messages(170, seed=1))
    here("anew")
    # A longer one: the offsets of the checkpoint exist in it too, and Spark would read on there.
    create_topics(kafka, TOPICS, afresh=True)
    produce(kafka, "stocks-in", price_messages(680, seed=7))
    with pytest.raises(StreamError, match="belongs to a run with ") as caught:
        here("anew")
    assert str(caught.value).count('"topic": "stocks-in"') == 2
    remedy = "use the same source and parameters, or delete the table and the checkpoint"
    assert remedy in str(caught.value)
    assert_exact(spark, table(spark, settings, "anew"), 170, seed=1)


@pytest.mark.deep
@pytest.mark.kills
@pytest.mark.usefixtures("topics")
def test_the_stream_survives_a_broker_that_is_killed_and_away_for_20_seconds(
    spark: SparkSession, settings: Settings, broker: Broker, kafka: Access, programs: Programs
) -> None:
    produce(kafka, "stocks-in", price_messages(1000, seed=9))
    job = programs.start(
        "hudilab_jobs.stock_prices", "--run-id", "away", "--trigger-seconds", "0.5"
    )
    try:
        wait_for(lambda: passed_on(kafka) == 1000, 120, "1000 prices in stocks-out")
        psutil.Process(start_broker(settings).pid).kill()  # the one that runs
        time.sleep(20)
        assert job.poll() is None
        assert start_broker(settings).address == broker.address
        produce(kafka, "stocks-in", price_messages(2000, seed=9, first=1000))
        wait_for(lambda: passed_on(kafka) >= 2000, 120, "2000 prices in stocks-out")
        path = settings.home / "warehouse" / "run-away" / "lab" / "stock_prices"
        timeline = path / ".hoodie" / "timeline"
        # The table is whole from its first commit on.
        wait_for(lambda: any(timeline.glob("*_*.commit")), 120, "a commit")
        wait_for(
            lambda: table(spark, settings, "away").count() == 2000, 120, "2000 prices in the table"
        )
        assert job.poll() is None
        job.send_signal(signal.SIGTERM)
        _, err = job.communicate(timeout=60)
        assert job.returncode == 0, err
    finally:
        kill(job)
    assert_exact(spark, table(spark, settings, "away"), 2000, seed=9)
    record(Killed("Kafka broker", "Kafka to upsert, COPY_ON_WRITE", "disk", 1, 0, 0, 0))


@pytest.mark.deep
@pytest.mark.kills
@pytest.mark.parametrize("sizes", [[6_000, 2, 500], [40_000, 5, 2_500]], ids=["2", "5"])
@pytest.mark.usefixtures("topics")
def test_the_table_is_exact_after_kills(
    spark: SparkSession, settings: Settings, kafka: Access, programs: Programs, sizes: list[int]
) -> None:
    """Kill the job with SIGKILL at random moments: what is lost, and what is twice."""
    rows, kills, limit = sizes
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
        assert victim.poll() is None, f"ended before kill {number}: {victim.communicate()}"
        kill(victim)
        rows_once(path)
    last = finished(programs.start(*job), patience=900)
    assert last.returncode == 0, last.stderr
    ends_of = topic_rows(kafka, list(TOPICS)).groupby("topic")["end"].sum()
    unique = read_prices(read(spark, kafka, "stocks-out"))
    different = unique.dropDuplicates(["ticker", "event_time"]).count()
    stored = spark.read.format("hudi").load(str(path))
    written = [c for c in Commits(spark, path.as_uri()).newest_first() if c.metadata]
    batches = {c.metadata.batch for c in written if c.metadata}
    print(f"\n{rows} messages, {kills} kills: {ends_of['stocks-out'] - rows} duplicates sent")
    assert_exact(spark, stored, rows, seed=11)
    record(Killed("driver", "Kafka to upsert, COPY_ON_WRITE", "disk", kills, kills, 0, 0))
    # An upsert by key hides a batch that is written twice: the commits do not.
    assert len(written) == len(batches) == done(commits)
    assert different == rows <= ends_of["stocks-out"]
    assert ends_of["stocks-dead"] == 0


def done(commits: Path) -> int:
    """Batches that the table's checkpoint calls done."""
    return len(list(commits.glob("[0-9]*")))


def passed_on(kafka: Access) -> int:
    return int(topic_rows(kafka, ["stocks-out"])["end"].sum())


# --- the same job through spark-submit, which brings class path and settings itself


def submit(
    settings: Settings, servers: str, groups: list[str], **env: str
) -> subprocess.CompletedProcess[str]:
    jars = os.pathsep.join(map(str, verify(settings.project / "jars", groups)))
    return subprocess.run(
        [
            str(Path(sys.executable).parent / "spark-submit"),
            *("--master", "local[2]", "--driver-class-path", jars),
            *(stock_job.__file__, "--available-now", "--run-id", "submitted"),
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


@pytest.mark.usefixtures("topics")
def test_the_job_runs_with_spark_submit(
    spark: SparkSession, settings: Settings, kafka: Access
) -> None:
    produce(kafka, "stocks-in", price_messages(340, seed=1))
    done = submit(settings, kafka.servers, ["core", "kafka"])
    assert done.returncode == 0, done.stderr[-3000:]
    assert topic_rows(kafka, ["stocks-out"])["end"].sum() == 340
    assert_exact(spark, table(spark, settings, "submitted"), 340, seed=1)


@pytest.mark.usefixtures("topics")
@pytest.mark.parametrize(
    ("groups", "conf", "problem", "remedy"),
    [
        (
            ["core", "kafka"],
            "{home}",
            "without the lab's Spark settings (spark.serializer, ",
            "spark.sql.parquet.datetimeRebaseModeInRead); pass --properties-file "
            "{conf}/spark-defaults.conf, or set SPARK_CONF_DIR to its folder",
        ),
        pytest.param(
            ["kafka"],
            "{conf}",
            "without Hudi on its class path; ",
            "pass the jars in jars/core with --driver-class-path, or the bundle's jar with --jars",
            marks=pytest.mark.deep,
        ),
    ],
    ids=["no settings", "no Hudi"],
)
def test_a_start_without_what_the_job_needs_is_refused(
    settings: Settings, kafka: Access, groups: list[str], conf: str, problem: str, remedy: str
) -> None:
    folders = {"home": settings.home, "conf": settings.conf_dir}
    done = submit(settings, kafka.servers, groups, SPARK_CONF_DIR=conf.format(**folders))
    assert done.returncode == 1
    # spark-submit sends both streams to stdout.
    assert f"hudilab: spark-submit started {problem}" in done.stdout
    assert remedy.format(**folders) in done.stdout


# --- security


def use_secure(conf: Path, broker: Broker) -> None:
    """Let the settings' groups ask for TLS and the user."""
    file = conf / "application_properties.json"
    groups = json.loads(file.read_text())
    for group in groups:
        if group["PropertyGroupId"] not in ("consumer.config.0", "producer.config.0"):
            continue
        group["PropertyMap"] |= {
            "security.protocol": "SASL_SSL",
            "sasl.username": USER,
            "ssl.ca.location": str(broker.ca),
        }
    file.write_text(json.dumps(groups))


@pytest.mark.deep
def test_producer_and_stream_with_tls_and_a_password(
    spark: SparkSession, settings: Settings, secure: Broker, programs: Programs, conf: Path
) -> None:
    client = Access(secure.address, "SASL_SSL", USER, SECRET, str(secure.ca))
    create_topics(client, TOPICS)
    use_secure(conf, secure)
    env = {"HUDILAB_CONF": str(conf), "BOOTSTRAP_SERVERS": secure.address}
    secret = settings.home / "secret"
    secret.touch(mode=0o600)
    secret.write_text(SECRET)
    given = {"KAFKA_PASSWORD_FILE": str(secret)}
    sender = programs.run(
        "hudilab_jobs.stock_producer", "--wait-seconds", "0", **env, **given, MAX_RUN="10"
    )
    assert sender.returncode == 0, sender.stderr
    log = settings.home / "secure.log"
    job = programs.run(
        "hudilab_jobs.stock_prices",
        "--available-now",
        *("--run-id", "secure"),
        **env,
        **given,
        HUDILAB_LOG_FILE=str(log),
    )
    assert job.returncode == 0, job.stderr
    assert topic_rows(client, ["stocks-out"])["end"].sum() == 170
    assert_exact(spark, table(spark, settings, "secure"), 170, seed=42)
    wrong = programs.run(
        "hudilab_jobs.stock_prices", "--available-now", **env, KAFKA_PASSWORD="wrong"
    )
    assert wrong.returncode == 1
    assert wrong.stderr.startswith(f"hudilab: {secure.address} rejected user 'lab' (")
    for text in (job.stdout, job.stderr, sender.stdout, sender.stderr, log.read_text()):
        assert SECRET not in text
    for path in (settings.home / "warehouse" / "run-secure").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path


def test_sparks_ui_and_plans_do_not_show_the_password(
    spark: SparkSession, secure: Broker, settings: Settings
) -> None:
    client = Access(secure.address, "SASL_SSL", USER, SECRET, str(secure.ca))
    create_topics(client, {"seen": 1})
    produce(client, "seen", price_messages(10, seed=1))
    options = client.spark_options() | {"subscribe": "seen", "startingOffsets": "earliest"}
    query = (
        spark.readStream.format("kafka")
        .options(**options)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(settings.home / "seen"))
        .start()
    )
    query.processAllAvailable()
    base = f"{spark.sparkContext.uiWebUrl}"
    app = f"{base}/api/v1/applications/{spark.sparkContext.applicationId}"
    pages = [
        f"{base}/{page}/" for page in ("jobs", "stages", "SQL", "StreamingQuery", "environment")
    ]
    pages += [f"{app}/{page}" for page in ("jobs", "sql?details=true", "environment")]
    pages += [f"{base}/SQL/execution/?id={number}" for number in range(3)]
    texts = [urlopen(page).read().decode() for page in pages]  # on loopback
    assert sum(map(len, texts)) > 100_000
    jvm_query = query._jsq.toString() + query._jsq.explainInternal(True)
    query.stop()
    rows = spark.read.format("kafka").options(**client.spark_options()).option("subscribe", "seen")
    plan = rows.load()._jdf.queryExecution().toString()
    for text in (*texts, jvm_query, plan, os.environ["HUDILAB_LOG_FILE"]):
        assert SECRET not in text
    assert SECRET not in Path(os.environ["HUDILAB_LOG_FILE"]).read_text()


@pytest.mark.deep
def test_an_executed_notebook_does_not_show_the_password(
    settings: Settings, secure: Broker, conf: Path, tmp_path: Path
) -> None:
    use_secure(conf, secure)
    done = subprocess.run(
        [
            str(Path(sys.executable).with_name("hudilab")),
            *("run", "20", "--exercises", "--out", str(tmp_path / "out")),
        ],
        env=os.environ
        | {
            "HUDILAB_HOME": str(tmp_path / "home"),
            "HUDILAB_CONF": str(conf),
            "BOOTSTRAP_SERVERS": secure.address,
            "KAFKA_PASSWORD": SECRET,
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {".ipynb", ".html", ".log"} <= {path.suffix for path in written}
    assert SECRET not in done.stdout + done.stderr
    for path in written:
        assert SECRET.encode() not in path.read_bytes(), path
