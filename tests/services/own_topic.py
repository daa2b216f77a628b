"""Someone's own topic on the broker of the tests, and the pipeline that reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from kills import read_batches
from pyspark.sql import SparkSession
from running import folder
from unit.hudilab.settings_files import group, load, write

from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.topics import create_topics
from hudilab_jobs.pipelines.runner import Running, checked, preview, table_of
from hudilab_jobs.settings import find_group


class Own:
    """Someone's topic, and a group that describes it."""

    def __init__(
        self, spark: SparkSession, folder: Path, home: Path, kafka: Access, **changes: str
    ) -> None:
        # The login of the broker is in its home.
        self.spark, self.home, self.kafka = spark, home, kafka
        self.conf, self.topic = folder / "conf", folder.name
        create_topics(self.kafka, {self.topic: 2})
        self.properties = {
            "source.format": "kafka",
            "topic.name": self.topic,
            "bootstrap.servers": self.kafka.servers,
            "source.schema": "id BIGINT, city STRING, at TIMESTAMP",
            "table.name": re.sub(r"\W", "_", self.topic),
            "record.key": "id",
            "ordering": "kafka_offset",
        }
        self.describe(**changes)

    def describe(self, **changes: str) -> None:
        """Write the group with keys that differ from those before."""
        self.properties |= {name.replace("_", "."): value for name, value in changes.items()}
        given = {key: value for key, value in self.properties.items() if value}
        self.file = write(self.conf, [group(), group("pipeline.own", given)])

    def send(self, *values: bytes | None, key: bytes | None = b"one partition") -> None:
        self.send_pairs(*((key, value) for value in values))

    def send_pairs(
        self, *pairs: tuple[bytes | None, bytes | None], partition: int | None = None
    ) -> None:
        send_pairs(self.kafka, self.topic, pairs, partition)

    def add_partitions(self, total: int) -> None:
        add_partitions(self.kafka, self.topic, total)

    def pipeline(self) -> Running:
        settings = load(self.conf, HUDILAB_HOME=str(self.home))
        table = table_of(settings, find_group(settings, "own"))
        return checked(self.spark, settings, "own", *table)

    def check(self) -> str:
        return "\n".join(preview(self.pipeline()))

    def run(self, *, initial_load: bool = False) -> list[dict[str, Any]]:
        lines = self.pipeline().write(None, as_json=True, initial_load=initial_load)
        return [json.loads(line) for line in lines][:-1]

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Return the table's rows, which Spark and hudi-rs must agree on."""
        columns = columns or ("id", "city", "kafka_offset")
        table = self.pipeline().location.table
        rows = self.spark.read.format("hudi").load(table).select(*columns).collect()
        plain = pa.Table.from_batches(read_batches(folder(table))).select(list(columns)).to_pylist()
        stored = sorted((tuple(row) for row in rows), key=str)
        assert stored == sorted((tuple(row.values()) for row in plain), key=str)
        return stored

    def quarantined(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the reason and the row of each message in the quarantine, by offset."""
        rows = self.spark.read.format("hudi").load(self.pipeline().location.quarantine).collect()
        texts = [(row["reason"], json.loads(row["row"])) for row in rows]
        return sorted(texts, key=lambda text: int(text[1]["kafka_offset"]))


def send_pairs(
    kafka: Access,
    topic: str,
    pairs: Iterable[tuple[bytes | None, bytes | None]],
    partition: int | None = None,
) -> None:
    producer = Producer(kafka.client_options())
    where = {} if partition is None else {"partition": partition}
    for key, value in pairs:
        producer.produce(topic, value, key=key, **where)
    assert producer.flush(30) == 0


def add_partitions(kafka: Access, topic: str, total: int) -> None:
    admin = AdminClient(kafka.client_options())
    for future in admin.create_partitions([NewPartitions(topic, total)]).values():
        future.result(30)


def delete_records(kafka: Access, topic: str, ends: Iterable[int]) -> None:
    """Delete the messages of each partition up to an offset, as retention would; -1 means all."""
    admin = AdminClient(kafka.client_options())  # without it, no future would ever be done
    parts = [TopicPartition(topic, number, end) for number, end in enumerate(ends)]
    for future in admin.delete_records(parts).values():
        future.result(30)


Make = Callable[..., Own]


def as_json(*rows: object) -> list[bytes]:
    return [json.dumps(row).encode() for row in rows]


def daily_and_deep(cases: list[Any]) -> list[Any]:
    """Return the cases as parameters of a test: the first for each day, the others deep."""
    return [cases[0], *(pytest.param(case, marks=pytest.mark.deep) for case in cases[1:])]
