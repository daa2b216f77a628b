"""Each rule of the ledger by itself; tests/spark provokes the refusals for real."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hudi_sink.metadata import KEYS, MICROS, QUARANTINED, SHARED
from hudi_sink.rules import BatchMetadata, Checkpoint, Commit, Rules, offsets_digest
from hudilab.errors import StreamError

MINE, OTHER = "query1", "query2"
RULES = Rules("<table>", "<checkpoint>", None, shared=False)
BOUNDED = Rules("<table>", "<checkpoint>", 3, shared=False)
SHARED_TABLE = Rules("<table>", "<checkpoint>", None, shared=True)
BOTH = "restore both from the same point in time, "
ANEW = "or delete the table and the checkpoint together, or use another run_id"


def stamp(batch: int, query: str = MINE, digest: str = "d") -> BatchMetadata:
    return BatchMetadata(query, batch, f"{digest}{batch}", "{}")


def commit(batch: int, query: str = MINE) -> Commit:
    return Commit(f"t{batch}", stamp(batch, query))


def checkpoint(done: int, query: str | None = MINE, **planned: str) -> Checkpoint:
    return Checkpoint(query, done, {int(name[1:]): text for name, text in planned.items()})


def test_as_few_commits_are_read_as_it_takes() -> None:
    def commits() -> Iterator[Commit]:
        yield Commit("t9", None)
        yield commit(4)
        raise AssertionError("read too far")

    newest, newer = RULES.find(MINE, commits())
    assert (newest, [each.instant for each in newer]) == (stamp(4), ["t9"])


def test_a_batch_is_skipped_only_if_it_has_the_same_offsets() -> None:
    assert [RULES.is_written(n, f"d{n}", "{}", stamp(4)) for n in (4, 5)] == [True, False]
    with pytest.raises(StreamError, match=r"^batch 4 in <table> has other source offsets than"):
        RULES.is_written(4, "x4", "{}", stamp(4))


def test_a_bounded_stream_ends_when_its_last_batch_is_there() -> None:
    assert BOUNDED.is_written(3, "d3", "{}", stamp(2)) is True
    assert BOUNDED.is_written(9, "d9", "{}", stamp(2)) is True
    with pytest.raises(
        StreamError,
        match=r"^the table was restored to an earlier state while the stream was running",
    ):
        BOUNDED.is_written(3, "d3", "{}", stamp(1))
    BOUNDED.check(checkpoint(7), "{}", stamp(2), [])


@pytest.mark.parametrize(
    ("rules", "done", "newest", "remedy"),
    [
        (RULES, 5, 4, BOTH + ANEW),  # the table is older
        (RULES, 2, 4, BOTH + ANEW),  # the checkpoint is
        (BOUNDED, 0, 2, BOTH + ANEW),
        (BOUNDED, 2, 1, f"{BOTH}pass batches=2 again if an earlier run had that, {ANEW}"),
    ],
)
def test_only_a_shorter_table_of_a_bounded_stream_may_have_its_end(
    rules: Rules, done: int, newest: int, remedy: str
) -> None:
    with pytest.raises(StreamError) as caught:
        rules.check(checkpoint(done), "{}", stamp(newest), [])
    assert caught.value.remedy == remedy


def test_a_bounded_stream_cannot_get_longer_after_its_end() -> None:
    with pytest.raises(
        StreamError, match=r"time, pass batches=3 again if an earlier run had that, or delete the"
    ):
        Rules("<table>", "<checkpoint>", 9, shared=False).check(checkpoint(7), "{}", stamp(2), [])


def test_a_writer_with_another_lock_is_refused() -> None:
    locks = ("", "mine", "true")  # none, as SQL; its own; as the lab's first locks
    SHARED_TABLE.check_locks("mine", [Commit("t1", None, lock=lock) for lock in locks])
    with pytest.raises(StreamError, match="commit t2 used other, this stream uses mine"):
        SHARED_TABLE.check_locks("mine", [Commit("t1", None), Commit("t2", None, lock="other")])


def test_what_a_batch_covers() -> None:
    first = 'v1\n{"batchTimestampMs":1}\n{"t":{"0":5}}'
    again = 'v1\n{"batchTimestampMs":2}\n{"t":{"0":5}}'
    more = 'v1\n{"batchTimestampMs":2}\n{"t":{"0":9}}'
    assert offsets_digest("", first) == offsets_digest("", again)
    assert (
        len(
            {
                offsets_digest("", first),
                offsets_digest("", more),
                offsets_digest(first, more),
                offsets_digest("", ""),
            }
        )
        == 4
    )


def test_files_that_a_batch_read_count_and_not_only_their_number() -> None:
    offsets = 'v1\n{"batchTimestampMs":1}\n{"logOffset":0}'
    digests = {offsets_digest("", offsets, entries) for entries in ((), ("a.json",), ("b.json",))}
    assert len(digests) == 3


def test_tables_that_exist_are_found_by_these_names_and_this_digest() -> None:
    """From the second commit of a table of 27 November 2026, and its checkpoint's offsets."""
    offsets = [
        f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1795796960284}}\n{end}'
        for end in ('{"offset":20,"timestamp":1000}', '{"offset":40,"timestamp":2000}')
    ]
    query = "53beef4b-ccf8-4342-9189-592966d96af5"
    source = '{"batches": 2, "rows": 40, "seed": 1, "sensors": 2}'
    assert BatchMetadata(query, 1, offsets_digest(*offsets), source).options() == {
        "hoodie.datasource.write.commitmeta.key.prefix": "hudilab.",
        "hudilab.query_id": query,
        "hudilab.batch_id": "1",
        "hudilab.covers": "d89799e14d3de616e3b6a98865809655",
        "hudilab.source": source,
    }
    assert (QUARANTINED, SHARED) == ("hudilab.quarantined", "hudilab.shared")
    assert (KEYS, MICROS) == ("hudilab.keys", "micros")
