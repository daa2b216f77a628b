"""Describe a table's key, partition and ordering, and derive its Hudi options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hudilab.errors import TableError

TABLE_TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
EVOLVE, FREEZE, ANY = POLICIES = ("evolve", "freeze", "any")
_OPERATIONS = ("bulk_insert", "insert", "upsert")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
COMMIT_TIME = "COMMIT_TIME_ORDERING"
MERGE_MODES = ("EVENT_TIME_ORDERING", COMMIT_TIME)
# With a local index, a key is unique in its partition; with a global index, in the table.
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
DELETED = "_hoodie_is_deleted"  # the column of a batch that deletes rows
STREAMED = "hoodie.metadata.streaming.write.enabled"
COLUMN_STATS = "hoodie.metadata.index.column.stats.enable"
PARTITION_STATS = "hoodie.metadata.index.partition.stats.enable"
ROW_WRITER = f"{WRITE}row.writer.enable"
VALIDATORS = "hoodie.precommit.validators"
AVRO = "org.apache.hudi.common.model.HoodieAvroRecordMerger"
# Types without a distinct text in Hudi's keys -> SQL of such a text.
_AS_TEXT = {"binary": "hex({0})", **dict.fromkeys(("array", "map", "struct"), "to_json({0})")}
_UNFIT = {
    "record_key": "writes another key for the same value in each batch",
    "partition": "changes the values of such a partition, or cannot read them",
    "ordering": "cannot compare its values",
}
ASYNC_EXITS = "compaction alongside the stream can keep the JVM from exiting"
DOUBLE_DIGITS, LONG_DIGITS = 15, 18  # of decimals that fit exactly


class Problem(NamedTuple):
    """A problem of a TableSpec's field, with its value unless that is obvious."""

    field: str
    value: str
    text: str

    def __str__(self) -> str:
        """Return the problem with the field and value in Python's syntax."""
        return f"{self.field}{'=' * bool(self.value)}{self.value} {self.text}"


class SpecError(TableError):
    """The fields of a TableSpec are invalid, see `problems`."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        text = "; ".join(map(str, self.problems))
        super().__init__(f"invalid TableSpec: {text}", "fix these fields")


@dataclass(frozen=True)
class TableSpec:
    """A Hudi table's key, layout and write operation.

    Attributes:
        ordering: The ordering field: of two rows with the same key, an upsert keeps the row with
            the greater value. A single column, because hudi-rs 0.5 reads no table with more.
        table_type: COPY_ON_WRITE or MERGE_ON_READ.
        operation: bulk_insert, insert or upsert.
        buckets: For upserts: use the bucket index with this number of file groups per partition,
            fixed for the table's life.
        index: For upserts: the index that finds a key's file. None: BUCKET if `buckets` is set,
            else SIMPLE, which reads the keys of all files. BLOOM first reads a filter of each file,
            and RECORD_LEVEL_INDEX reads the metadata table. With these indexes, a key is unique in
            its partition. With GLOBAL_SIMPLE, GLOBAL_BLOOM or GLOBAL_RECORD_LEVEL_INDEX, it is
            unique in the table, and a row with a new partition moves. Source: Hudi 1.2
            `hoodie.index.type`.
        merge_mode: For upserts: EVENT_TIME_ORDERING keeps the row with the greater `ordering`,
            COMMIT_TIME_ORDERING the later arrival. None: EVENT_TIME_ORDERING.
        cdc: Commits also store each change with the row before and after it (change data capture).
            Fixed for the table's life; see `check_columns`. In MERGE_ON_READ, streams then don't
            compact, because in Hudi 1.2 an interrupted compaction makes the changes unreadable.
            Compact while no stream writes or reads.
        schema: The changes of columns that a stream may make, checked before each write. evolve:
            add nullable columns, and widen types (int to bigint, float to double, a decimal to more
            digits). freeze: none. any: all that Hudi accepts, so a batch with strings in an int
            column changes the column to STRING permanently, without a warning. Key and partition
            columns accept only types with the same texts. See `hudi_sink.schema`.
        tuned: Write small batches in less time than with Hudi's defaults. A new table then has no
            metadata table, so queries skip no files by statistics and CREATE INDEX needs options;
            it cleans and compacts every ten commits. An existing table keeps its metadata table.

    Raises:
        SpecError: Fields are invalid; the message lists every problem.
    """

    name: str
    record_key: tuple[str, ...]
    partition: tuple[str, ...]
    ordering: str
    table_type: str = "COPY_ON_WRITE"
    operation: str = "bulk_insert"
    buckets: int | None = None
    index: str | None = None
    merge_mode: str | None = None
    cdc: bool = False
    schema: str = EVOLVE
    tuned: bool = False

    def __post_init__(self) -> None:
        problems = _name_problem("name", self.name) + _name_problem("ordering", self.ordering)
        problems += _columns_problems("record_key", self.record_key)
        problems += _columns_problems("partition", self.partition)
        if self.record_key == ():
            text = "is empty, name the columns that make a row unique"
            problems.append(Problem("record_key", "", text))
        if self.table_type not in TABLE_TYPES:
            problems.append(_unknown("table_type", self.table_type, TABLE_TYPES))
        if self.operation not in _OPERATIONS:
            problems.append(_unknown("operation", self.operation, _OPERATIONS))
        if self.operation == "upsert" and not problems and self.ordering in self.record_key:
            text = (
                "is part of record_key, so two rows with the same key always tie and an older row "
                "can win; order by a column outside the key"
            )
            problems.append(Problem("ordering", self.ordering, text))
        if self.buckets is not None:
            if type(self.buckets) is not int or self.buckets < 1:
                text = "is not a whole number of 1 or more"
                problems.append(Problem("buckets", repr(self.buckets), text))
            if self.operation != "upsert":
                text = f"needs operation=upsert, but operation is {self.operation}"
                problems.append(Problem("buckets", repr(self.buckets), text))
        problems += self._index_problems() + self._merge_problems()
        if self.schema not in POLICIES:
            problems.append(_unknown("schema", self.schema, POLICIES))
        if type(self.tuned) is not bool:
            problems.append(Problem("tuned", repr(self.tuned), "is not True or False"))
        if problems:
            raise SpecError(problems)

    def write_options(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the spec's options and `extra`, all text, for `.format("hudi").options(**...)`.

        Raises:
            TableError: `extra` sets an option of the spec, in any case of letters, or contains
                values other than text; the message contains no value.
        """
        if problems := _option_problems(self, extra or {}):
            raise TableError("; ".join(problems))
        return {option: value for option, value, _ in self.describe()} | dict(extra or {})

    def describe(self) -> list[tuple[str, str, str]]:
        """Return (option, value, purpose) for each option of the spec."""
        rows = ((option.name, option.value(self), option.why) for option in OPTIONS)
        return [(name, value, why) for name, value, why in rows if value is not None]

    def is_global(self) -> bool:
        """Return whether a key is unique in the whole table, not only in its partition."""
        return self.index in GLOBAL_INDEXES

    def logs(self) -> bool:
        """Return whether upserts write logs, which compactions merge later."""
        return self.table_type == "MERGE_ON_READ"

    def fixed(self) -> dict[str, object]:
        """Return the fields that a stream must not change and `hoodie.properties` lacks."""
        # With another number of buckets, Hudi would look up a key in another file.
        fixed: dict[str, object] = {"buckets": self.buckets} if self.buckets else {}
        # Otherwise, unique keys of the table would become unique only in a partition.
        return fixed | ({"index": "global"} if self.is_global() else {})

    def options_for(self, types: Mapping[str, str]) -> dict[str, str]:
        """Return write options that replace the spec's for columns of these types.

        For Avro records, as in SQL and most upserts, Hudi 1.2 writes a TIMESTAMP in a key as
        microseconds. For Spark's rows, it writes a text with milliseconds, with which an upsert
        doesn't find each key.

        Args:
            types: Types by column, as in `DataFrame.dtypes`.
        """
        has_moment = any(types.get(name) == "timestamp" for name in self.record_key)
        return {MERGER: AVRO, ROW_WRITER: "false"} if has_moment else {}

    def check_columns(self, types: Iterable[tuple[str, str]]) -> None:
        """Raise TableError for columns of `DataFrame.dtypes` that don't suit their role.

        In keys, Hudi 1.2 writes no distinct texts for BINARY, STRUCT, ARRAY and MAP, and it can't
        read partitions of times. In stored changes, it writes a DECIMAL as `{"zero":false}` or as
        bytes.
        """
        kinds = dict(types)
        roles = {"record_key": self.record_key, "partition": self.partition}
        roles |= {"ordering": (self.ordering,)}
        problems = [
            f"{role} names {name} ({kinds[name]}), and Hudi 1.2 {_UNFIT[role]}; derive a column "
            f"from it, such as {column}, and name that instead"
            for role, names in roles.items()
            for name in names
            if (column := _instead(role, name, kinds.get(name, "")))
        ]
        problems += self._uncompared(kinds)
        if problems:
            raise TableError("; ".join(problems))
        lost = [name for name, kind in kinds.items() if "decimal" in kind] if self.cdc else []
        if lost:
            name, kind = lost[0], kinds[lost[0]]
            wider = "double" if _digits(kind) <= DOUBLE_DIGITS else "string"
            cast = f': .withColumn("{name}", F.col("{name}").cast("{wider}"))'
            raise TableError(
                f"cdc=True loses the values of DECIMAL columns, and {', '.join(lost)} "
                f"{'is one' if len(lost) == 1 else 'are some'}",
                f"store {wider.upper()} instead" + (cast if kind.startswith("decimal") else ""),
            )

    def _uncompared(self, kinds: Mapping[str, str]) -> list[str]:
        """Return the problem of an ordering by DATE or DECIMAL that Hudi 1.2 can't compare, if any.

        Hudi compares the number of a stored DATE, or the bytes of a stored DECIMAL, with the
        batch's date or decimal, and fails. In MERGE_ON_READ, this affects global indexes, which
        look up rows in other partitions, and deletes with the record index. A delete with a DATE
        also can't be logged.
        """
        name, kind = self.ordering, kinds.get(self.ordering, "").partition("(")[0]
        options = self.write_options() | self.options_for(kinds)
        if self.operation != "upsert" or options.get(MERGER, AVRO) != AVRO:
            return []
        compares = not self.logs() or self.is_global()
        deletes = DELETED in kinds and (kind == "date" or self.index == "RECORD_LEVEL_INDEX")
        if kind not in ("date", "decimal") or not (compares or deletes):
            return []
        where = "this index or key" if compares else f"a delete ({DELETED}) in MERGE_ON_READ"
        return [
            f"ordering names {name} ({kinds[name]}), which Hudi 1.2 cannot compare with {where}; "
            f"{_comparable(name, kinds[name])}"
        ]

    def _index_problems(self) -> list[Problem]:
        if self.index is None:
            return []
        if self.index not in LOCAL_INDEXES + GLOBAL_INDEXES:
            return [_unknown("index", self.index, LOCAL_INDEXES + GLOBAL_INDEXES)]
        problems = []
        if self.operation != "upsert":
            text = (
                f"needs operation=upsert, but operation is {self.operation}, which looks up no keys"
            )
            problems.append(Problem("index", self.index, text))
        if self.index == "BUCKET" and self.buckets is None:
            text = "needs buckets, the number of file groups per partition"
            problems.append(Problem("index", self.index, text))
        if self.index != "BUCKET" and self.buckets is not None:
            text = f"needs index=BUCKET, but index is {self.index}"
            problems.append(Problem("buckets", repr(self.buckets), text))
        keys, parts = (
            [str(column).lower() for column in columns] if isinstance(columns, tuple) else []
            for columns in (self.record_key, self.partition)
        )
        within = [name for name in parts if name in keys]
        if within and self.index in GLOBAL_INDEXES:
            text = (
                f"moves no row, because the partition column {within[0]} is part of record_key: in "
                "another partition it is another key"
            )
            problems.append(Problem("index", self.index, text))
        return problems

    def _merge_problems(self) -> list[Problem]:
        problems = []
        needs = f"needs operation=upsert, but operation is {self.operation}, "
        if self.merge_mode is not None and self.merge_mode not in MERGE_MODES:
            problems.append(_unknown("merge_mode", self.merge_mode, MERGE_MODES))
        elif self.merge_mode is not None and self.operation != "upsert":
            problems.append(Problem("merge_mode", "", f"{needs}which compares no rows"))
        if type(self.cdc) is not bool:
            problems.append(Problem("cdc", repr(self.cdc), "is not True or False"))
        elif self.cdc and self.operation != "upsert":
            text = f"{needs}whose changes an incremental query shows"
            problems.append(Problem("cdc", "", text))
        return problems

    def conflicts(self, properties: Mapping[str, str]) -> list[str]:
        """Return differences from an existing table's `hoodie.properties`, one message each."""
        messages = []
        for option in OPTIONS:
            value, stored = option.value(self), _plain(option.in_properties(properties))
            wanted = option.default if value is None else value
            if option.label and wanted is not None and stored != wanted:
                messages.append(
                    f"{option.label}: the table has {stored or 'none'}, the spec has "
                    f"{wanted or 'none'}"
                )
        return messages


def _instead(role: str, name: str, kind: str) -> str:
    """Return SQL of a column to use instead of one with an unsuitable type, or an empty string.

    Args:
        kind: The column's type in `DataFrame.dtypes`.
    """
    kind = kind.partition("<")[0]
    if text := _AS_TEXT.get(kind):
        return f"{text.format(name)} AS {name}_text"
    return f"to_date({name}) AS {name}_day" if role == "partition" and "timestamp" in kind else ""


def _comparable(name: str, kind: str) -> str:
    """Return the remedy for an ordering by DATE or DECIMAL: an equivalent column."""
    scale = int(kind.rstrip(")").rpartition(",")[2]) if kind != "date" else 0
    if kind == "date":
        value = f"CAST({name} AS TIMESTAMP)"
    elif _digits(kind) <= DOUBLE_DIGITS:
        value = f"CAST({name} AS DOUBLE)"
    elif _digits(kind) <= LONG_DIGITS:
        value = f"CAST({name} * {10**scale} AS BIGINT)"
    else:
        return "use a column of another type, because no number stores all of its digits"
    return f"derive a column from it, such as {value} AS {name}_order, and name that instead"


def _digits(kind: str) -> int:
    """Return the maximum digits of a decimal in a type."""
    return max(map(int, re.findall(r"decimal\((\d+)", kind)), default=0)


def _plain(value: str | None) -> str:
    """Return a list of columns without blanks and Hudi's suffix `:simple`."""
    columns = (column.strip() for column in (value or "").split(","))
    return ",".join(re.sub(r"(?i):simple$", "", column) for column in columns)


def _unknown(field: str, value: object, known: Iterable[str]) -> Problem:
    return Problem(field, repr(value), f"is not one of {', '.join(known)}")


def _name_problem(field: str, value: object) -> list[Problem]:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return []
    text = "is not a valid name (letters, digits and _, not starting with a digit)"
    return [Problem(field, repr(value), text)]


def _columns_problems(field: str, columns: object) -> list[Problem]:
    if not isinstance(columns, tuple):
        text = f"is of type {type(columns).__name__}, write a tuple such as ('sensor_id',)"
        return [Problem(field, "", text)]
    problems = [problem for column in columns for problem in _name_problem(field, column)]
    # Spark ignores case in column names.
    if len({str(column).lower() for column in columns}) < len(columns):
        problems.append(Problem(field, ",".join(map(str, columns)), "names a column twice"))
    return problems


def _option_problems(spec: TableSpec, extra: Mapping[str, str]) -> list[str]:
    """Return the problems of further options for a table of this spec, without their values.

    Like Spark, it ignores the case of names.
    """
    problems = []
    for key, value in extra.items():
        if not isinstance(key, str):
            kind = type(key).__name__
            problems.append(f"option {key!r} is of type {kind}; write its name as a string")
        elif not isinstance(value, str):
            kind = type(value).__name__
            problems.append(f"option {key!r} has a value of type {kind}; write it as a string")
        elif problem := _refused(spec, key.strip().lower()):
            problems.append(f"option {key!r} {problem}")
    return problems


def _refused(spec: TableSpec, name: str) -> str:
    """Return the reason why a spec's table cannot have an option, or an empty string."""
    if instead := OWNED.get(name):
        return f"belongs to the spec; {instead}"
    mergers = (MERGER, f"{WRITE}record.merger.impls")
    if name in mergers and spec.index in GLOBAL_INDEXES + RECORD_INDEXES:
        return f"can end the JVM with {spec.index}; remove it"
    if name == VALIDATORS and spec.operation == "bulk_insert":
        return (
            "is ignored by bulk_insert, so bad rows would be committed; set TableSpec.operation "
            "to insert or upsert"
        )
    if name == VALIDATORS and spec.logs():
        return (
            "does not read the logs of MERGE_ON_READ, so bad rows would be committed; set "
            "TableSpec.table_type to COPY_ON_WRITE"
        )
    return ""


@dataclass(frozen=True)
class Option:
    """A Hudi option that a table's spec sets or refuses.

    Attributes:
        value: Returns the value for a spec; None if the option does not apply.
        why: The option's purpose.
        field: The field of TableSpec that determines the value, so callers must not set the option.
        instead: The remedy for callers that set the option, if no field determines it.
        aliases: Hudi 1.2's other names of the option, also in `hoodie.properties`.
        label: The name in messages, if the option is fixed for the table's life.
        default: Hudi's value for a table without the option in `hoodie.properties`.
    """

    name: str
    value: Callable[[TableSpec], str | None]
    why: str = ""
    field: str = ""
    instead: str = ""
    aliases: tuple[str, ...] = ()
    label: str = ""
    default: str | None = None

    def in_properties(self, properties: Mapping[str, str]) -> str | None:
        """Return the value in a table's `hoodie.properties`, else the default."""
        names = [name for name in (self.name, *self.aliases) if name in properties]
        return properties[names[0]] if names else self.default


def _if(right: object, value: str = "true") -> str | None:
    return value if right else None


def _never(spec: TableSpec) -> None:
    """Return None, because the lab never sets the option."""


def _index(spec: TableSpec) -> str | None:
    return "BUCKET" if spec.buckets else spec.index


def _in_spark(spec: TableSpec) -> bool:
    # In MERGE_ON_READ, Spark's rows would also change the log format without a benefit. With a
    # global index they end the JVM (SIGSEGV), and with a record index they are read as garbage.
    # Inserted Avro with an array of decimals in an array of structs couldn't be read back.
    risky = spec.index in GLOBAL_INDEXES + RECORD_INDEXES
    upserts = spec.operation == "upsert" and not spec.logs() and not risky
    return upserts or spec.operation == "insert"


def _record(spec: TableSpec) -> bool:
    return spec.index in RECORD_INDEXES


def _tuned(value: str) -> Callable[[TableSpec], str | None]:
    return lambda spec: _if(spec.tuned, value)


def _metadata(spec: TableSpec) -> str | None:
    return "true" if _record(spec) else _if(spec.tuned, "false")


# In the order of `describe`.
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
        instead="remove it: new tables encode partition values, existing ones stay as they are",
    ),
    Option(
        f"{WRITE}hive_style_partitioning",
        lambda spec: "true",
        "Directories are named column=value.",
        instead="remove it: partitions are always column=value",
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
        instead="remove it: instants are always UTC",
        label="time zone",
        default="UTC",
    ),
    Option(
        "hoodie.datasource.compaction.async.enable",
        lambda spec: _if(spec.logs(), "false"),
        "No compaction alongside the stream: it can keep the JVM from exiting.",
        instead=f"remove it: {ASYNC_EXITS}",
    ),
    Option(
        INLINE,
        # After an interrupted compaction, reading the stored changes fails permanently.
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
    ),
    Option(
        "hoodie.bucket.index.num.buckets",
        lambda spec: _if(spec.buckets, str(spec.buckets)),
        "File groups per partition, fixed for the table's life, over which its keys are spread.",
        field="buckets",
    ),
    Option(
        "hoodie.parquet.bloom.filter.enabled",
        lambda spec: _if(spec.buckets, "false"),
        "The bucket determines a key's file, so no file needs a filter of its keys.",
    ),
    Option(
        METADATA,
        _metadata,
        "The metadata table holds the record index; without it, a small batch takes less time.",
    ),
    Option(
        "hoodie.metadata.record.level.index.enable",
        lambda spec: _if(spec.index == "RECORD_LEVEL_INDEX"),
        "The record index: a partition's keys, and the file that holds each.",
    ),
    Option(
        "hoodie.metadata.global.record.level.index.enable",
        lambda spec: _if(spec.index == "GLOBAL_RECORD_LEVEL_INDEX"),
        "The record index: all keys of the table, and the file that holds each.",
    ),
    Option(
        STREAMED,
        lambda spec: _if(_record(spec), "false"),
        "Written while a cluster's executors still write data, the index misses keys.",
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
        COLUMN_STATS,
        _tuned("false"),
        "No smallest and greatest value of each file's columns, which skip files in queries.",
    ),
    Option(
        PARTITION_STATS,
        lambda spec: _if(spec.tuned or spec.index == "RECORD_LEVEL_INDEX", "false"),
        "No smallest and greatest value of each partition's columns, which Hudi can't write with "
        "RECORD_LEVEL_INDEX unless its timeline server runs.",
    ),
    Option(
        "hoodie.clean.max.commits",
        _tuned("10"),
        "Cleaning looks for replaced files every ten commits, not after each.",
    ),
    Option(
        "hoodie.compact.inline.max.delta.commits",
        lambda spec: _if(spec.tuned and spec.logs(), "10"),
        "Logs are merged into base files every ten commits, not every five.",
    ),
    Option(
        "hoodie.write.record.positions",
        lambda spec: _if(spec.tuned and spec.logs(), "false"),
        "No positions in logs, for which Hudi would list a folder for each log.",
    ),
    Option(
        "hoodie.parquet.compression.codec",
        _tuned("snappy"),
        "Faster to write than gzip, and larger.",
    ),
    Option(
        "hoodie.parquet.dictionary.enabled",
        _tuned("false"),
        "No dictionaries, which keys and sequence numbers would not use.",
    ),
    Option(
        "hoodie.index.bloom.num_entries",
        lambda spec: _if(spec.tuned and not spec.buckets, "1000"),
        "A file's filter of keys starts small and grows; Hudi's takes 440 kB in each file.",
    ),
    Option(
        "hoodie.index.bloom.fpp",
        lambda spec: _if(spec.tuned and not spec.buckets, "0.01"),
        "One false hit of that filter in a hundred: 7 hashes for each key, not 30.",
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
        instead="remove it: it silently loses the rows of a failed batch",
    ),
)
# Name -> the remedy for callers that set the option.
OWNED = {
    name: f"set TableSpec.{option.field}" if option.field else option.instead
    for option in OPTIONS
    if option.field or option.instead
    for name in (option.name, *option.aliases)
}
