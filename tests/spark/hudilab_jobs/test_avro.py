"""Avro files that another program wrote become a table, through the job as users start it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import fastavro
import pyarrow as pa
import pytest
from kills import read_batches
from running import folder, start_program
from unit.hudilab.settings_files import load, own_pipeline

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
