"""A Kafka topic whose messages hold JSON or Avro, as the source of a pipeline.

In a module of its own because only topics need the Kafka client.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType

from hudilab.errors import ConfigError, root_cause
from hudilab.groups import TopicPipeline
from hudilab.paths import TableLocation
from hudilab.settings import Settings
from hudilab_jobs.kafka.connection import access
from hudilab_jobs.kafka.topics import TopicIdentity, check_topics
from hudilab_jobs.pipelines.sources import FAILED, SAMPLE, Sample, Source

UNREADABLE = "kafka_value"  # with quarantine: the text of a message that does not fit the schema
HEADER = 5  # bytes: a zero, and the number of the schema in the registry


class Topic(Source[TopicPipeline]):
    """The topic of a pipeline; each row has the message's key, partition, offset and time too."""

    unit = "message"

    def __init__(
        self, spark: SparkSession, settings: Settings, name: str, group: TopicPipeline
    ) -> None:
        super().__init__(spark, settings, name, group)
        self._client = access(group, settings.home)

    @cached_property
    def _identity(self) -> TopicIdentity:
        return TopicIdentity(self._spark, self._client, self.group.topic_name)

    def identity(self) -> Mapping[str, Any]:
        """Return the topic's name, id and cluster, as the brokers report them now."""
        return self._identity()

    def describe(self) -> tuple[str, str]:
        """Return the topic and its servers, and the most messages of a batch."""
        return (
            f"topic {self.group.topic_name} at {self.group.bootstrap_servers}",
            f"{int(self.group.messages_per_batch):,} messages",
        )

    def check(self) -> None:
        """Raise LabError without the topic, or if the schema or the query is wrong."""
        check_topics(self._client, [self.group.topic_name])
        if self.group.source_schema is None:
            raise self._without_schema()
        self.selected(self._rows(self._messages()))

    def stream(self, *, whole: bool = False) -> DataFrame:
        """Read new messages; a batch has at most `messages.per.batch` of them, unless `whole`."""
        reader = self._spark.readStream.format("kafka").options(**self._client.spark_options())
        reader = reader.option("subscribe", self.group.topic_name)
        reader = reader.option("startingOffsets", self.group.startup_mode.removesuffix("-offset"))
        if not whole:
            reader = reader.option("maxOffsetsPerTrigger", self.group.messages_per_batch)
        return self.selected(self._rows(reader.options(**self.group.options()).load()))

    def sample(self) -> Sample | None:
        """Read the first messages."""
        try:
            rows = self.first(self._rows(self._messages()))
        except FAILED as error:
            raise self.error(
                "value.format",
                f"a message of topic {self.group.topic_name} cannot be read as "
                f"{self.group.value_format} with this schema: {root_cause(str(error))}",
                'fix the key or source.schema, or set such messages aside: "quarantine": "true"',
            ) from error
        return Sample(f"topic {self.group.topic_name}", rows) if rows.take(1) else None

    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return how many messages no batch has read, by the offsets that Spark reports."""
        source = progress["sources"][0]
        name = self.group.topic_name
        read, latest = source["endOffset"][name], source["latestOffset"][name]
        return sum(offset - read.get(part, 0) for part, offset in latest.items())

    def _without_schema(self) -> ConfigError:
        """Return the error about the missing schema, with the columns of the first messages."""
        if self.group.value_format != "json":
            return self.error(
                "source.schema",
                "is missing: Avro cannot be read without the schema that wrote it",
                'add it: "source.schema": "{\\"type\\": \\"record\\", ...}"',
            )
        values = self._messages().select(F.col("value").cast("string")).limit(SAMPLE)
        rows = self._spark.read.json(values.rdd.map(lambda row: row.value or ""))
        if not rows.columns:
            return self.error(
                "source.schema",
                f"is missing, and topic {self.group.topic_name} has no message to read it from",
                'add it: "source.schema": "id BIGINT, ..."',
            )
        return self.error(
            "source.schema",
            "is missing; the topic's first messages have these columns",
            f'add "source.schema": "{rows._jdf.schema().toDDL()}"',
        )

    def _messages(self) -> DataFrame:
        """Return the messages that the topic holds now, as Spark reads them."""
        reader = self._spark.read.format("kafka").options(**self._client.spark_options())
        return reader.option("subscribe", self.group.topic_name).load()

    def _rows(self, messages: DataFrame) -> DataFrame:
        """Return the messages' columns; one that does not fit is an error, or quarantined."""
        quarantine = self.group.quarantine
        try:
            parsed, fits, names = self._parsed("PERMISSIVE" if quarantine else "FAILFAST")
            rows = messages.withColumn("parsed", parsed)
            row = F.when(fits, F.col("parsed")) if quarantine else F.col("parsed")
            text = F.when(~F.coalesce(fits, F.lit(False)), F.col("value").cast("string"))
            return rows.withColumn("row", row).select(
                *(F.col(f"row.`{name}`") for name in names),
                F.col("key").cast("string").alias("kafka_key"),
                F.col("partition").alias("kafka_partition"),
                F.col("offset").alias("kafka_offset"),
                F.col("timestamp").alias("kafka_timestamp"),
                *([text.alias(UNREADABLE)] if quarantine else []),
            )
        except (*FAILED, ValueError) as error:
            raise self.error(
                "source.schema", root_cause(str(error)), "fix the key, or value.format"
            ) from error

    def _parsed(self, mode: str) -> tuple[Column, Column, list[str]]:
        """Return a message as a struct, whether it fits the schema, and the schema's columns.

        The second refers to the first as the column `parsed`.
        """
        schema = str(self.group.source_schema)
        if self.group.value_format == "json":
            columns = self._spark.createDataFrame([], schema).schema
            struct = F.from_json(
                F.col("value").cast("string"),
                StructType([*columns.fields]).add(UNREADABLE, "string"),
                {"mode": mode, "columnNameOfCorruptRecord": UNREADABLE},
            )
            fits = F.col("parsed").isNotNull() & F.col(f"parsed.{UNREADABLE}").isNull()
            return struct, fits, columns.names
        header = HEADER if self.group.value_format == "avro-confluent" else 0
        value = F.expr(f"substring(value, {header + 1})")
        names = [field["name"] for field in json.loads(schema)["fields"]]
        return from_avro(value, schema, {"mode": mode}), F.col("parsed").isNotNull(), names
