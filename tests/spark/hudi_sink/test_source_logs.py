"""Streams from files: their offsets are only numbers, so what counts is which files a batch had."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from spark.programs.feeds import ROWS, Files, Run

from hudi_sink.commits import Commits
from hudi_sink.rewind import Rewind
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.paths import locate
from hudilab.table import TableSpec
from hudilab_spark.streams import drain

DEEP = pytest.mark.deep
SET_BACK = "other source offsets than batch"


class Inbox(Run):
    """A folder that files arrive in, and the stream that writes them to a table."""

    def __init__(self, spark: SparkSession, home: Path, kind: str = "json", **options: str) -> None:
        self.files = Files(spark, home, kind, **options)
        self.folder = self.files.inbox
        super().__init__(self.files)

    def fail(self) -> None:
        """Start the stream, which fails while the rows are read."""
        with pytest.raises(StreamError, match="no power"):
            self.run(change=lambda rows: rows.where(F.raise_error(F.lit("no power")).isNull()))

    def assert_exact(self) -> None:
        assert self.ids() == list(range(self.files.arrived * ROWS))


def test_a_checkpoint_that_is_set_back_never_loses_a_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path)
    inbox.batches(2)
    restore = inbox.keep()
    inbox.batches(1)
    restore()
    inbox.run()  # the batch has the same file again: it is skipped
    inbox.assert_exact()
    # Now the batch of the same number would have two files; only one of them is in the table.
    inbox.files.options["maxFilesPerTrigger"] = "9"
    restore()
    inbox.files.arrive()
    with pytest.raises(StreamError, match=SET_BACK):
        inbox.run()
    assert inbox.ids() == list(range(3 * ROWS))


def _planned_not_done(inbox: Inbox) -> None:
    """The second batch's file is noted by the source, and the table does not have its rows."""
    inbox.batches(1)
    inbox.files.arrive()
    inbox.fail()
    assert (inbox.checkpoint / "offsets" / "1").is_file()


def test_a_file_is_gone_before_its_batch_is_written(spark: SparkSession, tmp_path: Path) -> None:
    """Spark takes it for an empty one, and never looks at it again."""
    home = tmp_path / "a home % ü"
    home.mkdir()
    inbox = Inbox(spark, home)
    _planned_not_done(inbox)
    moved = (inbox.folder / "001.json").rename(tmp_path / "elsewhere")
    inbox.files.arrive()
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
    inbox = Inbox(spark, tmp_path, maxFilesPerTrigger="2")

    def twice(rows: DataFrame) -> DataFrame:
        return rows.where("city = 'Oslo'").union(rows.where("city <> 'Oslo'"))

    for _ in range(2):
        inbox.files.arrive()
    with pytest.raises(StreamError, match="no power"):
        inbox.run(change=lambda rows: twice(rows).where(F.raise_error(F.lit("no power")).isNull()))
    (inbox.folder / "000.json").rename(tmp_path / "000.json")
    with pytest.raises(StreamError, match=r"batch 0 reads .*/000.json, but the file"):
        inbox.run(change=twice)


@DEEP
@pytest.mark.parametrize("kind", ["json", "parquet"])
def test_an_empty_file_stands_for_rows_that_are_lost(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    inbox = Inbox(spark, tmp_path, kind)
    _planned_not_done(inbox)
    (inbox.folder / f"001.{kind}").write_bytes(b"")
    inbox.batches(1)
    assert inbox.ids() == [*range(ROWS), *range(2 * ROWS, 3 * ROWS)]


@DEEP
def test_a_rewind_names_the_files_that_the_source_has_deleted(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path, cleanSource="delete")
    inbox.batches(2)
    table = inbox.location.table
    second = next(iter(Commits(spark, table).newest_first())).instant
    spark.sql(f"CALL create_savepoint(path => '{table}', commit_time => '{second}')").collect()
    for _ in range(3):
        inbox.files.arrive()
        shutil.copy2(inbox.folder / f"{inbox.files.arrived - 1:03}.json", tmp_path)
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
def test_another_content_under_the_name_of_a_file_that_is_written(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The source's log knows it by its time only; a batch that is written stays as it is."""
    inbox = Inbox(spark, tmp_path)
    inbox.batches(2)
    restore = inbox.keep()
    inbox.batches(1)
    file = inbox.folder / "002.json"
    before, text = file.stat(), file.read_text("utf-8")
    file.write_text(text.replace('"id":2', '"id":9'), "utf-8")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    inbox.run()
    restore()
    inbox.run()
    inbox.assert_exact()
    os.utime(file)
    restore()
    with pytest.raises(StreamError, match=SET_BACK):
        inbox.run()
    inbox.assert_exact()


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
