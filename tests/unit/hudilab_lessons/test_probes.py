"""Files that hold a key while a writer or a cleaner is at work; costs of a slice; Spark's UI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from hudi_inspect.errors import InspectError
from hudi_inspect.store import DiskStore, Vanished
from hudilab_lessons.probes import files_holding, reported, slice_costs, tasks_of


def test_a_file_that_is_deleted_meanwhile_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        parquet.write_table(pa.table({"_hoodie_record_key": [name]}), tmp_path / f"{name}.parquet")
    read = DiskStore.read

    def while_cleaning(store: DiskStore, path: str, last: int | None = None) -> bytes:
        (tmp_path / "a.parquet").unlink(missing_ok=True)
        return read(store, path, last)

    monkeypatch.setattr(DiskStore, "read", while_cleaning)
    assert files_holding(str(tmp_path), "b") == ["b.parquet"]
    with pytest.raises(Vanished):
        DiskStore(tmp_path).read("a.parquet")


def test_a_file_that_is_being_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InspectError) as error:
        files_holding(str(tmp_path), "a")
    assert str(error.value) == (
        f"file://{tmp_path}/a.parquet is not a complete Parquet file, so the keys in it are "
        "unknown; stop the table's writers, and try again"
    )


class Pages(BaseHTTPRequestHandler):
    """Spark's UI, as far as it is read here."""

    def do_GET(self) -> None:  # the name that http.server calls
        base = "/api/v1/applications/app-1"
        pages = {
            f"{base}/jobs": [{"jobId": 4}, {"jobId": 3}],
            f"{base}/stages/7/0/taskList": [
                {"launchTime": "2026-01-01T00:00:01.500GMT", "duration": 250, "executorId": "1"}
            ],
            f"{base}/stages/8/0/taskList": [],  # Spark skipped it
        }
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(pages[self.path]).encode())

    def log_message(self, *_: object) -> None:
        """Print no line per request."""


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What `probes` uses of a session: its UI, and events that have all been shown."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # is not asked
    with ThreadingHTTPServer(("127.0.0.1", 0), Pages) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        bus = SimpleNamespace(waitUntilEmpty=lambda: None)
        context = SimpleNamespace(
            uiWebUrl=f"http://127.0.0.1:{server.server_port}",
            applicationId="app-1",
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(listenerBus=lambda: bus)),
        )
        yield SimpleNamespace(sparkContext=context)
        server.shutdown()


def test_what_spark_reports_is_a_row_each_the_newest_job_first(session: Any) -> None:
    assert list(reported(session, "jobs")["jobId"]) == [4, 3]


def test_a_task_ends_its_duration_after_its_start(session: Any) -> None:
    tasks = tasks_of(session, [7, 8])
    started = pd.Timestamp("2026-01-01 00:00:01.500")
    ended = started + pd.Timedelta(milliseconds=250)
    assert tasks.to_dict("records") == [
        {"stage": 7, "executor": "1", "started": started, "ended": ended}
    ]


BASE, LOG, LATER, MERGED = (
    ("base", "1", 4096),
    ("log", "2", 1024),
    ("log", "3", 2048),
    ("base", "4", 5120),
)


@pytest.mark.parametrize(
    ("files", "costs"),
    [
        ([BASE], (0, 4, 4)),
        ([BASE, ("base", "2", 2048)], (0, 2, 2)),  # copy on write
        ([BASE, LOG, LATER], (2, 2, 7)),
        ([BASE, LOG, LATER, MERGED], (0, 7, 5)),  # the batch has compacted
        ([BASE, LOG, MERGED, ("log", "5", 512)], (1, 0.5, 5.5)),
    ],
)
def test_a_batch_costs_its_files_and_a_query_those_of_the_newest_slice(
    files: list[tuple[str, str, int]], costs: tuple[float, ...]
) -> None:
    frame = pd.DataFrame(files, columns=["kind", "instant", "size"])
    assert tuple(slice_costs(frame).values()) == costs
