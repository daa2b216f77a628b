"""The Hudi options of a table, one row each: name, value, purpose, and the field that owns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hudilab.table import TableSpec

COMMIT_TIME = "COMMIT_TIME_ORDERING"
MERGE_MODES = ("EVENT_TIME_ORDERING", COMMIT_TIME)
# Local: a key is unique in its partition. Global: in the table.
LOCAL_INDEXES = ("BUCKET", "SIMPLE", "BLOOM", "RECORD_LEVEL_INDEX")
GLOBAL_INDEXES = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM", "GLOBAL_RECORD_LEVEL_INDEX")
RECORD_INDEXES = ("RECORD_LEVEL_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")

WRITE = "hoodie.datasource.write."
CLEAN = "hoodie.clean.automatic"
ENCODED = f"{WRITE}partitionpath.urlencode"
INDEX = "hoodie.index.type"
INLINE = "hoodie.compact.inline"
MERGER = "hoodie.write.record.merge.custom.implementation.classes"
METADATA = "hoodie.metadata.enable"
STREAMED = "hoodie.metadata.streaming.write.enabled"
VALIDATORS = "hoodie.precommit.validators"
ASYNC_EXITS = "compaction alongside the stream can keep the JVM from exiting"


@dataclass(frozen=True)
class Option:
    """A Hudi option that a table's spec sets, or that nobody may set.

    Attributes:
        value: Its value for a spec; None if it does not apply.
        why: Its purpose.
        field: The field of TableSpec that decides it, so that callers may not set the option.
        instead: What to do instead of setting it, if no field decides it; empty: callers may.
        aliases: Other names under which Hudi 1.2 accepts it, or keeps it in `hoodie.properties`.
        label: Its name in messages; only for what is fixed for the table's life.
        default: What Hudi assumes for a table whose `hoodie.properties` lacks it.
        sql: SQL must be told, because `hoodie.properties` does not hold it.
    """

    name: str
    value: Callable[[TableSpec], str | None]
    why: str = ""
    field: str = ""
    instead: str = ""
    aliases: tuple[str, ...] = ()
    label: str = ""
    default: str | None = None
    sql: bool = False

    def in_properties(self, properties: Mapping[str, str]) -> str | None:
        """Return the value in a table's `hoodie.properties`, else the default."""
        names = [name for name in (self.name, *self.aliases) if name in properties]
        return properties[names[0]] if names else self.default


def _if(right: object, value: str = "true") -> str | None:
    return value if right else None


def _never(spec: TableSpec) -> None:
    """Nobody sets it."""


def _index(spec: TableSpec) -> str | None:
    return "BUCKET" if spec.buckets else spec.index


def _in_spark(spec: TableSpec) -> bool:
    # In MERGE_ON_READ, Spark rows would also change the log format, for no gain. With a global
    # index they end the JVM (SIGSEGV), with a record index they are read as garbage. An insert of
    # Avro could not be read back with an array of decimals in an array of structs.
    risky = spec.index in GLOBAL_INDEXES + RECORD_INDEXES
    upserts = spec.operation == "upsert" and not spec.logs() and not risky
    return upserts or spec.operation == "insert"


def _record(spec: TableSpec) -> bool:
    return spec.index in RECORD_INDEXES


# In the order in which readers meet them.
OPTIONS = (
    Option(
        "hoodie.table.name",
        lambda spec: spec.name,
        "The table's name, stored in hoodie.properties.",
        field="name",
        aliases=(f"{WRITE}table.name",),
        label="name",
    ),
    Option(
        f"{WRITE}table.type",
        lambda spec: spec.table_type,
        "A commit rewrites files (copy), or logs changes (merge on read).",
        field="table_type",
        aliases=("hoodie.table.type",),
        label="type",
    ),
    Option(
        f"{WRITE}recordkey.field",
        lambda spec: ",".join(spec.record_key),
        "The columns that make a row unique.",
        field="record_key",
        aliases=("hoodie.table.recordkey.fields",),
        label="record key",
    ),
    Option(
        f"{WRITE}partitionpath.field",
        lambda spec: ",".join(spec.partition),
        "One directory for each value; empty: no partitions.",
        field="partition",
        aliases=("hoodie.table.partition.fields",),
        label="partition",
    ),
    Option(
        ENCODED,
        lambda spec: _if(spec.partition),
        "Any value can be a partition: %, :, / and blanks are encoded in paths.",
        instead="leave it out: new tables encode partition values, existing ones stay as they are",
    ),
    Option(
        f"{WRITE}hive_style_partitioning",
        lambda spec: "true",
        "Directories are named column=value.",
        instead="leave it out: partitions are always column=value",
        label="hive style",
        default="true",
    ),
    Option(
        "hoodie.table.ordering.fields",
        lambda spec: spec.ordering,
        "Of two rows with one key, an upsert keeps the greater one.",
        field="ordering",
        aliases=("hoodie.table.precombine.field", f"{WRITE}precombine.field"),
        label="ordering",
    ),
    Option(
        f"{WRITE}operation",
        lambda spec: spec.operation,
        "How a batch is written: inserts add rows, upserts look up keys first.",
        field="operation",
    ),
    Option(
        "hoodie.table.timeline.timezone",
        lambda spec: "UTC",
        "Instants read the same on every machine.",
        instead="leave it out: instants are always UTC",
        label="time zone",
        default="UTC",
    ),
    Option(
        "hoodie.datasource.compaction.async.enable",
        lambda spec: _if(spec.logs(), "false"),
        "No compaction alongside the stream: it can keep the JVM from exiting.",
        instead=f"leave it out: {ASYNC_EXITS}",
    ),
    Option(
        INLINE,
        # Once a compaction has died halfway, reading the stored changes fails permanently.
        lambda spec: _if(spec.logs(), "false" if spec.cdc else "true"),
        "Whether logs are merged into base files between batches.",
    ),
    Option(
        CLEAN,
        lambda spec: _if(spec.operation == "bulk_insert", "false"),
        "Appends replace no files, so there is nothing to clean or look for.",
    ),
    Option(
        MERGER,
        lambda spec: _if(_in_spark(spec), "org.apache.hudi.DefaultSparkRecordMerger"),
        "Rows are compared in Spark's format, not as Avro: a fifth less time.",
    ),
    Option(
        INDEX,
        _index,
        "How an upsert finds a key's file; BUCKET computes it and opens no file.",
        field="index",
        sql=True,
    ),
    Option(
        "hoodie.bucket.index.num.buckets",
        lambda spec: _if(spec.buckets, str(spec.buckets)),
        "File groups per partition, fixed for good: its keys are spread over them.",
        field="buckets",
        sql=True,
    ),
    Option(
        "hoodie.parquet.bloom.filter.enabled",
        lambda spec: _if(spec.buckets, "false"),
        "The bucket tells where a key is: no file needs a filter of its keys.",
        sql=True,
    ),
    Option(
        METADATA,
        lambda spec: _if(_record(spec)),
        "The metadata table holds the record index.",
        sql=True,
    ),
    Option(
        "hoodie.metadata.record.level.index.enable",
        lambda spec: _if(spec.index == "RECORD_LEVEL_INDEX"),
        "The record index: a partition's keys, and the file that holds each.",
        sql=True,
    ),
    Option(
        "hoodie.metadata.global.record.level.index.enable",
        lambda spec: _if(spec.index == "GLOBAL_RECORD_LEVEL_INDEX"),
        "The record index: all keys of the table, and the file that holds each.",
        sql=True,
    ),
    Option(
        STREAMED,
        lambda spec: _if(_record(spec), "false"),
        "Written while a cluster's executors still write data, the index misses keys.",
        sql=True,
    ),
    Option(
        "hoodie.record.index.update.partition.path",
        lambda spec: _if(spec.index == "GLOBAL_RECORD_LEVEL_INDEX"),
        "A row that comes with another partition moves.",
    ),
    Option(
        "hoodie.write.record.merge.mode",
        lambda spec: spec.merge_mode,
        "Of two rows with one key, the greater one stays, or the later arrival.",
        field="merge_mode",
        aliases=("hoodie.record.merge.mode",),
        label="merge mode",
    ),
    Option(
        "hoodie.table.cdc.enabled",
        lambda spec: _if(spec.cdc),
        "Each commit also stores what it changed, for readers of changes.",
        field="cdc",
        label="cdc",
        default="false",
    ),
    Option(
        "hoodie.table.cdc.supplemental.logging.mode",
        lambda spec: _if(spec.cdc, "DATA_BEFORE_AFTER"),
        "A change is stored with the row before and after it.",
        field="cdc",
    ),
    Option(
        "hoodie.writestatus.class",
        lambda _: "org.apache.hudi.client.FailOnFirstErrorWriteStatus",
        "A record that cannot be written fails the batch with its key and the reason.",
    ),
    Option(
        "hoodie.table.keygenerator.class",
        _never,
        field="record_key and TableSpec.partition",
        aliases=(
            "hoodie.table.keygenerator.type",
            f"{WRITE}keygenerator.class",
            f"{WRITE}keygenerator.type",
        ),
    ),
    Option(
        f"{WRITE}streaming.ignore.failed.batch",
        _never,
        instead="leave it out: it silently loses the rows of a failed batch",
    ),
)
# Name -> what to do instead of setting it.
OWNED = {
    name: f"set TableSpec.{option.field}" if option.field else option.instead
    for option in OPTIONS
    if option.field or option.instead
    for name in (option.name, *option.aliases)
}
