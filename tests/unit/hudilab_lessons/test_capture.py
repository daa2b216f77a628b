"""Names of the lesson's database, connector and slot."""

from __future__ import annotations

import re

import pytest

from hudilab_lessons.capture import source_name


@pytest.mark.parametrize("run_id", ["", "x", "2026-11-28", "a.b", "A" * 64])
def test_a_run_has_a_name_that_fits_a_slot_and_a_database(run_id: str) -> None:
    assert re.fullmatch(r"[a-z0-9_]{1,63}", source_name(run_id))


def test_each_run_has_its_own() -> None:
    run_ids = ["", "a", "A", "a.b", "a-b", "a_b"]
    assert len({source_name(run_id) for run_id in run_ids}) == len(run_ids)
