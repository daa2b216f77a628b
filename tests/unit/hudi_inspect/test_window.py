"""How far back queries can go."""

from __future__ import annotations

from unit.handmade import HandMade, at
from unit.hudi_inspect.tables import A, B, look


def test_reach_begins_where_the_last_clean_kept(table: HandMade) -> None:
    for second in (10, 20, 30, 40):
        table.commit(second, second + 2, {A: 5})
    table.clean(45, 46, at(20))
    table.clean(50, 51, at(30))
    reach = look(table).window
    assert reach.oldest_time_travel == "2026-01-01T00:00:30.000Z"
    assert reach.oldest_incremental == "2026-01-01T00:00:30.000Z"


def test_an_incremental_query_begins_before_all_that_is_kept(table: HandMade) -> None:
    table.commit(10, 21, {A: 5})  # ends while the first kept commit is written
    table.commit(20, 26, {A: 5})
    table.commit(22, 24, {B: 5})
    table.clean(50, 51, at(20))
    assert look(table).window.oldest_incremental == "2026-01-01T00:00:21.000Z"


def test_reach_of_a_policy_that_keeps_versions_follows_from_the_deleted_files(
    table: HandMade,
) -> None:
    for second in (10, 20, 30):
        table.commit(second, second + 2, {A: 5})
    gone = table.root / "sensor_id=10" / f"{A}_0-1-1_{at(10)}.parquet"
    gone.unlink()
    table.clean(50, 51, "", deleted=(gone.name,))
    assert look(table).window.oldest_time_travel == "2026-01-01T00:00:20.000Z"
