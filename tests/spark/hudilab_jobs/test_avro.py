"""Avro files that another program wrote become a table, through the job as users start it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from kills import read_batches
from pyspark.sql import SparkSession
from running import folder, run_program
from unit.hudilab.settings_files import load, own_pipeline

from hudilab_jobs.pipelines.files import block_problem
from hudilab_spark.warehouse import prepare

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}


def avro_file(fields: Mapping[str, object], rows: Sequence[Mapping[str, object]]) -> bytes:
    """A file of small blocks."""
    named = [{"name": name, "type": kind} for name, kind in fields.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "Row", "fields": named})
    file = BytesIO()
    fastavro.writer(file, schema, rows, sync_interval=500, sync_marker=b"sixteen letters.")
    return file.getvalue()


def is_whole(data: bytes) -> bool:
    """Whether another program reads it to its end."""
    try:
        return bool([*fastavro.reader(BytesIO(data))])
    except (EOFError, ValueError):
        return False


def test_a_file_whose_blocks_do_not_reach_its_end(spark: SparkSession, tmp_path: Path) -> None:
    whole = avro_file({"id": "int", "text": "string"}, [{"id": n, "text": "x"} for n in range(900)])
    marker = whole.index(b"sixteen letters.", whole.index(b"sixteen letters.") + 16)
    flipped = whole[:marker] + b"S" + whole[marker + 1 :]
    # The first block's size, made so large that the block would end behind the file.
    size = whole.index(b"sixteen letters.") + 16 + 2
    longer = whole[: size + 1] + b"\x7f" + whole[size + 2 :]
    cut = [whole[:length] for length in range(1, len(whole), 61)]
    states = [whole, whole + b"rest", whole + b"\x00", flipped, longer, whole[:-1], *cut]
    path = tmp_path / "rows.avro"
    for data in states:
        path.write_bytes(data)
        problem = block_problem(spark, f"file://{path}")
        assert (problem is None) == is_whole(data), len(data)
    assert is_whole(whole)


@pytest.mark.deep
def test_avro_files_become_a_table(tmp_path: Path) -> None:
    """Whole ones; of others Avro would read a part."""
    fields = {
        "station": "string",
        "day": {"type": "int", "logicalType": "date"},
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "celsius": ["null", "double"],
        "tags": {"type": "array", "items": "string"},
    }
    inbox = tmp_path / "in"
    inbox.mkdir()
    described = {
        "source.format": "avro",
        "source.path": str(inbox),
        "source.schema": "station STRING, day DATE, at TIMESTAMP, celsius DOUBLE, "
        "tags ARRAY<STRING>",
        "table.name": "own",
        "record.key": "station",
        "ordering": "at",
        "quarantine": "true",
    }
    env = own_pipeline(tmp_path, described)

    def run(*words: str, data: bytes | None = None) -> tuple[int, str, str]:
        if data:
            (inbox / "2.avro").write_bytes(data)
        command = (sys.executable, "-m", "hudilab_jobs.stream", "own")
        done = run_program(*command, *words, env=env, cwd=Path("/"))
        return done.returncode, done.stdout, done.stderr

    at = datetime(2013, 1, 1, 6, tzinfo=UTC)
    old = {"station": "Köln", "day": date(1, 1, 1), "at": at, "celsius": None, "tags": []}
    first = old | {"station": "EWR", "celsius": -3.5, "tags": ["ice"]}
    (inbox / "1.avro").write_bytes(avro_file(fields, [old, first]))
    code, out, err = run("--check")
    assert (code, "nothing was written" in out.splitlines()[-1]) == (0, True), err[-2000:]
    code, out, err = run("--available-now")
    assert (code, "rows=2 commits=1 " in out) == (0, True), err[-2000:]
    later = first | {"day": date(2013, 1, 2), "at": at + timedelta(days=1), "celsius": 0.25}
    whole = avro_file(fields, [later, *(first | {"station": str(n)} for n in range(900))])
    code, _, err = run("--available-now", data=whole[:-20])
    assert (code, "2.avro: it is damaged or truncated" in err) == (1, True), err[-2000:]
    beyond = avro_file(fields | {"day": "int", "at": MILLIS}, [later | {"day": 0, "at": 2**62}])
    code, _, err = run("--available-now", data=beyond)
    assert (code, "2.avro: it cannot be read as avro: " in err) == (1, True), err[-2000:]
    assert "long overflow" in err
    code, out, err = run("--available-now", data=whole)
    assert (code, "rows=902 commits=2 " in out) == (0, True), err[-2000:]
    location = prepare(load(tmp_path / "conf", HUDILAB_HOME=str(tmp_path)), table="own")
    stored = pa.Table.from_batches(read_batches(folder(location.table))).select([*fields])
    rows = {row["station"]: row for row in stored.to_pylist()}
    assert (rows["Köln"], rows["EWR"], len(rows)) == (old, later, 902)
