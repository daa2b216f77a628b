"""A Kafka topic with the changes of a PostgreSQL table, as Debezium's events in JSON or Avro."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T
from typing_extensions import override

from hudi_sink.commits import Commits
from hudi_sink.rows import REFUSED
from hudilab.paths import QUARANTINE
from hudilab.settings import Settings
from hudilab.table import DELETED
from hudilab_jobs.groups import ChangePipeline
from hudilab_jobs.pipelines.avro_values import DIGITS, MARK, READ, read_avro
from hudilab_jobs.pipelines.json_text import (
    PROBLEM,
    ROW,
    has_just,
    has_once,
    key_in_text,
    with_json,
)
from hudilab_jobs.pipelines.text_values import FIX_PROGRAM, Texts, literal, one_line, quoted
from hudilab_jobs.pipelines.text_values import Case as SqlCase
from hudilab_jobs.pipelines.topic import (
    HEADER,
    IS_CONFLUENT,
    KAFKA_KEY,
    NO_SCHEMA,
    NUMBER,
    OFFSET,
    PARTITION,
    Case,
    Topic,
)

LSN = "source_lsn"  # where the change is in the database's log
KEY_TEXT, TEXT, KEY_ROW, KEY_PROBLEM = "_key_text", "_change", "_key", "_key_problem"
PARTS = ("schema", "table")  # of a table's name
SOURCE = "connector STRING, schema STRING, table STRING, lsn BIGINT"
# How an Avro event becomes the JSON that Debezium would write.
AS_JSON = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
}
# Debezium's names of times that are numbers, and Avro's.
UNITS = {
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
}
# The units of such names in events that contain their schema.
COUNTED = {
    "org.apache.kafka.connect.data.Timestamp": "ms",
    "io.debezium.time.Timestamp": "ms",
    "io.debezium.time.MicroTimestamp": "us",
    "io.debezium.time.NanoTimestamp": "ns",
}
SCHEMA = literal(r'^\{"schema":\s*(\{|null\b)')  # begins a message that contains its schema
# A heartbeat, or the begin or end of a transaction.
NO_CHANGE = literal(r'^\{("ts_ms":\d+\}$|"status":"(BEGIN|END)","id":)')
# What Debezium sends for a value of TOAST that an update left as it was: as text, as bytes, in a
# list of texts, as a list of numbers.
VALUES = (
    "__debezium_unavailable_value",
    "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==",
    '["__debezium_unavailable_value"]',
    str([*b"__debezium_unavailable_value"]).replace(" ", ""),
)
HAS_UNSENT = "(" + " OR ".join(f"contains({{0}}, '{VALUES[n]}')" for n in (0, 1, 3)) + ")"
UNSENT, STORED = "_unsent", "_stored"
LAST_REFUSED, FIRST = "_last_refused", "_first"
HAS, KEYS = "_has", f"json_object_keys(get_json_object({TEXT}, '$.after'))"  # an event's columns
# Most events name these keys once, in this order, besides the table's columns.
ONCE, READ_KEYS = "_once", ("after", "source", "connector", "schema", "table", "lsn", "op")
# Then this text has the row's columns.
AFTER, BEGINS, ENDS = "_after", literal('"after":{'), literal('"source":{')
OF_AFTER = f"substring_index(substring_index({TEXT}, {ENDS}, 1), {BEGINS}, -1)"
NO_ROW = f"""contains({TEXT}, '"after":null')"""
IS_USUAL = "_is_usual"  # whether they surely are those of source.schema
FULL = "run ALTER TABLE ... REPLICA IDENTITY FULL there, after which an update sends the whole row"
LEAVE_OUT = (
    "leave such a column out until an event has it, or correct column.exclude.list in the "
    "connector; if the table has a column that the database has dropped, make it in select, with "
    "CAST(NULL AS its type)"
)
NO_EVENT = (
    literal("it is not a change event of Debezium"),
    literal(
        "leave transforms such as ExtractNewRecordState out of the connector, or write "
        '"value.format": "json"'
    ),
)


def without_schema(part: str) -> str:
    """Return the SQL of a key or value as text, without the schema that may be before it.

    A connector with schemas.enable=true writes `{"schema":{...},"payload":{...}}`. Spark's own
    functions would rewrite the payload's numbers, so its bytes are cut out, after the first such
    key. If that key is part of the schema, or anything follows the payload, then the rest is no
    JSON object by itself, and `with_json` refuses it.

    Args:
        part: A BINARY column.
    """
    text, key = f"CAST({part} AS STRING)", literal('"payload":')
    schema = f"concat(substring_index({text}, {key}, 1), {key})"
    size = f"octet_length({part}) - octet_length({schema}) - 1"  # without the last }
    payload = f"CAST(substring({part}, octet_length({schema}) + 1, {size}) AS STRING)"
    # Else "schema" is a column of the key.
    has_schema = f"""startswith({text}, '{{"schema":') AND {text} RLIKE {SCHEMA}"""
    is_whole = f"contains({text}, {key}) AND endswith({text}, '}}')"
    return f"if({has_schema} AND {is_whole}, {payload}, {text})"


def value_of(column: str) -> str:
    """Return the SQL of a column's value in an event, as JSON."""
    path = f"$.after['{column}']"
    return f"get_json_object({TEXT}, {literal(path)})"


def is_unsent(column: str) -> str:
    """Return the SQL of whether an event lacks a column's value."""
    return f"{value_of(column)} IN ({', '.join(map(literal, VALUES))})"


class ChangeTopic(Topic):
    """The changes of a table: each contains a row's newest state, or deletes a row.

    The message's key identifies the row. Of two changes, the one with the greater offset is newer.
    """

    group: ChangePipeline
    deletion = "it deletes a row"
    copied = "let the connector send a new snapshot to a new topic (topic.prefix)"
    _deletes = True
    _lacks: bool | None = None  # whether the batch lacks values; None if that is unknown

    def __init__(
        self,
        spark: SparkSession,
        settings: Settings,
        name: str,
        group: ChangePipeline,
        table: str,
    ) -> None:
        super().__init__(spark, settings, name, group)
        self._table = table
        self._left_out: list[str] = []  # tables of the topic that other pipelines read
        self._first: dict[str, int] = {}  # the first LSN with a column, if it is not in all events

    @property
    @override
    def _examines(self) -> bool:
        return super()._examines or self.group.select is None

    @override
    def _read(self, messages: DataFrame) -> DataFrame:
        """Also fill in values that PostgreSQL did not send.

        A query might have changed such values, so with `select` they are refused.
        """
        ids = self._writers(messages)
        try:
            self._look_ahead(self._decoded(messages, ids))
            rows = self.selected(self._rows(messages, ids))
            return self._filled(rows) if self._lacks else rows
        finally:
            self._lacks, self._first = None, {}

    def _look_ahead(self, messages: DataFrame) -> None:
        """Find out whether values of the batch are missing, and since when there are such values.

        An event without a column that later events have is older than the column. A query may have
        changed the table's columns, so with `select` all such events are refused.
        """
        if self.group.select is not None:
            return
        rows = messages.select(F.expr(without_schema("value")).alias(TEXT))
        parts = (f"get_json_object({TEXT}, '$.source.{part}')" for part in PARTS)
        own = f"concat_ws('.', {', '.join(parts)}) = {literal(self.group.database_table)}"
        unsent = HAS_UNSENT.format(TEXT)
        # An event that seems to have all columns, and has not, is refused later.
        has_all = " AND ".join(f"contains({OF_AFTER}, {key_in_text(n)})" for n in self._values())
        lacking = (
            f"if({NO_ROW} OR {has_all or 'true'}, false, size({self._lacking(KEYS)}) > 0 AND {own})"
        )
        found = rows.selectExpr(f"max({unsent}) AS unsent", f"max({lacking}) AS lacking").first()
        self._lacks = bool(found and found["unsent"])
        if not (found and found["lacking"]):
            return
        lsn = f"CAST(get_json_object({TEXT}, '$.source.lsn') AS BIGINT)"
        has = {name: f"array_contains({KEYS}, {literal(name)})" for name in self._values()}
        self._note_first(rows.where(own), has, lsn)
        if Commits(self._spark, self._table).is_there():
            stored = messages.sparkSession.read.format("hudi").load(self._table)
            names = [name for name in self._values() if name in stored.columns]
            self._note_first(stored, {name: f"{quoted(name)} IS NOT NULL" for name in names}, LSN)

    def _note_first(self, rows: DataFrame, has: Mapping[str, str], lsn: str) -> None:
        """Keep the smallest LSN of the rows that have a column."""
        if not has:
            return
        smallest = (F.expr(f"min(if({is_there}, {lsn}, NULL))") for is_there in has.values())
        row = rows.agg(*smallest).first() or ()
        for name, first in zip(has, row, strict=True):
            if first is not None:
                self._first[name] = min(first, self._first.get(name, first))

    @cached_property
    def _moments(self) -> list[str]:
        return [
            field.name for field in self._columns if "timestamp" in field.dataType.simpleString()
        ]

    def _values(self) -> list[str]:
        """Return the columns that are not of the key."""
        return [name for name in self._columns.names if name not in self._record_key]

    def _lacking(self, has: str) -> str:
        """Return the SQL of the columns that an event should have, and has not."""
        names = ", ".join(map(literal, self._values()))
        return f"array_except(array({names}), {has})" if names else "array()"

    def _decoded(self, messages: DataFrame, ids: Sequence[int]) -> DataFrame:
        """Return the messages with Avro keys and values as JSON; what can't be decoded stays."""
        schemas = {n: schema for n in ids if (schema := self._schema(n))}
        if not schemas:
            return messages
        columns = {name: F.col(name) for name in messages.columns}
        for part in ("key", "value"):
            number, body = F.expr(NUMBER.format(part)), f"substring({part}, {HEADER + 1})"
            is_avro = F.expr(IS_CONFLUENT.format(part))
            texts = (
                F.when(is_avro & (number == n), _json_of(body, schema, self._moments))
                for n, schema in schemas.items()
            )
            columns[part] = F.coalesce(*texts, F.col(part))
        # Spark would decode a message again for a filter, but does not push one through this.
        parts = (column.alias(name) for name, column in columns.items())
        return messages.select(F.inline(F.array(F.struct(*parts))))

    @override
    def _ids(self, messages: DataFrame) -> list[int]:
        parts = messages.select(F.explode(F.array("key", "value")).alias("value"))
        return super()._ids(parts)

    @override
    def share(self, others: Sequence[Topic]) -> None:
        """Also skip the events of other pipelines' tables in this topic."""
        super().share(others)
        same = (o.group for o in others if o.group.topic_name == self.group.topic_name)
        self._left_out = [g.database_table for g in same if isinstance(g, ChangePipeline)]

    @override
    def identity(self) -> Mapping[str, Any]:
        """Return the topic's name, id, cluster and partitions: more partitions move keys."""
        return {**self._identity(), "partitions": self._identity.partitions}

    @cached_property
    def _record_key(self) -> Sequence[str]:
        names, known = cast(Sequence[str], self.group.table()["record_key"]), self._columns.names
        for name in names:
            if name not in known:
                raise self.error(
                    "record.key",
                    f"names {name}, but source.schema has {', '.join(known)}",
                    "name the columns of the table's primary key",
                )
        return names

    @override
    def _check_table(self) -> None:
        """Raise ConfigError if the partition is not of columns of a message's key."""
        for name in self.group.table()["partition"]:
            if name not in self._record_key:
                raise self.error(
                    "partition",
                    f"names {name}, which is not in record.key: a delete has only the key, and "
                    "an update can change the rest",
                    "partition by columns of record.key, or leave the key out",
                )

    @override
    def _places(self) -> list[str]:
        return [*self._record_key, OFFSET]

    @override
    def _is_deletion(self) -> Column:
        return F.col(f"{ROW}.op") == "d"

    @override
    def _row_texts(self, messages: DataFrame) -> DataFrame:
        text = F.expr(without_schema("value"))
        after = F.get_json_object(text, "$.after").alias("value")
        return self._decoded(messages, self._writers(messages)).select(after)

    @override
    def _key_cases(self, valid: Column) -> Iterator[Case]:
        yield from ()

    @cached_property
    def _texts(self) -> Texts:
        options = {name.lower(): value for name, value in self.group.options().items()}
        return Texts(options, self.group.timestamp_unit, debezium=True)

    @override
    def _parsed(
        self, messages: DataFrame, ids: Sequence[int]
    ) -> tuple[DataFrame, list[str], list[Case]]:
        columns, texts, messages = self._columns, self._texts, self._decoded(messages, ids)
        keys = T.StructType([columns[name] for name in self._record_key])
        event = T.StructType().add("op", "string").add("after", columns)
        event = event.add("source", T._parse_datatype_string(SOURCE))
        rows = messages.withColumn(TEXT, F.expr(without_schema("value")))
        rows = rows.withColumn(KEY_TEXT, F.expr(without_schema("key")))
        # After a delete comes a tombstone for Kafka, which has no value.
        rows = rows.where(f"value IS NOT NULL AND NOT {TEXT} RLIKE {NO_CHANGE}")
        if self._left_out:
            table = F.concat_ws(
                ".", *(F.get_json_object(TEXT, f"$.source.{part}") for part in PARTS)
            )
            rows = rows.where(~table.isin(self._left_out))
        rows = with_json(rows, KEY_TEXT, keys, texts, arrays=False)
        rows = rows.withColumnsRenamed({ROW: KEY_ROW, PROBLEM: KEY_PROBLEM})
        names = [*columns.names, LSN]
        if self._lacks:
            names.append(UNSENT)
            unsent = (f"if({is_unsent(name)}, {literal(name)}, NULL)" for name in columns.names)
            rows = rows.withColumn(UNSENT, F.expr(f"array_compact(array({', '.join(unsent)}))"))
            for text in (json.dumps(VALUES[0]), json.dumps(VALUES[1]), *VALUES[2:]):
                rows = rows.withColumn(TEXT, F.replace(TEXT, F.lit(f":{text}"), F.lit(":null")))
        rows = rows.withColumn(AFTER, F.expr(OF_AFTER))
        rows = rows.withColumn(ONCE, F.expr(has_once(TEXT, READ_KEYS)))
        rows = rows.withColumn(IS_USUAL, F.expr(self._is_usual()))
        usual = f"array({', '.join(map(literal, columns.names))})"
        rows = rows.withColumn(HAS, F.expr(f"if({IS_USUAL}, {usual}, {KEYS})"))
        plain = f"{ONCE} AND ({IS_USUAL} OR {NO_ROW})"
        rows = with_json(rows, TEXT, event, texts, arrays=False, plain=plain)
        fields = [
            f"{literal(name)}, {KEY_ROW if name in self._record_key else f'{ROW}.after'}."
            + quoted(name)
            for name in columns.names
        ]
        fields += [f"'{LSN}', {ROW}.source.lsn", *([f"'{UNSENT}', {UNSENT}"] * bool(self._lacks))]
        rows = rows.withColumn("row", F.expr(f"named_struct({', '.join(fields)})"))
        cases = [(F.expr(w), F.expr(problem), F.expr(r)) for w, problem, r in self._cases()]
        return rows, names, cases

    def _is_usual(self) -> str:
        """Return the SQL of whether an event surely has just the columns of `source.schema`.

        False for a value that is no JSON, such as NaN, which such an event must not have.
        """
        no_json = " OR ".join(f"contains({AFTER}, ':{start}')" for start in ("N", "I", "-I", "+I"))
        return f"{ONCE} AND {has_just(AFTER, self._columns.names)} AND NOT ({no_json})"

    def _filled(self, rows: DataFrame) -> DataFrame:
        """Return the rows with each unsent value as an earlier row of the key has it.

        That is one of the batch, else the table's. A change in the quarantine may have had another
        value, so what was not sent after it is refused, too.
        """
        key, columns = [*self._record_key], [name for name in rows.columns if name != UNSENT]
        names = [name for name in self._columns.names if name not in key]
        stored = None
        if Commits(self._spark, self._table).is_there():
            wanted = rows.where(F.size(UNSENT) > 0).select(*key).distinct()
            stored = rows.sparkSession.read.format("hudi").load(self._table)
            has = [name for name in names if name in stored.columns]
            stored = stored.join(F.broadcast(wanted), key, "left_semi")
            old_rows = F.struct(*has, OFFSET).alias(STORED)
            rows = rows.join(stored.select(*key, old_rows), key, "left")
        rows = self._with_refused(rows)
        before = _before(*key)
        problems, values = [F.lit(None).cast("string")], {}
        for name in names:
            is_unsent = F.array_contains(UNSENT, name)
            sent = F.when(~is_unsent, F.struct(name, DELETED, OFFSET))
            last = F.last(sent, ignorenulls=True).over(before)
            since = last[OFFSET]
            lived = last.isNotNull() & last[DELETED].isNull()
            old = F.when(lived, F.struct(last[name].alias(name)))
            if stored is not None and name in has:
                kept = F.struct(F.col(f"{STORED}.{quoted(name)}").alias(name))
                old = F.when(last.isNull() & F.col(STORED).isNotNull(), kept).otherwise(old)
                since = F.coalesce(since, F.col(f"{STORED}.{OFFSET}"))
            values[name] = F.when(is_unsent, old[name]).otherwise(F.col(quoted(name)))
            why = F.when(old.isNull(), "there is no earlier row of its key")
            why = why.when(
                F.col(LAST_REFUSED) > since, "an earlier change of its key is quarantined"
            )
            text = F.concat(F.lit(f"{self._unsent(name)}, and "), why)
            problems.append(F.when(is_unsent, text))
        # NULL if the problem is.
        problem = F.struct(F.coalesce(*problems).alias("problem"), F.lit(FULL).alias("remedy"))
        problem = F.when(problem["problem"].isNotNull(), problem)
        rows = rows.select(
            "*",
            problem.alias(PROBLEM),
            F.struct(*(value.alias(name) for name, value in values.items())).alias(ROW),
        )
        rows = rows.withColumns({name: F.col(f"{ROW}.{quoted(name)}") for name in names})
        if self.group.quarantine:
            reason = F.coalesce(f"{REFUSED}.reason", F.expr(one_line(PROBLEM)))
            rows = rows.withColumn(REFUSED, F.col(REFUSED).withField("reason", reason))
        else:
            rows = rows.where(self._not_refused(F.col(PROBLEM), self._place(KAFKA_KEY)))
        return rows.select(*columns)

    def _with_refused(self, rows: DataFrame) -> DataFrame:
        """Add the offset of each key's last change before that is quarantined, or NULL."""
        if not self.group.quarantine:
            return rows.withColumn(LAST_REFUSED, F.lit(None).cast("bigint"))
        offset = F.when(F.col(f"{REFUSED}.reason").isNotNull(), F.col(OFFSET))
        own = F.max(offset).over(_before(KAFKA_KEY))
        quarantine = f"{self._table}{QUARANTINE}"
        if not Commits(self._spark, quarantine).is_there():
            return rows.withColumn(LAST_REFUSED, own)
        # Only of earlier batches: a batch that is repeated has its own there already.
        begins = rows.groupBy(PARTITION).agg(F.min(OFFSET).alias(FIRST))
        kept = rows.sparkSession.read.format("hudi").load(quarantine)
        kept = kept.select(
            F.from_json("row", f"{KAFKA_KEY} STRING, {PARTITION} INT, {OFFSET} BIGINT").alias(ROW)
        )
        kept = kept.select(f"{ROW}.*").join(F.broadcast(begins), PARTITION)
        of_key = kept.where(F.col(OFFSET) < F.col(FIRST)).groupBy(KAFKA_KEY)
        rows = rows.join(of_key.agg(F.max(OFFSET).alias(LAST_REFUSED)), KAFKA_KEY, "left")
        return rows.withColumn(LAST_REFUSED, F.greatest(LAST_REFUSED, own))

    def _unsent(self, name: str) -> str:
        return f"PostgreSQL did not send column {name} of {self.group.database_table}"

    def _cases(self) -> Iterator[SqlCase]:
        """Yield the cases of bad events."""
        table, key = self.group.database_table, ", ".join(self._record_key)
        op, source, parsed = f"{ROW}.op", f"{ROW}.source", f"{PROBLEM} IS NULL"
        named = f"concat_ws('.', {source}.schema, {source}.table)"
        has = f"array_join(json_object_keys({KEY_TEXT}), ', ')"
        yield from self._unread()
        yield f"{parsed} AND ({op} IS NULL OR {source}.connector IS NULL)", *NO_EVENT
        yield (
            f"{source}.connector <> 'postgresql'",
            f"concat('it is from the connector ', {source}.connector, "
            "', and only changes of PostgreSQL can be read')",
            literal('write "value.format": "json"'),
        )
        yield (
            f"{source}.table IS NOT NULL AND {named} <> {literal(table)}",
            f"concat('it is a change of table ', {named}, {literal(f', not of {table}')})",
            f"""concat('say which table to read, "source.table": "', {named}, '"')""",
        )
        yield (
            f"{op} = 't'",
            literal(f"it says that {table} was truncated, without naming the rows"),
            literal(
                "use DELETE FROM in the database instead, or set skipped.operations=t in the "
                "connector"
            ),
        )
        yield (
            f"{op} NOT IN ('r', 'c', 'u', 'd')",
            f"concat('its op is ', {op}, ', which changes no row')",
            literal("remove it from the topic"),
        )
        yield (
            f"{source}.table IS NOT NULL AND {KEY_TEXT} IS NULL",
            literal(f"it has no key, because table {table} has no primary key"),
            literal("add one, or set message.key.columns in the connector"),
        )
        yield (
            f"{source}.table IS NOT NULL AND if({has_just(KEY_TEXT, self._record_key)}, false, "
            f"NOT array_sort(json_object_keys({KEY_TEXT})) <=> "
            f"array({', '.join(literal(name) for name in sorted(self._record_key))}))",
            f"concat('its key has ', coalesce({has}, 'no columns'), "
            f"{literal(f', but record.key is {key}')})",
            literal("write the columns of the key into record.key"),
        )
        for column in self._columns:
            yield from self._column_cases(column)
        yield f"NOT {parsed}", f"{PROBLEM}.problem", f"{PROBLEM}.remedy"
        yield (
            f"{KEY_PROBLEM} IS NOT NULL",
            f"concat('its key: ', {KEY_PROBLEM}.problem)",
            f"{KEY_PROBLEM}.remedy",
        )
        yield f"{op} <> 'd' AND {ROW}.after IS NULL", *NO_EVENT
        yield (
            f"{op} <> 'd' AND {HAS} IS NULL",
            literal("it has a value that is not JSON, such as NaN without quotes"),
            literal(FIX_PROGRAM),
        )
        yield from self._schema_cases(f"{op} <> 'd'", f"{source}.lsn")

    def _schema_cases(self, has_row: str, lsn: str) -> Iterator[SqlCase]:
        """Yield the cases of columns that differ from `source.schema`."""
        names = f"array({', '.join(literal(name) for name in self._columns.names)})"
        more = f"array_except({HAS}, {names})"
        yield (
            f"size({more}) > 0",
            f"concat('source.schema lacks column ', array_join({more}, ', '))",
            literal(
                "add it there with its type, and leave it out with select if the table is not to "
                "have it"
            ),
        )
        lacking = self._lacking(HAS)
        if self._first:
            firsts = (f"{literal(name)}, {first}L" for name, first in self._first.items())
            is_older = f"coalesce({lsn} < map({', '.join(firsts)})[name], false)"
            lacking = f"filter({lacking}, name -> NOT {is_older})"
        yield (
            f"{has_row} AND size({lacking}) > 0",
            f"concat('it has no column ', array_join({lacking}, ', '), "
            "', which is in source.schema')",
            literal(LEAVE_OUT),
        )

    def _unread(self) -> Iterator[SqlCase]:
        """Yield the cases of keys and values that could not be decoded."""
        unknown = ", ".join(str(n) for n, schema in self._schemas.items() if schema is None)
        for part in ("key", "value"):
            is_avro, number = IS_CONFLUENT.format(part), NUMBER.format(part)
            text = f"'its {part} is Avro with schema id ', {number}"
            if not self.group.schema_registry_url:
                remedy = 'say where its schema is, "schema.registry.url": "http://..."'
                yield is_avro, f"concat({text})", literal(remedy)
                continue
            if unknown:
                lost = f"concat({text}, ', which the registry does not have')"
                yield f"{is_avro} AND {number} IN ({unknown})", lost, literal(NO_SCHEMA)
            yield (
                is_avro,
                f"concat({text}, ', which does not fit')",
                literal(
                    f"{FIX_PROGRAM}, or if a decimal has more than {DIGITS} digits, set "
                    "decimal.handling.mode=string in the connector"
                ),
            )

    def _column_cases(self, column: T.StructField) -> Iterator[SqlCase]:
        """Yield which values a column must not have."""
        name, value = column.name, value_of(column.name)
        if self._lacks is None:
            what = f"{self._unsent(name)}, because the update left it as it was"
            yield f"{HAS_UNSENT.format(TEXT)} AND {is_unsent(name)}", literal(what), literal(FULL)
        if (unit := self.group.timestamp_unit) and name in self._moments:
            text, others = "CAST(value AS STRING)", (n for n in COUNTED if COUNTED[n] != unit)
            form = f'"name":"({"|".join(others)})"[^{{}}]*"field":{re.escape(json.dumps(name))}'
            yield (
                f"""startswith({text}, '{{"schema":') AND {text} RLIKE {literal(form)}""",
                literal(
                    f"its schema has column {name} in another unit than timestamp.unit, {unit}"
                ),
                literal(
                    "write the unit of all times, or set time.precision.mode=isostring in the "
                    "connector"
                ),
            )
        if isinstance(column.dataType, T.DecimalType):
            yield (
                f"{PROBLEM} IS NOT NULL AND {value} RLIKE '^[A-Za-z0-9+/]+={{0,2}}$' AND "
                f"length({value}) % 4 = 0",
                f"concat({literal(f'column {name} has ')}, {value}, "
                "', the bytes of a decimal without its scale')",
                literal("set decimal.handling.mode=string in the connector"),
            )


def _json_of(value: str, writer: str, moments: Collection[str]) -> Column:
    """Return an Avro record as the JSON of Debezium, in bytes; NULL if it cannot be read.

    Args:
        moments: The columns that are times. The schema names the unit of each.
    """

    def readable(part: dict[str, Any]) -> dict[str, Any]:
        if "precision" in part:  # a longer decimal cannot be read
            part = part | {"precision": min(part["precision"], DIGITS)}
        if part.get("name") in moments and "type" in part:
            part = part | {"type": _with_unit(part["type"])}
        return part

    schema = json.loads(writer, object_hook=readable)
    if not isinstance(schema, dict) or schema["type"] != "record":
        return F.lit(None).cast("binary")
    # A lambda evaluates the row once.
    texts = F.transform(
        F.array(read_avro(value, json.dumps(schema), schema)),
        lambda row: F.when(row[READ] == MARK, F.to_json(row.dropFields(READ), AS_JSON)),
    )
    return texts[0].cast("binary")


def _with_unit(kind: Any) -> Any:
    """Return the type of a column with the unit of its times, which Debezium names on its own."""
    if isinstance(kind, list):
        return [_with_unit(part) for part in kind]
    if not isinstance(kind, dict):
        return kind
    if kind.get("connect.name") in UNITS:
        return kind | {"logicalType": UNITS[kind["connect.name"]]}
    return kind | {"items": _with_unit(kind["items"])} if "items" in kind else kind


def _before(*key: str) -> WindowSpec:
    """Return the window of the earlier messages with the same key."""
    messages = Window.partitionBy(*key).orderBy(OFFSET)
    return messages.rowsBetween(Window.unboundedPreceding, -1)
