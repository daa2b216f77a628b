"""The order of the sink's steps, on a table in memory and a checkpoint on the disk, without Spark.

Each test is a moment that the model of test_ledger_model.py moves through: the model assumes that
the sink looks there, and this file shows that it does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from hudi_sink import checkpoints, sink
from hudi_sink.checkpoints import CheckpointFiles, Owner
from hudi_sink.rules import BatchMetadata, Commit
from hudi_sink.schema_guard import Layout
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import StreamError
from hudilab.paths import TableLocation, local_path
from hudilab.table import TableSpec

QUERY, RUN = "query-1", "run-1"
SPEC = TableSpec("readings", ("id",), (), "moment")
SOURCE = json.dumps({"topic": "readings"})


class Table:
    """Stands in for `Commits`: what is committed, and what happens while a driver takes over."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def commit(self, query: str, batch: int, digest: str) -> None:
        metadata = BatchMetadata(query, batch, digest, SOURCE)
        self.commits.append(Commit(f"t{len(self.commits)}", metadata))

    def newest_first(self, *, to_write: bool = False) -> Iterator[Commit]:
        yield from reversed(self.commits)

    def roll_back_unfinished(self, options: object, *, wait: bool) -> None:
        self.meanwhile()

    def recover_properties(self) -> None:
        """No driver has died while it replaced the file."""

    def check_access(self, *, write: bool) -> None:
        pass

    def clear_half_made(self) -> None:
        pass

    def is_there(self) -> bool:
        return False


class World:
    """A table, the checkpoint of one stream, and the drivers that write with it."""

    def __init__(self, home: Path, table: Table) -> None:
        uri = f"file://{home}"
        self.location = TableLocation(uri, f"{uri}/t", f"{uri}/checkpoint", "lab", "readings")
        self.table, self.folder = table, home / "checkpoint"
        self.files = CheckpointFiles(MagicMock(), self.location.checkpoint)

    def plan(self, batch: int) -> None:
        """Spark's part: the id of the query, and the offsets of the batch."""
        (self.folder / "offsets").mkdir(parents=True, exist_ok=True)
        (self.folder / "metadata").write_text(json.dumps({"id": QUERY}))
        (self.folder / "offsets" / str(batch)).write_text(f'v1\n{{"batch":{batch}}}\n{batch}')

    def write(self, driver: ExactlyOnceSink, batch: int) -> None:
        """Commit a batch as the driver, if it may."""
        self.plan(batch)
        if begun := driver.begin(rows(), batch):
            self.table.commits.append(Commit(f"t{len(self.table.commits)}", begun.metadata))

    def driver(self) -> ExactlyOnceSink:
        session = MagicMock()
        session._jsparkSession.streams().get.return_value = None
        return ExactlyOnceSink(session, SPEC, self.location, json.loads(SOURCE))


def rows() -> Any:
    """A batch of the stream, as far as the sink looks at one before it writes."""
    batch = MagicMock()
    batch.sparkSession.sparkContext.getLocalProperty.side_effect = {
        "spark.jobGroup.id": RUN,
        "sql.streaming.queryId": QUERY,
    }.get
    return batch


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    def write_text(_: object, uri: str, text: str) -> None:
        file = local_path(uri)
        assert file is not None
        file.write_text(text)

    table, guard = Table(), MagicMock()
    guard.layout.return_value = Layout({}, True, False)
    monkeypatch.setattr(checkpoints, "write_text", write_text)
    monkeypatch.setattr(sink, "Commits", lambda *_: table)
    monkeypatch.setattr(sink, "SchemaGuard", lambda *_, **__: guard)
    return World(tmp_path, table)


def test_a_driver_writes_each_batch_once(world: World) -> None:
    driver = world.driver()
    for batch in (0, 0, 1, 1):
        world.write(driver, batch)
    assert [commit.metadata and commit.metadata.batch for commit in world.table.commits] == [0, 1]


def test_a_driver_that_was_replaced_is_refused_at_its_next_batch(world: World) -> None:
    driver = world.driver()
    world.write(driver, 0)
    world.files.take(Owner("run-2", 1, "elsewhere"))
    with pytest.raises(StreamError, match=r"^another driver has taken over the checkpoint file:"):
        world.write(driver, 1)
    assert len(world.table.commits) == 1


def test_a_driver_owns_the_checkpoint_before_it_rolls_back(world: World) -> None:
    owners = []
    world.table.meanwhile = lambda: owners.append(world.files.owner())
    world.write(world.driver(), 0)
    assert owners == [str(Owner.here(RUN))]


def test_a_driver_that_is_refused_leaves_the_checkpoint_to_its_owner(world: World) -> None:
    driver = world.driver()
    world.table.commit("query-2", 0, "d")
    with pytest.raises(StreamError, match="was written by a stream whose checkpoint is not at"):
        world.write(driver, 0)
    assert world.files.recorded_owner() is None


def test_what_is_committed_while_a_driver_takes_over_counts(world: World) -> None:
    """A stream of another checkpoint: both would write the same rows."""
    world.table.meanwhile = lambda: world.table.commit("query-2", 0, "d")
    with pytest.raises(StreamError, match="was written by a stream whose checkpoint is not at"):
        world.write(world.driver(), 0)
    assert len(world.table.commits) == 1


def test_a_commit_that_the_earlier_driver_could_still_make_is_not_repeated(world: World) -> None:
    world.plan(0)
    digest = world.files.plan(0).digest
    world.table.meanwhile = lambda: world.table.commit(QUERY, 0, digest)
    world.write(world.driver(), 0)
    assert len(world.table.commits) == 1


# Entries 0 to 9 of a source's log as Spark keeps them: the tenth file repeats the nine before it.
LOG = [json.dumps({"path": f"{entry}.json", "batchId": entry}) for entry in range(10)]


@pytest.mark.parametrize("entry", [0, 8, 9])
def test_entries_of_a_source_are_found_in_the_compacted_log(tmp_path: Path, entry: int) -> None:
    log = tmp_path / "sources" / "0"
    log.mkdir(parents=True)
    (log / "9.compact").write_text("\n".join(["v1", *LOG]))
    before, upto = (f'v1\n{{}}\n{{"logOffset":{number}}}' for number in (entry - 1, entry))
    if entry == 0:
        before = ""
    files = CheckpointFiles(MagicMock(), f"file://{tmp_path}")
    assert files.entries(before, upto) == [LOG[entry]]
    later = f'v1\n{{}}\n{{"logOffset":{entry + 1}}}'
    expected = LOG[entry + 1] if entry < 9 else "entry 10 is missing"
    assert files.entries(upto, later) == [expected]
