"""Drivers, crashes, restores and strangers in any order: the table is right or the run is refused.

The model keeps a Kafka topic, a table, its checkpoint and two drivers, and moves them in the steps
that the real writer takes. The decisions are the library's; nothing else of it is used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hudi_sink.rules import BatchMetadata, Checkpoint, Commit, Rules, offsets_digest
from hudilab.errors import StreamError

RULES = Rules("<table>", "<checkpoint>", None, shared=False)
SHARED = Rules("<table>", "<checkpoint>", None, shared=True)


def offsets(end: int) -> str:
    """As Spark writes the file `offsets/<n>`."""
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":{end}}}\n{{"prices":{{"0":{end}}}}}'


@dataclass
class Notes:
    """A checkpoint: its query, the offsets that each planned batch ends at, and what is done."""

    query: str | None = None
    planned: dict[int, int] = field(default_factory=dict)
    done: int = -1

    def copy(self) -> Notes:
        return Notes(self.query, dict(self.planned), self.done)

    def text(self, batch: int) -> str:
        return offsets(self.planned[batch]) if batch in self.planned else ""

    def digest(self, batch: int) -> str:
        return offsets_digest(self.text(batch - 1), self.text(batch))

    def seen(self) -> Checkpoint:
        return Checkpoint(self.query, self.done, {n: self.digest(n) for n in self.planned})


@dataclass
class Row:
    """A commit in the table: the log it came from, and the offsets it holds."""

    commit: Commit
    log: int
    first: int
    last: int


@dataclass
class Driver:
    """A driver and the batch it is at.

    step: what it did last, of planned, checked, owns, alone, started, looked, announced, committed.
    token: what it wrote to the checkpoint as its owner. instant: the commit that it announced.
    """

    batch: int
    step: str = "planned"
    token: int = 0
    instant: int = 0
    skip: bool = False
    stamp: BatchMetadata | None = None


def is_reading(driver: Driver) -> bool:
    return driver.step in ("looked", "announced")


class Lab(RuleBasedStateMachine):
    """One table, one topic, one checkpoint; two drivers that may overlap; a second stream."""

    shared = False
    fenced = True
    calm = False  # only drivers: nothing is deleted, restored or made anew

    @initialize()
    def begin(self) -> None:
        self.log, self.length = 0, 1  # which topic it is, and its end
        self.table: list[Row] = []
        self.notes = Notes()
        self.copies: list[tuple[Notes, list[Row], int]] = []
        self.drivers: dict[int, Driver] = {}
        self.pending: set[int] = set()
        self.owner, self.clock, self.queries = 0, 0, 0

    # what happens to a source

    @rule(more=st.integers(1, 5))
    def produce(self, more: int) -> None:
        self.length += more

    # A batch that is being read fails in Spark, or reads the old topic's messages to its end.
    @precondition(lambda self: not self.calm and not any(map(is_reading, self.drivers.values())))
    @rule(length=st.integers(0, 30))
    def topic_is_made_anew(self, length: int) -> None:
        self.log += 1
        self.length = length

    # what a driver does, step by step

    @property
    def source(self) -> str:
        return json.dumps({"topic": "prices", "topic_id": self.log})

    @property
    def rulebook(self) -> Rules:
        return SHARED if self.shared else RULES

    def commits(self) -> list[Commit]:
        return [row.commit for row in reversed(self.table)]

    def judge(self, _: Driver) -> None:
        newest, others = self.rulebook.find(self.notes.query, self.commits())
        self.rulebook.check(self.notes.seen(), self.source, newest, others)

    def plan(self, batch: int) -> bool:
        """Whether the batch is planned: by now, or with what has arrived since the last one."""
        if batch in self.notes.planned:
            return True
        if self.notes.planned.get(batch - 1, 0) > self.length:
            return False  # Spark fails: the log is shorter than the offsets
        self.notes.planned[batch] = self.length
        return True

    def start(self, number: int) -> None:
        """A driver of the same checkpoint; the other one may still be alive."""
        notes = self.notes
        if notes.query is None:
            self.queries += 1
            notes.query = f"query{self.queries}"
        if self.plan(notes.done + 1):
            self.drivers[number] = Driver(notes.done + 1)

    @rule(number=st.integers(0, 1), steps=st.sampled_from(range(1, 10)))
    def a_driver_moves(self, number: int, steps: int) -> None:
        """It starts if it is not there, and takes steps until one is refused, which ends it."""
        if number not in self.drivers:
            self.start(number)
        for _ in range(steps):
            driver = self.drivers.get(number)
            if driver is None:
                return
            try:
                getattr(self, STEPS[driver.step])(driver)
            except StreamError:
                del self.drivers[number]
                return
            names = list(STEPS)
            driver.step = names[(names.index(driver.step) + 1) % len(names)]
            if driver.step == names[0]:  # the next batch of the same run
                driver.step = "started"

    def take_over(self, driver: Driver) -> None:
        self.clock += 1
        self.owner = driver.token = self.clock

    def roll_back(self, _: Driver) -> None:
        if self.fenced:
            self.pending.clear()

    def look(self, driver: Driver) -> None:
        newest, _ = self.rulebook.find(self.notes.query, self.commits())
        digest = self.notes.digest(driver.batch)
        driver.skip = self.rulebook.is_written(driver.batch, digest, self.source, newest)
        driver.stamp = BatchMetadata(str(self.notes.query), driver.batch, digest, self.source)

    def announce(self, driver: Driver) -> None:
        if driver.skip:
            return
        self.clock += 1
        driver.instant = self.clock
        self.pending = {self.clock}  # Hudi rolls back whatever else is in flight
        if self.fenced and driver.token != self.owner:  # the condition in the write's plan
            raise StreamError("another driver has taken over")

    def commit(self, driver: Driver) -> None:
        if driver.skip:
            return
        if driver.instant not in self.pending:
            raise StreamError("Hudi refuses: the instant was rolled back")
        self.pending.discard(driver.instant)
        first = self.notes.planned.get(driver.batch - 1, 0)
        written = Commit(str(driver.instant), driver.stamp)
        self.table.append(Row(written, self.log, first, self.notes.planned[driver.batch]))

    def note_and_plan(self, driver: Driver) -> None:
        if self.notes.done >= driver.batch or driver.batch + 1 in self.notes.planned:
            raise StreamError("Spark refuses: another driver has written this")
        self.notes.done = driver.batch
        driver.batch += 1
        if not self.plan(driver.batch):
            raise StreamError("Spark refuses: the topic is too short")

    @rule(number=st.integers(0, 1))
    def a_driver_dies(self, number: int) -> None:
        self.drivers.pop(number, None)

    # what others do

    @precondition(lambda self: self.table and not self.calm)
    @rule()
    def sql_writes(self) -> None:
        self.clock += 1
        self.table.append(Row(Commit(str(self.clock), None), self.log, 0, 0))

    @precondition(lambda self: not self.calm)
    @rule()
    def a_copy_is_made(self) -> None:
        self.copies.append((self.notes.copy(), list(self.table), self.log))

    @precondition(lambda self: self.copies)
    @rule(data=st.data(), what=st.sampled_from(["checkpoint", "table", "both"]))
    def a_copy_is_restored(self, data: Any, what: str) -> None:
        notes, table, _ = data.draw(st.sampled_from(self.copies))
        self.drivers.clear()
        if what != "table":
            self.notes = notes.copy()
        if what != "checkpoint":
            self.table = list(table)
            self.pending.clear()

    @precondition(lambda self: not self.calm)
    @rule(what=st.sampled_from(["checkpoint", "table", "both"]))
    def something_is_deleted(self, what: str) -> None:
        self.drivers.clear()
        if what != "table":
            self.notes = Notes()
        if what != "checkpoint":
            self.table, self.pending = [], set()

    @precondition(lambda self: self.notes.planned and not self.calm)
    @rule()
    def the_newest_plan_is_lost(self) -> None:
        """As the cure for a damaged file of the checkpoint: the last offsets and note go."""
        self.drivers.clear()
        newest = max(self.notes.planned)
        del self.notes.planned[newest]
        self.notes.done = min(self.notes.done, newest - 1)

    @invariant()
    def the_table_is_right(self) -> None:
        """No message twice, none left out, and none of another topic among them."""
        rows = [row for row in self.table if row.commit.metadata is not None]
        for before, after in zip([None, *rows], rows, strict=False):
            assert after.commit.metadata is not None
            expected = 0 if before is None else before.last
            assert after.first == expected, f"{rows}"
            assert before is None or before.log == after.log


# What a driver does next, by what it did last.
STEPS = {
    "planned": "judge",
    "checked": "take_over",
    "owns": "roll_back",
    "alone": "judge",
    "started": "look",
    "looked": "announce",
    "announced": "commit",
    "committed": "note_and_plan",
}


class Calm(Lab):
    """Two drivers and nothing else, so that more of the sequences are theirs."""

    calm = True


class Unfenced(Calm):
    """The same without the fence: a driver that was replaced can commit."""

    fenced = False


class Forgetful(Lab):
    """The same with a ledger that skips a batch by its number alone."""

    def look(self, driver: Driver) -> None:
        newest, _ = self.rulebook.find(self.notes.query, self.commits())
        last = -1 if newest is None else newest.batch
        driver.skip = driver.batch <= last
        digest = self.notes.digest(driver.batch)
        driver.stamp = BatchMetadata(str(self.notes.query), driver.batch, digest, self.source)

    def judge(self, _: Driver) -> None:
        return


MANY = settings(
    max_examples=1000,
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    ("machine", "examples"),
    [
        (Lab, 300),
        pytest.param(Lab, 1000, marks=pytest.mark.deep),
        pytest.param(Calm, 300, marks=pytest.mark.deep),
    ],
)
def test_in_each_sequence_the_table_is_right_or_the_run_is_refused(
    machine: type[Lab], examples: int
) -> None:
    run_state_machine_as_test(machine, settings=settings(MANY, max_examples=examples))


@pytest.mark.parametrize("machine", [Unfenced, Forgetful])
def test_the_model_catches_a_writer_with_a_hole(machine: type[Lab]) -> None:
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine, settings=MANY)
