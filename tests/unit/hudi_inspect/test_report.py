"""The report follows from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.handmade import HandMade, at
from unit.hudi_inspect.tables import NOW, A, B, look, refusal

from hudi_inspect import inspect
from hudi_inspect.errors import InspectError

CLOCK = "no instant is in the future, or older than an earlier batch"


def test_the_whole_report(table: HandMade) -> None:
    table.commit(10, 12, {A: 5, B: 7}, extra={"hudilab.query_id": "q", "hudilab.batch_id": "0"})
    table.commit(
        20, 21, {A: 9}, operation="UPSERT", extra={"hudilab.query_id": "q", "hudilab.batch_id": "1"}
    )
    snapshot = look(table)
    healthy = {"ok": True, "remedy": ""}
    assert snapshot.as_dict() == {
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
            {"check": "clock", "detail": CLOCK, **healthy},
        ],
        "notes": [],
    }
    assert json.loads(snapshot.to_json()) == snapshot.as_dict()


def test_since_and_partition_and_instant(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.commit(20, 22, {B: 6}, partition="sensor_id=11")
    for since in (at(20), "2026-01-01T00:00:20Z", "2026-01-01T01:00:20+01:00"):
        assert len(look(table, since=since).instants) == 1
    chosen = look(table, partition="sensor_id=11")
    assert [chosen_slice.group for chosen_slice in chosen.chosen_slices] == [B]
    for time in (at(20), "2026-01-01T00:00:20.000Z", at(22)):
        content = chosen.content(time)
        assert (content["instant"], content["commit"]["operationType"]) == (at(20), "INSERT")
        (stat,) = content["commit"]["partitionToWriteStats"]["sensor_id=11"]
        assert stat["numWrites"] == 6


def test_hudis_own_sink_names_its_streams(table: HandMade) -> None:
    key = "_hudi_streaming_sink_checkpoint"
    table.commit(10, 12, {A: 5}, extra={key: '{"one": "0"}'})
    table.commit(20, 22, {B: 5}, extra={key: '{"one": "0", "two": "4"}'})
    table.commit(30, 32, {B: 5}, extra={key: "not JSON"})
    writers = [(batch.query, batch.number) for batch in look(table).writers]
    assert writers == [("one", 0), ("two", 4)]


def test_odd_names(tmp_path: Path) -> None:
    table = HandMade(tmp_path / "Ware house 'ü' [bold]")
    table.commit(10, 12, {A: 5}, partition="city=São Paulo/[red]x")
    for location in (
        str(table.root),
        f"file://{table.root}",
        f"file://{str(table.root).replace(' ', '%20')}",
    ):
        snapshot = inspect(location, now=NOW)
        assert snapshot.table.rows == 5
        assert "city=São Paulo/[red]x" in str(snapshot)


def test_an_empty_table(table: HandMade) -> None:
    snapshot = look(table)
    assert (snapshot.table.rows, snapshot.window.oldest_time_travel) == (0, None)
    assert snapshot.table.index is None
    assert snapshot.is_healthy
    assert "No committed files." in str(snapshot)
    assert "no instants" in snapshot.to_html()


def test_options_that_fit_nothing(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    assert refusal(table, since="yesterday") == (
        "--since 'yesterday' is not a time; give an instant or an ISO 8601 time: "
        "hudi-inspect TABLE --since 2026-01-31T12:00:00Z"
    )
    assert refusal(table, partition="x") == (
        f"file://{table.root} has no partition 'x' (it has sensor_id=10); choose one: "
        f"hudi-inspect '{table.root}' --partition=sensor_id=10"
    )
    with pytest.raises(InspectError) as caught:
        look(table).content("1")
    assert str(caught.value) == (
        f"file://{table.root} has no instant '1'; choose one from its timeline or, with "
        f"--archived, an archived one: hudi-inspect TABLE --instant {at(10)}"
    )
