"""Check whether a stream's spec still fits its table, at the start and for every batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache, partial
from typing import NamedTuple

from pyspark.errors import PySparkValueError
from pyspark.sql import Column, DataFrame, SparkSession

from hudi_sink.commits import SERVICES, Commits
from hudi_sink.jvm import columns_json
from hudi_sink.metadata import KEYS, MICROS
from hudi_sink.repairs import foreign_groups
from hudi_sink.rows import KEY_COLUMN, LOAD, Types, has_micros, newest_rows, row_problem, storable
from hudi_sink.rules import Commit
from hudi_sink.schema import FILLS, check_drift, check_storable
from hudi_sink.table_files import check_upgrade, table_index_options, table_properties
from hudilab.errors import TableError
from hudilab.table import (
    AVRO,
    COMMIT_TIME,
    DELETED,
    ENCODED,
    MERGER,
    METADATA,
    WRITE,
    TableSpec,
)

UPGRADE = "hoodie.write.auto.upgrade"


class Layout(NamedTuple):
    """The current layout of a table.

    Attributes:
        options: Write options that preserve its indexes and partition paths.
        encoded: Whether partition values are encoded in its paths.
        by_arrival: Whether the latest arrival of a key wins, even with a smaller ordering value.
    """

    options: dict[str, str]
    encoded: bool
    by_arrival: bool


class SchemaGuard:
    """Compares a spec with its table, which SQL and other streams may change."""

    def __init__(
        self,
        spark: SparkSession,
        spec: TableSpec,
        table: str,
        commits: Commits,
        options: Mapping[str, str],
    ) -> None:
        """Prepare the checks of batches with these write options."""
        self._spark, self._spec, self._table, self._commits = spark, spec, table, commits
        self._fills, self._append = options.get(FILLS) == "true", ""
        self._adds_metadata = options.get(METADATA) == "true"
        self._upgrades = options.get(UPGRADE, "true") == "true"
        if options[f"{WRITE}operation"] != "upsert":
            self._append = LOAD if spec.operation == "upsert" else spec.operation
        self._columns = ""  # of the newest accepted batch
        # Cached, because each takes dozens of calls into the JVM.
        self._storable = cache(partial(storable, spec, table))
        self._problem = cache(partial(row_problem, spec, table))
        self._types: Types = ()  # of the columns of key and partition, and of DELETED
        self._has_texts = False  # whether stored keys contain times as text

    def check(self) -> None:
        """Raise TableError if the table exists and differs from the spec, or can't be upgraded."""
        if not self._commits.is_there():
            return
        properties = table_properties(self._spark, self._table)
        if self._upgrades:
            check_upgrade(self._spark, self._table, properties)
        differences = self._spec.conflicts(properties)
        if differences:
            raise TableError(
                f"the existing table {self._table} differs from its TableSpec: "
                f"{'; '.join(differences)}",
                "use the table's own settings, or another table.name or run_id",
            )

    def check_groups(self, groups: Iterable[str]) -> None:
        """Raise TableError if the table has file groups outside of its buckets."""
        if self._spec.buckets is None:
            return
        wrong = foreign_groups(groups, self._spec.buckets)
        if wrong and (wrong := foreign_groups(self._commits.file_groups(), self._spec.buckets)):
            raise TableError(
                f"{len(wrong)} file groups of {self._table} ({wrong[0]}, ...) belong to no "
                "bucket: SQL or clustering wrote them without the table's bucket index, and "
                "every later upsert would fail",
                "rewrite the table's files, then start again: from hudi_sink.repairs import "
                "rewrite_table; rewrite_table(spark, spec, location)",
            )

    def layout(self) -> Layout:
        """Return the layout of the table, or of a new table with this spec.

        It uses the cached properties, which saves a request to S3 in each batch.
        """
        if not (properties := self._commits.properties()):
            return Layout({}, True, self._spec.merge_mode == COMMIT_TIME)
        encoded = properties.get(ENCODED) == "true"
        options = table_index_options(
            self._spark, self._table, properties, adds=self._adds_metadata
        )
        if self._spec.partition:
            options |= {ENCODED: str(encoded).lower()}
        return Layout(options, encoded, properties.get("hoodie.record.merge.mode") == COMMIT_TIME)

    def check_columns(self, batch: DataFrame, others: Iterable[Commit]) -> None:
        """Refuse columns that cannot be stored, or do not fit the table, if either has changed."""
        columns, spec = columns_json(batch), self._spec
        changed, as_text = columns != self._columns, (*spec.record_key, *spec.partition)
        if changed:
            types = _types(batch)
            named = {"record_key": spec.record_key, "partition": spec.partition}
            named |= {"ordering": (spec.ordering,)}
            options = spec.write_options() | spec.options_for(types)
            merges_avro = options.get(MERGER, AVRO) == AVRO and spec.operation != "bulk_insert"
            merges_avro &= not (spec.buckets and spec.logs())
            check_storable(self._table, columns, named, merges_avro=merges_avro)
            spec.check_columns(types.items())
            deletes = [DELETED] if DELETED in types else []
            self._types = tuple((name, types[name]) for name in (*as_text, *deletes))
        if changed or any(commit.operation not in SERVICES for commit in others):
            check_drift(
                self._table,
                self._commits.schema(),
                columns,
                spec.schema,
                fills=self._fills,
                as_text=as_text,
            )
        if changed:
            self._check_keys()
        self._columns = columns

    def key_options(self) -> dict[str, str]:
        """Return write options for the types of the key, see `TableSpec.options_for`."""
        options = self._spec.options_for(dict(self._types))
        return options | {KEYS: MICROS} if options and not self._has_texts else {}

    def _check_keys(self) -> None:
        """Raise TableError if an upsert would not find the stored keys of a TIMESTAMP.

        It reads all keys once, and later commits record that they are checked. A table without
        upserts keeps its texts.
        """
        spec, self._has_texts = self._spec, False
        if not (spec.options_for(dict(self._types)) and self._commits.is_there()):
            return
        batches = (commit for commit in self._commits.newest_first() if commit.metadata)
        if (newest := next(batches, None)) and newest.keys == MICROS:
            return
        rows = self._spark.read.format("hudi").load(self._table)
        text = rows.where(~has_micros(spec, dict(self._types))).select(KEY_COLUMN).first()
        self._has_texts = text is not None
        if text is not None and spec.operation == "upsert":
            raise TableError(
                f"{self._table} has the record key {text[0]}, which contains a time as text, so "
                "an upsert or SQL, which write microseconds, would duplicate the row",
                "rewrite the table's keys, then start again: from hudi_sink.repairs import "
                "rewrite_table; rewrite_table(spark, spec, location)",
            )

    def rows(self, batch: DataFrame, layout: Layout, *, combine: bool) -> DataFrame:
        """Return the rows to write, with `combine` one per key; unstorable rows raise an error."""
        rules = (layout.encoded, layout.by_arrival, self._types, self._append)
        rows = batch.where(self._storable(*rules))
        return newest_rows(rows, self._spec, by_arrival=layout.by_arrival) if combine else rows

    def problem(self, layout: Layout) -> Column:
        """Return a column with the reason why a row cannot be stored; NULL if it can."""
        return self._problem(layout.encoded, layout.by_arrival, self._types, self._append)

    def forget_columns(self) -> None:
        """Discard the cached columns, so that the next batch is compared."""
        self._columns = ""


def _types(batch: DataFrame) -> dict[str, str]:
    """Return the columns' types; empty if pyspark lacks a type, which `check_storable` refuses."""
    try:
        return dict(batch.dtypes)
    except PySparkValueError:
        return {}
