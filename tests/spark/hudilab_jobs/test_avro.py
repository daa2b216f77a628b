"""Avro files that another program wrote become a table, through the job as users start it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from io import BytesIO
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from kills import read_batches
from pyspark.sql import SparkSession
from running import folder, start_program
from unit.hudilab.settings_files import load, own_pipeline

from hudilab_jobs.pipelines.files import block_problem
from hudilab_spark.warehouse import prepare

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "station", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "celsius", "type": ["null", "double"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def reading(station: str, day: int, celsius: float | None, *tags: str) -> dict[str, object]:
    at = datetime(2013, 1, day, 6, tzinfo=UTC)
    return {"station": station, "at": at, "celsius": celsius, "tags": list(tags)}


@pytest.mark.deep
def test_avro_files_become_a_table(tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    inbox.mkdir()
    first = [reading("EWR", 1, -3.5, "ice"), reading("Köln", 1, None)]
    later = [reading("EWR", 2, 0.25, "ice", "wind")]
    for name, rows in (("1.avro", first), ("2.avro", later)):
        with (inbox / name).open("wb") as file:
            fastavro.writer(file, fastavro.parse_schema(SCHEMA), rows, codec="deflate")
    described = {
        "source.format": "avro",
        "source.path": str(inbox),
        "source.schema": "station STRING, at TIMESTAMP, celsius DOUBLE, tags ARRAY<STRING>",
        "table.name": "own",
        "record.key": "station",
        "ordering": "at",
    }
    env = own_pipeline(tmp_path, described)
    command = ("-m", "hudilab_jobs.stream", "own")
    for words, last in (
        (("--check",), "nothing was written"),
        (("--available-now",), "hudilab: rows=2 commits=1 "),
    ):
        job = start_program(*command, *words, env=env, cwd="/")
        out, err = job.communicate(timeout=300)
        assert job.returncode == 0, err[-2000:]
        assert last in out.splitlines()[-1]
    location = prepare(load(tmp_path / "conf", HUDILAB_HOME=str(tmp_path)), table="own")
    stored = pa.Table.from_batches(read_batches(folder(location.table)))
    stored_rows = stored.select(["station", "at", "celsius", "tags"]).sort_by("station").to_pylist()
    assert stored_rows == [later[0], first[1]]


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
def test_files_that_avro_would_read_in_part(tmp_path: Path) -> None:
    day = {"type": "int", "logicalType": "date"}
    at = {"type": "long", "logicalType": "timestamp-millis"}
    old = [{"id": 1, "day": date(1, 1, 1), "at": 0}]
    inbox = tmp_path / "in"
    inbox.mkdir()
    (inbox / "1.avro").write_bytes(avro_file({"id": "int", "day": day, "at": at}, old))
    described = {
        "source.format": "avro",
        "source.path": str(inbox),
        "source.schema": "id INT, day DATE, at TIMESTAMP",
        "table.name": "own",
        "record.key": "id",
        "ordering": "at",
        "quarantine": "true",
    }
    env = own_pipeline(tmp_path, described)

    def run(data: bytes | None) -> tuple[int, str, str]:
        if data:
            (inbox / "2.avro").write_bytes(data)
        job = start_program("-m", "hudilab_jobs.stream", "own", "--available-now", env=env, cwd="/")
        out, err = job.communicate(timeout=300)
        return job.returncode, out, err

    code, out, err = run(None)
    assert (code, "rows=1 commits=1" in out) == (0, True), err[-2000:]
    rows = [{"id": n, "day": 0, "at": 0} for n in range(2, 900)]
    whole = avro_file({"id": "int", "day": day, "at": at}, rows)
    code, _, err = run(whole[:-20])
    assert (code, "2.avro: it is damaged or truncated" in err) == (1, True), err[-2000:]
    beyond = [{"id": 2, "day": 0, "at": 2**62}]
    code, _, err = run(avro_file({"id": "int", "day": day, "at": at}, beyond))
    assert (code, "2.avro: it cannot be read as avro: " in err) == (1, True), err[-2000:]
    assert "long overflow" in err
    code, out, err = run(whole)
    assert (code, "rows=899 " in out) == (0, True), err[-2000:]
    location = prepare(load(tmp_path / "conf", HUDILAB_HOME=str(tmp_path)), table="own")
    stored = pa.Table.from_batches(read_batches(folder(location.table)))
    assert stored.filter(pc.equal(stored["id"], 1))["day"].to_pylist() == [date(1, 1, 1)]
