"""Each line of health says what to do."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from unit.handmade import HandMade, at
from unit.hudi_inspect.tables import NOW, A, B, line, look, mor, stamp, write

from hudi_inspect import TableSnapshot
from hudi_inspect.units import iso


def test_small_files(table: HandMade) -> None:
    table.commit(10, 12, {f"{i:08x}-x": 1 for i in range(100)}, size=1)
    assert line(look(table), "small files").startswith("ok ")
    table.commit(20, 22, {"one-more": 1}, size=1)
    assert line(look(table), "small files") == (
        "FAIL small files    101 base files under 100 MiB, 100 fewer if merged (fails at 100); "
        "CALL run_clustering(table => 'readings')"
    )


def test_instants_in_the_future(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    assert line(look(table), "clock") == (
        "ok   clock          no instant is in the future, or older than an earlier batch"
    )
    snapshot = look(table)
    newest = max(instant.completed for instant in snapshot.timeline if instant.completed)
    for seconds, ok in ((10, True), (11, False)):
        options = replace(snapshot.options, now=newest - timedelta(seconds=seconds))
        shown = line(replace(snapshot, options=options), "clock")
        assert shown.startswith("ok " if ok else "FAIL")
    assert f"the newest instant is {iso(newest)}, 11 s ahead of this machine's clock; set" in shown


def test_batches_that_were_written_after_the_clock_was_set_back(table: HandMade) -> None:
    table.commit(50, 52, {A: 5}, extra=stamp("a", 0))
    table.commit(10, 12, {A: 5}, extra=stamp("b", 7))  # another stream
    assert line(look(table), "clock").startswith("ok ")
    table.commit(20, 22, {A: 5}, extra=stamp("a", 1))
    table.commit(30, 32, {A: 5}, extra=stamp("a", 2))
    assert line(look(table), "clock") == (
        f"FAIL clock          readers may miss rows of batch 1 ({at(20)}), batch 2 ({at(30)}): "
        f"older than an earlier batch of the stream ({at(50)}); the clock was set back: write "
        "their rows again from the source, to a new table with a new checkpoint"
    )
    table.commit(60, 62, {A: 5}, extra=stamp("a", 3))
    assert f"({at(30)}): older" in line(look(table), "clock")


def test_what_merging_small_files_saves(table: HandMade) -> None:
    """Each partition keeps at least one file, and one for each 120 MiB."""
    table.commit(10, 12, {A: 5})
    snapshot = look(table)
    (part,) = snapshot.slices
    mib = 1024**2
    for sizes, saved in (
        ({"a": [10 * mib] * 100}, 91),  # 1000 MiB are nine files
        ({"a": [mib], "b": [500 * mib] * 3 + [mib], "c": [mib] * 2}, 1),
    ):
        slices = tuple(
            part._replace(partition=path, base_bytes=size)
            for path, files in sizes.items()
            for size in files
        )
        assert f", {saved} fewer if merged" in line(replace(snapshot, slices=slices), "small files")


def test_small_files_of_a_bucketed_table(table: HandMade) -> None:
    table.commit(10, 12, {f"{i:08}-x": 1 for i in range(101)}, size=1)
    assert look(table).table.index == "BUCKET"
    assert line(look(table), "small files").endswith(
        "; lower hoodie.bucket.index.num.buckets and rewrite the table with "
        "hoodie.datasource.write.operation=insert_overwrite_table"
    )


@pytest.mark.parametrize("group", ["12345678-0000-0000-0000-000000000000-0", "00010000-x", "a-0"])
def test_a_random_id_that_begins_with_digits_is_no_bucket(table: HandMade, group: str) -> None:
    table.commit(10, 12, {group: 1})
    assert look(table).table.index is None
    table.commit(20, 22, {f"{i:x}-{group}": 1 for i in range(101)}, size=1)
    assert "run_clustering" in line(look(table), "small files")


@pytest.mark.parametrize(("source", "index"), [({"buckets": 4}, "BUCKET"), ({"topic": "x"}, None)])
def test_the_labs_stamp_knows_the_index(
    table: HandMade, source: dict[str, object], index: str | None
) -> None:
    extra = {"hudilab.source": json.dumps(source)}
    table.commit(10, 12, {"00000003-0000-0000-0000-000000000000-0": 1}, extra=extra)
    table.commit(20, 22, {A: 1})  # another program's, without a stamp
    assert look(table).table.index == index


def compaction(deltas: str, ratio: str) -> str:
    return (
        f"compaction     {deltas} since the last compaction, logs are {ratio} times the size of "
        "the base files"
    )


def test_a_healthy_merge_on_read_table_with_logs(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5, B: 7}, action="deltacommit", size=100)
    for i in range(9):
        table.commit(20 + i, 20 + i, {A: 1}, action="deltacommit", logs=True, size=30)
    snapshot = look(table)
    assert (snapshot.table.rows, snapshot.table.bytes, snapshot.table.files) == (None, 470, 11)
    assert snapshot.is_healthy
    assert line(snapshot, "compaction") == f"ok   {compaction('10 delta commits', '1.4')}"
    assert "logs            270 B, 1.35 times the base files (200 B)\n" in str(snapshot)
    assert "rows            unknown without reading the data (--count)\n" in str(snapshot)


def test_delta_commits_without_logs_need_no_compaction(tmp_path: Path) -> None:
    table = mor(tmp_path)
    for i in range(11):
        table.commit(10 + i, 10 + i, {f"{i:08x}-x": 1}, action="deltacommit")
    assert line(look(table), "compaction") == f"ok   {compaction('11 delta commits', '0.0')}"


def test_delta_commits_count_from_the_completion_of_a_compaction(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.commit(20, 40, {A: 5}, started="compaction", operation="COMPACT")
    table.commit(30, 32, {A: 1}, action="deltacommit", logs=True)
    table.commit(50, 52, {A: 1}, action="deltacommit", logs=True)
    assert " 1 delta commit since " in line(look(table), "compaction")


def test_compaction_is_behind(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    for i in range(10):
        table.commit(20 + i, 20 + i, {A: 1}, action="deltacommit", logs=True)
    assert line(look(table), "compaction") == (
        f"FAIL {compaction('11 delta commits', '10.0')}; CALL run_compaction(op => "
        "'scheduleAndExecute', table => 'readings', options => "
        "'hoodie.compact.inline.max.delta.commits=1')"
    )
    table.commit(40, 41, {A: 6}, started="compaction", operation="COMPACT")
    assert line(look(table), "compaction") == f"ok   {compaction('0 delta commits', '0.0')}"


def test_a_dead_writer(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.commit(20, None, {B: 5})
    alive = (
        "ok   dead writer    1 pending write, still active",
        f"FAIL dead writer    1 stuck write, oldest: commit {at(20)} (INFLIGHT), pending since "
        "2026-01-01T00:00:20.000Z; restart its writer, and the next write rolls it back; if "
        "hoodie.clean.failed.writes.policy=LAZY, run a clean instead: "
        "CALL run_clean(table => 'readings')",
    )
    files = [*table.timeline.iterdir(), *table.root.glob("sensor_id=10/*")]

    def age(seconds: float) -> TableSnapshot:
        for file in files:
            os.utime(file, (NOW.timestamp() - seconds,) * 2)
        return look(table)

    assert line(age(599), "dead writer") == alive[0]
    assert line(age(601), "dead writer") == alive[1]
    assert line(look(table, stuck_after=602), "dead writer") == alive[0]
    # It still writes a file, or its heartbeat.
    beat = table.meta / ".heartbeat" / at(20)
    beat.parent.mkdir()
    beat.touch()
    os.utime(beat, (NOW.timestamp() - 10,) * 2)
    assert line(look(table), "dead writer") == alive[0]
    beat.unlink()
    os.utime(table.root / "sensor_id=10" / f"{B}_0-1-1_{at(20)}.parquet", (NOW.timestamp(),) * 2)
    assert line(look(table), "dead writer") == alive[0]


def test_a_service_that_waits(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.compaction(20, A)
    for file in table.timeline.iterdir():
        os.utime(file, (NOW.timestamp() - 601,) * 2)
    assert line(look(table), "services") == (
        "FAIL services       stuck: 1 compaction, oldest pending since "
        "2026-01-01T00:00:20.000Z; CALL run_compaction(op => 'execute', table => 'readings')"
    )
    assert line(look(table, stuck_after=700), "services") == (
        "ok   services       1 pending table service, not stuck"
    )


def test_no_cleaner(table: HandMade) -> None:
    for i in range(42):
        table.commit(10 + i, 10 + i, {A: 5})
    assert line(look(table), "cleaner") == (
        "ok   cleaner        41 superseded slices (4.0 KiB), the oldest superseded 40 commits ago"
    )
    table.commit(60, 61, {A: 5})
    assert line(look(table), "cleaner") == (
        "FAIL cleaner        42 superseded slices (4.1 KiB), the oldest superseded 41 commits "
        "ago; CALL run_clean(table => 'readings', options => 'hoodie.clean.max.commits=1'), and "
        "set hoodie.clean.automatic=true in the writer"
    )


def test_no_archive(table: HandMade) -> None:
    for i in range(100):
        table.commit(10 + i, 10 + i)
    assert line(look(table), "archive").startswith("ok ")
    table.commit(200, 201)
    assert line(look(table), "archive") == (
        "FAIL archive        101 completed instants on the active timeline; CALL archive_commits("
        "table => 'readings'), and set hoodie.archive.automatic=true in the writer"
    )


def test_two_writers(table: HandMade) -> None:
    write(table, "a", "a", "b", "b")
    after = "ok   two writers    2 streams wrote to the table, one after the other"
    assert line(look(table), "two writers") == after
    write(table, "a", "b", "a")
    assert line(look(table), "two writers") == (
        "FAIL two writers    2 streams alternate commits, apparently without a lock (no "
        ".hoodie/.heartbeat); set "
        "hoodie.write.concurrency.mode=optimistic_concurrency_control and a "
        "hoodie.write.lock.provider in each writer; in the lab: ExactlyOnceSink(..., shared=True)"
    )
    (table.meta / ".heartbeat").mkdir()
    locked = "ok   two writers    2 streams wrote to the table, with a lock"
    assert line(look(table), "two writers") == locked


def test_a_savepoint_is_no_batch_of_the_commit_that_it_keeps(table: HandMade) -> None:
    write(table, "a", "a", "b")
    table.instant(10, 30, "savepoint")
    snapshot = look(table)
    assert "one after the other" in line(snapshot, "two writers")
    assert [(batch.query, batch.number) for batch in snapshot.writers] == [("a", 1), ("b", 2)]


def test_batches_are_in_order_of_completion_and_also_archived(table: HandMade) -> None:
    record = {"operationType": "INSERT", "extraMetadata": stamp("a", 0)}
    table.archive((1, 2, "commit", record))
    table.commit(10, 40, {A: 5}, extra=stamp("b", 1))
    table.commit(20, 30, {B: 5}, extra=stamp("a", 1))
    table.commit(50, 52, {B: 5}, extra=stamp("c", "x"))  # not a batch of the lab
    for archived, queries in ((False, ["a", "b"]), (True, ["a", "a", "b"])):
        batches = look(table, archived=archived).batches
        assert [batch.query for batch in batches] == queries


def test_hudis_own_sink_repeats_the_batches_of_other_streams(table: HandMade) -> None:
    for i, last in enumerate(('{"a": "0"}', '{"a": 0, "b": "4"}', '{"a": 1, "b": 4}', "not JSON")):
        extra = {"_hudi_streaming_sink_checkpoint": last}
        table.commit(10 + i, 10 + i, {A: 5}, extra=extra)
    snapshot = look(table)
    batches = [(batch.query, batch.number) for batch in snapshot.batches]
    assert batches == [("a", 0), ("b", 4), ("a", 1)]
    assert [(batch.query, batch.number) for batch in snapshot.writers] == [("a", 1), ("b", 4)]
