"""A stream of files that has nothing to read: Spark reports progress, and no batch is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tqdm import tqdm

from hudilab.errors import StreamError
from hudilab_jobs.pipelines.runner import Reports
from hudilab_spark import streams
from hudilab_spark.streams import batches_done, drain
from hudilab_spark.waiting import wait_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    return folder


@pytest.fixture
def query(spark: SparkSession, folder: Path, tmp_path: Path) -> Iterator[StreamingQuery]:
    """A stream that reads one file a batch; a restart needs a new one."""
    query = start(spark, folder, tmp_path)
    yield query
    query.stop()


def start(spark: SparkSession, folder: Path, home: Path) -> StreamingQuery:
    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(str(folder))
    stream = rows.writeStream.format("noop").option("checkpointLocation", str(home / "checkpoint"))
    return stream.start()


def eventually(condition: Callable[[], bool]) -> None:
    wait_for(condition, 60, "the stream's progress")


def arrive(folder: Path, name: str) -> None:
    new = folder.with_name(name)
    new.write_text("a row\n")
    new.rename(folder / name)


def test_an_idle_stream_has_done_no_batch(query: StreamingQuery) -> None:
    eventually(lambda: query.lastProgress is not None)
    with pytest.raises(StreamError, match=r"^only 0 of 1 batches finished within 0\.5 s; raise"):
        drain(query, batches=1, deadline=0.5)


def test_the_batch_to_come_is_waited_for(
    spark: SparkSession, query: StreamingQuery, folder: Path, tmp_path: Path
) -> None:
    arrive(folder, "first")
    eventually(lambda: batches_done(query) == 1)
    eventually(lambda: query.lastProgress["batchId"] == 1)  # type: ignore[index]  # idle again
    later = Timer(1, arrive, [folder, "second"])
    later.start()
    drain(query, batches=2, deadline=60)
    later.join()
    assert sorted(file.name for file in (tmp_path / "checkpoint/commits").glob("[0-9]*")) == [
        "0",
        "1",
    ]
    # Started again it has nothing to do, and both batches are done.
    drain(start(spark, folder, tmp_path), batches=2, deadline=60)


def test_a_log_and_a_notebook_get_no_bar(
    query: StreamingQuery,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A bar that appears late is no better: it's red in a notebook, and stays in a log."""
    monkeypatch.setattr(streams, "tqdm", lambda **options: tqdm(**options | {"delay": 0}))
    arrive(folder, "first")
    drain(query, batches=1, deadline=60)
    assert capsys.readouterr().err == ""


def test_all_progress_is_read_only_when_batches_were_missed(
    query: StreamingQuery, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    every: Any = StreamingQuery.recentProgress

    def recent(self: StreamingQuery) -> Any:
        calls.append(self)
        return every.fget(self)

    monkeypatch.setattr(StreamingQuery, "recentProgress", property(recent))
    group = SimpleNamespace(source="a folder")
    source: Any = SimpleNamespace(unit="file", behind=lambda *_: 0, group=group)
    nothing: Any = None
    reports = Reports([(source, nothing)], nothing, as_json=False)
    assert [*reports.new(query)] == []
    arrive(folder, "first")
    eventually(lambda: batches_done(query) == 1)
    lines = [line for _ in range(20) for line in reports.new(query)]
    assert [line.split(" (")[0] for line in lines] == ["batch 0: 1 row"]
    assert calls == []
    for name in ("second", "third"):
        arrive(folder, name)
    eventually(lambda: batches_done(query) == 3)
    lines = [line for _ in range(20) for line in reports.new(query)]
    assert [line.split(":")[0] for line in lines] == ["batch 1", "batch 2"]
    assert len(calls) == 1  # both at once
