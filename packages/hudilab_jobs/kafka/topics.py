"""Check, create and describe topics: partitions, offsets, lag, identity and last messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka import KafkaError as Code
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from py4j.protocol import Py4JError

from hudilab.errors import KafkaError, root_cause
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.kafka.reach import connect, metadata

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

REQUEST_SECONDS = 6.0
AGAIN = "check that the broker is running (hudilab services status kafka), then try again"


def check_topics(
    client: Access, topics: Sequence[str] = (), *, internal: bool = False
) -> dict[str, int]:
    """Return the number of partitions by topic; raise KafkaError if one of `topics` is missing.

    For MSK with IAM, only check that a server accepts connections, and return nothing.

    Args:
        internal: Include Kafka's own topics, whose names start with `__`.

    Raises:
        KafkaError: See `metadata`, or a topic is missing.
    """
    if client.iam:
        connect(client.servers, REQUEST_SECONDS)
        return {}
    partitions = {
        name: len(topic.partitions)
        for name, topic in metadata(client, REQUEST_SECONDS).topics.items()
        if internal or not name.startswith("__")
    }
    missing = [repr(name) for name in topics if name not in partitions]
    if missing:
        available = ", ".join(sorted(partitions)) or "none"
        raise KafkaError(
            f"no topic {', '.join(missing)} at {client.servers}; available topics: {available}",
            "create it, or fix topic.name",
        )
    return partitions


def create_topics(client: Access, topics: Mapping[str, int], *, afresh: bool = False) -> None:
    """Create missing topics (name: partitions); `afresh` deletes existing topics first.

    Raises:
        KafkaError: a topic exists with a different number of partitions, or the broker fails.
    """
    existing = check_topics(client)
    admin = _admin(client)
    if afresh and (old := [name for name in topics if name in existing]):
        _done(admin.delete_topics(old, operation_timeout=REQUEST_SECONDS))
        existing = _without(old, lambda: check_topics(client), REQUEST_SECONDS)
    for name, partitions in topics.items():
        if name in existing and existing[name] != partitions:
            raise KafkaError(
                f"topic {name!r} has {existing[name]} partitions, expected {partitions}",
                "delete it, or use another name",
            )
    if new := [NewTopic(name, n, 1) for name, n in topics.items() if name not in existing]:
        _done(admin.create_topics(new, operation_timeout=REQUEST_SECONDS))
    # Creation is asynchronous too: wait until every partition has a leader that answers.
    parts = [TopicPartition(name, number) for name, n in topics.items() for number in range(n)]
    _offsets(admin, dict.fromkeys(parts, OffsetSpec.latest()))


def _without(
    deleted: Sequence[str], topics: Callable[[], dict[str, int]], seconds: float
) -> dict[str, int]:
    """Return the topics as soon as the deleted ones are gone.

    Deletion is asynchronous: it is confirmed before the broker itself knows of it.
    """
    ends = time.monotonic() + seconds
    while set(deleted) & (existing := topics()).keys():
        if time.monotonic() > ends:
            raise KafkaError(f"topics {', '.join(deleted)} are still being deleted", "try again")
        time.sleep(0.05)
    return existing


def topic_rows(
    client: Access, topics: Sequence[str], read: Mapping[str, Mapping[str, int]] | None = None
) -> pd.DataFrame:
    """Return one row per partition with its offsets: topic, partition, first, end.

    Args:
        read: The `endOffset` of a source in a query's progress; adds the columns read and lag.
    """
    import pandas as pd  # here, because a deployed job has no pandas

    parts, first, end = _bounds(client, topics)
    rows = []
    for part in parts:
        row = {"topic": part.topic, "partition": part.partition}
        row |= {"first": first[part], "end": end[part]}
        if read is not None:
            at = read.get(part.topic, {}).get(str(part.partition), first[part])
            row |= {"read": at, "lag": end[part] - at}
        rows.append(row)
    return pd.DataFrame(rows)


def last_messages(client: Access, topic: str, count: int) -> list[Message]:
    """Return the last `count` messages of a topic, oldest first, without committing offsets.

    It returns fewer messages if the topic is shorter, or compacted with gaps at its end.

    Raises:
        KafkaError: the topic is missing, or cannot be read.
    """
    parts, first, end = _bounds(client, [topic])
    begins = [
        TopicPartition(topic, part.partition, max(first[part], end[part] - count))
        for part in parts
        if end[part] > first[part]
    ]
    own = {"group.id": "hudilab-topics", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer(client.client_options() | own | {"log_level": 0})
    try:
        consumer.assign(begins)
        messages = _read_to(consumer, {part.partition: end[part] for part in begins})
    except KafkaException as error:
        raise KafkaError(f"cannot read topic {topic!r}: {_reason(error)}", AGAIN) from None
    finally:
        consumer.close()
    messages.sort(key=lambda m: (m.timestamp()[1], m.partition(), m.offset()))
    return messages[-count:]


def _read_to(consumer: Consumer, ends: dict[int, int]) -> list[Message]:
    """Return the messages of an assigned consumer up to the ends of its partitions."""
    messages: list[Message] = []
    waits_until = time.monotonic() + REQUEST_SECONDS
    while ends:
        for message in consumer.consume(100, 0.1):
            part, at, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != Code._PARTITION_EOF:
                raise KafkaException(error)
            if error is None and at < ends.get(part, 0):
                messages.append(message)
            # The last offset before the end may be a transaction marker, not a message.
            if error is not None or at + 1 >= ends.get(part, 0):
                ends.pop(part, None)
            waits_until = time.monotonic() + REQUEST_SECONDS
        if time.monotonic() > waits_until:
            raise KafkaException(Code(Code._TIMED_OUT))
    return messages


class TopicIdentity:
    """A topic's identity, independent of its address: name, cluster id and topic id.

    Pass it as the source of an `ExactlyOnceSink`. A topic with the same name on another cluster, or
    a recreated topic, has a different identity, because a checkpoint's offsets are invalid there.
    It uses Spark's Kafka client, which supports IAM. After the first answer, a call waits up to two
    minutes for restarting brokers, like Spark's own source.

    Attributes:
        partitions: The number of partitions at the last call.

    Raises:
        KafkaError: on a call, if the topic cannot be described.
    """

    def __init__(self, spark: SparkSession, client: Access, topic: str) -> None:
        self._servers, self._topic = client.servers, topic
        jvm: Any = spark._jvm
        self._jvm = jvm
        options = jvm.java.util.Properties()
        for name, value in client.spark_options().items():
            options.put(name.removeprefix("kafka."), value)
        self._kafka = jvm.org.apache.kafka.clients.admin
        self._admin = self._kafka.AdminClient.create(options)
        self._timeout_ms = 30_000
        self.partitions = 0

    def __call__(self) -> dict[str, str]:
        """Return the topic's name, its id and its cluster's id, as the brokers report them now."""
        names = self._jvm.java.util.Collections.singletonList(self._topic)
        about_cluster = self._kafka.DescribeClusterOptions().timeoutMs(self._timeout_ms)
        about_topics = self._kafka.DescribeTopicsOptions().timeoutMs(self._timeout_ms)
        try:
            cluster = str(self._admin.describeCluster(about_cluster).clusterId().get())
            topics = self._admin.describeTopics(names, about_topics)
            description = topics.allTopicNames().get().get(self._topic)
        except Py4JError as error:
            raise KafkaError(
                f"cannot describe topic {self._topic!r} at {self._servers} "
                f"({root_cause(str(error))})",
                "fix bootstrap.servers or the topic's name",
            ) from None
        self._timeout_ms = 120_000  # as for a producer
        self.partitions = description.partitions().size()
        topic_id = str(description.topicId().toString())
        return {"topic": self._topic, "cluster": cluster, "topic_id": topic_id}

    def ends(self) -> dict[str, int]:
        """Return the end of each partition, up to the first open transaction."""
        common = self._jvm.org.apache.kafka.common
        topic_part, parts = common.TopicPartition, range(self.partitions)
        committed = self._kafka.ListOffsetsOptions(common.IsolationLevel.READ_COMMITTED)
        latest = self._jvm.java.util.HashMap()
        for number in parts:
            latest.put(topic_part(self._topic, number), self._kafka.OffsetSpec.latest())
        offsets = self._admin.listOffsets(latest, committed).all().get()
        return {str(n): int(offsets.get(topic_part(self._topic, n)).offset()) for n in parts}


def _bounds(
    client: Access, topics: Sequence[str]
) -> tuple[list[TopicPartition], dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the topics' partitions with the first offset and the end of each."""
    counts = check_topics(client, topics, internal=True)
    parts = [TopicPartition(name, number) for name in topics for number in range(counts[name])]
    admin = _admin(client)
    first, end = (
        _offsets(admin, dict.fromkeys(parts, position))
        for position in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return parts, first, end


def _offsets(admin: AdminClient, which: dict[TopicPartition, Any]) -> dict[TopicPartition, int]:
    """List offsets; retry, because a new topic briefly has no leader and the error varies."""
    ends = time.monotonic() + REQUEST_SECONDS
    while True:
        try:
            futures = admin.list_offsets(which).items()
            return {part: future.result(REQUEST_SECONDS).offset for part, future in futures}
        except (KafkaException, TimeoutError) as error:
            if time.monotonic() > ends:
                names = ", ".join(sorted({repr(part.topic) for part in which}))
                raise KafkaError(
                    f"cannot list the offsets of {names}: {_reason(error)}", AGAIN
                ) from None
            time.sleep(0.1)


def _admin(client: Access) -> AdminClient:
    """Return an admin client without logging, because its failures are raised."""
    return AdminClient(client.client_options() | {"log_level": 0})


def _done(futures: Mapping[str, Any]) -> None:
    for name, future in futures.items():
        try:
            future.result(REQUEST_SECONDS * 2)
        except TimeoutError as error:
            raise KafkaError(f"topic {name!r}: {_reason(error)}", AGAIN) from None
        except KafkaException as error:
            done = (Code.TOPIC_ALREADY_EXISTS, Code.UNKNOWN_TOPIC_OR_PART)
            if error.args[0].code() not in done:
                raise KafkaError(
                    f"topic {name!r}: {_reason(error)}", "fix the cause, then start again"
                ) from None


def _reason(error: KafkaException | TimeoutError) -> str:
    return "the request timed out" if isinstance(error, TimeoutError) else str(error.args[0].str())
