"""The table of kills has a line for each stream and their sum, and no wrong table gets into it."""

from __future__ import annotations

import kills
import pytest


def test_lines_and_their_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "KILLED", [])
    assert kills.lines() == []
    kills.record(kills.Killed("driver", "append", "disk", 10, 9, 0, 0))
    kills.record(kills.Killed("executor", "upsert", "cluster, S3", 2, 2, 0, 0))
    assert kills.lines() == [
        "victim    writing  where        kills  read  lost  twice",
        "driver    append   disk            10     9     0      0",
        "executor  upsert   cluster, S3      2     2     0      0",
        "all                                12    11     0      0",
    ]


@pytest.mark.parametrize(("lost", "twice"), [(1, 0), (0, 1)])
def test_a_wrong_table_fails_its_test(
    monkeypatch: pytest.MonkeyPatch, lost: int, twice: int
) -> None:
    monkeypatch.setattr(kills, "KILLED", [])
    with pytest.raises(AssertionError):
        kills.record(kills.Killed("driver", "append", "disk", 1, 1, lost, twice))
