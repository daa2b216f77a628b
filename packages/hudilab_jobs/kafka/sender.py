"""Send messages to a topic without duplicates, and count the acknowledged messages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka import Producer as Client

from hudilab.errors import KafkaError
from hudilab_jobs.kafka.connection import Access

DELIVERY_MS = 120_000  # Kafka's default; a restarting broker may need a minute


@dataclass
class Sent:
    """The numbers of sent and acknowledged messages, and the first error."""

    given: int = 0
    acknowledged: int = 0
    refused: str = ""


def produce(client: Access, topic: str, batch: Iterable[tuple[bytes | None, bytes | None]]) -> Sent:
    """Send (key, value) messages without duplicates and wait for every acknowledgement.

    Raises:
        KafkaError: a message was not acknowledged.
    """
    with Sender(client, topic) as sender:
        for message in batch:
            sender.send(message)
    return sender.sent


class Sender:
    """An idempotent producer; leaving its context waits for every acknowledgement."""

    def __init__(self, client: Access, topic: str) -> None:
        self.sent, self._topic = Sent(), topic
        self._client = Client(
            client.client_options()
            | {
                "enable.idempotence": True,
                # Chooses a key's partition like the clients of Spark and Java.
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "delivery.timeout.ms": DELIVERY_MS,
                "log_level": 0,
            }
        )

    def send(self, message: tuple[bytes | None, bytes | None]) -> None:
        """Queue a (key, value) message in the client; block while the queue is full."""
        while True:
            try:
                key, value = message
                self._client.produce(self._topic, value, key, on_delivery=self._report)
            except BufferError:
                self._client.poll(0.1)
                continue
            except KafkaException as error:
                self.sent.refused = self.sent.refused or error.args[0].str()
            self.sent.given += 1
            self._client.poll(0)
            return

    def flush(self) -> None:
        """Wait until every message is acknowledged; raise KafkaError if one isn't."""
        left = self._client.flush(DELIVERY_MS / 1000 + 5)
        if left or self.sent.refused:
            why = self.sent.refused or "no answer"
            raise KafkaError(
                f"only {self.sent.acknowledged} of {self.sent.given} messages were acknowledged "
                f"by topic {self._topic!r}: {why}",
                "fix the cause, then send the rest again",
            )

    def _report(self, error: Any, _: Any) -> None:
        if error is None:
            self.sent.acknowledged += 1
        else:
            self.sent.refused = self.sent.refused or error.str()

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.flush()
