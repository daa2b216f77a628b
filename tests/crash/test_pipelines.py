"""kill -9 `hudilab load` and then `hudilab stream`, ten times each: the table is exact."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa
import pytest
from kills import Killed, read_batches, record, rows_once
from running import finish, folder, kill, start_program, wait_while_running
from unit.hudilab.settings_files import load, own_pipeline

from hudilab_spark.warehouse import prepare

PATIENCE = 600  # seconds; a start takes ten on an idle machine
LOADED, STREAMED = 8, 16  # files
ROWS, CHANGES = 20_000, 1_000  # of a file; half of the changes are updates


class Point(NamedTuple):
    """The n-th new file of a kind since the start, in the table or its checkpoint."""

    pattern: str
    nth: int = 1


TIMELINE = ".hoodie/timeline"
REQUESTED, INFLIGHT = Point(f"{TIMELINE}/*.commit.requested"), Point(f"{TIMELINE}/*.inflight")
ROLLBACK, COMMIT = Point(f"{TIMELINE}/*.rollback.*"), Point(f"{TIMELINE}/*_*.commit")
OFFSETS, DONE, FILES = "offsets/[0-9]*", "commits/[0-9]*", "city=*/*.parquet"
OF_THE_LOAD = (
    *(Point(OFFSETS), Point(".hoodie/hoodie.properties"), REQUESTED, INFLIGHT, Point(FILES)),
    *(Point(FILES, 5), ROLLBACK, Point(FILES, 8), COMMIT, Point(DONE)),
)
OF_THE_STREAM = (
    *(REQUESTED, INFLIGHT, Point(FILES), ROLLBACK, COMMIT, Point(DONE), Point(OFFSETS)),
    *(Point(FILES, 3), Point(f"{TIMELINE}/*_*.commit", 2), Point(FILES, 15)),
)


class Own:
    """A folder of CSV files that DuckDB writes, the group that describes it, and its table."""

    def __init__(self, home: Path) -> None:
        self.home, self.inbox = home, home / "inbox"
        self.inbox.mkdir()
        described = {
            "source.format": "csv",
            "source.path": str(self.inbox),
            "source.options": "header=true",
            "source.schema": "id BIGINT, city STRING, value DOUBLE, seq BIGINT",
            "files.per.batch": "1",
            "table.name": "own",
            "record.key": "id",
            "partition": "city",
            "ordering": "seq",
        }
        self.env = own_pipeline(home, described)
        location = prepare(load(home / "conf", HUDILAB_HOME=str(home)), table="own")
        self.table, self.checkpoint = folder(location.table), folder(location.checkpoint)

    def put(self, number: int) -> None:
        """Write file `number`; those after the load also have keys of the load again."""
        first, rows = number * ROWS, ROWS if number < LOADED else CHANGES
        key = f"{first} + i"
        if number >= LOADED:
            key = f"IF(i % 2 = 0, {key}, (i * 7919 + {number}) % {LOADED * ROWS})"
        query = f"""
            SELECT id, 'c' || id % 10 AS city, {number} + id / 7 AS value, {number} AS seq
            FROM (SELECT DISTINCT {key} AS id FROM range({rows}) t(i)) ORDER BY hash(id)"""
        file = self.inbox / f"{number:02}.csv"
        duckdb.execute(f"COPY ({query}) TO '{file}' (HEADER)")
        os.utime(file, (1_700_000_000 + number,) * 2)

    def expected(self) -> list[tuple[object, ...]]:
        return duckdb.execute(f"""
            SELECT id, any_value(city), arg_max(value, seq), max(seq)
            FROM '{self.inbox}/*.csv' GROUP BY id ORDER BY id""").fetchall()

    def stored(self) -> list[tuple[object, ...]]:
        stored = pa.Table.from_batches(read_batches(self.table))
        columns = stored.select(["id", "city", "value", "seq"])
        assert columns.num_rows
        return duckdb.execute("SELECT * FROM columns ORDER BY id").fetchall()

    def files(self, pattern: str) -> set[Path]:
        return {*self.table.glob(pattern), *self.checkpoint.glob(pattern)}

    def kill_at(self, point: Point, *command: str) -> None:
        before = self.files(point.pattern)
        program = start_program("-m", *command, env=self.env, cwd="/")
        try:
            condition = lambda: len(self.files(point.pattern) - before) >= point.nth  # noqa: E731
            wait_while_running(program, condition, PATIENCE, str(point))
        finally:
            kill(program)

    def finish(self, *command: str) -> str:
        program = start_program("-m", *command, env=self.env, cwd="/")
        return finish(program, PATIENCE).splitlines()[-1]


@pytest.mark.deep
@pytest.mark.kills
def test_a_load_and_its_stream_are_killed_again_and_again(tmp_path: Path) -> None:
    own = Own(tmp_path)
    for number in range(LOADED):
        own.put(number)
    started, whole = time.monotonic(), LOADED * ROWS
    number = 0
    for point in OF_THE_LOAD:
        if own.files(DONE):  # the kill before was a moment late, and the load is complete
            break
        own.kill_at(point, "hudilab_jobs.load", "own")
        number += 1
        rows = rows_once(own.table)
        print(f"{time.monotonic() - started:6.0f} s {rows:7} {point}")
        assert rows in (0, whole)
    assert rows_once(own.table) == whole
    assert number >= len(OF_THE_LOAD) - 1
    lost = len(set(own.expected()) - set(own.stored()))
    record(Killed("hudilab load", "initial load, COPY_ON_WRITE", "disk", number, number, lost, 0))

    for file in range(LOADED, LOADED + STREAMED):
        own.put(file)
    stream = ("hudilab_jobs.stream", "own", "--available-now")
    for point in OF_THE_STREAM:
        own.kill_at(point, *stream)
        rows = rows_once(own.table)
        print(f"{time.monotonic() - started:6.0f} s {rows:7} {point}")
    last = own.finish(*stream)
    lost = len(set(own.expected()) ^ set(own.stored()))
    number = len(OF_THE_STREAM)
    record(Killed("hudilab stream", "upsert, COPY_ON_WRITE", "disk", number, number, lost, 0))
    # Not one a file: a kill between the file source's own log and the batch's offsets makes Spark
    # plan that file and the next one as one batch.
    batches = len(own.files(DONE))
    assert 1 + STREAMED - number <= batches <= 1 + STREAMED
    assert f"rows={len(own.expected())} commits={batches} " in last
