"""What the sink raises about a pipeline names file, group and key, and says nothing in Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from unit.hudi_sink.test_schema import schema
from unit.hudilab.settings_files import group, load, write
from unit.hudilab_jobs.test_pipelines import GROUP

from hudi_sink.initial_load import InitialLoad
from hudi_sink.locks import sharing_options
from hudi_sink.rows import LOAD, QUARANTINE, STREAM
from hudi_sink.rules import BatchMetadata, Checkpoint, Commit, Rules
from hudi_sink.schema import check_drift, check_storable
from hudilab.errors import ConfigError, LabError, TableError
from hudilab.table import DELETED, TableSpec
from hudilab_jobs.pipelines.words import in_words_of

TABLE = "file:///t"
SPEC = TableSpec("flights", ("id",), (), "at", operation="upsert")
HAVE = schema(id="long", at="long", v="integer")
NAMES = {
    "hoodie.table.name": "flights",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.ordering.fields": "at",
}
OTHER = Commit("1", BatchMetadata("q", 1, "", "{}"))


def row(problem: str, remedy: str) -> Callable[[], None]:
    def refuse() -> None:
        text = f"{TABLE} cannot store the row with id=7: {problem}; {remedy}; {QUARANTINE}"
        raise TableError(text)

    return refuse


def rules() -> Rules:
    return Rules(TABLE, "file:///c", None, shared=False)


def differs() -> None:
    """What `SchemaGuard.check` raises, without a table."""
    differences = SPEC.conflicts({"hoodie.table.type": "MERGE_ON_READ"} | NAMES)
    raise TableError(
        f"the existing table {TABLE} differs from its TableSpec: {'; '.join(differences)}",
        "use the table's own settings, or another table.name or run_id",
    )


CASES: list[tuple[Callable[[], object], str, str]] = [
    (
        row(
            "the record key (id) is null", 'fix the row, or filter it out: .where("id IS NOT NULL")'
        ),
        "record.key",
        'filter it out (WHERE id IS NOT NULL in select); or quarantine such rows: "quarantine": '
        '"true"',
    ),
    (
        row(
            f"{DELETED} is true, and {LOAD} deletes no row",
            f'filter the row out, .where("{DELETED} IS NOT TRUE"), or start the stream: {STREAM}',
        ),
        "select",
        f"filter the row out (WHERE {DELETED} IS NOT TRUE in select), or start the stream: hudilab "
        "stream flights; or quarantine such rows",
    ),
    (
        row(
            "the partition column day is empty, which would be stored as NULL",
            """replace it: .withColumn("day", F.expr("nullif(day, '')"))""",
        ),
        "partition",
        "replace it: nullif(day, '') AS day; or quarantine",
    ),
    (
        row("x is -0.0", 'convert it to 0.0: .withColumn("x", F.col("x") + F.lit(0.0))'),
        "",
        "convert it to 0.0: x + 0.0 AS x; or",
    ),
    (
        lambda: check_storable(TABLE, schema(ID="long", at="long"), {"record_key": ("id",)}),
        "record.key",
        "record.key names id, but the batch has ID; in select: ID AS id; correct the rows",
    ),
    (
        lambda: check_storable(TABLE, schema(id="long", v="short"), {"record_key": ("id",)}),
        "select",
        "in select: CAST(v AS int) AS v; correct the rows",
    ),
    (
        lambda: check_storable(TABLE, schema(id="long", _HOODIE_is_deleted="boolean"), {}),
        "select",
        "would delete no row, because of its capitals; rename it to _hoodie_is_deleted; correct",
    ),
    (
        differs,
        "table.type",
        "the existing table file:///t differs from the pipeline: type: the table has MERGE_ON_READ,"
        " the pipeline has COPY_ON_WRITE; use the table's own settings, or another table.name or "
        "--run-id",
    ),
    (
        lambda: check_drift(TABLE, HAVE, schema(id="string", v="integer"), "freeze"),
        "select",
        "; convert the values exactly in select, or name a new table in table.name: a plain cast "
        "of id to bigint would change or refuse values",
    ),
    (
        lambda: check_drift(
            TABLE,
            schema(id="long", v="string", at="long"),
            schema(id="long", v="date", new=["long"]),
            "evolve",
        ),
        "select",
        "; correct the columns in select: CAST(v AS string) AS v, if(true, new, NULL) AS new, "
        "CAST(NULL AS bigint) AS at",
    ),
    (
        lambda: SPEC.check_columns([("id", "binary"), ("at", "bigint")]),
        "record.key",
        "record.key names id (binary), and Hudi 1.2 writes another key",
    ),
    (
        lambda: InitialLoad(SPEC, TABLE).check_new(3, None),
        "",
        "batches up to 3, and an initial load writes batch 0; start the stream itself, which "
        "continues from there: hudilab stream flights",
    ),
    (
        lambda: rules().check(Checkpoint(None, -1, {}), "{}", None, [OTHER]),
        "shared",
        'if both streams write to the table, write "shared": "true" into both pipelines',
    ),
    (
        lambda: rules().check(Checkpoint(None, -1, {}), "{}", None, [Commit("1", None)]),
        "shared",
        'use another table, or write "shared": "true" to add to these rows',
    ),
    (
        lambda: sharing_options("s3a://b/t"),
        "lock.options",
        "name the options of a lock provider in lock.options, for example",
    ),
]


@pytest.mark.parametrize(("refuse", "key", "text"), CASES)
def test_an_error_of_the_sink(
    tmp_path: Path, refuse: Callable[[], object], key: str, text: str
) -> None:
    file = tmp_path / "pipelines" / "flights.json"
    write(tmp_path, [group()])
    file.parent.mkdir()
    file.write_text(json.dumps(GROUP), "utf-8")
    with pytest.raises(LabError) as caught, in_words_of(load(tmp_path), "pipeline.flights"):
        refuse()
    shown = str(caught.value)
    assert text in shown
    assert not re.search(
        r"F\.|\.with|\.where|\.drop|Sink|TableSpec|=True|batch\.|record_key", shown
    )
    where = f"{file}: group 'pipeline.flights', key {key!r}: "
    assert shown.startswith(where) if key else "group" not in shown


def test_an_error_that_names_its_key_already_stays(tmp_path: Path) -> None:
    write(tmp_path, [group(), group("pipeline.flights", GROUP)])
    with pytest.raises(ConfigError) as caught, in_words_of(load(tmp_path), "pipeline.flights"):
        raise ConfigError("key 'a': the spec has it", QUARANTINE)
    assert caught.value.remedy == QUARANTINE
