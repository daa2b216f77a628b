"""Groups `pipeline.NAME` of `application_properties.json`: a stream of your own rows, in words."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError
from typing_extensions import override

from hudilab.groups import Client, PathText, Text, Words
from hudilab.paths import rewrite_scheme

PREFIX = "pipeline."
FileFormat = Literal["csv", "json", "parquet", "orc", "avro"]
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _columns(value: str) -> str:
    if not all(name.strip() for name in value.split(",")):
        raise PydanticCustomError("columns", "is not a list of columns: a, b")
    return value


def _options(value: str) -> str:
    if wrong := [word for word in shlex.split(value) if "=" not in word]:
        raise PydanticCustomError(
            "options", "has {word} without a value; write {word}=...", {"word": wrong[0]}
        )
    return value


def _number(value: str) -> str:
    if not re.fullmatch(r"[1-9][0-9]{0,8}", value):
        raise PydanticCustomError("number", "is not a whole number of 1 or more, as text")
    return value


def _folder(value: str) -> str:
    # The command and a kernel may have different working directories.
    if not value.startswith(("/", "~/")) and "://" not in value:
        raise PydanticCustomError("folder", "is a relative path; write an absolute one, or a URI")
    return value


_Columns = Annotated[Text, AfterValidator(_columns)]
_Options = Annotated[Words, AfterValidator(_options)]
_Number = Annotated[Text, AfterValidator(_number)]
_Folder = Annotated[PathText, AfterValidator(_folder)]


class Pipeline(BaseModel):
    """A stream into a Hudi table; the classes below add where its rows come from.

    Attributes:
        select: A query of the view `source`, for casts, filters and further columns.
        table_services: Where they run: `async`, beside the stream's batches, or `inline`, in them.
        quarantine: Whether rows that the table cannot store are set aside; else they are an error.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    formats: ClassVar[tuple[str, ...]] = ()
    source_options: _Options = Field("", alias="source.options")
    select: Text | None = None
    table_name: Annotated[Text, Field(pattern=_NAME.pattern + "$")] = Field(alias="table.name")
    table_type: Literal["COPY_ON_WRITE", "MERGE_ON_READ"] = Field(
        "COPY_ON_WRITE", alias="table.type"
    )
    operation: Literal["bulk_insert", "insert", "upsert"] = "upsert"
    record_key: _Columns = Field(alias="record.key")
    partition: _Columns | None = None
    ordering: Text
    buckets: _Number | None = None
    table_services: Literal["async", "inline"] = Field("async", alias="table.services")
    quarantine: Literal["true", "false"] = "false"

    @property
    def sets_aside(self) -> bool:
        """Whether `quarantine` is true."""
        return self.quarantine == "true"

    @property
    def async_services(self) -> bool:
        """Whether table services run beside the stream's batches."""
        return self.table_services == "async"

    @property
    def is_avro(self) -> bool:
        """Whether the session needs Spark's jar for Avro."""
        return False

    def table(self) -> dict[str, Any]:
        """Return the fields of the TableSpec that the group has, by their names there."""
        return {
            "record_key": _names(self.record_key),
            "partition": _names(self.partition or ""),
            "ordering": self.ordering,
            "table_type": self.table_type,
            "operation": self.operation,
            "buckets": int(self.buckets) if self.buckets else None,
        }

    def options(self) -> dict[str, str]:
        """Return the options of Spark's reader."""
        pairs = (word.partition("=") for word in shlex.split(self.source_options))
        return {name: value for name, _, value in pairs}


class _PathPipeline(Pipeline):
    """A stream from a place on a disk or an object store."""

    source_path: _Folder = Field(alias="source.path")

    @property
    def uri(self) -> str:
        """`source_path`, as Spark takes it."""
        return rewrite_scheme(self.source_path)


class FilePipeline(_PathPipeline):
    """A stream from a folder of files.

    Attributes:
        source_format: Spark's name of the files' format.
        source_options: Options of Spark's reader, `name=value` each, quoted as in a shell.
        source_schema: The columns of the files, as SQL's CREATE TABLE has them.
    """

    formats = get_args(FileFormat)
    source_format: FileFormat = Field(alias="source.format")
    source_schema: Text | None = Field(None, alias="source.schema")
    files_per_batch: _Number = Field("100", alias="files.per.batch")

    @property
    @override
    def is_avro(self) -> bool:
        return self.source_format == "avro"


class TopicPipeline(Pipeline, Client):
    """A stream from a Kafka topic; its messages hold JSON or Avro.

    Attributes:
        value_format: `avro-confluent` is Avro after the five bytes that Confluent's serializers
            put first.
        source_schema: The columns of a JSON value, as SQL's CREATE TABLE has them; for Avro the
            schema that the messages were written with, as JSON.
    """

    formats = ("kafka",)
    source_format: Literal["kafka"] = Field(alias="source.format")
    value_format: Literal["json", "avro", "avro-confluent"] = Field("json", alias="value.format")
    source_schema: Text | None = Field(None, alias="source.schema")
    startup_mode: Literal["earliest-offset", "latest-offset"] = Field(
        "earliest-offset", alias="startup.mode"
    )
    messages_per_batch: _Number = Field("1000000", alias="messages.per.batch")

    @property
    @override
    def is_avro(self) -> bool:
        return self.value_format != "json"


class TablePipeline(_PathPipeline):
    """A stream from a Hudi table: the rows that each of its commits added or changed."""

    formats = ("hudi",)
    source_format: Literal["hudi"] = Field(alias="source.format")


class _NoPipeline(Pipeline):
    """What is told of a group without a format that the lab knows."""

    model_config = ConfigDict(extra="ignore")
    source_format: Literal[FileFormat, "kafka", "hudi"] = Field(alias="source.format")


def shape_of(properties: Mapping[str, Any]) -> type[Pipeline]:
    """Return the keys that a group has, which depend on its `source.format`."""
    shapes = (FilePipeline, TopicPipeline, TablePipeline)
    asked = properties.get("source.format")
    return next((shape for shape in shapes if asked in shape.formats), _NoPipeline)


def _names(columns: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in columns.split(",") if name.strip())
