"""TableSpec: the Hudi options that follow from it, and what every refusal names."""

from __future__ import annotations

import os
import socket
from typing import Any, cast

import pytest
from refusals import refused

from hudi_sink.async_services import StreamServices
from hudi_sink.locks import sharing_options
from hudi_sink.metadata import (
    closing_options,
    index_options,
    leaks_connections,
    overlap_options,
)
from hudi_sink.repairs import foreign_groups
from hudi_sink.service_schedule import tidy_options
from hudilab.errors import TableError
from hudilab.files import read_properties
from hudilab.table import TableSpec

SPEC = TableSpec(
    name="sensor_readings",
    record_key=("sensor_id", "reading_id"),
    partition=("sensor_id",),
    ordering="measurement_time",
)
OPTIONS = {
    "hoodie.table.name": "sensor_readings",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.recordkey.field": "sensor_id,reading_id",
    "hoodie.datasource.write.partitionpath.field": "sensor_id",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.table.ordering.fields": "measurement_time",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.clean.automatic": "false",
    "hoodie.writestatus.class": "org.apache.hudi.client.FailOnFirstErrorWriteStatus",
}
MERGER = "hoodie.write.record.merge.custom.implementation.classes"
# Lines of a hoodie.properties that Hudi 1.2 wrote for SPEC.
PROPERTIES = {
    "hoodie.table.keygenerator.type": "COMPLEX",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.table.version": "9",
    "hoodie.table.partition.fields": "sensor_id",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.table.name": "sensor_readings",
    "hoodie.table.recordkey.fields": "sensor_id,reading_id",
    "hoodie.table.ordering.fields": "measurement_time",
}
GLOBALS = "GLOBAL_SIMPLE, GLOBAL_BLOOM, GLOBAL_RECORD_LEVEL_INDEX"
PLAIN = "is not a valid name (letters, digits and _, not starting with a digit)"


def spec(**changes: Any) -> TableSpec:
    fields = {name: getattr(SPEC, name) for name in SPEC.__dataclass_fields__}
    return TableSpec(**{**fields, **changes})


# --- options


def test_options_of_a_copy_on_write_table() -> None:
    assert SPEC.write_options() == OPTIONS
    assert SPEC.write_options({}) == OPTIONS


def upserts(**changes: str) -> dict[str, str]:
    """The options of an upsert: appends alone need no cleaning."""
    kept = {name: value for name, value in OPTIONS.items() if name != "hoodie.clean.automatic"}
    return {**kept, "hoodie.datasource.write.operation": "upsert", **changes}


def test_upserts_into_copy_on_write_stay_spark_rows() -> None:
    merger = {MERGER: "org.apache.hudi.DefaultSparkRecordMerger"}
    assert spec(operation="upsert").write_options() == upserts(**merger)


def test_buckets_are_the_index_of_upserts() -> None:
    options = spec(operation="upsert", buckets=4).write_options()
    assert options["hoodie.index.type"] == "BUCKET"
    assert options["hoodie.bucket.index.num.buckets"] == "4"
    assert options["hoodie.parquet.bloom.filter.enabled"] == "false"
    assert "hoodie.index.type" not in spec(operation="upsert").write_options()


INDEXES = ("BUCKET", "SIMPLE", "BLOOM", "RECORD_LEVEL_INDEX")
GLOBAL = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM", "GLOBAL_RECORD_LEVEL_INDEX")
RECORDS = {
    "RECORD_LEVEL_INDEX": "hoodie.metadata.record.level.index.enable",
    "GLOBAL_RECORD_LEVEL_INDEX": "hoodie.metadata.global.record.level.index.enable",
}


def indexed(index: str | None, **changes: Any) -> TableSpec:
    buckets = 4 if index == "BUCKET" else None
    fields = {"operation": "upsert", "record_key": ("reading_id",), "buckets": buckets}
    return spec(index=index, **fields | changes)


@pytest.mark.parametrize("index", INDEXES + GLOBAL)
def test_an_index_is_an_option_of_writes(index: str) -> None:
    options = indexed(index).write_options()
    assert options["hoodie.index.type"] == index
    record = {name: options[name] for name in RECORDS.values() if name in options}
    assert record == ({RECORDS[index]: "true"} if index in RECORDS else {})
    assert ("hoodie.metadata.enable" in options) == (index in RECORDS)
    streamed = options.get("hoodie.metadata.streaming.write.enabled")
    assert streamed == ("false" if index in RECORDS else None)
    moves = options.get("hoodie.record.index.update.partition.path")
    assert moves == ("true" if index == "GLOBAL_RECORD_LEVEL_INDEX" else None)
    assert indexed(index).is_global() == (index in GLOBAL)


def test_the_default_index_can_be_named() -> None:
    named = spec(operation="upsert", buckets=4, index="BUCKET")
    assert named.write_options() == spec(operation="upsert", buckets=4).write_options()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("index", [None, *INDEXES, *GLOBAL])
def test_spark_rows_are_never_merged_through_a_global_or_record_index(
    index: str | None, table_type: str
) -> None:
    """Hudi 1.2 ends the JVM with SIGSEGV, or reads them as garbage."""
    fine = index in (None, "BUCKET", "SIMPLE", "BLOOM") and table_type == "COPY_ON_WRITE"
    assert (MERGER in indexed(index, table_type=table_type).write_options()) == fine


@pytest.mark.parametrize("option", [MERGER, "hoodie.datasource.write.record.merger.impls"])
def test_nor_can_an_option_combine_them(option: str) -> None:
    extra = {option: "org.apache.hudi.DefaultSparkRecordMerger"}
    assert indexed("SIMPLE").write_options(extra)[option] == extra[option]
    for index in (*GLOBAL, "RECORD_LEVEL_INDEX"):
        with refused(TableError, f"option {option!r}", "JVM", index, remedy="; leave it out"):
            indexed(index).write_options(extra)


def test_validators_that_would_not_run_are_refused() -> None:
    gate = {"hoodie.precommit.validators": "org.example.Validator"}
    option = "option 'hoodie.precommit.validators'"
    remedy = "; set TableSpec.operation to insert or upsert"
    with refused(TableError, option, "bulk_insert", remedy=remedy):
        spec(operation="bulk_insert").write_options(gate)
    remedy = "; set TableSpec.table_type to COPY_ON_WRITE"
    with refused(TableError, option, "MERGE_ON_READ", remedy=remedy):
        spec(operation="upsert", table_type="MERGE_ON_READ").write_options(gate)
    for operation in ("insert", "upsert"):
        assert gate.items() <= spec(operation=operation).write_options(gate).items()


def test_the_merge_mode_is_an_option_that_the_first_write_obeys() -> None:
    mode = "hoodie.write.record.merge.mode"  # Hudi 1.2 ignores hoodie.record.merge.mode there
    assert mode not in spec(operation="upsert").write_options()
    by_arrival = spec(operation="upsert", merge_mode="COMMIT_TIME_ORDERING").write_options()
    assert by_arrival[mode] == "COMMIT_TIME_ORDERING"


def test_cdc_stores_the_rows_before_and_after() -> None:
    plain = spec(operation="upsert").write_options()
    assert spec(operation="upsert", cdc=True).write_options() == {
        **plain,
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": "DATA_BEFORE_AFTER",
    }


def test_streams_do_not_compact_where_changes_are_stored() -> None:
    inline = "hoodie.compact.inline"
    logs = {"operation": "upsert", "table_type": "MERGE_ON_READ"}
    assert spec(**logs).write_options()[inline] == "true"
    assert spec(**logs, cdc=True).write_options()[inline] == "false"
    assert inline not in spec(operation="upsert", cdc=True).write_options()


def test_a_decimal_is_refused_where_changes_are_stored() -> None:
    columns = [("reading_id", "bigint"), ("temperature", "decimal(6,2)")]
    spec(operation="upsert").check_columns(columns)
    stored = spec(operation="upsert", cdc=True)
    stored.check_columns(columns[:1])
    remedy = ': .withColumn("temperature", F.col("temperature").cast("double"))'
    with refused(TableError, "cdc=True", "DECIMAL", "temperature", remedy=remedy):
        stored.check_columns(columns)
    with pytest.raises(TableError, match="columns, and temperature, fee are some; store"):
        stored.check_columns([*columns, ("fee", "struct<net:decimal(9,2)>")])


@pytest.mark.parametrize(
    ("role", "kind", "instead"),
    [
        ("record_key", "binary", "hex(reading_id) AS reading_id_text"),
        ("record_key", "array<int>", "to_json(reading_id) AS reading_id_text"),
        ("record_key", "map<string,int>", "to_json(reading_id) AS reading_id_text"),
        ("record_key", "struct<a:int>", "to_json(reading_id) AS reading_id_text"),
        ("partition", "binary", "hex(sensor_id) AS sensor_id_text"),
        ("partition", "struct<a:int>", "to_json(sensor_id) AS sensor_id_text"),
        ("partition", "timestamp", "to_date(sensor_id) AS sensor_id_day"),
        ("partition", "timestamp_ntz", "to_date(sensor_id) AS sensor_id_day"),
        ("ordering", "binary", "hex(measurement_time) AS measurement_time_text"),
        ("ordering", "array<int>", "to_json(measurement_time) AS measurement_time_text"),
    ],
)
def test_a_type_that_is_no_key_partition_or_ordering(role: str, kind: str, instead: str) -> None:
    name = instead.partition("(")[2].partition(")")[0]
    remedy = f"; make a column of it, such as {instead}, and name that instead"
    for operation in ("bulk_insert", "upsert"):
        table = spec(record_key=("reading_id",), operation=operation)
        with refused(TableError, f"{role} names {name} ({kind}), and Hudi", remedy=remedy):
            table.check_columns([(name, kind), ("note", kind)])
        table.check_columns([(name, "string"), ("note", kind)])


COMPARABLE = {
    "date": "CAST(measurement_time AS TIMESTAMP)",
    "decimal(15,2)": "CAST(measurement_time AS DOUBLE)",
    "decimal(18,2)": "CAST(measurement_time * 100 AS BIGINT)",
    "decimal(20,10)": "",
}
LOGS = {"operation": "upsert", "table_type": "MERGE_ON_READ"}


@pytest.mark.parametrize(
    ("fields", "kind", "fits"),
    [
        # Spark's rows are compared as they are.
        ({"operation": "upsert"}, "date", True),
        ({"operation": "upsert"}, "decimal(20,10)", True),
        ({"operation": "upsert", "index": "GLOBAL_SIMPLE"}, "date", False),
        ({"operation": "upsert", "index": "RECORD_LEVEL_INDEX"}, "decimal(15,2)", False),
        ({"operation": "upsert", "index": "RECORD_LEVEL_INDEX"}, "decimal(18,2)", False),
        ({"operation": "upsert", "index": "GLOBAL_SIMPLE"}, "timestamp", True),
        (LOGS, "decimal(20,10)", True),
        (LOGS, "date", False),
        (LOGS | {"index": "GLOBAL_BLOOM"}, "date", False),
        (LOGS | {"index": "GLOBAL_RECORD_LEVEL_INDEX"}, "decimal(20,10)", False),
        (LOGS | {"index": "RECORD_LEVEL_INDEX"}, "decimal(20,10)", False),
        ({"operation": "bulk_insert"}, "date", True),
    ],
)
def test_an_ordering_that_hudi_cannot_compare(
    fields: dict[str, Any], kind: str, fits: bool
) -> None:
    table = spec(record_key=("reading_id",), partition=(), **fields)
    types = [("reading_id", "bigint"), ("measurement_time", kind)]
    deletes = [*types, ("_hoodie_is_deleted", "boolean")]
    if fits:
        table.check_columns(deletes)
        return
    remedy = f"{COMPARABLE[kind]} AS measurement_time_order, and name that instead"
    if not COMPARABLE[kind]:
        remedy = "; name a column of another type, because no number holds all of its digits"
    with refused(TableError, f"ordering names measurement_time ({kind}), ", remedy=remedy):
        table.check_columns(deletes)
    if table.logs() and not table.is_global():
        table.check_columns(types)


def test_keys_of_times_are_written_as_avro_writes_them() -> None:
    """Hudi's other writer cuts them to milliseconds, and no upsert or SQL finds them."""
    avro = {
        MERGER: "org.apache.hudi.common.model.HoodieAvroRecordMerger",
        "hoodie.datasource.write.row.writer.enable": "false",
    }
    for operation in ("bulk_insert", "insert", "upsert"):
        table = spec(operation=operation)
        assert table.options_for({"sensor_id": "int", "reading_id": "timestamp"}) == avro
        kinds = {"sensor_id": "timestamp_ntz", "reading_id": "date", "note": "timestamp"}
        assert table.options_for(kinds) == {}


def test_one_batch_of_appends_in_twenty_is_tidied() -> None:
    assert tidy_options(SPEC, 19) == {
        "hoodie.clustering.inline": "true",
        "hoodie.clean.automatic": "true",
        "hoodie.clustering.inline.max.commits": "1",
        "hoodie.clustering.async.max.commits": "1",
        "hoodie.clean.max.commits": "1",
    }
    assert tidy_options(spec(operation="upsert"), 19) == {}
    assert tidy_options(spec(operation="insert"), 19) == {}


def test_upserts_compact_large_logs_often_and_small_ones_rarely() -> None:
    upserted = spec(operation="upsert", table_type="MERGE_ON_READ")
    assert tidy_options(upserted, 8) == {
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
    }
    often = {
        "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.compaction.logfile.size.threshold": "4194304",
    }
    assert tidy_options(upserted, 9) == tidy_options(upserted, 189) == often
    everything = often | {"hoodie.compaction.logfile.size.threshold": "0"}
    assert tidy_options(upserted, 199) == tidy_options(upserted, 199, written=0) == everything
    bounded = everything | {"hoodie.compaction.target.io": "16"}
    assert tidy_options(upserted, 49) == tidy_options(upserted, 149, written=0) == bounded
    assert tidy_options(upserted, 49, written=8 * 1024 * 1024) == often


def test_services_are_not_planned_if_too_little_was_written() -> None:
    upserted = spec(operation="upsert", table_type="MERGE_ON_READ")

    def runs(batch_id: int, written: int) -> bool:
        return tidy_options(upserted, batch_id, written=written)["hoodie.compact.inline"] == "true"

    little, much = 4 * 1024 * 1024 - 1, 4 * 1024 * 1024
    assert [number for number in range(201) if runs(number, little)] == [
        *(49, 69, 99, 119, 149, 169, 199)
    ]
    assert [number for number in range(40) if runs(number, much)] == [9, 19, 29, 39]


def test_stored_changes_are_never_compacted() -> None:
    changes = spec(operation="upsert", table_type="MERGE_ON_READ", cdc=True)
    assert tidy_options(changes, 9) == {}
    assert changes.write_options()["hoodie.compact.inline"] == "false"


def test_merge_on_read_compacts_between_batches_only() -> None:
    assert spec(table_type="MERGE_ON_READ", operation="upsert").write_options() == {
        **upserts(),
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.compaction.async.enable": "false",
        "hoodie.compact.inline": "true",
    }


def test_a_table_without_partitions() -> None:
    options = spec(partition=()).write_options()
    plain = {**OPTIONS, "hoodie.datasource.write.partitionpath.field": ""}
    plain.pop("hoodie.datasource.write.partitionpath.urlencode")
    assert options == plain


def test_extra_options_are_added_and_inline_compaction_may_be_turned_off() -> None:
    merge = spec(table_type="MERGE_ON_READ")
    extra = {"hoodie.compact.inline": "false", "hudilab.batch_id": "3"}
    assert merge.write_options(extra) == {**merge.write_options(), **extra}
    assert extra == {"hoodie.compact.inline": "false", "hudilab.batch_id": "3"}


@pytest.mark.parametrize("operation", ["bulk_insert", "upsert"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_described_are_all_options_and_each_in_a_sentence(table_type: str, operation: str) -> None:
    buckets = 1 if operation == "upsert" else None
    table = spec(table_type=table_type, operation=operation, buckets=buckets)
    rows = table.describe()
    assert {option: value for option, value, _ in rows} == table.write_options()
    assert all(20 < len(why) < 90 and why.endswith(".") for _, _, why in rows)
    assert len({why for _, _, why in rows}) == len(rows)


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("hoodie.table.name", "set TableSpec.name"),
        ("hoodie.datasource.write.table.name", "set TableSpec.name"),
        ("hoodie.table.type", "set TableSpec.table_type"),
        ("hoodie.datasource.write.table.type", "set TableSpec.table_type"),
        ("hoodie.table.recordkey.fields", "set TableSpec.record_key"),
        ("hoodie.datasource.write.recordkey.field", "set TableSpec.record_key"),
        ("hoodie.table.partition.fields", "set TableSpec.partition"),
        ("hoodie.datasource.write.partitionpath.field", "set TableSpec.partition"),
        ("hoodie.table.ordering.fields", "set TableSpec.ordering"),
        ("hoodie.table.precombine.field", "set TableSpec.ordering"),
        ("hoodie.datasource.write.precombine.field", "set TableSpec.ordering"),
        ("hoodie.datasource.write.operation", "set TableSpec.operation"),
        ("hoodie.index.type", "set TableSpec.index"),
        ("hoodie.write.record.merge.mode", "set TableSpec.merge_mode"),
        ("hoodie.record.merge.mode", "set TableSpec.merge_mode"),
        ("hoodie.table.cdc.enabled", "set TableSpec.cdc"),
        ("hoodie.table.cdc.supplemental.logging.mode", "set TableSpec.cdc"),
        ("Hoodie.DataSource.Write.Operation ", "set TableSpec.operation"),
        (
            "hoodie.datasource.write.keygenerator.class",
            "set TableSpec.record_key and TableSpec.partition",
        ),
        (
            "hoodie.table.keygenerator.type",
            "set TableSpec.record_key and TableSpec.partition",
        ),
        (
            "hoodie.datasource.write.hive_style_partitioning",
            "leave it out: partitions are always column=value",
        ),
        ("hoodie.table.timeline.timezone", "leave it out: instants are always UTC"),
        (
            "hoodie.datasource.compaction.async.enable",
            "leave it out: compaction alongside the stream can keep the JVM from exiting",
        ),
        (
            "hoodie.datasource.write.streaming.ignore.failed.batch",
            "leave it out: it silently loses the rows of a failed batch",
        ),
    ],
)
def test_an_option_of_the_spec_is_refused(option: str, remedy: str) -> None:
    with refused(TableError, f"option {option!r}", remedy=f"; {remedy}"):
        SPEC.write_options({option: "hidden"})


def test_options_that_the_spec_sets_are_refused_but_those_of_speed() -> None:
    merges = spec(table_type="MERGE_ON_READ", operation="upsert", buckets=1).write_options()
    options = OPTIONS | merges | spec(operation="upsert").write_options()
    allowed = []
    for option, value in options.items():
        try:
            SPEC.write_options({option: value})
            allowed.append(option)
        except TableError:
            continue
    assert sorted(allowed) == [
        "hoodie.clean.automatic",
        "hoodie.compact.inline",
        "hoodie.parquet.bloom.filter.enabled",
        MERGER,
        "hoodie.writestatus.class",
    ]


@pytest.mark.parametrize(
    ("value", "kind"), [(True, "bool"), (2, "int"), (None, "NoneType"), (["hidden"], "list")]
)
def test_a_value_that_is_no_text_is_refused(value: Any, kind: str) -> None:
    first = ("option 'hoodie.a'", f"type {kind}; write it as a string")
    second = "option 'hoodie.table.name'"
    with refused(TableError, *first, second, remedy="; set TableSpec.name") as caught:
        SPEC.write_options({"hoodie.a": value, "hoodie.b": "good", "hoodie.table.name": "x"})
    assert "hoodie.b" not in str(caught.value)


def test_an_option_name_that_is_no_text_is_refused() -> None:
    with refused(TableError, "option 1", "type int", remedy="; write its name as a string"):
        SPEC.write_options({1: "x"})  # type: ignore[dict-item]


# --- fields


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"table_type": "MOR"},
            "table_type='MOR' is not one of COPY_ON_WRITE, MERGE_ON_READ",
        ),
        ({"table_type": None}, "table_type=None is not one of COPY_ON_WRITE, MERGE_ON_READ"),
        (
            {"operation": "delete"},
            "operation='delete' is not one of bulk_insert, insert, upsert",
        ),
        (
            {"operation": ["upsert"]},
            "operation=['upsert'] is not one of bulk_insert, insert, upsert",
        ),
        (
            {"record_key": ()},
            "record_key is empty, name the columns that make a row unique",
        ),
        (
            {"record_key": "sensor_id"},
            "record_key is of type str, write a tuple such as ('sensor_id',)",
        ),
        (
            {"partition": ["sensor_id"]},
            "partition is of type list, write a tuple such as ('sensor_id',)",
        ),
        (
            {"record_key": ("a", "b", "A")},
            "record_key=a,b,A names a column twice",
        ),
        ({"partition": ("a", "a")}, "partition=a,a names a column twice"),
        ({"record_key": ("a.b",)}, f"record_key='a.b' {PLAIN}"),
        ({"partition": ("a,b",)}, f"partition='a,b' {PLAIN}"),
        ({"partition": ("a\n", 1)}, f"partition='a\\n' {PLAIN}; partition=1 {PLAIN}"),
        ({"name": "7up"}, f"name='7up' {PLAIN}"),
        ({"name": ""}, f"name='' {PLAIN}"),
        ({"name": "../x"}, f"name='../x' {PLAIN}"),
        ({"ordering": ""}, f"ordering='' {PLAIN}"),
        ({"ordering": None}, f"ordering=None {PLAIN}"),
        ({"operation": "upsert", "buckets": 0}, "buckets=0 is not a whole number of 1 or more"),
        (
            {"operation": "upsert", "buckets": True},
            "buckets=True is not a whole number of 1 or more",
        ),
        ({"buckets": 2}, "buckets=2 needs operation=upsert, but operation is bulk_insert"),
        (
            {"operation": "upsert", "index": "bucket"},
            f"index='bucket' is not one of BUCKET, SIMPLE, BLOOM, RECORD_LEVEL_INDEX, {GLOBALS}",
        ),
        (
            {"operation": "insert", "index": "BLOOM"},
            "index=BLOOM needs operation=upsert, but operation is insert, which looks up no keys",
        ),
        (
            {"operation": "upsert", "index": "BUCKET"},
            "index=BUCKET needs buckets, the number of file groups per partition",
        ),
        (
            {"operation": "upsert", "index": "SIMPLE", "buckets": 4},
            "buckets=4 needs index=BUCKET, but index is SIMPLE",
        ),
        (
            {"operation": "upsert", "index": "GLOBAL_BLOOM"},
            "index=GLOBAL_BLOOM moves no row, because the partition column sensor_id is part of "
            "record_key",
        ),
        (
            {"operation": "upsert", "index": "GLOBAL_BLOOM", "record_key": 5},
            "record_key is of type int, write a tuple such as ('sensor_id',)",
        ),
        (
            {"operation": "upsert", "merge_mode": "CUSTOM"},
            "merge_mode='CUSTOM' is not one of EVENT_TIME_ORDERING, COMMIT_TIME_ORDERING",
        ),
        (
            {"merge_mode": "COMMIT_TIME_ORDERING"},
            "merge_mode needs operation=upsert, but operation is bulk_insert, which compares no "
            "rows",
        ),
        ({"operation": "upsert", "cdc": "yes"}, "cdc='yes' is not True or False"),
        (
            {"operation": "insert", "cdc": True},
            "cdc needs operation=upsert, but operation is insert, whose changes an incremental "
            "query shows",
        ),
    ],
)
def test_a_bad_field_is_refused(changes: dict[str, Any], text: str) -> None:
    with refused(TableError, f"invalid TableSpec: {text}", remedy="; fix these fields"):
        spec(**changes)


def test_all_bad_fields_are_in_one_error() -> None:
    bad = ("name='a b'", "ordering='1'", "partition=x,x", "record_key", "table_type='cow'")
    remedy = "; fix these fields"
    with refused(TableError, *bad, "operation='replace'", remedy=remedy) as caught:
        TableSpec("a b", (), ("x", "x"), "1", "cow", "replace")
    assert str(caught.value).count("; ") == len(bad) + 1


# --- a table that is there


def test_no_conflict_with_its_own_table() -> None:
    assert SPEC.conflicts(PROPERTIES) == []


@pytest.mark.parametrize(
    "same",
    [
        {"hoodie.table.partition.fields": "sensor_id:simple"},
        {"hoodie.table.partition.fields": "sensor_id:SIMPLE"},
        {"hoodie.table.recordkey.fields": "sensor_id, reading_id"},
    ],
)
def test_other_spellings_are_no_conflict(same: dict[str, str]) -> None:
    assert SPEC.conflicts({**PROPERTIES, **same}) == []


def test_an_older_table_names_its_ordering_precombine() -> None:
    older = {key: value for key, value in PROPERTIES.items() if "ordering" not in key}
    key = "hoodie.table.precombine.field"
    assert SPEC.conflicts({**older, key: "measurement_time"}) == []
    assert SPEC.conflicts({**older, key: "ts"}) == [
        "ordering: the table has ts, the spec has measurement_time"
    ]
    # Both there: the newer name counts.
    assert SPEC.conflicts({**PROPERTIES, key: "ts"}) == []


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("name", "other", "name: the table has other, the spec has sensor_readings"),
        ("type", "MERGE_ON_READ", "type: the table has MERGE_ON_READ, the spec has COPY_ON_WRITE"),
        (
            "recordkey.fields",
            "sensor_id",
            "record key: the table has sensor_id, the spec has sensor_id,reading_id",
        ),
        (
            "recordkey.fields",
            "reading_id,sensor_id",
            "record key: the table has reading_id,sensor_id, the spec has sensor_id,reading_id",
        ),
        ("partition.fields", "", "partition: the table has none, the spec has sensor_id"),
        (
            "partition.fields",
            "sensor_id:timestamp",
            "partition: the table has sensor_id:timestamp, the spec has sensor_id",
        ),
        ("ordering.fields", "ts", "ordering: the table has ts, the spec has measurement_time"),
        ("timeline.timezone", "LOCAL", "time zone: the table has LOCAL, the spec has UTC"),
    ],
)
def test_a_difference_is_named(key: str, value: str, text: str) -> None:
    assert SPEC.conflicts({**PROPERTIES, f"hoodie.table.{key}": value}) == [text]


def test_merge_mode_and_cdc_are_fixed_with_the_table() -> None:
    properties = {**PROPERTIES, "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    assert spec(operation="upsert").conflicts(properties) == []
    assert spec(operation="upsert", merge_mode="EVENT_TIME_ORDERING").conflicts(properties) == []
    assert spec(operation="upsert", merge_mode="COMMIT_TIME_ORDERING").conflicts(properties) == [
        "merge mode: the table has EVENT_TIME_ORDERING, the spec has COMMIT_TIME_ORDERING"
    ]
    assert spec(operation="upsert", cdc=True).conflicts(properties) == [
        "cdc: the table has false, the spec has true"
    ]
    stored = {**properties, "hoodie.table.cdc.enabled": "true"}
    assert spec(operation="upsert", cdc=True).conflicts(stored) == []
    assert SPEC.conflicts(stored) == ["cdc: the table has true, the spec has false"]


def test_plain_directory_names_are_a_difference() -> None:
    plain = {**PROPERTIES, "hoodie.datasource.write.hive_style_partitioning": "false"}
    assert SPEC.conflicts(plain) == ["hive style: the table has false, the spec has true"]


def test_a_table_without_partitions_against_one_with() -> None:
    assert spec(partition=()).conflicts(PROPERTIES) == [
        "partition: the table has sensor_id, the spec has none"
    ]


def test_empty_properties_differ_in_everything_that_makes_a_table() -> None:
    assert SPEC.conflicts({}) == [
        "name: the table has none, the spec has sensor_readings",
        "type: the table has none, the spec has COPY_ON_WRITE",
        "record key: the table has none, the spec has sensor_id,reading_id",
        "partition: the table has none, the spec has sensor_id",
        "ordering: the table has none, the spec has measurement_time",
    ]


def test_an_upsert_is_not_ordered_by_a_part_of_its_key() -> None:
    remedy = "; order by a column outside the key; fix these fields"
    with refused(TableError, "ordering=reading_id", "record_key", remedy=remedy):
        spec(operation="upsert", ordering="reading_id")
    spec(operation="bulk_insert", ordering="reading_id")  # which compares no rows


PARTITIONS = "hoodie.table.metadata.partitions"


def test_a_table_keeps_the_indexes_it_has() -> None:
    assert index_options({}) == {}
    assert index_options({PARTITIONS: ""}) == {}
    assert index_options({PARTITIONS: "files"}) == {"hoodie.metadata.enable": "true"}
    indexes = {PARTITIONS: "bloom_filters,column_stats,files,partition_stats,record_index"}
    everything = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.partition.stats.enable": "true",
        "hoodie.metadata.streaming.write.enabled": "false",
    }
    whole = {"hoodie.metadata.global.record.level.index.enable": "true"}
    assert index_options(indexes) == everything | whole
    definition = (
        '{"indexDefinitions": {"record_index": {"indexOptions": {"isPartitioned": "true"}}}}'
    )
    each = {"hoodie.metadata.record.level.index.enable": "true"}
    assert index_options(indexes, definition) == everything | each


def test_a_bucket_is_in_the_name_of_its_file_groups() -> None:
    own = ["00000000-aaaa-4b2c-8d3e-0123456789ab-0", "00000003-bbbb-4b2c-8d3e-0123456789ab-0"]
    assert foreign_groups(own, 4) == []
    assert foreign_groups(own, 3) == own[1:]
    random = "74e77e91-cccc-4b2c-8d3e-0123456789ab-0"
    digits = "12345678-dddd-4b2c-8d3e-0123456789ab-0"  # chance can make a number
    assert foreign_groups([*own, random, digits], 4) == [digits, random]


def test_a_metadata_table_on_s3_is_compacted_by_each_commit() -> None:
    assert closing_options("s3a://b/t") == {"hoodie.metadata.compact.max.delta.commits": "1"}
    assert closing_options("file:///w/lab/t") == {}


def test_services_read_the_metadata_table_s_log_on_s3_only() -> None:
    indexed = index_options({"hoodie.table.metadata.partitions": "files"})
    assert leaks_connections("s3a://b/t", indexed)
    assert not leaks_connections("s3a://b/t", index_options({}))
    assert not leaks_connections("file:///w/lab/t", indexed)


@pytest.mark.parametrize("every", [None, 0])
def test_a_stream_that_would_leak_connections_runs_no_services_and_says_so_once(
    every: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    services = StreamServices(
        cast("Any", None),
        spec(operation="upsert", table_type="MERGE_ON_READ"),
        "s3a://b/t",
        every=every,
        async_services=False,
        is_mine=bool,
    )
    for batch_id in (9, 10, 199):
        options = services.options(batch_id, leaks=True)
        assert options["hoodie.clean.automatic"] == "false"
        assert options.get("hoodie.compact.inline") == (None if every == 0 else "false")
    (warning,) = (record.message for record in caplog.records)
    assert "hudilab tidy s3a://b/t --clean --stopped" in warning


def test_on_a_disk_one_task_deletes_a_commit_s_markers() -> None:
    assert overlap_options("file:///w/lab/t", 8) == {}
    assert overlap_options("s3a://b/t", 8) == {
        "hoodie.finalize.write.parallelism": "8",
        "hoodie.markers.delete.parallelism": "8",
    }


def test_a_shared_table_has_a_lock() -> None:
    local = sharing_options("file:///w/lab/t")
    assert local["hoodie.write.concurrency.mode"] == "optimistic_concurrency_control"
    assert local["hoodie.clean.failed.writes.policy"] == "LAZY"
    assert local["hoodie.write.lock.provider"].endswith(".FileSystemBasedLockProvider")
    # A writer waits for a dead one's lock longer than that lives.
    wait = int(local["hoodie.write.lock.client.num_retries"]) * int(
        local["hoodie.write.lock.client.wait_time_ms_between_retry"]
    )
    assert wait > int(local["hoodie.write.lock.filesystem.expire"]) * 60_000
    own = {"hoodie.write.lock.provider": "org.example.Lock"}
    assert sharing_options("s3a://b/t", own)["hoodie.write.lock.provider"] == "org.example.Lock"


def test_a_commit_tells_which_lock_its_writer_took() -> None:
    in_jvm = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
    taken = [
        sharing_options("file:///w/lab/t", lock)["hudilab.shared"]
        for lock in (
            None,
            {"hoodie.write.lock.provider": "org.example.Lock"},
            {"hoodie.write.lock.provider": in_jvm},
        )
    ]
    here = f"{os.getpid()}@{socket.gethostname()}"
    assert taken == ["FileSystemBasedLockProvider", "Lock", f"InProcessLockProvider:{here}"]


def test_a_lock_that_protects_nothing() -> None:
    locks, name = "org.apache.hudi.client.transaction.lock", "'hoodie.write.lock.provider'"
    in_jvm = f"'{locks}.InProcessLockProvider'"
    for table, more in (
        ("file:///w/lab/t", ", or leave out lock= to use the table's own lock file"),
        ("s3a://b/t", ""),
    ):
        remedy = f"add {name}, for example {in_jvm} for streams of one driver{more}"
        with refused(TableError, "lock=", "ZooKeeper", remedy=remedy):
            sharing_options(table, {"hoodie.write.lock.wait_time_ms": "1000"})
    dynamo = "'org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider'"
    file = f"{locks}.FileSystemBasedLockProvider"
    for lock in (None, {"hoodie.write.lock.provider": file}):
        remedy = f"or, for streams of one driver, {{{name}: {in_jvm}}}"
        offered = ("as lock=", f"{{{name}: {dynamo}, ...}}")
        with refused(TableError, "s3a://b/t", "lock file", *offered, remedy=remedy):
            sharing_options("s3a://b/t", lock)


def test_the_properties_of_a_table_are_read() -> None:
    text = "#Updated at 2026\nhoodie.table.name=t\nhoodie.x=a\\:b=c\n\n"
    assert read_properties(text) == {"hoodie.table.name": "t", "hoodie.x": "a:b=c"}
