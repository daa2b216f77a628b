"""Describe a table (key, partition, order) and derive its Hudi options."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hudilab.errors import TableError
from hudilab.formats import SHARED
from hudilab.writer.drift import EVOLVE, POLICIES

__all__ = [
    "COMMIT_TIME",
    "INLINE",
    "SMALL_LOG",
    "TABLE_TYPES",
    "TIDY_EVERY",
    "TableSpec",
    "closing_options",
    "foreign_groups",
    "index_options",
    "lock_name",
    "sharing_options",
]

COMMIT_TIME = "COMMIT_TIME_ORDERING"
INLINE = "hoodie.compact.inline"
TABLE_TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
TIDY_EVERY = 20  # batches of appends
COMPACT_EVERY = 10  # batches of upserts
COMPACT_ALL_EVERY = 200
CLEAN_AFTER = 20  # batches after a compaction of all: hoodie.clean.max.commits
SMALL_LOG = 4 * 1024 * 1024  # bytes: some 30,000 rows of sensors

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPERATIONS = ("bulk_insert", "insert", "upsert")
# With one of these, a key is unique in its partition; with a global one, in the table.
_LOCAL = ("BUCKET", "SIMPLE", "BLOOM", "RECORD_LEVEL_INDEX")
_GLOBAL = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM", "GLOBAL_RECORD_LEVEL_INDEX")
_RECORD = ("RECORD_LEVEL_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")
_MERGE_MODES = ("EVENT_TIME_ORDERING", COMMIT_TIME)
_WRITE = "hoodie.datasource.write."
_CLEAN = "hoodie.clean.automatic"
_MERGER = "hoodie.write.record.merge.custom.implementation.classes"
_MERGERS = (_MERGER, "hoodie.datasource.write.record.merger.impls")
_BUCKETS = "hoodie.bucket.index.num.buckets"
_FILTER = "hoodie.parquet.bloom.filter.enabled"
_INDEX = "hoodie.index.type"
_METADATA = "hoodie.metadata.enable"
_RECORDS = "hoodie.metadata.record.level.index.enable"
_ALL_RECORDS = "hoodie.metadata.global.record.level.index.enable"
_STREAMED = "hoodie.metadata.streaming.write.enabled"
_MODE = "hoodie.write.record.merge.mode"
_CDC = "hoodie.table.cdc.enabled"
_IMAGES = "hoodie.table.cdc.supplemental.logging.mode"
_VALIDATORS = "hoodie.precommit.validators"
_PROVIDER = "hoodie.write.lock.provider"
_HUDI_LOCKS = "org.apache.hudi.client.transaction.lock."
_FILE_LOCK = f"{_HUDI_LOCKS}FileSystemBasedLockProvider"
_PROCESS_LOCK = f"{_HUDI_LOCKS}InProcessLockProvider"
_ASYNC = "hoodie.datasource.compaction.async.enable"
_LOSES = f"{_WRITE}streaming.ignore.failed.batch"

# Every option name that Hudi 1.2 accepts for a field of TableSpec.
_SPELLINGS = {
    "name": ["hoodie.table.name", f"{_WRITE}table.name"],
    "table_type": ["hoodie.table.type", f"{_WRITE}table.type"],
    "record_key": ["hoodie.table.recordkey.fields", f"{_WRITE}recordkey.field"],
    "partition": ["hoodie.table.partition.fields", f"{_WRITE}partitionpath.field"],
    "ordering": [
        "hoodie.table.ordering.fields",
        "hoodie.table.precombine.field",
        f"{_WRITE}precombine.field",
    ],
    "operation": [f"{_WRITE}operation"],
    "buckets": [_BUCKETS],
    "index": [_INDEX],
    "merge_mode": [_MODE, "hoodie.record.merge.mode"],
    "cdc": [_CDC, _IMAGES],
    "record_key and TableSpec.partition": [
        f"{prefix}keygenerator.{what}"
        for prefix in ("hoodie.table.", _WRITE)
        for what in ("class", "type")
    ],
}
# Option -> what to do instead of setting it.
_OWNED = {key: f"set TableSpec.{field}" for field, keys in _SPELLINGS.items() for key in keys} | {
    f"{_WRITE}hive_style_partitioning": "leave it out: partitions are always column=value",
    "hoodie.table.timeline.timezone": "leave it out: instants are always UTC",
    _ASYNC: "leave it out: compaction alongside the stream can keep the JVM from exiting",
    _LOSES: "leave it out: it silently loses the rows of a failed batch",
}
# Option -> its purpose, in the order in which readers meet them.
_WHY = {
    "hoodie.table.name": "The table's name, stored in hoodie.properties.",
    f"{_WRITE}table.type": "A commit rewrites files (copy), or logs changes (merge on read).",
    f"{_WRITE}recordkey.field": "The columns that make a row unique.",
    f"{_WRITE}partitionpath.field": "One directory for each value; empty: no partitions.",
    f"{_WRITE}hive_style_partitioning": "Directories are named column=value.",
    "hoodie.table.ordering.fields": "Of two rows with one key, an upsert keeps the greater one.",
    f"{_WRITE}operation": "How a batch is written: inserts add rows, upserts look up keys first.",
    "hoodie.table.timeline.timezone": "Instants read the same on every machine.",
    _ASYNC: "No compaction alongside the stream: it can keep the JVM from exiting.",
    INLINE: "Whether logs are merged into base files between batches.",
    _CLEAN: "Appends replace no files, so there is nothing to clean or look for.",
    _MERGER: "Rows are compared in Spark's format, not as Avro: a fifth less time.",
    _INDEX: "How an upsert finds a key's file; BUCKET computes it and opens no file.",
    _BUCKETS: "File groups per partition, fixed for good: its keys are spread over them.",
    _FILTER: "The bucket tells where a key is: no file needs a filter of its keys.",
    _METADATA: "The metadata table holds the record index.",
    _RECORDS: "The record index: a partition's keys, and the file that holds each.",
    _ALL_RECORDS: "The record index: all keys of the table, and the file that holds each.",
    _STREAMED: "Written while a cluster's executors still write data, the index misses keys.",
    "hoodie.record.index.update.partition.path": "A row that comes with another partition moves.",
    _MODE: "Of two rows with one key, the greater one stays, or the later arrival.",
    _CDC: "Each commit also stores what it changed, for readers of changes.",
    _IMAGES: "A change is stored with the row before and after it.",
}
# What SQL must be told about a table: hoodie.properties holds the rest.
_SQL = (_INDEX, _BUCKETS, _FILTER, _METADATA, _RECORDS, _ALL_RECORDS, _STREAMED)


@dataclass(frozen=True)
class TableSpec:
    """A Hudi table: its key, its layout and how batches are written to it.

    Attributes:
        ordering: The column whose greatest value an upsert keeps when a key occurs twice; only one,
            because hudi-rs 0.5 reads no table with more.
        table_type: COPY_ON_WRITE or MERGE_ON_READ.
        operation: bulk_insert, insert or upsert.
        buckets: For upserts: use the bucket index with this number of file groups per partition,
            fixed for the table's life.
        index: For upserts: how a key's file is found. None: BUCKET if `buckets` is set, else
            SIMPLE, which reads the keys of all files; BLOOM asks a filter of each file first, and
            RECORD_LEVEL_INDEX the metadata table. With these a key is unique in its partition.
            With GLOBAL_SIMPLE, GLOBAL_BLOOM or GLOBAL_RECORD_LEVEL_INDEX it is unique in the
            table, and a row that comes with another partition moves. Source: Hudi 1.2
            `hoodie.index.type`.
        merge_mode: For upserts: EVENT_TIME_ORDERING keeps the row that is greater in `ordering`,
            COMMIT_TIME_ORDERING the one that arrived later. None: EVENT_TIME_ORDERING.
        cdc: Commits also store each change with the row before and after it (change data capture).
            Fixed for the table's life; see `check_columns`. In MERGE_ON_READ, streams then do not
            compact: in Hudi 1.2, once a compaction dies halfway, reading the changes fails for
            good. Compact while no stream writes or reads.
        schema: Which changes of its columns a stream may bring, compared before a batch is written.
            evolve: new nullable columns, and wider types (int to bigint, float to double, a decimal
            with more digits). freeze: none. any: whatever Hudi takes; it silently and
            permanently turns an int column into text if a batch brings text. See `writer.drift`.

    Raises:
        TableError: Fields are invalid; the message lists every problem.
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

    def __post_init__(self) -> None:
        problems = _name_problem("name", self.name) + _name_problem("ordering", self.ordering)
        problems += _columns_problems("record_key", self.record_key)
        problems += _columns_problems("partition", self.partition)
        if self.record_key == ():
            problems.append("record_key is empty, name the columns that make a row unique")
        if self.table_type not in TABLE_TYPES:
            known = ", ".join(TABLE_TYPES)
            problems.append(f"table_type={self.table_type!r} is not one of {known}")
        if self.operation not in _OPERATIONS:
            problems.append(f"operation={self.operation!r} is not one of {', '.join(_OPERATIONS)}")
        if self.operation == "upsert" and not problems and self.ordering in self.record_key:
            problems.append(
                f"ordering={self.ordering} is part of record_key, so two rows with the same key "
                "always tie and an older row can win; order by a column outside the key"
            )
        if self.buckets is not None:
            if type(self.buckets) is not int or self.buckets < 1:
                problems.append(f"buckets={self.buckets!r} is not a whole number of 1 or more")
            if self.operation != "upsert":
                problems.append(f"buckets need operation=upsert, but operation is {self.operation}")
        problems += self._index_problems() + self._merge_problems()
        if self.schema not in POLICIES:
            problems.append(f"schema={self.schema!r} is not one of {', '.join(POLICIES)}")
        if problems:
            raise TableError(f"invalid TableSpec: {'; '.join(problems)}; fix these fields")

    def write_options(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the spec's options and `extra`, all text, for `.format("hudi").options(**...)`.

        Raises:
            TableError: `extra` sets what the spec owns (names are compared without case, as Spark
                does) or holds anything but text; the message repeats no value.
        """
        problems = []
        for key, value in (extra or {}).items():
            if not isinstance(key, str):
                kind = type(key).__name__
                problems.append(f"option {key!r} is of type {kind}; write its name as a string")
            elif not isinstance(value, str):
                kind = type(value).__name__
                problems.append(f"option {key!r} has a value of type {kind}; write it as a string")
            elif remedy := _OWNED.get(key.strip().lower()):
                problems.append(f"option {key!r} belongs to the spec; {remedy}")
            elif key.strip().lower() in _MERGERS and self.index in _GLOBAL + _RECORD:
                problems.append(f"option {key!r} can end the JVM with {self.index}; leave it out")
            elif key.strip().lower() == _VALIDATORS and self.operation == "bulk_insert":
                problems.append(
                    f"option {key!r} is ignored by bulk_insert, so bad rows would be committed; "
                    "set TableSpec.operation to insert or upsert"
                )
            elif key.strip().lower() == _VALIDATORS and self.table_type == "MERGE_ON_READ":
                problems.append(
                    f"option {key!r} does not see what MERGE_ON_READ logs, so bad rows would be "
                    "committed; set TableSpec.table_type to COPY_ON_WRITE"
                )
        if problems:
            raise TableError("; ".join(problems))
        return {option: value for option, value, _ in self.describe()} | dict(extra or {})

    def tidy_options(
        self, batch_id: int, every: int = TIDY_EVERY, written: int = SMALL_LOG
    ) -> dict[str, str]:
        """Return options that make one batch in `every` run table services after its commit.

        Appends (bulk_insert): files of fewer bytes than
        `hoodie.clustering.plan.strategy.small.file.limit` are merged. Files that an earlier merge
        replaced are removed unless a retained commit needs them. Empty for the other batches.

        Upserts of MERGE_ON_READ, each tenth batch whatever `every` is: file slices whose logs have
        grown to 4 MB are compacted, so that small batches do not rewrite a large table. If the
        stream has written less since the last services, none are run, because to plan them takes
        half a second. Each 200th batch compacts all, so that reads never open thousands of small
        logs; twenty batches later, what it replaced is removed. Only batches that compact may
        clean.

        Empty for other tables: upserts of COPY_ON_WRITE clean by themselves, and those of
        MERGE_ON_READ with `cdc` must not compact.

        Args:
            written: The bytes that the stream has written since a batch last ran services.
        """
        if self.operation == "upsert" and self.table_type == "MERGE_ON_READ" and not self.cdc:
            place = batch_id % COMPACT_ALL_EVERY
            everything = place == COMPACT_ALL_EVERY - 1
            after = place == CLEAN_AFTER - 1 and batch_id > COMPACT_ALL_EVERY
            grown = place % COMPACT_EVERY == COMPACT_EVERY - 1 and written >= SMALL_LOG
            if not (everything or after or grown):
                # Without a compaction there is nothing to clean, and Hudi would look in each batch.
                return {INLINE: "false", _CLEAN: "false"}
            return {
                INLINE: "true",
                "hoodie.compact.inline.max.delta.commits": "1",
                "hoodie.compaction.logfile.size.threshold": "0" if everything else str(SMALL_LOG),
            }
        if self.operation != "bulk_insert" or batch_id % every != every - 1:
            return {}
        every_time = {"hoodie.clustering.inline.max.commits": "1", "hoodie.clean.max.commits": "1"}
        return {"hoodie.clustering.inline": "true", _CLEAN: "true"} | every_time

    def describe(self) -> list[tuple[str, str, str]]:
        """Return (option, value, purpose), one row for each option that the spec sets."""
        values = [self.name, self.table_type, ",".join(self.record_key), ",".join(self.partition)]
        values += ["true", self.ordering, self.operation, "UTC"]
        # Once a compaction has died halfway, reading the stored changes fails permanently.
        inline = "false" if self.cdc else "true"
        values += ["false", inline] if self.table_type == "MERGE_ON_READ" else ["", ""]
        values.append("false" if self.operation == "bulk_insert" else "")
        # In MERGE_ON_READ, Spark rows would also change the log format, for no gain. With a global
        # index they end the JVM (SIGSEGV), with a record index they are read as garbage.
        in_spark = self.operation == "upsert" and self.table_type == "COPY_ON_WRITE"
        in_spark = in_spark and self.index not in _GLOBAL + _RECORD
        values.append("org.apache.hudi.DefaultSparkRecordMerger" if in_spark else "")
        buckets = ["BUCKET", str(self.buckets), "false"]
        values += buckets if self.buckets else [self.index or "", "", ""]
        one, all_ = (self.index == name for name in _RECORD)
        values += ["true" if yes else "" for yes in (one or all_, one, all_)]
        values += ["false" if one or all_ else "", "true" if all_ else ""]
        values += [self.merge_mode or ""]
        values += ["true", "DATA_BEFORE_AFTER"] if self.cdc else ["", ""]
        # An empty value means that the option does not apply to this table.
        rows = zip(_WHY.items(), values, strict=True)
        owned = {f"{_WRITE}partitionpath.field"}  # empty: no partitions
        return [(name, value, why) for (name, why), value in rows if value or name in owned]

    def is_global(self) -> bool:
        """Return whether a key is unique in the whole table, and not only in its partition."""
        return self.index in _GLOBAL

    def sql_properties(self) -> dict[str, str]:
        """Return the TBLPROPERTIES with which SQL writes to the table as the spec does.

        Without them SQL assumes Hudi's default index: a MERGE or INSERT into a bucketed table
        succeeds, and every later upsert of its stream fails.

        One limit stays: with the bucket index in MERGE_ON_READ, Hudi 1.2 takes every row of a
        MERGE's source for a match, so a MERGE that only inserts does nothing there.
        """
        told = {option: value for option, value, _ in self.describe() if option in _SQL}
        return {_INDEX: "SIMPLE"} | told

    def check_columns(self, types: Iterable[tuple[str, str]]) -> None:
        """Raise TableError for a column whose value the stored changes would lose.

        Hudi 1.2 writes a DECIMAL into them as `{"zero":false}` or as bytes.

        Args:
            types: Name and type of each column, as `DataFrame.dtypes` has them.
        """
        lost = [name for name, kind in types if "decimal" in kind] if self.cdc else []
        if lost:
            raise TableError(
                f"cdc=True loses the values of DECIMAL columns, and {', '.join(lost)} "
                f"{'is one' if len(lost) == 1 else 'are some'}; store DOUBLE instead: "
                f'.withColumn("{lost[0]}", F.col("{lost[0]}").cast("double"))'
            )

    def _index_problems(self) -> list[str]:
        if self.index is None:
            return []
        if self.index not in _LOCAL + _GLOBAL:
            return [f"index={self.index!r} is not one of {', '.join(_LOCAL + _GLOBAL)}"]
        problems = []
        if self.operation != "upsert":
            problems.append(
                f"index={self.index} needs operation=upsert, but operation is {self.operation}, "
                "which looks up no keys"
            )
        if self.index == "BUCKET" and self.buckets is None:
            problems.append("index=BUCKET needs buckets, the number of file groups per partition")
        if self.index != "BUCKET" and self.buckets is not None:
            problems.append(f"buckets need index=BUCKET, but index is {self.index}")
        keys, parts = (
            [str(column).lower() for column in columns] if isinstance(columns, tuple) else []
            for columns in (self.record_key, self.partition)
        )
        within = [name for name in parts if name in keys]
        if within and self.index in _GLOBAL:
            problems.append(
                f"index={self.index} moves no row, because the partition column {within[0]} is "
                "part of record_key: in another partition it is another key"
            )
        return problems

    def _merge_problems(self) -> list[str]:
        problems = []
        if self.merge_mode is not None and self.merge_mode not in _MERGE_MODES:
            problems.append(
                f"merge_mode={self.merge_mode!r} is not one of {', '.join(_MERGE_MODES)}"
            )
        elif self.merge_mode is not None and self.operation != "upsert":
            problems.append(
                f"merge_mode needs operation=upsert, but operation is {self.operation}, which "
                "compares no rows"
            )
        if type(self.cdc) is not bool:
            problems.append(f"cdc={self.cdc!r} is not True or False")
        elif self.cdc and self.operation != "upsert":
            problems.append(
                f"cdc needs operation=upsert, but operation is {self.operation}, whose changes an "
                "incremental query shows"
            )
        return problems

    def conflicts(self, properties: Mapping[str, str]) -> list[str]:
        """Return differences from an existing table's `hoodie.properties`, one short text each."""
        have = {key.removeprefix("hoodie.table."): value for key, value in properties.items()}
        rows = [
            ("name", have.get("name"), self.name),
            ("type", have.get("type"), self.table_type),
            ("record key", have.get("recordkey.fields"), ",".join(self.record_key)),
            ("partition", have.get("partition.fields"), ",".join(self.partition)),
            (
                "ordering",
                have.get("ordering.fields", have.get("precombine.field")),
                self.ordering,
            ),
            # Not every table has these two lines, and Hudi does not refuse a table without them.
            ("hive style", have.get(f"{_WRITE}hive_style_partitioning", "true"), "true"),
            ("time zone", have.get("timeline.timezone", "UTC"), "UTC"),
            ("cdc", have.get("cdc.enabled", "false"), str(self.cdc).lower()),
        ]
        if self.merge_mode:
            rows.append(("merge mode", have.get("hoodie.record.merge.mode"), self.merge_mode))
        return [
            f"{what}: the table has {_plain(there) or 'none'}, the spec has {asked or 'none'}"
            for what, there, asked in rows
            if _plain(there) != asked
        ]


def index_options(properties: Mapping[str, str], definitions: str = "") -> dict[str, str]:
    """Return the options with which reads and writes keep a table's metadata table and indexes.

    A write without these options deletes the metadata table and every index in it; a read without
    them uses none. Empty for a table without a metadata table.

    Args:
        properties: The pairs of `hoodie.properties`.
        definitions: The text of `.hoodie/.index_defs/index.json`, empty if there is none.
    """
    have = properties.get("hoodie.table.metadata.partitions", "").split(",")
    if have == [""]:
        return {}
    indexes = json.loads(definitions or "{}").get("indexDefinitions", {})
    record = indexes.get("record_index", {}).get("indexOptions", {})
    scope = "" if record.get("isPartitioned") == "true" else "global."
    names = {
        "column_stats": "index.column.stats.enable",
        "partition_stats": "index.partition.stats.enable",
        "bloom_filters": "index.bloom.filter.enable",
        "record_index": f"{scope}record.level.index.enable",
    }
    found = {f"hoodie.metadata.{names[one]}": "true" for one in have if one in names}
    if "record_index" in have:
        found[_STREAMED] = "false"
    return {"hoodie.metadata.enable": "true"} | found


def closing_options(table: str) -> dict[str, str]:
    """Return write options with which a metadata table on S3 leaves no connection open.

    Hudi 1.2 never closes the connection with which it reads a log block of the metadata table
    through s3a, so a stream of upserts uses up s3a's 96 connections in four batches, and hangs.
    Compacted by each commit, the metadata table has no logs to read. Without effect on a table
    without a metadata table. Source: tests/services/test_s3.py.
    """
    return {"hoodie.metadata.compact.max.delta.commits": "1"} if table.startswith("s3a:") else {}


def sharing_options(table: str, lock: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return write options for a table that several streams or jobs write to at the same time.

    Source: Hudi 1.2 `hoodie.write.concurrency.mode`.

    Args:
        table: The table's URI.
        lock: Options of a Hudi lock provider; the default on a local disk is the table's own lock
            file, which another writer may take over a minute after its owner died.

    Raises:
        TableError: `lock` names no provider, or the table is on an object store, where no lock file
            is safe, and `lock` is missing or is that file.
    """
    remote = not table.startswith("file:")
    if lock is not None and not lock.get(_PROVIDER):
        raise TableError(
            f"lock= does not name a lock provider, so Hudi would look for a ZooKeeper; add "
            f"{_PROVIDER!r}, for example {_PROCESS_LOCK!r} for streams of one driver"
            + ("" if remote else ", or leave out lock= to use the table's own lock file")
        )
    if remote and (lock is None or lock[_PROVIDER] == _FILE_LOCK):
        raise TableError(
            f"{table} is on an object store, where Hudi's lock file is not safe; pass lock= "
            "with the options of a lock provider, for example {'hoodie.write.lock.provider': "
            "'org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider', ...}, or, for "
            f"streams of one driver, {{'hoodie.write.lock.provider': {_PROCESS_LOCK!r}}}"
        )
    file = {_PROVIDER: _FILE_LOCK, "hoodie.write.lock.filesystem.expire": "1"}  # minutes
    chosen = dict(file if lock is None else lock)
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        # Another writer's in-flight commit has not failed until its heartbeat stops.
        "hoodie.clean.failed.writes.policy": "LAZY",
        # If two writers find the same failed write, only one rolls it back.
        "hoodie.rollback.avoid.duplicate.plan": "true",
        "hoodie.client.heartbeat.interval_in_ms": "10000",
        "hoodie.client.heartbeat.tolerable.misses": "3",
        # Retry for longer than a dead writer's lock lives.
        "hoodie.write.lock.client.num_retries": "180",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "500",
        # A stream's commits keep this: it tells other programs which lock the stream takes.
        SHARED: lock_name(chosen[_PROVIDER]),
    } | chosen


def lock_name(provider: str) -> str:
    """Return the provider's class, and for a lock in a process's memory the process."""
    name = provider.rpartition(".")[2]
    return name + (f":{os.getpid()}@{socket.gethostname()}" if provider == _PROCESS_LOCK else "")


def foreign_groups(groups: Iterable[str], buckets: int) -> list[str]:
    """Return file groups whose names give no bucket of the table: it cannot have made them."""
    return sorted(name for name in groups if not (name[:8].isdecimal() and int(name[:8]) < buckets))


def _plain(value: str | None) -> str:
    """Return a column list without blanks and the `:simple` that Hudi may add."""
    columns = (column.strip() for column in (value or "").split(","))
    return ",".join(re.sub(r"(?i):simple$", "", column) for column in columns)


def _name_problem(field: str, value: object) -> list[str]:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return []
    return [
        f"{field}={value!r} is not a valid name (letters, digits and _, not starting with a digit)"
    ]


def _columns_problems(field: str, columns: object) -> list[str]:
    if not isinstance(columns, tuple):
        kind = type(columns).__name__
        return [f"{field} is of type {kind}, write a tuple such as ('sensor_id',)"]
    problems = [text for column in columns for text in _name_problem(field, column)]
    # Spark ignores case in column names.
    if len({str(column).lower() for column in columns}) < len(columns):
        problems.append(f"{field}={','.join(map(str, columns))} names a column twice")
    return problems
