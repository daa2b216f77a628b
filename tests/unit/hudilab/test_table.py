"""TableSpec: the Hudi options that follow from it, and what every refusal names."""

from __future__ import annotations

import json
import os
import socket
from typing import Any, cast

import pytest
from cases import read_cases
from refusals import refused

from hudi_sink.async_services import StreamServices
from hudi_sink.locks import sharing_options
from hudi_sink.metadata import (
    closing_options,
    first_options,
    index_options,
    leaks_connections,
    overlap_options,
)
from hudi_sink.repairs import foreign_groups
from hudi_sink.service_schedule import service_options
from hudi_sink.table_files import table_index_options
from hudilab.errors import TableError
from hudilab.table import METADATA, TableSpec

CASES = read_cases(__file__)
SPEC = TableSpec(
    name="sensor_readings",
    record_key=("sensor_id", "reading_id"),
    partition=("sensor_id",),
    ordering="measurement_time",
)
OPTIONS: dict[str, str] = CASES["options of every table"]
MERGER = "hoodie.write.record.merge.custom.implementation.classes"
# Lines of a hoodie.properties that Hudi 1.2 wrote for SPEC.
PROPERTIES: dict[str, str] = CASES["properties"]


def spec(**changes: Any) -> TableSpec:
    """The spec with other fields; a list of table.json stands for a tuple."""
    fields = {name: getattr(SPEC, name) for name in SPEC.__dataclass_fields__}
    given = {name: tuple(v) if isinstance(v, list) else v for name, v in changes.items()}
    return TableSpec(**{**fields, **given})


# --- options


@pytest.mark.parametrize("case", CASES["options"], ids=json.dumps)
def test_the_options_of_a_table(case: dict[str, Any]) -> None:
    kept = {name: value for name, value in OPTIONS.items() if name not in case.get("lacks", [])}
    assert spec(**case["spec"]).write_options() == {**kept, **case["adds"]}
    assert spec(**case["spec"]).write_options({}) == {**kept, **case["adds"]}


INDEXES = ("BUCKET", "SIMPLE", "BLOOM", "RECORD_LEVEL_INDEX")
GLOBAL = ("GLOBAL_SIMPLE", "GLOBAL_BLOOM", "GLOBAL_RECORD_LEVEL_INDEX")


def indexed(index: str | None, **changes: Any) -> TableSpec:
    buckets = 4 if index == "BUCKET" else None
    fields = {"operation": "upsert", "record_key": ("reading_id",), "buckets": buckets}
    return spec(index=index, **fields | changes)


def test_a_global_index_finds_a_key_in_every_partition() -> None:
    assert [name for name in INDEXES + GLOBAL if indexed(name).is_global()] == [*GLOBAL]


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
        with refused(TableError, f"option {option!r}", "JVM", index, remedy="; remove it"):
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


@pytest.mark.parametrize(("role", "kind", "instead"), CASES["bad types"])
def test_a_type_that_is_no_key_partition_or_ordering(role: str, kind: str, instead: str) -> None:
    name = instead.partition("(")[2].partition(")")[0]
    remedy = f"; derive a column from it, such as {instead}, and name that instead"
    for operation in ("bulk_insert", "upsert"):
        table = spec(record_key=("reading_id",), operation=operation)
        with refused(TableError, f"{role} names {name} ({kind}), and Hudi", remedy=remedy):
            table.check_columns([(name, kind), ("note", kind)])
        table.check_columns([(name, "string"), ("note", kind)])


@pytest.mark.parametrize("case", CASES["orderings"], ids=json.dumps)
def test_an_ordering_that_hudi_may_not_be_able_to_compare(case: dict[str, Any]) -> None:
    """Spark's rows are compared as they are."""
    table = spec(record_key=("reading_id",), partition=(), **case["spec"])
    types = [("reading_id", "bigint"), ("measurement_time", case["type"])]
    deletes = [*types, ("_hoodie_is_deleted", "boolean")]
    if "remedy" not in case:
        table.check_columns(deletes)
        return
    named = f"ordering names measurement_time ({case['type']}), "
    with refused(TableError, named, remedy=case["remedy"]):
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


@pytest.mark.parametrize("case", CASES["services"], ids=json.dumps)
def test_the_services_of_a_batch(case: dict[str, Any]) -> None:
    """Appends are tidied once in twenty; upserts compact large logs often, small ones rarely."""
    written = {"written": case["written"]} if "written" in case else {}
    assert (
        service_options(spec(**case["spec"]), "file:///w/t", case["batch"], **written)
        == case["options"]
    )


@pytest.mark.parametrize("operation", ["bulk_insert", "upsert"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_described_are_all_options_and_each_in_a_sentence(table_type: str, operation: str) -> None:
    buckets = 1 if operation == "upsert" else None
    table = spec(table_type=table_type, operation=operation, buckets=buckets)
    rows = table.describe()
    assert {option: value for option, value, _ in rows} == table.write_options()
    assert all(20 < len(why) < 90 and why.endswith(".") for _, _, why in rows)
    assert len({why for _, _, why in rows}) == len(rows)


@pytest.mark.parametrize(("remedy", "options"), CASES["options of the spec"].items())
def test_an_option_of_the_spec_is_refused(remedy: str, options: list[str]) -> None:
    for option in options:
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


@pytest.mark.parametrize("case", CASES["bad fields"], ids=json.dumps)
def test_a_bad_field_is_refused(case: dict[str, Any]) -> None:
    with refused(TableError, f"invalid TableSpec: {case['says']}", remedy="; fix these fields"):
        spec(**case["spec"])


def test_all_bad_fields_are_in_one_error() -> None:
    bad = ("name='a b'", "ordering='1'", "partition=x,x", "record_key", "table_type='cow'")
    remedy = "; fix these fields"
    with refused(TableError, *bad, "operation='replace'", remedy=remedy) as caught:
        TableSpec("a b", (), ("x", "x"), "1", "cow", "replace")
    assert str(caught.value).count("; ") == len(bad) + 1


# --- a table that is there


@pytest.mark.parametrize("case", CASES["conflicts"], ids=json.dumps)
def test_a_table_that_is_there_and_what_differs(case: dict[str, Any]) -> None:
    """Older tables name their ordering precombine."""
    stored = {**PROPERTIES, **case["stored"]}
    properties = {name: value for name, value in stored.items() if value is not None}
    assert spec(**case.get("spec", {})).conflicts(properties) == case["says"]


def test_an_upsert_is_not_ordered_by_a_part_of_its_key() -> None:
    remedy = "; order by a column outside the key; fix these fields"
    with refused(TableError, "ordering=reading_id", "record_key", remedy=remedy):
        spec(operation="upsert", ordering="reading_id")
    spec(operation="bulk_insert", ordering="reading_id")  # which compares no rows


PARTITIONS = "hoodie.table.metadata.partitions"


def test_a_table_keeps_the_indexes_it_has() -> None:
    without = {"hoodie.metadata.enable": "false"}
    assert index_options({}) == index_options({PARTITIONS: ""}) == without
    stats = (
        "hoodie.metadata.index.column.stats.enable",
        "hoodie.metadata.index.partition.stats.enable",
    )
    files = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.streaming.write.enabled": "false",
    } | dict.fromkeys(stats, "false")
    assert index_options({PARTITIONS: "files"}) == files
    indexes = {PARTITIONS: "bloom_filters,column_stats,files,partition_stats,record_index"}
    everything = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.streaming.write.enabled": "false",
    } | dict.fromkeys(stats, "true")
    whole = {"hoodie.metadata.global.record.level.index.enable": "true"}
    assert index_options(indexes) == everything | whole
    definition = (
        '{"indexDefinitions": {"record_index": {"indexOptions": {"isPartitioned": "true"}}}}'
    )
    each = {"hoodie.metadata.record.level.index.enable": "true"}
    each |= {"hoodie.embed.timeline.server": "true"}  # needed with statistics of partitions
    assert index_options(indexes, definition) == everything | each
    without = {PARTITIONS: "column_stats,files,record_index"}
    assert "hoodie.embed.timeline.server" not in index_options(without, definition)


@pytest.mark.parametrize(("adds", "options"), [(False, {METADATA: "false"}), (True, {})])
def test_a_write_adds_a_metadata_table_only_if_it_asks(adds: bool, options: dict[str, str]) -> None:
    spark = cast("Any", None)  # a table without a metadata table has no index to read
    assert table_index_options(spark, "file:///w/t", {}, adds=adds) == options


@pytest.mark.parametrize("index", ["secondary_index_by_name", "expr_index_by_day"])
def test_an_index_of_sql_keeps_the_statistics_and_the_server_that_it_needs(index: str) -> None:
    options = index_options({PARTITIONS: f"files,{index}"})
    assert options["hoodie.metadata.index.column.stats.enable"] == "true"
    assert options["hoodie.embed.timeline.server"] == "true"


def test_the_sink_starts_no_server_and_makes_no_metadata_table_on_s3() -> None:
    local, remote = first_options("file:///w/lab/t"), first_options("s3a://b/t")
    assert local["hoodie.embed.timeline.server"] == "false"
    assert remote == local | {"hoodie.metadata.enable": "false"}
    assert first_options("file:///w/lab/t", shared=True) == remote


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
        ("file:///w/lab/t", ", or omit lock= to use the table's own lock file"),
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
