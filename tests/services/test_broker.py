"""The broker as a service: ready when it answers, its data kept, its faults named."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from running import running_server

from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.servers import kafka as kafka_service
from hudilab_cli.servers.kafka import find_broker, start_broker, stop_broker
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.topics import _offsets, create_topics


@pytest.mark.deep
def test_a_broker_that_ends_says_why(alone: Settings) -> None:
    start_broker(alone)
    stop_broker(alone)
    meta = alone.home / "services" / "kafka" / "data" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=7"))
    with pytest.raises(ServiceError) as caught:
        start_broker(alone)
    assert str(caught.value).startswith("Kafka exited with code 1: ")
    assert "node" in str(caught.value)
    assert str(caught.value).endswith(f"; see {alone.home}/services/kafka/kafka.log")
    assert find_broker(alone) is None


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


@pytest.mark.deep
def test_twenty_first_starts_in_a_row(alone: Settings) -> None:
    """Each makes an id, a password and ports of its own."""
    for number in range(20):
        fresh = replace(alone, home=alone.home / str(number))
        with running_server(kafka_service.SERVICE, fresh) as broker:
            create_topics(broker.access(), {"first": 1})
