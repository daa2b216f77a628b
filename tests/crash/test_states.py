"""A stop at every change of a micro-batch: the stream resumes, and the table is exact."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from crash.cases import CASES
from crash.harness import Tried
from running import finish, start_program

STATES = Path(__file__).with_name("states.py")
PATIENCE = 1800  # seconds, for some fifty states
OUTCOMES = ("rolled back", "replayed", "skipped", "refused", "wrong")
pytestmark = pytest.mark.deep


def tried(
    home: Path, case: str, writer: str = "ledger", where: str = "disk", which: str = "all"
) -> list[Tried]:
    """What became of the states of a case: of all, or of the first of each kind."""
    env = {"HUDILAB_HOME": str(home), "RUNTIME_ENV": "", "IS_LOCAL": ""}
    running = start_program(str(STATES), case, writer, where, which, env=env)
    result = json.loads(finish(running, PATIENCE).splitlines()[-1])
    states = [Tried(*fields) for fields in result["tried"]]
    counts = Counter(crash.outcome for crash in states)
    print(f"\n{case}, {writer}, {where}: {len(states)} states in {result['seconds']} s")
    print("  ", ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES))
    for state in states:
        if state.why:
            print(f"   {state.outcome}, stopped before {state.kind}: {state.why[:400]}")
    return states


@pytest.mark.parametrize("case", CASES)
def test_the_table_is_exact_after_a_stop_anywhere(tmp_path: Path, case: str) -> None:
    # Of a changed clock and of two streams that update, the first state of each kind.
    few = CASES[case].clock or (CASES[case].shared and CASES[case].operation == "upsert")
    states = tried(tmp_path, case, which="kinds" if few else "all")
    missing = set(CASES[case].must) - {state.kind for state in states}
    assert not missing, "the recording has missed changes"
    # A resume that is stopped has left something to roll back, at whatever change it was.
    usual = {"rolled back", "skipped"} | ({"replayed"} if not CASES[case].recovery else set())
    if CASES[case].shared:  # at nearly every moment one of the two streams is writing
        usual = {"rolled back"}
    assert usual <= {state.outcome for state in states}
    assert [state for state in states if state.outcome in ("wrong", "refused")] == []


def test_a_resume_on_s3_ends_as_one_on_the_disk_does(tmp_path: Path) -> None:
    """Why the states are tried on the disk, where it takes half of the time."""
    case = "append, copy on write"
    here, on_s3 = (
        tried(tmp_path / where, case, where=where, which="kinds") for where in ("disk", "s3")
    )
    assert {state[:2] for state in here} == {state[:2] for state in on_s3}
    assert {state.outcome for state in here} == {"rolled back", "replayed", "skipped"}


def test_a_writer_without_stamps_is_caught(tmp_path: Path) -> None:
    states = tried(tmp_path, "append, copy on write", "without_stamps", which="kinds")
    wrong = {state.kind for state in states if "40 twice" in state.why}
    assert "put checkpoint commits temporary" in wrong
    assert "put commit completed" not in wrong  # nothing was committed: nothing is repeated


@pytest.mark.parametrize("case", ["append, copy on write", "upsert, merge on read"])
def test_a_writer_that_never_looks_is_caught(tmp_path: Path, case: str) -> None:
    states = tried(tmp_path, case, "never_looks", which="kinds")
    wrong = {state.kind: state.why for state in states if state.outcome == "wrong"}
    assert "commits of each batch: {0: 1, 1: 1, 2: 2, 3: 1}" in wrong["delete marker"]
    # An upsert puts the same rows there again: only the commits tell.
    assert ("40 twice" in wrong["delete marker"]) == case.startswith("append")
