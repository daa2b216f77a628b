"""What the tests of `inspect` share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from unit.handmade import HandMade

from hudi_inspect import TableSnapshot, inspect
from hudi_inspect.errors import InspectError

SAMPLES = Path(__file__).parents[1] / "samples" / "hudi" / "tables"
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
A, B = "aaaaaaaa-0000-0000-0000-000000000000-0", "bbbbbbbb-0000-0000-0000-000000000000-0"


def look(table: HandMade, **options: Any) -> TableSnapshot:
    return inspect(str(table.root), now=NOW, **options)


def refusal(table: HandMade | Path | str, **options: Any) -> str:
    location = str(table.root if isinstance(table, HandMade) else table)
    with pytest.raises(InspectError) as caught:
        inspect(location, now=NOW, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def problem(table: HandMade, **options: Any) -> str:
    """The first note of a report that is there all the same."""
    snapshot = look(table, **options)
    _ = str(snapshot), snapshot.to_json(), snapshot.to_html()
    return snapshot.notes[0]


def mor(tmp_path: Path, version: int = 9) -> HandMade:
    return HandMade(tmp_path / "mor", version=version, table__type="MERGE_ON_READ")


def line(snapshot: TableSnapshot, check: str) -> str:
    return next(each.line() for each in snapshot.health if each.check == check)


def stamp(query: str, batch: object) -> dict[str, str]:
    return {"hudilab.query_id": query, "hudilab.batch_id": str(batch)}


def write(table: HandMade, *queries: str) -> None:
    for i, query in enumerate(queries):
        table.commit(10 + i, 10 + i, {A: 5}, extra=stamp(query, i))


def archive_a_commit(table: HandMade) -> None:
    """Archive a commit that wrote four rows into a file of B, which is there."""
    path = table.base(1, B)
    stat = {"fileId": B, "path": path, "numWrites": 4} | dict.fromkeys(
        ("numUpdateWrites", "numDeletes", "numInserts", "totalWriteBytes"), 0
    )
    record = {"partitionToWriteStats": {"sensor_id=10": [stat]}, "operationType": "INSERT"}
    table.archive((1, 2, "commit", record))


def report_of(path: Path) -> dict[str, Any]:
    """The JSON of a table that was written long ago, but for its place."""
    report = inspect(str(path), now=datetime(2100, 1, 1, tzinfo=UTC)).as_dict()
    del report["table"]["uri"]
    return report


def unlike(path: Path, answers: dict[str, Any]) -> list[str]:
    """What `inspect` reports otherwise than Spark's answers; unknown rows are like any."""
    snapshot = inspect(str(path))
    reported = {
        "partitions": snapshot.table.partitions,
        "slices": sorted(
            [part.partition, part.group, part.base_bytes, len(part.logs), part.log_bytes]
            for part in snapshot.latest_slices
        ),
        "commits": {
            instant.time: instant.rows_written for instant in snapshot.instants if instant.commit
        },
        "timeline": sorted(
            [instant.time, instant.action, instant.state] for instant in snapshot.instants
        ),
    }
    if snapshot.table.rows is not None:
        reported["rows"] = snapshot.table.rows
    by_partition = {
        partition.path: partition.rows
        for partition in snapshot.partitions
        if partition.rows is not None
    }
    if answers["by_partition"]:
        # Spark lists no partition without rows.
        expected = dict.fromkeys(by_partition, 0) | answers["by_partition"]
        answers = answers | {"by_partition": expected}
        reported["by_partition"] = expected | by_partition
    _ = str(snapshot), snapshot.to_json(), snapshot.to_html()
    return [
        f"{what}: {value}, but Spark says {answers[what]}"
        for what, value in reported.items()
        if what in answers and value != answers[what]
    ]
