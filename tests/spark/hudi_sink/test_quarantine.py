"""Rows that a table cannot store go to its quarantine: each once, with the reason, counted."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clocks import set_ahead
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hudi_sink.commits import Commits
from hudi_sink.files import delete_file
from hudi_sink.metadata import QUARANTINED
from hudi_sink.quarantine import Quarantine
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.paths import TableLocation, local_path, locate
from hudilab.table import ENCODED, TableSpec
from hudilab_spark.streams import drain

SCHEMA = "id BIGINT, city STRING, moment BIGINT, note STRUCT<a: ARRAY<INT>, b: STRING>"
SPEC = TableSpec("own", ("id",), ("city",), "moment", "MERGE_ON_READ", "upsert", 1)
NO_KEY = "the record key (id) is null"
NO_ORDER = "the ordering column moment is null, so every later write of its key would fail"
NO_CITY = "the partition column city is empty, which would be stored as NULL"
Row = tuple[int | None, str | None, int | None, Any]
GOOD: Row = (1, "Oslo", 1, ([1, None], "x"))
BAD: dict[str, Row] = {
    NO_KEY: (None, "Oslo", 1, ([1, None], "ü\n")),
    NO_ORDER: (2, "Oslo", None, None),
    NO_CITY: (3, "", 1, (None, None)),
}


class Stream:
    """A folder of files, one a batch, and the stream that writes their rows to a table."""

    def __init__(self, spark: SparkSession, home: Path, spec: TableSpec = SPEC) -> None:
        self.spark, self.spec, self.inbox = spark, spec, str(home / "inbox")
        self.files = 1  # a batch
        self.query: Callable[[DataFrame], DataFrame] = lambda rows: rows  # of each batch
        self.location: TableLocation = locate("warehouse", "lab", "own", is_local=True, home=home)
        self.sink: Callable[[], ExactlyOnceSink] = lambda: ExactlyOnceSink(
            spark, self.spec, self.location, {"inbox": "own"}, quarantine=True
        )

    def run(self, *batches: list[Row]) -> None:
        """Write the rows as further batches."""
        for rows in batches:
            made = self.spark.createDataFrame(rows, SCHEMA).coalesce(1)
            made.write.mode("append").parquet(self.inbox)
        arrived = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", self.files)
        sink = self.sink()
        stream = arrived.parquet(self.inbox).writeStream.foreachBatch(
            lambda rows, batch: sink.write_batch(self.query(rows), batch)
        )
        stream = stream.option("checkpointLocation", self.location.checkpoint)
        drain(stream.trigger(availableNow=True).start(), deadline=120)

    def stored(self) -> list[tuple[Any, ...]]:
        rows = self.spark.read.format("hudi").load(self.location.table)
        return sorted((row.id, row.city, row.moment) for row in rows.collect())

    def quarantined(self) -> list[tuple[int, str, Any]]:
        rows = self.spark.read.format("hudi").load(self.location.quarantine)
        return sorted((row.batch, row.reason, row.row) for row in rows.collect())

    def counts(self) -> list[str | None]:
        """How many rows each batch has quarantined, as the table's commits say."""
        meta = Commits(self.spark, self.location.table).meta()
        timeline = meta.getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        instants = sorted(
            timeline.getInstants().toArray(), key=lambda instant: instant.requestedTime()
        )
        return [
            timeline.readCommitMetadata(instant).getMetadata(QUARANTINED) for instant in instants
        ]


def cached_rdds(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext._jsc.getPersistentRDDs())


def as_json(row: Row) -> Any:
    note = None if row[3] is None else {"a": row[3][0], "b": row[3][1]}
    return {"id": row[0], "city": row[1], "moment": row[2], "note": note}


@pytest.mark.parametrize("as_broadcast", [True, False])
def test_a_batch_that_is_joined_with_a_table_ends(
    spark: SparkSession, tmp_path: Path, as_broadcast: bool
) -> None:
    """With data skipping, Hudi and Spark's cache would wait for each other."""
    path, own = f"file://{tmp_path}/cities", Stream(spark, tmp_path)
    options = {"hoodie.table.name": "cities", "hoodie.datasource.write.recordkey.field": "city"}
    for city in ("Oslo", "Bern"):
        rows = spark.createDataFrame([(city, len(city))], "city STRING, size INT")
        rows.write.format("hudi").options(**options).mode("append").save(path)
    cities = spark.read.format("hudi").load(path).where("size > 3").select("city")
    cities = F.broadcast(cities) if as_broadcast else cities
    own.query = lambda rows: rows.join(cities, "city").select(rows.columns).repartition(2)
    own.run([GOOD, (2, "Bern", 1, None), (3, "Rome?", 1, None)])
    assert own.stored() == [(1, "Oslo", 1), (2, "Bern", 1)]


def test_each_bad_row_is_quarantined_once_with_its_reason(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached_before = cached_rdds(spark)
    stream = Stream(spark, tmp_path)
    bad = list(BAD.values())
    stream.run([*bad, GOOD], [GOOD], bad[:1])
    assert stream.stored() == [GOOD[:3]]
    expected = [(0, reason, as_json(row)) for reason, row in BAD.items()]
    expected.append((2, NO_KEY, as_json(bad[0])))
    quarantined = [(batch, reason, json.loads(row)) for batch, reason, row in stream.quarantined()]
    assert sorted(quarantined, key=repr) == sorted(expected, key=repr)
    assert stream.counts() == ["3", "0", "1"]
    assert (
        f"hudilab: batch 2: 1 row quarantined in {stream.location.quarantine}"
        in capsys.readouterr()[1]
    )
    # The last batch comes again, because nothing says that it is done.
    delete_file(spark, f"{stream.location.checkpoint}/commits/2")
    stream.run([GOOD])
    assert len(stream.quarantined()) == 4
    assert stream.counts() == ["3", "0", "1", "0"]
    # The session is every test's: a write that failed elsewhere may have left its own.
    assert cached_rdds(spark) <= cached_before


@pytest.mark.deep
def test_a_batch_of_bad_rows_alone_is_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, replace(SPEC, operation="bulk_insert", buckets=None))
    row = BAD[NO_KEY]
    stream.run([row], [row], [GOOD])
    assert stream.stored() == [GOOD[:3]]
    assert [batch for batch, *_ in stream.quarantined()] == [0, 1]


@pytest.mark.deep
@pytest.mark.parametrize("files", [1, 9])
def test_what_comes_again_after_a_rewind_is_not_quarantined_twice(
    spark: SparkSession, tmp_path: Path, files: int
) -> None:
    stream, row = Stream(spark, tmp_path), BAD[NO_KEY]
    folders = [local_path(uri) for uri in (stream.location.table, stream.location.checkpoint)]
    stream.run([row, GOOD], [GOOD])
    for folder in folders:
        assert folder is not None
        shutil.copytree(folder, f"{folder}-kept")
    stream.run([row, row], [row])
    assert [batch for batch, *_ in stream.quarantined()] == [0, 2, 2, 3]
    for folder in folders:
        assert folder is not None
        shutil.rmtree(folder)
        Path(f"{folder}-kept").rename(folder)
    spark.catalog.clearCache()
    stream.files = files
    stream.run([row])  # the three files as three batches, or as one
    again = [2, 2, 3, 4] if files == 1 else [2] * 4
    assert [batch for batch, *_ in stream.quarantined()] == [0, *again]
    assert stream.stored() == [GOOD[:3]]


@pytest.mark.deep
def test_without_the_word_a_bad_row_is_an_error_and_with_it_the_stream_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    stream = Stream(spark, tmp_path)
    source, stream.sink = (
        stream.sink,
        lambda: ExactlyOnceSink(spark, stream.spec, stream.location, {"inbox": "own"}),
    )
    with pytest.raises(StreamError, match="or pass quarantine=True to ExactlyOnceSink") as caught:
        stream.run([GOOD, BAD[NO_ORDER]])
    assert f"cannot store the row with id=2: {NO_ORDER}" in str(caught.value)
    assert list(Commits(spark, stream.location.table).newest_first()) == []
    stream.sink = source
    stream.run()
    assert stream.stored() == [GOOD[:3]]
    assert [reason for _, reason, _ in stream.quarantined()] == [NO_ORDER]


def test_another_table_in_the_quarantines_place(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    rows = spark.createDataFrame([GOOD], SCHEMA)
    options = SPEC.write_options() | {ENCODED: "true"}
    rows.write.format("hudi").options(**options).mode("append").save(stream.location.quarantine)
    with pytest.raises(Exception, match="which contains another table") as caught:
        stream.run([GOOD])
    assert "move that table" in str(caught.value)


@pytest.mark.deep
def test_two_streams_share_a_table_and_its_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    streams = [Stream(spark, tmp_path / name) for name in ("a", "b")]
    path = local_path(streams[0].location.table)
    assert path is not None
    for stream in streams:
        stream.location = replace(stream.location, table=streams[0].location.table)
        stream.sink = lambda stream=stream: ExactlyOnceSink(  # type: ignore[misc]
            spark, SPEC, stream.location, {"inbox": "own"}, quarantine=True, shared=True
        )
    for _ in range(2):
        for stream in streams:
            stream.run([GOOD, BAD[NO_KEY]])
    rows_read = [(row.batch, row.query_id) for row in table(spark, streams[0]).collect()]
    assert sorted(batch for batch, _ in rows_read) == [0, 0, 1, 1]
    assert len({query for _, query in rows_read}) == 2


def table(spark: SparkSession, stream: Stream) -> DataFrame:
    return (
        spark.read.format("hudi").load(stream.location.quarantine).where(F.col("reason") == NO_KEY)
    )


def test_the_clock_is_behind_the_quarantine(spark: SparkSession, tmp_path: Path) -> None:
    """As when the table was rewound or restored since, and its quarantine was not."""
    stream = Stream(spark, tmp_path)
    stream.run([GOOD, BAD[NO_KEY]])
    set_ahead(stream.location.quarantine, 3600)
    stream.run([(4, "Oslo", 1, None)])  # nothing is quarantined
    stored, quarantined = stream.stored(), stream.quarantined()
    behind = f"the clock is behind the table {stream.location.quarantine}: the newest instant is "
    with pytest.raises(StreamError, match=re.escape(behind)):
        stream.run([(5, "Oslo", 1, None), BAD[NO_ORDER]])
    assert (stream.stored(), stream.quarantined()) == (stored, quarantined)
    set_ahead(stream.location.quarantine, -3600)
    stream.run()
    assert [row[0] for row in stream.stored()] == [1, 4, 5]
    assert [row[1] for row in stream.quarantined()] == [NO_KEY, NO_ORDER]


def test_the_clock_is_set_back_while_rows_are_quarantined(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quarantine reads the whole batch, which may take minutes, before the table is written."""
    stream = Stream(spark, tmp_path, replace(SPEC, tuned=True))
    stream.run([GOOD])
    put = Quarantine.put

    def put_slowly(*arguments: Any) -> tuple[DataFrame, int]:
        result = put(*arguments)
        set_ahead(stream.location.table, 3600)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Quarantine, "put", put_slowly)
        behind = f"the clock is behind the table {stream.location.table}: the newest instant is "
        with pytest.raises(StreamError, match=re.escape(behind)):
            stream.run([(4, "Oslo", 1, None), BAD[NO_KEY]])
    assert stream.stored() == [GOOD[:3]]
    set_ahead(stream.location.table, -3600)
    stream.run()
    assert [row[0] for row in stream.stored()] == [1, 4]
    assert [row[1] for row in stream.quarantined()] == [NO_KEY]
