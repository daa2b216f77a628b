"""A report follows from files; each refusal and each line of health says what to do."""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from unit.handmade import HandMade, at

from hudilab.errors import InspectError
from hudilab.inspect import Inspection, inspect, inspection
from hudilab.inspect.store import _S3, Entry, Vanished, _Disk, open_store
from hudilab.inspect.table import read_facts
from hudilab.inspect.timeline import History, parse_commit, parse_content
from hudilab.operations import cli

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
A, B = "aaaaaaaa-0000-0000-0000-000000000000-0", "bbbbbbbb-0000-0000-0000-000000000000-0"


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    return HandMade(tmp_path / "a table")


def look(table: HandMade, **options: Any) -> Inspection:
    return inspect(str(table.root), now=NOW, **options)


def refusal(table: HandMade | Path | str, **options: Any) -> str:
    place = str(table.root if isinstance(table, HandMade) else table)
    with pytest.raises(InspectError) as caught:
        inspect(place, now=NOW, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def hudilab(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["hudilab", "inspect", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    return int(caught.value.code or 0)


# -- what the report says ---------------------------------------------------------------------


def test_the_whole_report(table: HandMade) -> None:
    table.commit(10, 12, {A: 5, B: 7}, extra={"hudilab.query_id": "q", "hudilab.batch_id": "0"})
    table.commit(
        20, 21, {A: 9}, operation="UPSERT", extra={"hudilab.query_id": "q", "hudilab.batch_id": "1"}
    )
    found = look(table)
    healthy = {"ok": True, "remedy": ""}
    assert found.report.as_dict() == {
        "table": {
            "uri": f"file://{table.root}",
            "name": "readings",
            "type": "COPY_ON_WRITE",
            "version": 9,
            "record_key": ["sensor_id", "reading_id"],
            "partition": ["sensor_id"],
            "index": None,
            "rows": 16,
            "bytes": 200,
            "files": 2,
            "file_groups": 2,
            "partitions": 1,
        },
        "instants": [
            {
                "requested": "2026-01-01T00:00:20.000Z",
                "completed": "2026-01-01T00:00:21.000Z",
                "action": "commit",
                "state": "COMPLETED",
                "operation": "UPSERT",
                "rows_written": 9,
                "rows_updated": 0,
                "rows_deleted": 0,
                "archived": False,
            },
            {
                "requested": "2026-01-01T00:00:10.000Z",
                "completed": "2026-01-01T00:00:12.000Z",
                "action": "commit",
                "state": "COMPLETED",
                "operation": "INSERT",
                "rows_written": 12,
                "rows_updated": 0,
                "rows_deleted": 0,
                "archived": False,
            },
        ],
        "pending": [],
        "writers": [{"query": "q", "last_batch": 1}],
        "reach": {
            "oldest_time_travel": "2026-01-01T00:00:10.000Z",
            "oldest_incremental": "2026-01-01T00:00:10.000Z",
        },
        "health": [
            {
                "check": "small files",
                "detail": "2 base files under 100 MiB, 1 fewer if merged (fails at 100)",
                **healthy,
            },
            {
                "check": "compaction",
                "detail": "not needed: COPY_ON_WRITE has no logs",
                **healthy,
            },
            {"check": "dead writer", "detail": "no pending writes", **healthy},
            {"check": "services", "detail": "no pending table services", **healthy},
            {
                "check": "cleaner",
                "detail": "1 superseded slice (100 B), the oldest superseded 0 commits ago",
                **healthy,
            },
            {
                "check": "archive",
                "detail": "2 completed instants on the active timeline",
                **healthy,
            },
            {"check": "two writers", "detail": "only one stream wrote to the table", **healthy},
        ],
    }
    assert json.loads(found.to_json()) == found.report.as_dict()


def test_version_6_keeps_json_and_completes_when_the_file_was_written(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "t", version=6)
    table.commit(10, 12, {A: 5})
    table.commit(20, None, {B: 5})
    found = look(table)
    assert [(one.completed, one.state) for one in found.report.instants] == [
        (None, "INFLIGHT"),
        ("2026-01-01T00:00:12.000Z", "COMPLETED"),
    ]
    assert (found.report.table.rows, found.report.table.files) == (5, 1)


def test_files_that_no_completed_commit_wrote_are_not_there(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.commit(20, None, {A: 6, B: 7})  # in flight
    table.base(15, B)  # what is left of a commit that was rolled back
    report = look(table).report
    assert (report.table.rows, report.table.files, report.table.file_groups) == (5, 1, 1)
    assert [one.state for one in report.pending] == ["INFLIGHT"]


def test_replaced_file_groups_are_not_there(table: HandMade) -> None:
    table.commit(10, 12, {A: 5, B: 7})
    new = "c" + A[1:]
    table.commit(
        20,
        22,
        {new: 12},
        action="replacecommit",
        started="clustering",
        operation="CLUSTER",
        replaced=(A, B),
    )
    found = look(table)
    assert [one.group for one in found.facts.latest()] == [new]
    assert [one.ended for one in found.facts.slices] == [at(20), at(20), None]
    assert found.report.table.rows == 12
    assert [one.action for one in found.report.instants] == ["replacecommit", "commit"]


def mor(tmp_path: Path, version: int = 9) -> HandMade:
    return HandMade(tmp_path / "mor", version=version, table__type="MERGE_ON_READ")


def shape(found: Inspection) -> list[tuple[str, bool, int, bool]]:
    """Slices: instant, whether there is a base file, number of logs, whether it is the latest."""
    return [(s.instant, s.base is not None, len(s.logs), s.is_latest) for s in found.slices]


def test_a_log_belongs_to_the_slice_that_was_newest_when_it_was_completed(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.commit(20, 35, {A: 2}, action="deltacommit", logs=True)  # ends after the compaction began
    table.commit(22, 24, {A: 2}, action="deltacommit", logs=True)
    table.commit(30, 32, {A: 6}, started="compaction", operation="COMPACT")
    found = look(table)
    assert shape(found) == [(at(10), True, 1, False), (at(30), True, 1, True)]
    assert found.report.table.rows is None


def test_logs_without_a_base_file_and_those_before_the_first(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5, B: 5}, action="deltacommit", logs=True)
    table.commit(20, 22, {A: 5, B: 5}, action="deltacommit", logs=True)
    table.commit(30, 32, {A: 5}, started="compaction", operation="COMPACT")
    table.commit(40, 42, {A: 5}, action="deltacommit", logs=True)
    assert shape(look(table)) == [
        (at(10), False, 2, False),
        (at(30), True, 1, True),
        (at(10), False, 2, True),
    ]


def test_a_planned_compaction_splits_no_slice_for_a_reader(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.commit(20, 22, {A: 2}, action="deltacommit", logs=True)
    table.compaction(30, A)
    table.commit(40, 42, {A: 2}, action="deltacommit", logs=True)
    found = look(table)
    assert shape(found) == [(at(10), True, 2, True)]
    assert [one.action for one in found.report.pending] == ["compaction"]


def test_in_version_6_a_log_is_named_after_its_slice(tmp_path: Path) -> None:
    table = mor(tmp_path, version=6)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.log(10, A, number=1)
    table.log(10, A, number=2)
    table.commit(30, 32, {A: 6}, action="commit", started="compaction", operation="COMPACT")
    assert shape(look(table)) == [(at(10), True, 2, False), (at(30), True, 0, True)]
    assert look(table).report.table.rows == 6


def test_a_log_of_changes_does_not_hide_the_rows(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    log = table.root / table.log(10, A)
    log.rename(f"{log}.cdc")
    report = look(table).report
    assert (report.table.rows, report.table.files) == (5, 2)


@pytest.mark.parametrize("version", [6, 9])
def test_archived_instants_and_the_rows_of_their_files(tmp_path: Path, version: int) -> None:
    table = HandMade(tmp_path / "t", version=version)
    path = table.base(1, B)
    stat = {"fileId": B, "path": path, "numWrites": 4} | dict.fromkeys(
        ("numUpdateWrites", "numDeletes", "numInserts", "totalWriteBytes"), 0
    )
    record = {"partitionToWriteStats": {"sensor_id=10": [stat]}, "operationType": "INSERT"}
    table.archive((1, 2, "commit", record))
    table.commit(10, 12, {A: 5})
    plain, archived = look(table), look(table, archived=True)
    assert (plain.report.table.rows, archived.report.table.rows) == (9, 9)
    assert [one.archived for one in plain.report.instants] == [False]
    assert [
        (one.archived, one.completed, one.operation, one.rows_written)
        for one in archived.report.instants
    ] == [
        (False, "2026-01-01T00:00:12.000Z", "INSERT", 5),
        (True, "2026-01-01T00:00:02.000Z", "INSERT", 4),
    ]
    assert plain.report.reach.oldest_time_travel == "2026-01-01T00:00:01.000Z"
    assert archived.content(at(1))["commit"]["operationType"] == "INSERT"
    assert f'"t":"{at(1)}"' in plain.to_html()
    assert "services        archive\n" in str(plain)


def test_an_instant_in_the_archive_of_version_6_is_shown_once(tmp_path: Path) -> None:
    """A writer that dies while archiving leaves instants in both timelines, or in two files."""
    table = HandMade(tmp_path / "t", version=6, archivelog__folder="history")
    record = {"operationType": "UPSERT"}
    instant = {"time": at(10), "action": "commit", "end": at(12), "commit": record}
    # The first was written by a very old release; a power failure emptied the second's file.
    old = {"time": at(1), "action": "commit", "commit": record}
    empty = {"time": at(2), "action": "commit", "state": "COMPLETED", "end": at(3)}
    plan = {"time": at(4), "action": "compaction", "state": "REQUESTED"}
    table.log_file([old, empty, plan, instant])
    table.log_file([old], named=2)
    table.commit(10, 12, {A: 5})
    (table.meta / "history" / "..commits_.archive.1_1-0-1.crc").write_bytes(b"x")
    assert [
        (one.requested, one.completed, one.operation, one.archived)
        for one in look(table, archived=True).report.instants
    ] == [
        ("2026-01-01T00:00:10.000Z", "2026-01-01T00:00:12.000Z", "INSERT", False),
        ("2026-01-01T00:00:02.000Z", "2026-01-01T00:00:03.000Z", None, True),
        ("2026-01-01T00:00:01.000Z", None, "UPSERT", True),
    ]


def test_what_version_6_archived_when_it_completed_is_in_the_writers_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    table = HandMade(tmp_path / "t", version=6)
    table.archive((7200, 10801, "commit", {"operationType": "INSERT"}))
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        one = look(table, archived=True).report.instants[0]
        ends = "2026-01-01T02:00:00.000Z", "2026-01-01T02:00:01.000Z"
        assert (one.requested, one.completed) == ends
    finally:
        monkeypatch.undo()
        time.tzset()


def test_reach_begins_where_the_last_clean_kept(table: HandMade) -> None:
    for second in (10, 20, 30, 40):
        table.commit(second, second + 2, {A: 5})
    table.clean(50, 51, at(30))
    reach = look(table).report.reach
    assert reach.oldest_time_travel == "2026-01-01T00:00:30.000Z"
    assert reach.oldest_incremental == "2026-01-01T00:00:30.000Z"


def test_an_incremental_query_begins_before_all_that_is_kept(table: HandMade) -> None:
    table.commit(10, 21, {A: 5})  # ends while the first kept commit is written
    table.commit(20, 26, {A: 5})
    table.commit(22, 24, {B: 5})
    table.clean(50, 51, at(20))
    assert look(table).report.reach.oldest_incremental == "2026-01-01T00:00:21.000Z"


def test_reach_of_a_policy_that_keeps_versions_follows_from_the_deleted_files(
    table: HandMade,
) -> None:
    for second in (10, 20, 30):
        table.commit(second, second + 2, {A: 5})
    gone = table.root / "sensor_id=10" / f"{A}_0-1-1_{at(10)}.parquet"
    gone.unlink()
    table.clean(50, 51, "", deleted=(gone.name,))
    assert look(table).report.reach.oldest_time_travel == "2026-01-01T00:00:20.000Z"


def test_a_savepoint_is_an_instant_of_its_own(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.instant(10, 15, "savepoint")
    actions = [one.action for one in look(table).report.instants]
    assert actions == ["savepoint", "commit"]
    assert look(table).report.table.rows == 5


def test_a_zone_that_is_not_utc(table: HandMade, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    table.properties["hoodie.table.timeline.timezone"] = "LOCAL"
    table.save()
    table.commit(7200, 7201, {A: 5})
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert look(table).report.instants[0].requested == "2026-01-01T01:00:00.000Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_since_and_partition_and_instant(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.commit(20, 22, {B: 6}, partition="sensor_id=11")
    for since in (at(20), "2026-01-01T00:00:20Z", "2026-01-01T01:00:20+01:00"):
        assert len(look(table, since=since).report.instants) == 1
    chosen = look(table, partition="sensor_id=11")
    assert [one.group for one in chosen.slices] == [B]
    for time in (at(20), "2026-01-01T00:00:20.000Z", at(22)):
        content = chosen.content(time)
        assert (content["instant"], content["commit"]["operationType"]) == (at(20), "INSERT")


def test_hudis_own_sink_names_its_streams(table: HandMade) -> None:
    key = "_hudi_streaming_sink_checkpoint"
    table.commit(10, 12, {A: 5}, extra={key: '{"one": "0"}'})
    table.commit(20, 22, {B: 5}, extra={key: '{"one": "0", "two": "4"}'})
    table.commit(30, 32, {B: 5}, extra={key: "not JSON"})
    writers = [(one.query, one.last_batch) for one in look(table).report.writers]
    assert writers == [("one", 0), ("two", 4)]


def test_odd_names(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "Ware house 'ü' [bold]")
    table.commit(10, 12, {A: 5}, partition="city=São Paulo/[red]x")
    for place in (
        str(table.root),
        f"file://{table.root}",
        f"file://{str(table.root).replace(' ', '%20')}",
    ):
        found = inspect(place, now=NOW)
        assert found.report.table.rows == 5
        assert "city=São Paulo/[red]x" in str(found)


def test_other_files_are_no_data(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    folder = table.root / "sensor_id=10"
    for name in (
        ".hoodie_partition_metadata",
        ".x.parquet.crc",
        "notes.txt",
        "_SUCCESS",
        "a.parquet",
    ):
        (folder / name).write_bytes(b"x")
    assert look(table).report.table.files == 1


def test_nothing_is_written(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})

    def state() -> list[tuple[str, int, int]]:
        found = sorted(table.root.rglob("*"))
        return [(str(p), p.stat().st_size, p.stat().st_mtime_ns) for p in found]

    before = state()
    found = look(table, archived=True)
    _ = found.report, found.to_html(), str(found), found._repr_html_(), found.content(at(10))
    assert state() == before


def test_a_notebook_shows_the_page_and_nothing_beside_it(table: HandMade) -> None:
    source = f"from hudilab.inspect import inspect\ninspect({str(table.root)!r})"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(notebook, kernel_name="python3", timeout=60).execute()
    (output,) = notebook.cells[0].outputs
    assert sorted(output.data) == ["text/html", "text/plain"]
    assert output.data["text/html"].startswith("<iframe srcdoc=")
    assert output.data["text/plain"].startswith("table ")


def test_an_empty_table(table: HandMade) -> None:
    found = look(table)
    assert (found.report.table.rows, found.report.reach.oldest_time_travel) == (0, None)
    assert found.is_healthy
    assert "No committed files." in str(found)
    assert "no instants" in found.to_html()


def test_a_table_that_changes_is_read_again(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})

    class Changing(_Disk):
        """Lists a commit's file that is gone when it is read, so many times."""

        times = 1

        def files(self) -> list[Entry]:
            found = super().files()
            if self.times:
                self.times -= 1
                found.append(Entry(f".hoodie/timeline/{at(5)}_{at(6)}.commit", 1, 0.0))
            return found

    store = Changing(table.root)
    assert len(read_facts(store).events) == 1
    store.times = 9
    with pytest.raises(InspectError) as caught:
        read_facts(store)
    assert str(caught.value) == (
        f"file://{table.root}/.hoodie/timeline/{at(5)}_{at(6)}.commit was deleted during the read: "
        "the table changed in each of five attempts; try again when fewer writers are running: "
        "hudilab inspect TABLE"
    )
    with pytest.raises(Vanished):
        store.read("none")


SAMPLES = Path(__file__).parents[1] / "samples" / "hudi"  # as Hudi 1.2 wrote them


@pytest.mark.parametrize(
    ("name", "operation", "files", "written", "updated", "replaced"),
    [
        ("v9.deltacommit", "UPSERT", 6, 100, 100, 0),
        ("v9.replacecommit", "CLUSTER", 3, 240, 0, 24),
        ("v6.deltacommit", "UPSERT", 6, 50, 50, 0),
    ],
)
def test_what_hudi_wrote_is_understood(
    name: str, operation: str, files: int, written: int, updated: int, replaced: int
) -> None:
    commit = parse_commit(parse_content((SAMPLES / name).read_bytes(), name))
    assert (commit.operation, len(commit.stats), len(commit.replaced)) == (
        operation,
        files,
        replaced,
    )
    assert sum(one.writes for one in commit.stats) == written
    assert sum(one.updates for one in commit.stats) == updated
    assert all(one.path.startswith(f"{one.partition}/") and one.bytes for one in commit.stats)


def test_hudis_clean_plan_and_archive_are_understood() -> None:
    clean = parse_content((SAMPLES / "v9.clean").read_bytes(), "clean")
    assert clean["earliestCommitToRetain"] == "20261122090107744"
    plan = parse_content((SAMPLES / "v9.compaction.requested").read_bytes(), "plan")
    assert {one["partitionPath"] for one in plan["operations"]} == {
        f"sensor_id={sensor}" for sensor in (10, 11, 12)
    }
    archive = History(open_store(str(SAMPLES)), "history", True)
    events = archive.events()
    assert [one.action for one in events] == ["commit"] * 10
    found = archive.contents([one.time for one in events])
    rows = [sum(s.writes for s in parse_commit(found[one.time]).stats) for one in events]
    assert rows == [100] * 10


def test_hudis_archive_of_version_6_is_understood(tmp_path: Path) -> None:
    """Files of three tables, and what Hudi's `show_archived_commits_metadata` says of them."""
    table = HandMade(tmp_path / "t", version=6, archivelog__folder="history")
    (table.meta / "history").mkdir()
    for file in (SAMPLES / "v6").glob("*.xz"):
        name = f".commits_.{file.stem}_1-0-1"
        (table.meta / "history" / name).write_bytes(lzma.decompress(file.read_bytes()))
    found = look(table, archived=True)
    assert {(one.state, one.archived) for one in found.report.instants} == {("COMPLETED", True)}
    times = [(one.time[8:], (one.completed or "")[8:]) for one in found.events]
    instants = [
        (one.action, one.operation, one.rows_written, one.rows_updated, one.rows_deleted)
        for one in found.report.instants
    ]
    assert [(*time, *one) for time, one in zip(times, instants, strict=True)] == [
        ("114415841", "114416227", "replacecommit", "INSERT_OVERWRITE", 5, 0, 0),
        ("114415256", "114415757", "commit", "UPSERT", 30, 20, 0),
        ("114414821", "114415167", "commit", "UPSERT", 20, 0, 0),
        ("114406765", "114407117", "deltacommit", "UPSERT", 20, 20, 0),
        ("114406146", "114406514", "deltacommit", "UPSERT", 20, 20, 0),
        ("114405464", "114406062", "commit", "COMPACT", 20, 20, 0),
        ("114359438", "114359523", "clean", None, None, None, None),
        ("114358748", "114359395", "commit", "UPSERT", 20, 20, 0),
        ("114358578", "114358669", "clean", None, None, None, None),
        ("114357861", "114358520", "commit", "UPSERT", 20, 20, 0),
        ("114357651", "114357749", "clean", None, None, None, None),
        ("114356926", "114357518", "commit", "UPSERT", 20, 15, 0),
        ("114355900", "114356713", "commit", "DELETE", 15, 0, 5),
        ("114354729", "114355579", "commit", "UPSERT", 20, 20, 0),
        ("114352112", "114354520", "commit", "UPSERT", 20, 0, 0),
    ]
    overwrite = found.content(found.events[0].time)["replacecommit"]
    assert sorted(overwrite["partitionToReplaceFileIds"]) == [
        f"sensor_id={sensor}" for sensor in (10, 11, 12)
    ]
    clean = found.content(found.events[6].time)["clean"]
    assert clean["earliestCommitToRetain"] == found.events[9].time


# -- health -----------------------------------------------------------------------------------


def line(found: Inspection, check: str) -> str:
    return next(one.line() for one in found.report.health if one.check == check)


def test_small_files(table: HandMade) -> None:
    table.commit(10, 12, {f"{i:08x}-x": 1 for i in range(100)}, size=1)
    assert line(look(table), "small files").startswith("ok ")
    table.commit(20, 22, {"one-more": 1}, size=1)
    assert line(look(table), "small files") == (
        "FAIL small files    101 base files under 100 MiB, 100 fewer if merged (fails at 100); "
        "CALL run_clustering(table => 'readings')"
    )


def test_small_files_of_a_bucketed_table(table: HandMade) -> None:
    table.commit(10, 12, {f"{i:08}-x": 1 for i in range(101)}, size=1)
    assert look(table).report.table.index == "BUCKET"
    assert line(look(table), "small files").endswith(
        "; lower hoodie.bucket.index.num.buckets and rewrite the table with "
        "hoodie.datasource.write.operation=insert_overwrite_table"
    )


def test_compaction_is_behind(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    for i in range(10):
        table.commit(20 + i, 20 + i, {A: 1}, action="deltacommit", logs=True)
    assert line(look(table), "compaction").startswith("FAIL")
    assert line(look(table), "compaction") == (
        "FAIL compaction     11 delta commits since the last compaction, logs are 10.0 times the "
        "size of the base files; CALL run_compaction(op => 'scheduleAndExecute', "
        "table => 'readings', options => 'hoodie.compact.inline.max.delta.commits=1')"
    )
    table.commit(40, 41, {A: 6}, started="compaction", operation="COMPACT")
    assert line(look(table), "compaction") == (
        "ok   compaction     0 delta commits since the last compaction, logs are 0.0 times the "
        "size of the base files"
    )


def test_a_dead_writer(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.commit(20, None, {B: 5})
    alive = (
        "ok   dead writer    1 pending write, still active",
        f"FAIL dead writer    1 stuck write, oldest: commit {at(20)} (INFLIGHT), pending since "
        "2026-01-01T00:00:20.000Z; restart its writer, and the next write rolls it back; if "
        "hoodie.clean.failed.writes.policy=LAZY, run a clean instead: "
        "CALL run_clean(table => 'readings')",
    )
    files = [*table.timeline.iterdir(), *table.root.glob("sensor_id=10/*")]

    def age(seconds: float) -> Inspection:
        for file in files:
            os.utime(file, (NOW.timestamp() - seconds,) * 2)
        return look(table)

    assert line(age(599), "dead writer") == alive[0]
    assert line(age(601), "dead writer") == alive[1]
    assert line(look(table, stuck_after=602), "dead writer") == alive[0]
    # It still writes a file, or its heartbeat.
    beat = table.meta / ".heartbeat" / at(20)
    beat.parent.mkdir()
    beat.touch()
    os.utime(beat, (NOW.timestamp() - 10,) * 2)
    assert line(look(table), "dead writer") == alive[0]
    beat.unlink()
    os.utime(table.root / "sensor_id=10" / f"{B}_0-1-1_{at(20)}.parquet", (NOW.timestamp(),) * 2)
    assert line(look(table), "dead writer") == alive[0]


def test_a_service_that_waits(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.compaction(20, A)
    for file in table.timeline.iterdir():
        os.utime(file, (NOW.timestamp() - 601,) * 2)
    assert line(look(table), "services") == (
        "FAIL services       stuck: 1 compaction, oldest pending since "
        "2026-01-01T00:00:20.000Z; CALL run_compaction(op => 'execute', table => 'readings')"
    )
    assert line(look(table, stuck_after=700), "services") == (
        "ok   services       1 pending table service, not stuck"
    )


def test_no_cleaner(table: HandMade) -> None:
    for i in range(42):
        table.commit(10 + i, 10 + i, {A: 5})
    assert line(look(table), "cleaner") == (
        "ok   cleaner        41 superseded slices (4.0 KiB), the oldest superseded 40 commits ago"
    )
    table.commit(60, 61, {A: 5})
    assert line(look(table), "cleaner") == (
        "FAIL cleaner        42 superseded slices (4.1 KiB), the oldest superseded 41 commits "
        "ago; CALL run_clean(table => 'readings', options => 'hoodie.clean.max.commits=1'), and "
        "set hoodie.clean.automatic=true in the writer"
    )


def test_no_archive(table: HandMade) -> None:
    for i in range(100):
        table.commit(10 + i, 10 + i)
    assert line(look(table), "archive").startswith("ok ")
    table.commit(200, 201)
    assert line(look(table), "archive") == (
        "FAIL archive        101 completed instants on the active timeline; CALL archive_commits("
        "table => 'readings'), and set hoodie.archive.automatic=true in the writer"
    )


def write(table: HandMade, *queries: str) -> None:
    for i, query in enumerate(queries):
        extra = {"hudilab.query_id": query, "hudilab.batch_id": str(i)}
        table.commit(10 + i, 10 + i, {A: 5}, extra=extra)


def test_two_writers_without_a_lock(table: HandMade) -> None:
    write(table, "a", "b", "a")
    assert line(look(table), "two writers") == (
        "FAIL two writers    2 streams alternate commits, apparently without a lock (no "
        ".hoodie/.heartbeat); set "
        "hoodie.write.concurrency.mode=optimistic_concurrency_control and a "
        "hoodie.write.lock.provider in each writer; in the lab: BatchLedger(..., shared=True)"
    )
    (table.meta / ".heartbeat").mkdir()
    assert line(look(table), "two writers") == (
        "ok   two writers    2 streams wrote to the table, with a lock"
    )


def test_one_writer_after_the_other_needs_no_lock(table: HandMade) -> None:
    write(table, "a", "a", "b", "b")
    assert line(look(table), "two writers") == (
        "ok   two writers    2 streams wrote to the table, one after the other"
    )


# -- refusals ---------------------------------------------------------------------------------


def test_no_table(tmp_path: Path) -> None:
    ends = "give the folder that contains .hoodie: hudilab inspect TABLE"
    assert refusal(tmp_path) == (
        f"file://{tmp_path} is not a Hudi table: it has no .hoodie/hoodie.properties; {ends}"
    )
    assert refusal(tmp_path / "none") == (
        f"{tmp_path}/none does not exist; give the table's folder: hudilab inspect TABLE"
    )
    (tmp_path / "file").write_text("")
    assert refusal(tmp_path / "file") == (
        f"{tmp_path}/file is a file; give the table's folder: hudilab inspect TABLE"
    )
    assert refusal("gs://bucket/table") == (
        "cannot read gs:// URIs; give a path, or a file://, s3:// or s3a:// URI: "
        "hudilab inspect TABLE"
    )
    assert refusal("s3://") == "s3:// has no bucket name; write it as s3://BUCKET/PATH/TO/TABLE"


def test_a_parent_of_tables(tmp_path: Path) -> None:
    for name in ("lab/b", "lab/a", "deep/er/still/c"):
        HandMade(tmp_path / name)
    assert refusal(tmp_path) == (
        f"file://{tmp_path} is not a table but contains 2: {tmp_path}/lab/a, {tmp_path}/lab/b; "
        f"choose one: hudilab inspect '{tmp_path}/lab/a'"
    )


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is empty"),
        ("hoodie.table.name=x\n", "lacks hoodie.table.type, hoodie.table.version"),
        ("\x00\x01", "lacks hoodie.table.name, hoodie.table.type, hoodie.table.version"),
        (
            "hoodie.table.name=x\nhoodie.table.type=COPY_ON_WRITE\nhoodie.table.version=new\n",
            "lacks a valid version",
        ),
    ],
)
def test_damaged_properties(table: HandMade, text: str, what: str) -> None:
    file = table.meta / "hoodie.properties"
    file.write_text(text)
    assert refusal(table) == (
        f"file://{file} {what}; restore it from its backup: cp '{file}.backup' '{file}'"
    )


def test_another_version(tmp_path: Path) -> None:
    newer = HandMade(tmp_path / "newer", version=10)
    assert refusal(newer) == (
        f"file://{newer.root} has table version 10, but inspect supports no version newer than 9; "
        "use the Hudi release that wrote it: CALL show_timeline(table => 'NAME')"
    )
    older = HandMade(tmp_path / "older", version=5)
    assert refusal(older) == (
        f"file://{older.root} has table version 5, but inspect supports no version older than 6; "
        "upgrade the table: CALL upgrade_table(table => 'NAME', to_version => 'SIX')"
    )


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("damage", ["empty", "cut", "garbage", "a list"])
def test_a_damaged_commit(tmp_path: Path, version: int, damage: str) -> None:
    table = HandMade(tmp_path / "t", version=version)
    table.commit(10, 12, {A: 5})
    file = next(file for file in table.timeline.glob("*.commit"))
    data = file.read_bytes()
    changed = {"empty": b"", "cut": data[: len(data) // 2], "garbage": b"\xff\x00", "a list": b"[]"}
    file.write_bytes(changed[damage])
    os.utime(file, (NOW.timestamp(),) * 2)
    what = "is empty" if damage == "empty" else "is damaged"
    assert refusal(table) == (
        f"the timeline file file://{file} {what}, as after a power failure, so what the instant "
        "wrote is unknown; restore the file from a backup, or delete it, and the next write rolls "
        f"the instant back: rm {file}"
    )


def test_a_commit_whose_file_is_just_being_written_is_waited_for(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    file = next(file for file in table.timeline.glob("*.commit"))
    data = file.read_bytes()
    file.write_bytes(b"")
    later = threading.Timer(0.1, file.write_bytes, [data])
    later.start()
    try:
        assert look(table).report.table.rows == 5
    finally:
        later.join()


def test_a_damaged_archive(table: HandMade) -> None:
    history = table.archive((1, 2, "commit", None))
    file = next(history.glob("*.parquet"))
    file.write_bytes(b"PAR1")
    assert refusal(table, archived=True) == (
        f"the archived timeline's file file://{file} is damaged; restore it from a backup, then "
        "try again: hudilab inspect TABLE"
    )
    (history / "manifest_1").write_text("{")
    assert refusal(table, archived=True) == (
        f"the archived timeline file://{history} is damaged: its manifest cannot be read; "
        "restore the folder from a backup, then try again: hudilab inspect TABLE"
    )


@pytest.mark.parametrize(
    "damage",
    ["empty", "cut", "cut block", "garbage", "other block", "more", "schema", "zeros", "size"],
)
def test_a_damaged_archive_of_version_6(tmp_path: Path, damage: str) -> None:
    table = HandMade(tmp_path / "t", version=6)
    table.archive((1, 2, "commit", {"operationType": "INSERT"}))
    file = table.meta / "archived" / ".commits_.archive.1_1-0-1"
    data = file.read_bytes()
    assert data.count(b"#HUDI#") == 3
    last = data.rindex(b"#HUDI#")
    changed = {
        "empty": b"",
        "cut": data[: last + 5],
        "cut block": data[:-100],
        "garbage": b"\xff\x00" * 100,
        "other block": data[: last + 21] + b"\x01" + data[last + 22 :],
        "more": data + b"\x00",
        "schema": data.replace(b'"commitTime"', b'"commitTame"'),
        "zeros": bytes(len(data)),
        "size": data[: last + 6] + b"\xff" * 8 + data[last + 14 :],
    }
    file.write_bytes(changed[damage])
    os.utime(file, (NOW.timestamp(),) * 2)
    what = "is empty" if damage == "empty" else "is damaged"
    assert refusal(table, archived=True) == (
        f"the archived timeline's file file://{file} {what}, as after a power failure, so what its "
        "instants did is unknown; restore it from a backup, or, if a writer died while archiving, "
        f"delete it, because these instants are archived again: rm {file}"
    )


def test_an_archive_of_version_6_that_is_just_being_written_is_waited_for(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "t", version=6)
    folder = table.archive((1, 2, "commit", {"operationType": "INSERT"}))
    file = folder / ".commits_.archive.1_1-0-1"
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    later = threading.Timer(0.1, file.write_bytes, [data])
    later.start()
    try:
        assert [one.archived for one in look(table, archived=True).report.instants] == [True]
    finally:
        later.join()


def test_a_data_file_whose_rows_nobody_tells(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    path = table.base(1, B)  # older than the timeline, so committed, and no commit says its rows
    assert refusal(table) == (
        f"the data file file://{table.root}/{path} is damaged; restore it from a backup, or return "
        "to a savepoint: CALL rollback_to_savepoint(table => 'NAME', instant_time => 'T')"
    )


def test_options_that_fit_nothing(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    assert refusal(table, since="yesterday") == (
        "--since 'yesterday' is not a time; give an instant or an ISO 8601 time: "
        "hudilab inspect TABLE --since 2026-01-31T12:00:00Z"
    )
    assert refusal(table, partition="x") == (
        f"file://{table.root} has no partition 'x' (it has sensor_id=10); choose one: "
        f"hudilab inspect '{table.root}' --partition 'sensor_id=10'"
    )
    with pytest.raises(InspectError) as caught:
        look(table).content("1")
    assert str(caught.value) == (
        f"file://{table.root} has no instant '1'; choose one from its timeline or, with "
        f"--archived, an archived one: hudilab inspect TABLE --instant {at(10)}"
    )


def test_no_right_to_read(table: HandMade) -> None:
    """Nobody may read what root closed; a child of root's becomes nobody."""
    table.commit(10, 12, {A: 5})
    closed = table.timeline
    for folder in (table.root, *table.root.parents):
        if folder.is_relative_to(table.root.parents[3]) and folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    closed.chmod(0)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            inspect(str(table.root))
            os.write(writer, b"read")
        except BaseException as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    closed.chmod(0o755)
    assert os.read(reader, 4096).decode() == (
        f"cannot read {closed}: permission denied; ask its owner for read access, or run as a "
        "user who has it: hudilab inspect TABLE"
    )


def test_s3_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "secret-of-nobody",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    assert refusal("s3://bucket/table") == (
        "cannot read bucket 'bucket': the server does not answer; start it (on this machine: "
        "hudilab services start s3), or fix AWS_ENDPOINT_URL_S3, then try again: "
        "hudilab inspect TABLE"
    )


# -- the command ------------------------------------------------------------------------------


def test_check_is_an_exit_code(
    table: HandMade, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(table, "a", "b")
    assert hudilab(monkeypatch, str(table.root), "--check") == 0
    assert [text[:4] for text in capsys.readouterr().out.splitlines()] == ["ok  "] * 7
    write(table, "a", "b", "a")
    assert hudilab(monkeypatch, str(table.root), "--check") == 1
    assert capsys.readouterr().out.count("FAIL two writers") == 1
    assert hudilab(monkeypatch, str(table.root)) == 0
    assert "FAIL two writers" in capsys.readouterr().out


def test_a_refusal_is_one_line_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hudilab(monkeypatch, str(tmp_path / "none")) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert shown.err.startswith(f"hudilab: {tmp_path}/none does not exist; ")


def test_json_has_the_partition_and_the_instant_that_were_asked_for(
    table: HandMade, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table.commit(10, 12, {A: 5})
    place = str(table.root)
    assert hudilab(monkeypatch, place, "--json", "--partition", "sensor_id=10") == 0
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == [
        "table",
        "instants",
        "pending",
        "writers",
        "reach",
        "health",
        "partition",
    ]
    assert answer["partition"]["slices"][0]["group"] == A
    assert hudilab(monkeypatch, place, "--instant", at(10)) == 0
    assert json.loads(capsys.readouterr().out)["commit"]["operationType"] == "INSERT"


def test_html_goes_anywhere_but_into_the_table(
    table: HandMade, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table.commit(10, 12, {A: 5})
    place, ends = str(table.root), "hudilab inspect TABLE --html FILE"
    inside, nowhere = table.root / "page.html", table.root.parent / "none" / "page.html"
    assert hudilab(monkeypatch, place, "--html", str(inside)) == 1
    assert capsys.readouterr().err == (
        f"hudilab: --html {inside} is inside the table's folder; choose a file outside it: {ends}\n"
    )
    assert hudilab(monkeypatch, place, "--html", str(nowhere)) == 1
    assert capsys.readouterr().err == (
        f"hudilab: cannot write {nowhere}: No such file or directory; choose another file: {ends}\n"
    )
    page = table.root.parent / "page.html"
    assert hudilab(monkeypatch, place, "--html", str(page)) == 0
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_the_page_needs_no_network_and_no_text_breaks_it(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "</script><b>{{data}}")
    table.commit(10, 12, {A: 5}, extra={"note": "</script><script>alert(1)</script><!-- {{name}}"})
    page = look(table).to_html()
    assert page.count("<script") == page.count("</script>") == 2
    assert not re.search(
        r"""(?:src|href)=|url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg)""", page
    )
    data = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert data is not None
    events = json.loads(data[1])["events"]
    assert events[0]["m"]["note"] == "</script><script>alert(1)</script><!-- {{name}}"
    assert look(table)._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')


def test_the_command_loads_neither_a_jvm_nor_pandas(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    script = (
        "import sys; sys.argv = ['hudilab', 'inspect', sys.argv[1]]\n"
        "from hudilab.operations.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'pandas', 'numpy', 'pyspark', 'py4j', 'pyarrow', 'hudi', 'boto3', 'matplotlib'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    command = [sys.executable, "-c", script, str(table.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_text(
    table: HandMade, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(table, "a")
    shutil.rmtree(table.root / "sensor_id=10")
    table.base(10, A)
    assert hudilab(monkeypatch, str(table.root)) == 0
    lines = [text.rstrip() for text in capsys.readouterr().out.splitlines()]
    assert lines[:12] == [
        "table           readings, COPY_ON_WRITE, version 9",
        f"location        file://{table.root}",
        "key             sensor_id, reading_id; for duplicate keys, the last write wins",
        "partitioned by  sensor_id",
        "index           not recorded in the table; metadata table: off",
        "services        no archive",
        "rows            5",
        "size            100 B in 1 file, 1 file group",
        "reach           time travel back to 2026-01-01T00:00:10.000Z, "
        "incremental from 2026-01-01T00:00:10.000Z",
        "written by      stream a, last batch 0 at 2026-01-01T00:00:10.000Z",
        "",
        "Instants, newest first (1 of 1)",
    ]


def test_a_narrow_terminal_shows_whole_columns(table: HandMade) -> None:
    from hudilab.inspect.text import text

    table.commit(10, 12, {A: 5_000_000})
    for partition in ("", "sensor_id=10"):
        shown = text(look(table, partition=partition), width=80, color=False)
        assert max(len(row) for row in shown.splitlines() if "file://" not in row) <= 80
        assert f"{at(10)}  commit" in shown or f"{at(10)} commit" in shown
        assert "5,000,000" in shown


def test_a_table_that_hudi_rs_cannot_count(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/none"
    with pytest.raises(InspectError) as caught:
        inspection._count(uri)
    said = str(caught.value)
    assert said.startswith(f"hudi-rs cannot count the rows of {uri}: ")
    assert said.endswith(f"; omit --count: hudilab inspect '{uri}'")


CHAIN = "AWS_PROFILE and AWS_SHARED_CREDENTIALS_FILE, or AWS_ACCESS_KEY_ID and its secret"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("AWS Error NO_SUCH_BUCKET during X", "it does not exist; fix the URI"),
        (
            "AWS Error ACCESS_DENIED during X",
            f"access denied; grant s3:ListBucket and s3:GetObject, or fix {CHAIN}",
        ),
        (
            "AWS Error INVALID_ACCESS_KEY_ID during X",
            "the server rejected the access key or its secret (INVALID_ACCESS_KEY_ID); fix "
            f"{CHAIN}",
        ),
        (
            "AWS Error NETWORK_CONNECTION during X",
            "the server does not answer; start it (on this machine: hudilab services start s3), or "
            "fix AWS_ENDPOINT_URL_S3",
        ),
        (
            "AWS Error SLOW_DOWN during X",
            f"the request failed (SLOW_DOWN); check AWS_ENDPOINT_URL_S3 and {CHAIN}",
        ),
    ],
)
def test_what_s3_refuses(said: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's own text can hold keys and is not shown."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    error = _S3("s3://bucket/t", "bucket/t")._failed(OSError(f"{said}: canary-4711"))
    assert str(error) == (
        f"cannot read bucket 'bucket': {why}, then try again: hudilab inspect TABLE"
    )
