"""The report follows from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unit.handmade import HandMade, at
from unit.hudi_inspect.tables import NOW, A, B, look, refusal, stamp

from hudi_inspect import inspect
from hudi_inspect.errors import InspectError


def test_the_whole_report(table: HandMade) -> None:
    table.commit(10, 12, {A: 5, B: 7}, extra=stamp("q", 0))
    table.commit(20, 21, {A: 9}, operation="UPSERT", extra=stamp("q", 1))
    snapshot = look(table)
    expected = json.loads(Path(__file__).with_name("report.json").read_text("utf-8"))
    expected["table"]["uri"] = f"file://{table.root}"
    assert snapshot.as_dict() == expected
    assert json.loads(snapshot.to_json()) == expected


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
