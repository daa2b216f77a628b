"""Describe a table: its key, partition and order, and so the Hudi options that it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hudilab.errors import TableError
from hudilab.options import (
    GLOBAL_INDEXES,
    INDEX,
    LOCAL_INDEXES,
    MERGE_MODES,
    MERGER,
    OPTIONS,
    OWNED,
    RECORD_INDEXES,
    VALIDATORS,
    WRITE,
)

TABLE_TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")
EVOLVE, FREEZE, ANY = POLICIES = ("evolve", "freeze", "any")
_OPERATIONS = ("bulk_insert", "insert", "upsert")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


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
            permanently turns an int column into text if a batch brings text. See `hudi_sink.drift`.

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
            raise TableError(f"invalid TableSpec: {'; '.join(problems)}", "fix these fields")

    def write_options(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the spec's options and `extra`, all text, for `.format("hudi").options(**...)`.

        Raises:
            TableError: `extra` sets what the spec owns (names are compared without case, as Spark
                does) or holds anything but text; the message repeats no value.
        """
        if problems := _option_problems(self, extra or {}):
            raise TableError("; ".join(problems))
        return {option: value for option, value, _ in self.describe()} | dict(extra or {})

    def describe(self) -> list[tuple[str, str, str]]:
        """Return (option, value, purpose), one row for each option that the spec sets."""
        rows = ((option.name, option.value(self), option.why) for option in OPTIONS)
        return [(name, value, why) for name, value, why in rows if value is not None]

    def is_global(self) -> bool:
        """Return whether a key is unique in the whole table, and not only in its partition."""
        return self.index in GLOBAL_INDEXES

    def logs(self) -> bool:
        """Return whether upserts log changes, and compactions merge them later."""
        return self.table_type == "MERGE_ON_READ"

    def fixed(self) -> dict[str, object]:
        """Return what a stream must not change and `hoodie.properties` does not hold."""
        # Another number of buckets would look up a key in another file.
        fixed: dict[str, object] = {"buckets": self.buckets} if self.buckets else {}
        # Keys that are unique in the table would become unique in a partition only.
        return fixed | ({"index": "global"} if self.is_global() else {})

    def sql_properties(self) -> dict[str, str]:
        """Return the TBLPROPERTIES with which SQL writes to the table as the spec does.

        Without them SQL assumes Hudi's default index: a MERGE or INSERT into a bucketed table
        succeeds, and every later upsert of its stream fails.

        One limit stays: with the bucket index in MERGE_ON_READ, Hudi 1.2 takes every row of a
        MERGE's source for a match, so a MERGE that only inserts does nothing there.
        """
        rows = ((option.name, option.value(self)) for option in OPTIONS if option.sql)
        return {INDEX: "SIMPLE"} | {name: value for name, value in rows if value is not None}

    def check_columns(self, types: Iterable[tuple[str, str]]) -> None:
        """Raise TableError for columns of `DataFrame.dtypes` whose values the changes would lose.

        Hudi 1.2 writes a DECIMAL into them as `{"zero":false}` or as bytes.
        """
        lost = [name for name, kind in types if "decimal" in kind] if self.cdc else []
        if lost:
            raise TableError(
                f"cdc=True loses the values of DECIMAL columns, and {', '.join(lost)} "
                f"{'is one' if len(lost) == 1 else 'are some'}",
                "store DOUBLE instead: "
                f'.withColumn("{lost[0]}", F.col("{lost[0]}").cast("double"))',
            )

    def _index_problems(self) -> list[str]:
        if self.index is None:
            return []
        if self.index not in LOCAL_INDEXES + GLOBAL_INDEXES:
            return [
                f"index={self.index!r} is not one of {', '.join(LOCAL_INDEXES + GLOBAL_INDEXES)}"
            ]
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
        if within and self.index in GLOBAL_INDEXES:
            problems.append(
                f"index={self.index} moves no row, because the partition column {within[0]} is "
                "part of record_key: in another partition it is another key"
            )
        return problems

    def _merge_problems(self) -> list[str]:
        problems = []
        if self.merge_mode is not None and self.merge_mode not in MERGE_MODES:
            problems.append(
                f"merge_mode={self.merge_mode!r} is not one of {', '.join(MERGE_MODES)}"
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


def _option_problems(spec: TableSpec, extra: Mapping[str, str]) -> list[str]:
    """Return what is wrong with further options for a table of this spec; repeat no value.

    Names are compared without case, as Spark does.
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
    """Return why a spec's table cannot have an option; empty if it can."""
    if instead := OWNED.get(name):
        return f"belongs to the spec; {instead}"
    mergers = (MERGER, f"{WRITE}record.merger.impls")
    if name in mergers and spec.index in GLOBAL_INDEXES + RECORD_INDEXES:
        return f"can end the JVM with {spec.index}; leave it out"
    if name == VALIDATORS and spec.operation == "bulk_insert":
        return (
            "is ignored by bulk_insert, so bad rows would be committed; set TableSpec.operation "
            "to insert or upsert"
        )
    if name == VALIDATORS and spec.logs():
        return (
            "does not see what MERGE_ON_READ logs, so bad rows would be committed; set "
            "TableSpec.table_type to COPY_ON_WRITE"
        )
    return ""
