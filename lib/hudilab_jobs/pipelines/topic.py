"""A Kafka topic whose messages hold JSON or Avro."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import StructType
from typing_extensions import override

from hudilab.errors import root_cause
from hudilab.groups import TopicPipeline
from hudilab.paths import TableLocation
from hudilab_jobs.kafka import Access, TopicIdentity, access, check_topics
from hudilab_jobs.pipelines.source import FAILED, SAMPLE, Source

UNREADABLE = "kafka_value"  # with quarantine: the text of a message that does not fit the schema
HEADER = 5  # bytes: a zero, and the number of the schema in the registry


class Topic(Source[TopicPipeline]):
    """The topic of a pipeline; each row has the message's key, partition, offset and time too."""

    unit = "message"

    @cached_property
    def _client(self) -> Access:
        return access(self.group)

    @cached_property
    def _asked(self) -> TopicIdentity:
        return TopicIdentity(self._spark, self._client, self.group.topic_name)

    @override
    def identity(self) -> Mapping[str, Any]:
        return self._asked()

    @override
    def describe(self) -> str:
        return f"topic {self.group.topic_name} at {self.group.bootstrap_servers}"

    @override
    def batch(self) -> str:
        return f"{int(self.group.messages_per_batch):,} messages"

    @override
    def check(self) -> None:
        check_topics(self._client, [self.group.topic_name])
        if self.group.source_schema is None:
            self._ask_for_schema()
        self.selected(self._rows(self._static()))

    def _ask_for_schema(self) -> None:
        if self.group.value_format != "json":
            raise self._error(
                "source.schema",
                "is missing: Avro cannot be read without the schema that wrote it",
                'add it: "source.schema": "{\\"type\\": \\"record\\", ...}"',
            )
        values = self._static().select(F.col("value").cast("string")).limit(SAMPLE)
        rows = self._spark.read.json(values.rdd.map(lambda row: row.value or ""))
        if not rows.columns:
            raise self._error(
                "source.schema",
                f"is missing, and topic {self.group.topic_name} has no message to read it from",
                'add it: "source.schema": "id BIGINT, ..."',
            )
        raise self._error(
            "source.schema",
            "is missing; the topic's first messages have these columns",
            f'add "source.schema": "{rows._jdf.schema().toDDL()}"',
        )

    def _static(self) -> DataFrame:
        reader = self._spark.read.format("kafka").options(**self._client.spark_options())
        return reader.option("subscribe", self.group.topic_name).load()

    @override
    def stream(self, *, whole: bool = False) -> DataFrame:
        reader = self._spark.readStream.format("kafka").options(**self._client.spark_options())
        reader = reader.option("subscribe", self.group.topic_name)
        begin = self.group.startup_mode.removesuffix("-offset")
        reader = reader.option("startingOffsets", begin)
        if not whole:
            reader = reader.option("maxOffsetsPerTrigger", self.group.messages_per_batch)
        return self.selected(self._rows(reader.options(**self.group.options()).load()))

    def _rows(self, messages: DataFrame) -> DataFrame:
        """Return the messages' columns; a message that does not fit is an error, or set aside."""
        aside = self.group.quarantine
        try:
            told, fits, names = self._parsed({"mode": "PERMISSIVE" if aside else "FAILFAST"})
            rows = messages.withColumn("told", told)
            value = F.when(fits, F.col("told")) if aside else F.col("told")
            rows = rows.withColumn("row", value)
            text = F.when(~F.coalesce(fits, F.lit(False)), F.col("value").cast("string"))
            return rows.select(
                *(F.col(f"row.`{name}`") for name in names),
                F.col("key").cast("string").alias("kafka_key"),
                F.col("partition").alias("kafka_partition"),
                F.col("offset").alias("kafka_offset"),
                F.col("timestamp").alias("kafka_timestamp"),
                *([text.alias(UNREADABLE)] if aside else []),
            )
        except (*FAILED, ValueError) as error:
            raise self._error(
                "source.schema", root_cause(str(error)), "fix the key, or value.format"
            ) from error

    def _parsed(self, options: dict[str, str]) -> tuple[Column, Column, list[str]]:
        """Return a message as a struct, whether it fits the schema, and the schema's columns."""
        schema = str(self.group.source_schema)
        if self.group.value_format == "json":
            columns = self._spark.createDataFrame([], schema).schema
            broken = options | {"columnNameOfCorruptRecord": UNREADABLE}
            told = F.from_json(
                F.col("value").cast("string"),
                StructType([*columns.fields]).add(UNREADABLE, "string"),
                broken,
            )
            fits = F.col("told").isNotNull() & F.col(f"told.{UNREADABLE}").isNull()
            return told, fits, columns.names
        skipped = HEADER if self.group.value_format == "avro-confluent" else 0
        value = F.expr(f"substring(value, {skipped + 1})")
        names = [field["name"] for field in json.loads(schema)["fields"]]
        return from_avro(value, schema, options), F.col("told").isNotNull(), names

    @override
    def sample(self) -> tuple[str, DataFrame] | None:
        """Read the first messages that are there."""
        try:
            rows = self._held(self._rows(self._static()))
        except FAILED as error:
            raise self._error(
                "value.format",
                f"a message of topic {self.group.topic_name} cannot be read as "
                f"{self.group.value_format} with this schema: {root_cause(str(error))}",
                'fix the key or source.schema, or set such messages aside: "quarantine": "true"',
            ) from error
        return (f"topic {self.group.topic_name}", rows) if rows.take(1) else None

    @override
    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return how many messages no batch has read, by the offsets that Spark reports."""
        source = progress["sources"][0]
        name = self.group.topic_name
        read, latest = source["endOffset"][name], source["latestOffset"][name]
        return sum(offset - read.get(part, 0) for part, offset in latest.items())
