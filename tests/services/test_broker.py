"""The broker as a service: ready when it answers, its data kept, its faults named."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.servers import kafka as kafka_service
from hudilab_cli.servers.kafka import start_broker
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.topics import _offsets, create_topics


def test_a_format_that_is_refused_says_why(
    alone: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_service, "_new_id", lambda: "-bcdefghijklmnopqrstuw")
    with pytest.raises(ServiceError) as caught:
        start_broker(alone)
    log = alone.home / "services" / "kafka" / "kafka.log"
    assert str(caught.value) == (
        "Kafka exited with code 1: kafka-storage: error: argument --cluster-id/-t: "
        f"expected one argument; see {log}"
    )
    assert "usage: kafka-storage format" in log.read_text()


def test_offsets_are_waited_for_while_a_topic_is_being_made(kafka: Access) -> None:
    part = TopicPartition("young", 0)
    maker = threading.Timer(1, create_topics, (kafka, {"young": 1}))
    maker.start()
    offsets = _offsets(AdminClient(kafka.client_options()), {part: OffsetSpec.latest()})
    maker.join()
    assert offsets == {part: 0}
