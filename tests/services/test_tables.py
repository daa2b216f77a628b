"""One query writes several tables, each row once, also after a crash between two of them."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from refusals import refused
from running import start_program
from services.own_topic import add_partitions, send_pairs
from services.test_debezium import CHANGES, LINES, recorded
from unit.hudilab.settings_files import group, load, write

from hudi_sink.commits import Commits
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import ConfigError, StreamError
from hudilab.settings import Settings
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.topics import create_topics
from hudilab_jobs.pipelines.runner import Running, joined, table_of
from hudilab_jobs.settings import find_groups


class Shop:
    """Pipelines `a` and `b`, and another, which runs both in one query."""

    def __init__(
        self, spark: SparkSession, folder: Path, home: Path, kafka: Access, **pipelines: Any
    ) -> None:
        self.spark, self.kafka, self.name, self.home = spark, kafka, folder.name, home
        self.conf, self.shop = folder / "conf", folder.name.replace("-", "_")
        groups = [group(), group(f"pipeline.{self.shop}", {"tables": ", ".join(pipelines)})]
        for name, changes in pipelines.items():
            properties = {
                "source.format": "kafka",
                "topic.name": f"{self.name}-{name}",
                "bootstrap.servers": kafka.servers,
                "table.name": f"{name}_{self.shop}",
                "messages.per.batch": "12",
            } | {key.replace("_", "."): value for key, value in changes.items() if value}
            groups.append(group(f"pipeline.{name}", properties))
            create_topics(kafka, {properties["topic.name"]: 1})
        write(self.conf, groups)

    def send(self, topic: str, *pairs: tuple[bytes | None, bytes | None]) -> None:
        send_pairs(self.kafka, f"{self.name}-{topic}", pairs)

    def query(self) -> Running:
        settings = load(self.conf, HUDILAB_HOME=str(self.home))
        groups = find_groups(settings, self.shop).items()
        tables = {name: table_of(settings, own) for name, own in groups}
        return joined(self.spark, settings, self.shop, tables)

    def run(self) -> list[dict[str, Any]]:
        """Return the report of each batch, then that of each table."""
        return [json.loads(line) for line in self.query().write(None, as_json=True)]

    def rows(self, *columns: str) -> list[list[tuple[Any, ...]]]:
        """Return these columns of each table's rows."""
        tables = (table.location.table for table in self.query().tables)
        read = (self.spark.read.format("hudi").load(table).select(*columns) for table in tables)
        return [sorted(tuple(row) for row in rows.collect()) for rows in read]

    def commits(self) -> list[int]:
        """Return how many commits each table has."""
        places = (table.location.table for table in self.query().tables)
        return [Commits(self.spark, place).count() for place in places]


Make = Callable[..., Shop]


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path, settings: Settings, kafka: Access) -> Make:
    return partial(Shop, spark, tmp_path, settings.home, kafka)


# An insert shows each row that is written twice.
PLAIN = {
    "source_schema": "id BIGINT",
    "operation": "bulk_insert",
    "record_key": "id",
    "ordering": "kafka_offset",
}


def ids(count: int, first: int = 0) -> list[tuple[bytes, bytes]]:
    return [(b"", json.dumps({"id": number}).encode()) for number in range(first, first + count)]


@pytest.mark.deep
def test_a_batch_that_only_one_table_has_is_written_to_the_other(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = make(a=PLAIN, b=PLAIN)
    shop.send("a", *ids(5))
    shop.send("b", *ids(4, 100))
    whole = ExactlyOnceSink.write_batch

    def dies(self: ExactlyOnceSink, rows: DataFrame, batch_id: int) -> None:
        if "/b_" in self._location.table:
            raise RuntimeError("the disk is gone")
        whole(self, rows, batch_id)

    with monkeypatch.context() as patch:
        patch.setattr(ExactlyOnceSink, "write_batch", dies)
        with pytest.raises(StreamError, match="the disk is gone"):
            shop.run()
    assert shop.commits() == [1, 0]
    batch, first, second = shop.run()
    assert (batch["batch"], batch["rows"], batch["messages_behind"]) == (0, 9, 0)
    assert (first["rows"], second["rows"]) == (5, 4)
    assert shop.rows("id") == [
        [(number,) for number in range(5)],
        [(number,) for number in range(100, 104)],
    ]


# Ends with SIGKILL after so many batches were written to a table or skipped there, or never.
DRIVER = """
import os, signal, sys
from hudi_sink.sink import ExactlyOnceSink
from hudilab_jobs.pipelines import command
left, whole = int(sys.argv[1]), ExactlyOnceSink.write_batch
def write_batch(self, rows, batch_id):
    global left
    whole(self, rows, batch_id)
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
ExactlyOnceSink.write_batch = write_batch
command.write(sys.argv[2], "", as_json=True)
"""


@pytest.mark.deep
@pytest.mark.kills
def test_each_row_is_there_once_after_kills_between_tables(make: Make) -> None:
    shop = make(a=PLAIN, b=PLAIN)
    shop.send("a", *ids(30))
    shop.send("b", *ids(30, 100))
    env = {"HUDILAB_HOME": str(shop.home), "HUDILAB_CONF": str(shop.conf)}
    for writes, commits in ((1, [1, 0]), (2, [1, 1]), (3, [2, 1]), (0, [5, 5])):
        driver = start_program("-c", DRIVER, str(writes), shop.shop, env=env, cwd="/")
        _, err = driver.communicate(timeout=300)
        assert driver.returncode == (-signal.SIGKILL if writes else 0), err[-2000:]
        assert shop.commits() == commits
    assert shop.rows("id") == [
        [(number,) for number in range(30)],
        [(number,) for number in range(100, 130)],
    ]


@pytest.mark.deep
def test_a_topic_of_two_database_tables_is_split(make: Make, settings: Settings) -> None:
    topic = {"topic_name": "routed-once", "quarantine": "true", "messages_per_batch": "1000"}
    shop = make(a=CHANGES | topic | {"record_key": "id"}, b=LINES | topic)
    shop.name = "routed"
    shop.send("once", *recorded("routed.all"), (b"{}", b'{"no": "change"}'))
    batch, orders, lines = shop.run()
    # The message that belongs to neither table is in the quarantine of each.
    assert (batch["rows"], batch["quarantined"], batch["messages_behind"]) == (32, 2, 0)
    assert (orders["commits"], lines["commits"]) == (1, 1)
    keys = [[json.loads(key) for (key,) in rows] for rows in shop.rows("kafka_key")]
    assert [key["id"] for key in keys[0]] == [1, 30, 4, 5, 7]
    assert [(key["order_id"], key["line"]) for key in keys[1]] == [
        (1, "c"),
        (2, "a"),
        (5, "a"),
        (5, "b"),
    ]


@pytest.mark.deep
def test_a_table_that_joins_later_is_refused(make: Make) -> None:
    shop = make(a=PLAIN)
    shop.send("a", *ids(3))
    shop.run()
    shop = make(a=PLAIN, b=PLAIN)
    shop.send("b", *ids(3))
    with pytest.raises(StreamError, match=r"belongs to another table or run: .*/b_"):
        shop.run()


@pytest.mark.deep
def test_more_partitions_of_a_single_topic_are_refused(make: Make, kafka: Access) -> None:
    """Offsets order the rows of `b` only: no row of `a` is ever changed."""
    shop = make(a=PLAIN, b=PLAIN | {"operation": "upsert"})
    for topic in ("a", "b"):
        shop.send(topic, *ids(3))
    shop.run()

    def grow(topic: str) -> None:
        add_partitions(kafka, f"{shop.name}-{topic}", 2)
        shop.send(topic, *ids(3, 10))

    grow("a")
    shop.run()
    grow("b")
    with pytest.raises(ConfigError, match=r"'pipeline\.b'.* has 2 partitions, and had 1"):
        shop.run()
    assert shop.rows("id") == [[(0,), (1,), (2,), (10,), (11,), (12,)], [(0,), (1,), (2,)]]


def test_pipelines_with_other_queries_are_refused(make: Make) -> None:
    shop = make(a=PLAIN, b=PLAIN | {"startup_mode": "latest-offset"})
    remedy = "give all pipelines of tables the same value"
    with refused(ConfigError, "'pipeline.a'", "'startup.mode'", "pipeline.b", remedy=remedy):
        shop.query()
