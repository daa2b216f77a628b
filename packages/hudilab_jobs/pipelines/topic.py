"""A Kafka topic with JSON or Avro messages as the source of a pipeline.

It is a separate module, because only topics need the Kafka client.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType
from typing_extensions import override

from hudi_sink.checkpoints import CheckpointFiles
from hudi_sink.jvm import as_batch, items
from hudi_sink.rows import REFUSED, refuse, refused_row
from hudilab.errors import ConfigError, root_cause
from hudilab.paths import TableLocation
from hudilab.settings import Settings
from hudilab.table import DELETED
from hudilab_jobs.groups import TopicPipeline
from hudilab_jobs.kafka.connection import access
from hudilab_jobs.kafka.registry import read_schema
from hudilab_jobs.kafka.topics import TopicIdentity, check_topics
from hudilab_jobs.pipelines.avro_values import IS_READ, Reading, conversion, read_avro, reading
from hudilab_jobs.pipelines.json_text import PROBLEM, ROW, with_json
from hudilab_jobs.pipelines.sources import FAILED, SAMPLE, Sample, Source, sample_of
from hudilab_jobs.pipelines.text_values import (
    FIX_PROGRAM,
    PROBLEM_TYPE,
    Texts,
    decoded,
    one_line,
    quoted,
)

KAFKA_KEY, PARTITION, OFFSET, TIME = (
    "kafka_key",
    "kafka_partition",
    "kafka_offset",
    "kafka_timestamp",
)
TEXT = "kafka_value"  # with a quarantine, the text of a refused message
HEADER = 5  # bytes: a zero, and the id of the schema in the registry
IS_CONFLUENT = f"length({{0}}) >= {HEADER} AND substring({{0}}, 1, 1) = X'00'"
NUMBER = "CAST(conv(hex(substring({0}, 2, 4)), 16, 10) AS BIGINT)"
NO_SCHEMA = "fix schema.registry.url, or register the schema"
BYTES = {"int": 4, "long": 8}
SHOWN = 100  # characters of a key in a message
# A group's fields that belong to the query, not to the table.
QUERY = (
    *("bootstrap_servers", "security_protocol", "sasl_username", "ssl_ca_location"),
    *("startup_mode", "messages_per_batch", "source_options", "metrics_port"),
)
LOST = re.compile(r"OffsetOutOfRange[^;\n]*|some data may have been missed")
TOMBSTONE = "it has no value (a tombstone)"
BAD_KEY = "its key is not "
DELETE = '"tombstones": "delete"'
STREAM = "run hudilab stream, which deletes the rows of such keys"
Case = tuple[Column, Column, Column]  # a condition, the problem that it means, and the remedy
OR_QUARANTINE = ', or quarantine such messages: "quarantine": "true"'


class Topic(Source[TopicPipeline]):
    """The topic of a pipeline; each row also has the message's key, partition, offset and time."""

    unit = "message"
    deletion = TOMBSTONE  # description of a message that deletes a row
    copied = "copy its messages in order to a new topic"  # where the offsets order them again

    def __init__(
        self, spark: SparkSession, settings: Settings, name: str, group: TopicPipeline
    ) -> None:
        super().__init__(spark, settings, name, group)
        self._client = access(group, settings.home)
        self._is_avro = group.value_format.startswith("avro")
        self._schemas: dict[int, str | None] = {}  # the registry's schemas by id
        self._readings: dict[int, Reading] = {}
        self._loads = False
        self._has_key = True  # whether the table contains the message's key
        self._moved_column = ""  # the column that requires each key to stay in its partition
        self._topics = [group.topic_name]  # of the query
        # Refused messages and deletions must bypass a query, which may drop them.
        bypasses = group.select is not None and (group.quarantine or self._deletes)
        self._reads_twice = self._examines or bypasses
        self._by_batch = self._reads_twice

    @property
    def _deletes(self) -> bool:
        return self.group.tombstones == "delete"

    @property
    def _examines(self) -> bool:
        """Whether each batch must be examined before it is read, such as for its schemas."""
        return self.group.schema_registry_url is not None

    @cached_property
    def _identity(self) -> TopicIdentity:
        return TopicIdentity(self._spark, self._client, self.group.topic_name)

    def identity(self) -> Mapping[str, Any]:
        """Return the topic's name, id and cluster, as the brokers report them now."""
        return self._identity()

    def describe(self) -> tuple[str, str]:
        """Return the topic and its servers, and the maximum number of messages of a batch."""
        return (
            f"topic {self.group.topic_name} at {self.group.bootstrap_servers}",
            f"{int(self.group.messages_per_batch):,} messages",
        )

    def check(self) -> list[str]:
        """Return the columns; raise LabError without the topic, or if schema or query is wrong."""
        self.check_options(self.group.source_format, values=not self._is_avro)
        check_topics(self._client, [self.group.topic_name])
        self._check_ids()
        if self.group.source_schema is None:
            raise self._without_schema()
        rows = self._rows(self._messages(), [])
        table = self._checked(rows)
        if self.group.select is not None and not self._deletes:
            try:
                self._has_key = self.selected(rows.drop(KAFKA_KEY)).columns != table.columns
            except ConfigError:
                self._has_key = True
        self._check_deletes(rows)
        self._moved_column = self._column_that_moves(rows, table)
        return table.columns

    def stream(self, *, whole: bool = False) -> DataFrame:
        """Read new messages, in a batch at most `messages.per.batch` unless `whole`."""
        if whole and self.group.startup_mode == "latest-offset":
            raise self.error(
                "startup.mode",
                "is latest-offset, so an initial load would read nothing",
                'start with hudilab stream, or write "startup.mode": "earliest-offset"',
            )
        self._loads = whole
        reader = self._spark.readStream.format("kafka").options(**self._client.read_options())
        reader = reader.option("subscribe", ",".join(self._topics))
        reader = reader.option("startingOffsets", self.group.startup_mode.removesuffix("-offset"))
        if not whole:
            reader = reader.option("maxOffsetsPerTrigger", self.group.messages_per_batch)
        messages = reader.options(**self.group.options()).load()
        return messages if self._by_batch else self.selected(self._rows(messages, []))

    def share(self, others: Sequence[Topic]) -> None:
        """Read the topics of other pipelines, too, in a query whose batches `batch` splits.

        Raises:
            ConfigError: The pipelines need different queries.
        """
        for key, field in type(self.group).model_fields.items():
            if key not in QUERY:
                continue
            for other in others:
                if getattr(other.group, key) != getattr(self.group, key):
                    raise self.error(
                        str(field.alias),
                        f"is not the same as in {other._name}, which the same query reads",
                        "give all pipelines of tables the same value",
                    )
        names = [self.group.topic_name, *(other.group.topic_name for other in others)]
        self._topics, self._by_batch = sorted({*names}), True

    def selected_stream(self) -> DataFrame:
        """Return the stream's rows after the query, to examine the plan."""
        rows = self.stream()
        if self._by_batch:
            rows = self.selected(self._rows(rows, []))
            self._check_streams(rows)
        return rows

    @contextmanager
    def batch(self, rows: DataFrame) -> Iterator[DataFrame]:
        """Yield a batch of the stream as rows of the table, read with the registry's schemas."""
        if self._by_batch:
            rows = rows.where(F.col("topic") == self.group.topic_name)
        try:
            if self._reads_twice:
                rows = rows.persist()
            yield self._read_once(rows) if self._by_batch else rows
        except Exception as error:  # explained and raised again
            if (loss := LOST.search(str(error))) is None:
                raise
            raise self.error(
                "source.options",
                f"messages of topic {self.group.topic_name} were deleted before the stream had "
                f"read them ({loss[0]})",
                "keep messages longer (retention.ms), and resume without the lost messages: "
                '"source.options": "failOnDataLoss=false"',
            ) from error
        finally:
            rows.unpersist()

    def _read_once(self, messages: DataFrame) -> DataFrame:
        """Return a batch as rows of the table, all with the same current_timestamp()."""
        rows = self._read(messages)
        if self.group.select is None:
            return rows
        return as_batch(messages.sparkSession, rows._jdf.queryExecution())

    def _read(self, messages: DataFrame) -> DataFrame:
        """Return messages as rows of the table."""
        return self.selected(self._rows(messages, self._writers(messages)))

    def sample(self) -> Sample | None:
        """Read the first messages."""
        messages = self._messages().limit(SAMPLE).cache()
        if not messages.take(1):
            return None
        try:
            rows = self._read(messages)
            with self._in_select():
                return sample_of(f"topic {self.group.topic_name}", rows)
        except FAILED as error:
            raise self._unreadable(error) from error

    def behind(self, progress: Mapping[str, Any], location: TableLocation) -> int:
        """Return the number of messages that no batch has read, from Spark's offsets."""
        source = progress["sources"][0]
        name = self.group.topic_name
        read = source["endOffset"][name]
        # After a crash, Spark reports no latest offset for the repeated batch.
        latest = source["latestOffset"][name] if source["latestOffset"] else self._identity.ends()
        return sum(offset - read.get(part, 0) for part, offset in latest.items())

    @override
    def check_offsets(self, checkpoint: str, batch: int | None = None) -> None:
        """Raise ConfigError if the topic got more partitions and keys must not move."""
        if not self._moved_column:
            return
        files = CheckpointFiles(self._spark, checkpoint)
        if batch is None:
            self._identity()
            done = files.done()
            batches = [number for number in files.batches("offsets") if number >= done]
        else:
            batches = [batch - 1, batch]
        read = [partitions_of(files.offsets(number), self.group.topic_name) for number in batches]
        counts = sorted({*read, self._identity.partitions} - {0})
        if len(counts) < 2:
            return
        remedy = f"{self.copied}, and read it into a new table: change topic.name and table.name"
        if not self._deletes and self._moved_column == OFFSET:
            remedy += (
                ", or keep the topic, and change ordering to a column that grows with each change, "
                "and table.name"
            )
        raise self.error(
            "topic.name",
            f"{self.group.topic_name} has {counts[-1]} partitions, and had {counts[0]}: keys move "
            f"to new partitions, where offsets begin at 0, so {self._moved_column} would keep "
            "their older rows",
            remedy,
        )

    def _column_that_moves(self, rows: DataFrame, table: DataFrame) -> str:
        """Return the column of `rows` that is wrong for keys that move to another partition.

        Empty if rows never change, or the table's key contains the partition.
        """
        key, partition = self.group.table()["record_key"], self.group.table()["partition"]
        if self.group.operation != "upsert" or self._makes(key, PARTITION, rows, table):
            return ""
        if self._makes([self.group.ordering], OFFSET, rows, table):
            return OFFSET
        return PARTITION if self._makes(partition, PARTITION, rows, table) else ""

    def _makes(self, names: Sequence[str], column: str, rows: DataFrame, table: DataFrame) -> bool:
        """Return whether the query computes one of the table's columns `names` from `column`."""
        columns = [name for name in names if name in table.columns]
        if self.group.select is None or not columns:
            return column in names
        # Spark prunes unused columns of the query; the view's own plan always has the column.
        nothing = self._spark.createDataFrame(self._spark.sparkContext.emptyRDD(), rows.schema)
        needed = self.selected(nothing).select(*map(quoted, columns))
        plan = needed._jdf.queryExecution().optimizedPlan()
        used = (items(node.references().toSeq()) for node in _plan_nodes(plan))
        return any(attribute.name() == column for attributes in used for attribute in attributes)

    def _check_ids(self) -> None:
        """Raise ConfigError unless a Confluent topic has schema ids or a registry."""
        group = self.group
        given = {"value.schema.id": group.value_schema_id}
        if group.value_format != "debezium":
            given |= {"schema.registry.url": group.schema_registry_url}
        keys = [key for key, value in given.items() if value]
        if group.value_format != "avro-confluent":
            if keys:
                raise self.error(
                    keys[0],
                    f"is for Confluent's messages, but value.format is {group.value_format}",
                    'write "value.format": "avro-confluent", or remove the key',
                )
        elif len(keys) == 2:
            raise self.error(
                "value.schema.id",
                "is not needed with schema.registry.url, which has the schema of each id",
                "remove one of the two keys",
            )
        elif not keys:
            ids = self._ids(self._messages().limit(SAMPLE))
            first = ", ".join(map(str, ids)) or "N"
            names = f"schema id {first}" if ids else "no schema id"
            raise self.error(
                "value.schema.id",
                f"is missing; the first messages of topic {group.topic_name} have {names}",
                f'add "value.schema.id": "{first}" if source.schema is that schema, or read each '
                'message with its own schema: "schema.registry.url": "http://..."',
            )

    def _check_deletes(self, rows: DataFrame) -> None:
        """Raise ConfigError if the query keeps a deletion from its row."""
        if not self._deletes:
            return
        self._check_table()
        before, after = _ids_of(rows), _ids_of(self.selected(rows))
        changed = [name for name in self._places() if after.get(name) != before[name]]
        if changed:
            raise self.error(
                "select",
                f"drops or changes {', '.join(changed)}, which deletes need"
                + (" (tombstones=delete)" if self.group.tombstones == "delete" else ""),
                f"select {', '.join(changed)} as in the view source",
            )

    def _check_table(self) -> None:
        """Raise ConfigError if a deletion message doesn't identify a row of the table."""
        group = self.group
        wanted = {"record.key": (group.record_key.strip(), KAFKA_KEY)}
        wanted |= {"ordering": (group.ordering, OFFSET), "operation": (group.operation, "upsert")}
        if group.partition is not None:
            wanted["partition"] = (group.partition.strip(), PARTITION)
        for key, (value, needed) in wanted.items():
            if value != needed:
                raise self.error(
                    "tombstones",
                    f"delete needs {key} {needed}, but it is {value}: a message without a value "
                    "has only its key, partition and offset",
                    f'write "{key}": "{needed}"'
                    + (" or remove the key" if key == "partition" else "")
                    + ', or "tombstones": "refuse"',
                )

    def _places(self) -> list[str]:
        """Return the columns of a deletion."""
        return [KAFKA_KEY, OFFSET, *([PARTITION] if self.group.partition else [])]

    def _without_schema(self) -> ConfigError:
        """Return the error for the missing schema, with the columns of the first messages."""
        messages = self._messages().limit(SAMPLE)
        if self._is_avro:
            known = [text for number in self._ids(messages) if (text := self._schema(number))]
            schema = json.dumps(json.loads(known[-1])) if known else '{"type": "record", ...}'
            return self.error(
                "source.schema",
                "is missing: Avro cannot be read without "
                + ("the table's columns" if known else "the schema that wrote it"),
                f'add it: "source.schema": {json.dumps(schema)}',
            )
        values = self._row_texts(messages)
        rows = self._spark.read.json(values.rdd.map(lambda row: row.value or ""))
        if not rows.columns:
            return self.error(
                "source.schema",
                f"is missing, and topic {self.group.topic_name} has no message to infer it from",
                'add it: "source.schema": "id BIGINT, ..."',
            )
        return self.error(
            "source.schema",
            "is missing; the topic's first messages have these columns",
            f'add "source.schema": "{rows._jdf.schema().toDDL()}"',
        )

    def _unreadable(self, error: Exception) -> ConfigError:
        """Return the error for messages that a sample cannot read."""
        why = refused_row("", str(error))
        if why is None:
            cause = root_cause(str(error))
            return self.error("value.format", cause, "fix the key or source.schema")
        keys = {TOMBSTONE: "tombstones", BAD_KEY: "key.format", "": "value.format"}
        key = next(key for text, key in keys.items() if text in why.problem)
        return self.error(key, why.problem, why.remedy)

    def _messages(self) -> DataFrame:
        """Return the topic's current messages in Spark's columns."""
        clients = {
            key: value for key, value in self.group.options().items() if "kafka." in key.lower()
        }
        reader = self._spark.read.format("kafka").options(**self._client.read_options() | clients)
        return reader.option("subscribe", self.group.topic_name).load()

    def _rows(self, messages: DataFrame, ids: Sequence[int]) -> DataFrame:
        """Return the messages' columns; an unreadable message is an error, or quarantined.

        Args:
            ids: The schema ids of the messages in the registry, if any.
        """
        try:
            messages, names, cases = self._parsed(messages, ids)
        except (*FAILED, ValueError, LookupError, TypeError) as error:
            raise self.error(
                "source.schema", root_cause(str(error)), "fix the key, or value.format"
            ) from error
        valid, key = self._key()
        has_value = F.col("value").isNotNull()
        cases = [
            *self._key_cases(valid),
            *((has_value & wrong, problem, remedy) for wrong, problem, remedy in cases),
        ]
        problems = (
            F.when(wrong, F.struct(problem.alias("problem"), remedy.alias("remedy")))
            for wrong, problem, remedy in cases
        )
        fields = {
            "row": F.col("row"),
            "problem": F.coalesce(F.lit(None).cast(PROBLEM_TYPE), *problems),
            KAFKA_KEY: F.when(valid, key),
            PARTITION: F.col("partition"),
            OFFSET: F.col("offset"),
            TIME: F.col("timestamp"),
            "key_text": F.when(valid, key.cast("string")).otherwise(F.hex("key")),
            TEXT: self._text(),
            DELETED: F.when(self._is_deletion(), F.lit(True)),
        }
        # Keeps Spark from pushing filters below, where they would parse each message again.
        columns = (column.alias(name) for name, column in fields.items())
        rows = messages.select(F.inline(F.array(F.struct(*columns))))
        place = self._place("key_text")
        if self._deletes and self._loads:
            problem = F.lit(f"{self.deletion}, which an initial load cannot apply")
            refused = refuse(F.concat(place, problem), F.lit(STREAM))
            rows = rows.where(F.when(F.col(DELETED), refused).otherwise(True))
        added = [F.col(DELETED)] if self._deletes else []
        if self.group.quarantine:
            message = F.struct(F.col("key_text").alias(KAFKA_KEY), PARTITION, OFFSET, TIME, TEXT)
            reason = F.expr(one_line("problem"))
            refused = F.struct(reason.alias("reason"), message.alias("row"))
            added = [F.lit(None).cast("string").alias(TEXT), *added, refused.alias(REFUSED)]
        else:
            rows = rows.where(self._not_refused(F.col("problem"), place))
        row = F.when(F.col("problem").isNull(), F.col("row"))
        return rows.withColumn("row", row).select(
            *(F.col(f"row.`{name}`") for name in names), KAFKA_KEY, PARTITION, OFFSET, TIME, *added
        )

    def _place(self, key: str) -> Column:
        """Return the start of a message's error; `key` is the column with the key's text."""
        return F.concat(
            F.lit(f"topic {self.group.topic_name}, partition "),
            F.concat_ws(", offset ", PARTITION, OFFSET),
            F.lit(", key "),
            F.coalesce(F.substring(key, 1, SHOWN), F.lit("NULL")),
            F.lit(": "),
        )

    def _not_refused(self, problem: Column, place: Column) -> Column:
        """Return a condition that is true for a row without a problem, else an error."""
        remedy = F.concat(problem["remedy"], F.lit(OR_QUARANTINE))
        error = refuse(F.concat(place, problem["problem"]), remedy)
        return F.when(problem.isNull(), True).otherwise(error)

    def _key(self) -> tuple[Column, Column]:
        """Return the condition that a key has the group's format, and the key's value."""
        kind, key = self.group.key_format, F.col("key")
        if kind == "string":
            text, is_wrong = map(F.expr, decoded("key", "UTF-8"))
            return ~is_wrong, text
        if kind == "hex":
            return F.lit(True), F.hex(key)
        # Kafka's serializers write the highest byte first; its highest bit is the sign.
        digits = "lpad(hex(key), 16, if(hex(key) >= '8', 'F', '0'))"
        return F.length(key) == BYTES[kind], F.expr(f"conv({digits}, 16, -10)").cast(kind)

    def _key_cases(self, valid: Column) -> Iterator[Case]:
        """Yield the cases of invalid keys and of deletions."""
        kind = self.group.key_format
        if not self._deletes:
            remedy = f'to delete the row of its key, write "record.key": "{KAFKA_KEY}" and {DELETE}'
            yield F.col("value").isNull(), F.lit(TOMBSTONE), F.lit(remedy)
        if not self._has_key:
            return
        what = "UTF-8" if kind == "string" else f"the {BYTES.get(kind)} bytes of {kind}"
        remedy = 'set its type: "key.format": "int", "long" (of Kafka\'s serializers) or "hex"'
        yield ~valid, F.lit(f"{BAD_KEY}{what}"), F.lit(remedy)

    def _parsed(
        self, messages: DataFrame, ids: Sequence[int]
    ) -> tuple[DataFrame, list[str], list[Case]]:
        """Return the messages with a column `row`, its fields, and the cases of bad values."""
        if self._is_avro:
            return self._avro(messages, ids)
        messages = with_json(messages, "value", self._columns, self._texts, arrays=False)
        cases = [
            (F.col(PROBLEM).isNotNull(), F.col(PROBLEM)["problem"], F.col(PROBLEM)["remedy"]),
            (F.col("row").isNull(), F.lit("it is empty"), F.lit(FIX_PROGRAM)),
        ]
        return messages.withColumnRenamed(ROW, "row"), self._columns.names, cases

    @cached_property
    def _columns(self) -> StructType:
        schema = self._spark.createDataFrame([], str(self.group.source_schema)).schema
        self.check_names(schema)
        return schema

    @cached_property
    def _texts(self) -> Texts:
        options = {name.lower(): value for name, value in self.group.options().items()}
        return Texts(options, self.group.timestamp_unit)

    def _avro(
        self, messages: DataFrame, ids: Sequence[int]
    ) -> tuple[DataFrame, list[str], list[Case]]:
        """Return Avro messages as `_parsed` does."""
        schema = json.loads(str(self.group.source_schema))
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise ValueError("it is not an Avro record")
        names = [str(field["name"]) for field in schema["fields"]]
        self.check_names(StructType([StructField(name, StringType()) for name in names]))
        failed = ~F.expr(f"row.{IS_READ}")
        unread, fix = "it cannot be read as Avro with source.schema", F.lit("fix the schema")
        if self.group.value_format == "avro":
            row = read_avro("value", json.dumps(schema), schema)
            return messages.withColumn("row", row), names, [(failed, F.lit(unread), fix)]
        number, body = F.expr(NUMBER.format("value")), f"substring(value, {HEADER + 1})"
        row = read_avro(body, json.dumps(schema), schema)
        cases = [
            (
                ~F.expr(IS_CONFLUENT.format("value")),
                F.lit(
                    "it does not begin with the five bytes of Confluent's serializers, a zero and "
                    "a schema id"
                ),
                F.lit('write "value.format": "avro" if it is Avro without them'),
            )
        ]
        if self.group.schema_registry_url:
            wrong, why = [n for n in ids if self._schema(n) is None], "the registry does not have"
            is_wrong, remedy = number.isin(wrong), NO_SCHEMA
            messages, row, others = self._resolved(messages, row, ids)
        else:
            right = [int(n) for n in str(self.group.value_schema_id).split(",")]
            is_wrong, why, others = ~number.isin(right), "value.schema.id does not name", []
            remedy = (
                "add the id if source.schema is that schema, or read each message with its own "
                'schema: "schema.registry.url": "http://..."'
            )
        text = F.concat(F.lit("its schema id is "), number, F.lit(f", which {why}"))
        misfit = F.concat(F.lit("its schema (id "), number, F.lit(f") does not fit: {unread}"))
        cases += [(is_wrong, text, F.lit(remedy)), *others, (failed, misfit, fix)]
        return messages.withColumn("row", row), names, cases

    def _resolved(
        self, messages: DataFrame, row: Column, ids: Sequence[int]
    ) -> tuple[DataFrame, Column, list[Case]]:
        """Return messages, their rows converted from each writer's schema, and the bad cases.

        Args:
            row: The row in `source.schema`.
        """
        number, body = F.expr(NUMBER.format("value")), f"substring(value, {HEADER + 1})"
        wanted = messages.select(row.alias("row")).schema["row"].dataType
        remedy = "declare it in source.schema as in that schema, and convert it in select"
        cases = []
        for n in ids:
            if (writer := self._schema(n)) is None:
                continue
            schema, problem = self._reading(n, writer)
            own, name = F.when(number == n, read_avro(body, writer, schema)), f"_row_{n}"
            wrote = messages.select(own.alias("row")).schema["row"].dataType
            if wrote.simpleString() != wanted.simpleString() and not problem:
                messages = messages.withColumn(name, own)
                try:
                    kind, lost = conversion(name, cast(StructType, wrote), cast(StructType, wanted))
                except LookupError as error:
                    problem = str(error)
                else:
                    own = F.col(name).cast(kind)
                    start, misfit = F.lit(f"with its schema (id {n}), "), F.expr(lost)
                    text = F.concat(start, misfit["problem"])
                    cases.append((misfit.isNotNull(), text, misfit["remedy"]))
            if problem:
                nanos = ": timestamp_micros(x div 1000)" if "timestamp-nanos" in problem else ""
                text = F.lit(f"in its schema (id {n}), {problem}")
                cases.append((number == n, text, F.lit(f"{remedy}{nanos}")))
            else:
                row = F.when(number == n, own).otherwise(row)
        return messages, row, cases

    def _reading(self, number: int, writer: str) -> Reading:
        """Return how to read the messages of a schema in the registry."""
        if number not in self._readings:
            read = reading(self._spark, writer, str(self.group.source_schema))
            self._readings[number] = read
        return self._readings[number]

    def _is_deletion(self) -> Column:
        """Return the condition that a message deletes a row."""
        return F.col("value").isNull()

    def _row_texts(self, messages: DataFrame) -> DataFrame:
        """Return a column `value` STRING with the JSON that `source.schema` describes."""
        return messages.select(F.col("value").cast("string"))

    def _text(self) -> Column:
        """Return a message's value as text, or as hex if it isn't UTF-8."""
        if self._is_avro:
            return F.hex("value")
        text, is_wrong = map(F.expr, decoded("value", self._texts.charset))
        return F.when(is_wrong, F.hex("value")).otherwise(text)

    def _ids(self, messages: DataFrame) -> list[int]:
        """Return the schema ids in messages."""
        avro = messages.where(IS_CONFLUENT.format("value"))
        ids = avro.select(F.expr(NUMBER.format("value")).alias("id")).distinct()
        return sorted(int(row["id"]) for row in ids.collect())

    def _writers(self, messages: DataFrame) -> list[int]:
        """Return the ids of the schemas to read from the registry; none without a registry."""
        return self._ids(messages) if self.group.schema_registry_url else []

    def _schema(self, number: int) -> str | None:
        """Return the registry's schema for an id, or None."""
        url = self.group.schema_registry_url
        if url and number not in self._schemas:
            self._schemas[number] = read_schema(url, number)
        return self._schemas.get(number)

    def _bypassing(self, rows: DataFrame) -> tuple[dict[str, Column], Sequence[str]]:
        """Add the marker of a deletion, which keeps its own columns."""
        refused, _ = super()._bypassing(rows)
        if not self._deletes or DELETED not in rows.columns:
            return refused, ()
        return {DELETED: F.col(DELETED)} | refused, self._places()


def partitions_of(offsets: str, topic: str) -> int:
    """Return the number of a topic's partitions in a batch's offsets; 0 for an unplanned batch."""
    sources = (json.loads(line) for line in offsets.splitlines()[2:] if line.startswith("{"))
    return sum(len(source.get(topic, ())) for source in sources)


def _ids_of(rows: DataFrame) -> dict[str, int]:
    """Return Spark's ids by column; a column that a query changes gets a new id."""
    columns = items(rows._jdf.queryExecution().analyzed().output())
    return {str(column.name()): int(column.exprId().id()) for column in columns}


def _plan_nodes(plan: Any) -> Iterator[Any]:
    """Yield a Spark plan and all plans below it."""
    yield plan
    for child in items(plan.children()):
        yield from _plan_nodes(child)
