"""The settings' groups for jobs: Kafka, pipelines, and the job that a bundle runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError
from typing_extensions import override

from hudilab.groups import Group, Name, Owner, PathText, Text, form, key_of
from hudilab.paths import rewrite_scheme
from hudilab.table import SpecError, TableSpec
from hudilab_spark.conf import METASTORE_GROUP
from hudilab_spark.hive_group import Hive, servers

RUN_GROUP = "spark.run.options"
CONSUMER, PRODUCER = "consumer.config.0", "producer.config.0"
PREFIX = "pipeline."
FileFormat = Literal["csv", "json", "parquet", "orc", "avro"]
TimeUnit = Literal["s", "ms", "us"]


_Servers = Annotated[Text, AfterValidator(servers)]


_Topic = Annotated[
    str,
    Field(min_length=1),
    form(
        r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}",
        "is not a valid topic name (letters, digits, '.', '_', '-')",
    ),
]


# Keys in the settings files of Flink applications.
_CONNECTOR = {
    "bootstrap.external.servers": "use BOOTSTRAP_SERVERS",
    "connector": "it is Kafka's",
    "format": "messages are JSON",
    "key.fields": "the key is the ticker",
    "key.format": "messages are JSON",
    "properties.allow.auto.create.topics": "create the topics first",
    "properties.group.id": "offsets are in the checkpoint",
}


class Client(Group):
    """Settings of a Kafka client with Kafka's own names and values, without a password."""

    topic_name: _Topic
    bootstrap_servers: _Servers
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_SSL"] | None = None
    sasl_username: Text | None = None
    ssl_ca_location: Text | None = None


class Consumer(Client):
    """Group consumer.config.0: the topic to read; `table.name` is the SQL view of its rows."""

    unused = _CONNECTOR
    table_name: Name = "stocks_in"
    startup_mode: Literal["earliest-offset", "latest-offset"]


class Producer(Client):
    """Group producer.config.0: the topic to write; `table.name` is the Hudi table.

    Unreadable messages go to `dead.letter.topic.name`.
    """

    unused = _CONNECTOR | {"startup.mode": "only a consumer has one"}
    table_name: Name
    dead_letter_topic_name: _Topic = "stocks-dead"


def _inside(value: str) -> str:
    if value.startswith(("/", "~")) or ".." in value.split("/") or ":" in value:
        raise PydanticCustomError("inside", "is not a path inside the bundle")
    return value


def _words(value: str) -> str:
    try:
        shlex.split(value)
    except ValueError as error:
        raise PydanticCustomError(
            "words", "is not a valid command line ({why})", {"why": str(error).rstrip(".").lower()}
        ) from None
    return value


Words = Annotated[str, AfterValidator(_words)]
_Inside = Annotated[Text, AfterValidator(_inside)]


class RunOptions(Group):
    """Group spark.run.options: a bundle's script, jar and job.

    `job` is a module of hudilab_jobs, `arguments` its command line, quoted as in a shell.
    """

    python: _Inside
    jarfile: _Inside
    job: Name
    arguments: Words = ""


def _columns(value: str) -> str:
    if not all(name.strip() for name in value.split(",")):
        raise PydanticCustomError("columns", "is not a list of columns: a, b")
    return value


def _split(value: str) -> list[str]:
    r"""Split a text into words as a shell does, but keep the backslash of `sep=\t`."""
    parts = re.split(r"('[^']*')", value)
    parts[::2] = [re.sub(r"\\(?=\w)", r"\\\\", part) for part in parts[::2]]
    return shlex.split("".join(parts))


def _options(value: str) -> str:
    if wrong := [word for word in _split(value) if "=" not in word]:
        raise PydanticCustomError(
            "options", "has {word} without a value; write {word}=...", {"word": wrong[0]}
        )
    names = [word.partition("=")[0] for word in _split(value)]
    lower = [name.lower() for name in names]  # Spark ignores case
    if twice := [name for n, name in enumerate(names) if name.lower() in lower[:n]]:
        raise PydanticCustomError(
            "options", "has {word} twice; remove one of them", {"word": twice[0]}
        )
    return value


def _port(value: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{3,4}", value) or not 1024 <= int(value) <= 65535:
        raise PydanticCustomError("port", "is not a port from 1024 to 65535, as text")
    return value


def _one_of(true: str, false: str) -> BeforeValidator:
    """Return a validator that converts one of two words to a bool."""

    def parse(value: object) -> bool:
        if value not in (true, false):
            raise PydanticCustomError("words", f"must be {true!r} or {false!r}")
        return value == true

    return BeforeValidator(parse)


_Columns = Annotated[Text, AfterValidator(_columns)]
_Options = Annotated[Words, AfterValidator(_options)]
_Number = Annotated[Text, form("[1-9][0-9]{0,8}", "is not a whole number of 1 or more, as text")]
_Port = Annotated[Text, AfterValidator(_port)]
# The command and a kernel may have different working directories.
_Folder = Annotated[
    PathText, form("(/|~/).*|.*://.*", "is a relative path; write an absolute one, or a URI")
]
_SchemaIds = Annotated[
    Text, form("[0-9]{1,10}( *, *[0-9]{1,10})*", "is not a list of schema ids: 3, 4")
]
_Http = Annotated[
    PathText,
    form(r"https?://[^/?#\s]+[^?#\s]*", "is not http://host[:port] or https://host[:port]"),
]


class Pipeline(Group):
    """Group pipeline.NAME: a stream into a Hudi table; each subclass is a kind of source.

    The file `pipelines/NAME.json` contains the same keys.

    Attributes:
        select: A query of the view `source`, for casts, filters and further columns.
        tuned: Whether a new table gets the options for small batches, see `TableSpec`.
        async_services: Whether table services run in a separate thread, or in the batches.
        quarantine: Whether rows that the table cannot store are quarantined, or stop the stream.
        shared: Whether other streams or jobs may write to the table at the same time.
        lock_options: Options of Hudi's lock provider for a shared table, `name=value` each.
        metrics_port: The port of Spark's UI and its metrics page.
    """

    formats: ClassVar[tuple[str, ...]] = ()
    source_options: _Options = ""
    select: Text | None = None
    table_name: Name
    table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"] = "COPY_ON_WRITE"
    operation: Literal["bulk_insert", "insert", "upsert"] = "upsert"
    record_key: _Columns
    partition: _Columns | None = None
    ordering: Text
    buckets: _Number | None = None
    tuned: Annotated[bool, _one_of("true", "false")] = False
    async_services: Annotated[bool, _one_of("async", "inline")] = Field(
        True, alias="table.services"
    )
    quarantine: Annotated[bool, _one_of("true", "false")] = False
    shared: Annotated[bool, _one_of("true", "false")] = False
    lock_options: _Options = ""
    metrics_port: _Port | None = None

    @property
    def source(self) -> str:
        """A description of the source."""
        raise NotImplementedError

    @property
    def is_avro(self) -> bool:
        """Whether the session needs Spark's jar for Avro."""
        return False

    def table(self) -> dict[str, Any]:
        """Return the group's fields of the TableSpec, by the TableSpec's names."""
        return {
            "record_key": _names(self.record_key),
            "partition": _names(self.partition or ""),
            "ordering": self.ordering,
            "table_type": self.table_type,
            "operation": self.operation,
            "buckets": int(self.buckets) if self.buckets else None,
            "tuned": self.tuned,
        }

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield the keys that rule out a table, each with the problem."""
        try:
            TableSpec(self.table_name, **self.table())
        except SpecError as error:
            for field, value, text in error.problems:
                # The keys of a group are the fields of a TableSpec, with dots.
                text = re.sub(r"\brecord_key\b", "record.key", text.replace("=", " "))
                yield key_of(field), f"{value} {text}".strip()

    def options(self) -> dict[str, str]:
        """Return the options of Spark's reader."""
        return _pairs(self.source_options)

    def lock(self) -> dict[str, str] | None:
        """Return the options of the lock provider; None for the table's own lock file."""
        return _pairs(self.lock_options) or None


class _PathPipeline(Pipeline):
    """A stream from a path on a disk or an object store."""

    source_path: _Folder

    @property
    def uri(self) -> str:
        """`source_path` as Spark's URI."""
        return rewrite_scheme(self.source_path)


class FilePipeline(_PathPipeline):
    """A stream from a folder of files.

    Attributes:
        source_format: Spark's name of the files' format.
        source_options: Options of Spark's reader, each `name=value`, quoted as in a shell.
        source_schema: The columns of the files, as in SQL's CREATE TABLE.
        timestamp_unit: The unit of times that CSV or JSON contains as whole numbers since 1970.
    """

    formats = get_args(FileFormat)
    source_format: FileFormat
    source_schema: Text | None = None
    files_per_batch: _Number = "100"
    timestamp_unit: TimeUnit | None = None

    @property
    @override
    def source(self) -> str:
        return f"{self.source_format} files in {self.uri}"

    @property
    @override
    def is_avro(self) -> bool:
        return self.source_format == "avro"


class TopicPipeline(Pipeline, Client):
    """A stream from a Kafka topic with JSON or Avro messages.

    Attributes:
        key_format: The format of a key's bytes; `int` and `long` are those of Kafka's serializers.
        value_format: `avro-confluent` is Avro after the five bytes of Confluent's serializers: a
            zero, and the id of the schema in a registry.
        value_schema_id: The ids of `source_schema` in the registry.
        schema_registry_url: The registry with the writers' schemas of the messages.
        source_schema: The columns of a JSON value, as in SQL's CREATE TABLE. For Avro, a schema as
            JSON; without a registry, the schema of the messages.
        tombstones: Whether a message without a value deletes the row of its key.
    """

    formats = ("kafka",)
    source_format: Literal["kafka"]
    value_format: Literal["json", "avro", "avro-confluent", "debezium"] = "json"
    key_format: Literal["string", "int", "long", "hex"] = "string"
    value_schema_id: _SchemaIds | None = None
    schema_registry_url: _Http | None = None
    source_schema: Text | None = None
    timestamp_unit: TimeUnit | None = None
    tombstones: Literal["refuse", "delete"] = "refuse"
    startup_mode: Literal["earliest-offset", "latest-offset"] = "earliest-offset"
    messages_per_batch: _Number = "1000000"

    @property
    @override
    def source(self) -> str:
        return f"topic {self.topic_name} at {self.bootstrap_servers}"

    @property
    @override
    def is_avro(self) -> bool:
        return self.value_format.startswith("avro")


class ChangePipeline(TopicPipeline):
    """A stream of Debezium's change events of one database table, as JSON or Avro.

    Attributes:
        source_table: The table in the database, `schema.table`; by default the end of the topic's
            name, which Debezium chooses.
        ordering: The offset, which orders the changes of a key. The LSN doesn't: a transaction that
            was open when a snapshot began comes after the snapshot, with smaller LSNs.
    """

    value_format: Literal["debezium"]
    source_table: Text | None = None
    operation: Literal["upsert"] = "upsert"
    ordering: Literal["kafka_offset"] = "kafka_offset"
    key_format: Literal["string"] = "string"
    tombstones: Literal["refuse"] = "refuse"

    @property
    @override
    def is_avro(self) -> bool:
        return self.schema_registry_url is not None

    @property
    def database_table(self) -> str:
        """The table whose changes the topic contains."""
        return self.source_table or ".".join(self.topic_name.split(".")[-2:])


class TablePipeline(_PathPipeline):
    """A stream from a Hudi table: the rows that each commit added or changed."""

    formats = ("hudi",)
    source_format: Literal["hudi"]

    @property
    @override
    def source(self) -> str:
        return f"the changes of {self.uri}"


class Tables(Group):
    """Group pipeline.NAME: pipelines that share a query, each with its own table."""

    tables: _Columns

    @property
    def names(self) -> tuple[str, ...]:
        """The pipelines' names."""
        return _names(self.tables)


class _UnknownFormat(Pipeline):
    """Reports that a group's `source.format` is missing or unknown."""

    model_config = ConfigDict(extra="ignore")
    source_format: Literal[FileFormat, "kafka", "hudi"]


def shape_of(properties: Mapping[str, Any]) -> type[Pipeline]:
    """Return the model of a group for its formats."""
    models = (FilePipeline, TopicPipeline, TablePipeline)
    source_format = properties.get("source.format")
    if source_format == "kafka" and properties.get("value.format") == "debezium":
        return ChangePipeline
    return next((model for model in models if source_format in model.formats), _UnknownFormat)


def _pairs(options: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in _split(options))
    return {name: value for name, _, value in pairs}


def _names(columns: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in columns.split(",") if name.strip())


_MODELS: dict[str, type[Group]] = {
    CONSUMER: Consumer,
    PRODUCER: Producer,
    RUN_GROUP: RunOptions,
    METASTORE_GROUP: Hive,
}


def _model(name: str, properties: Mapping[str, Any]) -> type[Group] | None:
    if not name.startswith(PREFIX):
        return _MODELS.get(name)
    return Tables if "tables" in properties else shape_of(properties)


JOBS = Owner(
    _model,
    names=(*_MODELS, PREFIX),
    unused={"kinesis.analytics.flink.run.options": f"use {RUN_GROUP!r}, for a bundle"},
    prefix=PREFIX,
    without_table=(CONSUMER, PRODUCER),
)
