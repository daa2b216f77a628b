"""Settings files of the Flink applications that the lab's two pipelines come from, unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.hudilab.settings_files import (
    CONSUMER,
    GOOD,
    PRODUCER,
    ROOT,
    file_refusal,
    group,
    kafka_entries,
    load,
    refusal,
    write,
)

from hudilab.errors import PathError
from hudilab.paths import locate
from hudilab_jobs.settings import topics
from hudilab_spark.warehouse import prepare

HUDI, KAFKA = (ROOT / "tests" / "unit" / "samples" / "flink" / name for name in ("hudi", "kafka"))
RUN = "group kinesis.analytics.flink.run.options (use 'spark.run.options', for a bundle)"
CATALOG = "catalog.name (SQL finds the tables in spark_catalog)"


def test_the_sensor_application_s_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = load(HUDI, IS_LOCAL="true", HUDILAB_HOME=str(tmp_path))
    location = prepare(settings)
    assert location.table == f"file://{tmp_path}/warehouse/my_database/my_table"
    assert capsys.readouterr().out.splitlines() == [
        f"{HUDI}/application_properties.json: not used: {CATALOG}, {RUN}",
        "IS_LOCAL is true or unset: warehouse.path is ignored, the warehouse is "
        f"{location.warehouse}",
    ]
    prepare(settings, quiet=True)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "changes",
    [
        {"warehouse.path": "s3a://<bucket-name>/my_warehouse"},
        {"warehouse.path": "s3://my_bucket/my_warehouse"},
        {"catalog.name": "my-catalog 1"},
        {"aws.region": " <region> "},
    ],
)
def test_what_is_not_used_is_not_judged(tmp_path: Path, changes: dict[str, str]) -> None:
    _, table = json.loads((HUDI / "application_properties.json").read_text())
    write(tmp_path, [group(properties=table["PropertyMap"] | changes)])
    location = prepare(load(tmp_path, IS_LOCAL="true", HUDILAB_HOME=str(tmp_path)), quiet=True)
    assert location.table == f"file://{tmp_path}/warehouse/my_database/my_table"


def test_a_bucket_that_is_used_is_judged(tmp_path: Path) -> None:
    settings = load(HUDI, "AWS")
    with pytest.raises(PathError, match="has no valid bucket name") as caught:
        prepare(settings)
    assert str(caught.value).endswith("; write it as s3://<bucket>/<prefix>")


def test_the_tutorial_s_file(tmp_path: Path) -> None:
    """It begins with a comment, and has no table: the prices need a warehouse and a database."""
    settings = load(KAFKA, BOOTSTRAP_SERVERS="127.0.0.1:9", HUDILAB_HOME=str(tmp_path))
    consumer, producer = topics(settings)
    assert consumer.bootstrap_servers == producer.bootstrap_servers == "127.0.0.1:9"
    assert (consumer.table_name, consumer.topic_name) == ("source_table", "stocks-in")
    dead = producer.dead_letter_topic_name
    assert (producer.topic_name, dead) == ("stocks-out", "stocks-dead")
    location = locate(
        settings.warehouse_path,
        settings.database_name,
        producer.table_name,
        is_local=settings.is_local,
        home=settings.home,
    )
    assert location.table == f"file://{tmp_path}/warehouse/lab/sink_table"
    assert settings.notice == (
        f"{KAFKA}/application_properties.json: not used: {RUN}; "
        "no group HudiTable0: tables go to database lab"
    )


def test_the_line_of_a_mistake_counts_comments(tmp_path: Path) -> None:
    file = write(tmp_path, "// one\n\t// two\n[\n  x // three\n]")
    assert refusal(tmp_path) == (
        f"{file} is not valid JSON (Expecting value, line 4 column 3); fix the syntax"
    )
    write(tmp_path, json.dumps([group(properties=GOOD | {"warehouse.path": "/data//w"})]))
    assert load(tmp_path).warehouse_path == "/data//w"


def test_the_connector_s_options_are_not_used(tmp_path: Path) -> None:
    consumer = CONSUMER | {"properties.group.id": "x", "bootstrap.external.servers": "y"}
    file = write(
        tmp_path,
        [
            *kafka_entries(tmp_path, consumer, PRODUCER | {"startup.mode": "latest-offset"}),
            group("consumer.config.1", {"topic.name": "other"}),
            group("HudiTable1", {}),
            group("mine", {"a": "b"}),
        ],
    )
    settings = load(tmp_path)
    assert settings.notice == (
        f"{file}: not used: properties.group.id of consumer.config.0 (offsets are in the "
        "checkpoint), bootstrap.external.servers of consumer.config.0 (use BOOTSTRAP_SERVERS), "
        "startup.mode of producer.config.0 (only a consumer has one), group consumer.config.1, "
        "group HudiTable1, group mine"
    )


def test_what_looks_like_a_mistake_is_refused_in_one_error(tmp_path: Path) -> None:
    groups = [
        group("HudiTabel0"),
        group("Consumer.Config.0", CONSUMER),
        group("producer.config", {}),
        group("pipelines.orders", {}),
        group("spark.run.option", {}),
        *kafka_entries(
            tmp_path,
            CONSUMER | {"scan.startup.mode": "x"},
            PRODUCER | {"properties.groupid": "x", "start.mode": "y"},
        )[1:],
    ]
    assert file_refusal(tmp_path, groups) == (
        "group 'HudiTabel0' is unknown (did you mean 'HudiTable0'?); "
        "group 'Consumer.Config.0' is unknown (did you mean 'consumer.config.0'?); "
        "group 'producer.config' is unknown (did you mean 'producer.config.0'?); "
        "group 'pipelines.orders' is unknown (did you mean 'pipeline.orders'?); "
        "group 'spark.run.option' is unknown (did you mean 'spark.run.options'?); "
        "group 'consumer.config.0' has an unknown key 'scan.startup.mode' (did you mean "
        "'startup.mode'?); "
        "group 'producer.config.0' has an unknown key 'properties.groupid'; "
        "group 'producer.config.0' has an unknown key 'start.mode'"
    )
