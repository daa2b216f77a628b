"""Streams from files: their offsets are only numbers, so what counts is which files a batch had."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark.programs.feeds import keep

from hudi_sink.commits import Commits
from hudi_sink.rewind import Rewind
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.paths import TableLocation, local_path, locate
from hudilab.table import TableSpec
from hudilab_spark.streams import drain

SCHEMA = "id BIGINT, city STRING, price DOUBLE"
SPEC = TableSpec("visits", ("id",), ("city",), "price", operation="bulk_insert")
ROWS = 10  # in a file
DEEP = pytest.mark.deep
FORMATS = ("json", *(pytest.param(kind, marks=DEEP) for kind in ("csv", "parquet", "orc")))
SET_BACK = "other source offsets than batch"


class Inbox:
    """A folder that files arrive in, and the stream that writes them to a table."""

    def __init__(self, spark: SparkSession, home: Path, kind: str, **options: str) -> None:
        self.spark, self.kind, self.options = spark, kind, {"maxFilesPerTrigger": "1"} | options
        self.folder = home / "inbox"
        self.folder.mkdir()
        self.location: TableLocation = locate(
            "warehouse", "lab", "visits", is_local=True, home=home
        )
        path = local_path(self.location.checkpoint)
        assert path is not None
        self.checkpoint, self.arrived, self.twice = path, 0, False

    def arrive(self, count: int = 1) -> None:
        """Put files of new rows into the folder, whole from the first moment."""
        for _ in range(count):
            rows = self.spark.range(self.arrived * ROWS, (self.arrived + 1) * ROWS).select(
                "id",
                F.when(F.col("id") % 2 == 0, "Oslo").otherwise("Bergen").alias("city"),
                (F.col("id") / 2).alias("price"),
            )
            self._file(rows, self.folder / f"{self.arrived:03}.{self.kind}")
            self.arrived += 1

    def _file(self, rows: DataFrame, to: Path) -> None:
        made = self.folder.with_name("made")
        rows.coalesce(1).write.mode("overwrite").format(self.kind).save(str(made))
        (part,) = made.glob("part-*")
        part.replace(to)

    def run(self, *, fails: bool = False) -> None:
        """Write all that has arrived, and stop; or fail while the rows are read."""
        sink = ExactlyOnceSink(self.spark, SPEC, self.location, {"inbox": "visits"})
        reader = self.spark.readStream.format(self.kind).schema(SCHEMA).options(**self.options)
        rows = reader.load(str(self.folder))
        if self.twice:
            rows = rows.where("city = 'Oslo'").union(rows.where("city <> 'Oslo'"))
        if fails:
            rows = rows.where(F.raise_error(F.lit("no power")).isNull())
        stream = rows.writeStream.foreachBatch(sink.write_batch)
        stream = stream.option("checkpointLocation", self.location.checkpoint)
        drain(stream.trigger(availableNow=True).start(), deadline=120)

    def keep(self) -> Callable[[], None]:
        return keep(self.checkpoint)

    def ids(self) -> list[int]:
        table = self.spark.read.format("hudi").load(self.location.table)
        return sorted(row.id for row in table.select("id").collect())

    def assert_exact(self) -> None:
        assert self.ids() == list(range(self.arrived * ROWS))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_checkpoint_that_is_set_back_never_loses_a_file(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    inbox = Inbox(spark, tmp_path, kind)
    inbox.arrive(2)
    inbox.run()
    restore = inbox.keep()
    inbox.arrive()
    inbox.run()
    restore()
    inbox.run()  # the batch has the same file again: it is skipped
    inbox.assert_exact()
    # Now the batch of the same number would have two files; only one of them is in the table.
    inbox.options["maxFilesPerTrigger"] = "9"
    restore()
    inbox.arrive()
    with pytest.raises(StreamError, match=SET_BACK):
        inbox.run()
    assert inbox.ids() == list(range(3 * ROWS))


def test_another_file_under_the_number_of_the_last_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path, "json", latestFirst="true")
    inbox.arrive()
    inbox.run()
    restore = inbox.keep()
    inbox.arrive()
    inbox.run()
    restore()
    inbox.arrive()  # and comes first
    with pytest.raises(StreamError, match=SET_BACK):
        inbox.run()
    assert inbox.ids() == list(range(2 * ROWS))


def test_the_notes_of_the_last_batch_are_deleted_and_the_sources_log_is_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path, "json")
    inbox.arrive(3)
    inbox.run()
    for log in ("commits", "offsets"):
        (inbox.checkpoint / log / "2").unlink()
        (inbox.checkpoint / log / ".2.crc").unlink(missing_ok=True)
    inbox.run()
    inbox.assert_exact()
    inbox.arrive()
    inbox.run()
    inbox.assert_exact()


@pytest.mark.deep
def test_every_tenth_entry_of_the_sources_log_holds_all_earlier_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path, "json")
    inbox.arrive(9)
    inbox.run()
    before_compaction = inbox.keep()
    inbox.arrive()
    inbox.run()
    assert (inbox.checkpoint / "sources" / "0" / "9.compact").is_file()
    inbox.run()  # the last batch is known by the compacted entry
    before_compaction()
    inbox.run()
    inbox.assert_exact()
    inbox.options["maxFilesPerTrigger"] = "9"
    before_compaction()
    inbox.arrive()
    with pytest.raises(StreamError, match=SET_BACK):
        inbox.run()
    assert inbox.ids() == list(range(10 * ROWS))


def test_files_that_the_source_archives(spark: SparkSession, tmp_path: Path) -> None:
    archive = {"cleanSource": "archive", "sourceArchiveDir": str(tmp_path / "archive")}
    inbox = Inbox(spark, tmp_path, "json", **archive)
    for _ in range(3):
        inbox.arrive()
        inbox.run()
    inbox.assert_exact()
    restore = inbox.keep()
    inbox.arrive()
    inbox.run()
    restore()
    inbox.arrive()
    inbox.options["maxFilesPerTrigger"] = "9"
    with pytest.raises(StreamError, match=SET_BACK):
        inbox.run()


def _planned_not_done(inbox: Inbox) -> None:
    """The second batch's file is noted by the source, and the table does not have its rows."""
    inbox.arrive()
    inbox.run()
    inbox.arrive()
    with pytest.raises(StreamError, match="no power"):
        inbox.run(fails=True)
    assert (inbox.checkpoint / "offsets" / "1").is_file()


def test_a_file_is_gone_before_its_batch_is_written(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes it for an empty one, and never looks at it again."""
    home = tmp_path / "a home % ü"
    home.mkdir()
    inbox = Inbox(spark, home, "json")
    _planned_not_done(inbox)
    moved = (inbox.folder / "001.json").rename(tmp_path / "elsewhere")
    inbox.arrive()
    with pytest.raises(StreamError, match="restore each file under its name") as caught:
        inbox.run()
    assert f"batch 1 reads file://{inbox.folder}/001.json, but the file" in str(caught.value)
    assert inbox.ids() == list(range(ROWS))
    moved.rename(inbox.folder / "001.json")
    inbox.run()
    inbox.assert_exact()


@DEEP
def test_one_of_two_files_is_gone_from_a_stream_that_is_read_twice(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its plan lists as many files as the batch has: the one that is there, twice."""
    inbox = Inbox(spark, tmp_path, "json", maxFilesPerTrigger="2")
    inbox.twice = True
    inbox.arrive(2)
    with pytest.raises(StreamError, match="no power"):
        inbox.run(fails=True)
    (inbox.folder / "000.json").rename(tmp_path / "000.json")
    with pytest.raises(StreamError, match=r"batch 0 reads .*/000.json, but the file"):
        inbox.run()


@DEEP
@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_an_empty_file_stands_for_rows_that_are_lost(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    inbox = Inbox(spark, tmp_path, kind)
    _planned_not_done(inbox)
    (inbox.folder / f"001.{kind}").write_bytes(b"")
    inbox.arrive()
    inbox.run()
    assert inbox.ids() == [*range(ROWS), *range(2 * ROWS, 3 * ROWS)]


@DEEP
def test_a_rewind_names_the_files_that_the_source_has_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path, "json", cleanSource="delete")
    for _ in range(2):
        inbox.arrive()
        inbox.run()
    table = inbox.location.table
    second = next(iter(Commits(spark, table).newest_first())).instant
    spark.sql(f"CALL create_savepoint(path => '{table}', commit_time => '{second}')").collect()
    for _ in range(3):
        inbox.arrive()
        shutil.copy2(inbox.folder / f"{inbox.arrived - 1:03}.json", tmp_path)
        inbox.run()
    Rewind(spark, table, second, stopped=True).run()
    refused = r"batch 2 reads .*/00[23]\.json(| and \d more), but the file no longer exists"
    with pytest.raises(StreamError, match=refused):
        inbox.run()
    assert inbox.ids() == list(range(2 * ROWS))
    for kept in tmp_path.glob("00*.json"):
        shutil.copy2(kept, inbox.folder)
    inbox.run()
    inbox.assert_exact()


@DEEP
def test_a_file_that_is_replaced_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own rule: files do not change once they have arrived."""
    inbox = Inbox(spark, tmp_path, "json")
    inbox.arrive()
    inbox.run()
    inbox.arrive()
    (inbox.folder / "001.json").replace(inbox.folder / "000.json")
    inbox.run()
    assert inbox.ids() == list(range(ROWS))


@DEEP
def test_another_content_of_the_same_name_size_and_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The source's log cannot tell them apart; a batch that is written stays as it is."""
    inbox = Inbox(spark, tmp_path, "json")
    inbox.arrive(2)
    inbox.run()
    restore = inbox.keep()
    inbox.arrive()
    inbox.run()
    file = inbox.folder / "002.json"
    before, text = file.stat(), file.read_text("utf-8")
    file.write_text(text.replace('"id":2', '"id":9'), "utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    inbox.run()
    restore()
    inbox.run()
    inbox.assert_exact()


@DEEP
def test_a_replaced_file_in_a_checkpoint_that_was_set_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path, "json")
    inbox.arrive(2)
    inbox.run()
    restore = inbox.keep()
    inbox.arrive()
    inbox.run()
    os.utime(inbox.folder / "002.json")  # the same rows, but the source's log has its time
    restore()
    with pytest.raises(StreamError, match=SET_BACK):
        inbox.run()
    assert inbox.ids() == list(range(3 * ROWS))


@DEEP
def test_a_file_that_arrives_old_is_never_read(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's own rule."""
    inbox = Inbox(spark, tmp_path, "json")
    inbox.arrive(2)
    inbox.run()
    inbox.arrive()
    week = 8 * 24 * 3600
    before = (inbox.folder / "002.json").stat().st_mtime
    os.utime(inbox.folder / "002.json", (before - week, before - week))
    inbox.run()
    assert inbox.ids() == list(range(2 * ROWS))


def test_the_sources_log_is_lost(spark: SparkSession, tmp_path: Path) -> None:
    inbox = Inbox(spark, tmp_path, "json")
    inbox.arrive(2)
    inbox.run()
    shutil.rmtree(inbox.checkpoint / "sources")
    inbox.arrive()
    with pytest.raises(StreamError, match=SET_BACK):
        inbox.run()
    assert inbox.ids() == list(range(2 * ROWS))


def test_a_socket_cannot_be_read_again(spark: SparkSession, tmp_path: Path) -> None:
    location = locate("warehouse", "lab", "lines", is_local=True, home=tmp_path)
    spec = TableSpec("lines", ("value",), (), "value", operation="bulk_insert")
    sink = ExactlyOnceSink(spark, spec, location, {"socket": "lines"})
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        lines = spark.readStream.format("socket").options(host="127.0.0.1", port=port).load()
        stream = lines.writeStream.foreachBatch(sink.write_batch)
        query = stream.option("checkpointLocation", location.checkpoint).start()
        connection, _ = server.accept()
        with connection:
            connection.sendall(b"a\nb\n")
            with pytest.raises(StreamError) as caught:
                drain(query, batches=3, deadline=60)
    text = str(caught.value)
    assert (
        f"the source TextSocketV2[host: 127.0.0.1, port: {port}] cannot read a batch again" in text
    )
    assert "write its rows to files or to Kafka first, and read the stream from there" in text
    assert not (tmp_path / "warehouse" / "lab" / "lines" / ".hoodie").exists()
