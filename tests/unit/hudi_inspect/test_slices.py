"""Which files form the slices that a reader sees."""

from __future__ import annotations

from pathlib import Path

from unit.handmade import COMMIT, COUNTS, HandMade, at, avro
from unit.hudi_inspect.tables import A, B, look, mor, refusal

from hudi_inspect import TableSnapshot


def test_files_that_no_completed_commit_wrote_are_not_there(table: HandMade) -> None:
    table.commit(10, 12, {A: 5})
    table.commit(20, None, {A: 6, B: 7})  # in flight
    table.base(15, B)  # what is left of a commit that was rolled back
    snapshot = look(table)
    assert (snapshot.table.rows, snapshot.table.files, snapshot.table.file_groups) == (5, 1, 1)
    assert [instant.state for instant in snapshot.pending] == ["INFLIGHT"]


def test_replaced_file_groups_are_not_there(table: HandMade) -> None:
    table.commit(10, 12, {A: 5, B: 7})
    new = "c" + A[1:]
    table.commit(
        20,
        22,
        {new: 12},
        action="replacecommit",
        started="clustering",
        operation="CLUSTER",
        replaced=(A, B),
    )
    snapshot = look(table)
    assert [latest_slice.group for latest_slice in snapshot.latest_slices] == [new]
    assert [part.ended for part in snapshot.slices] == [at(20), at(20), None]
    assert snapshot.table.rows == 12
    assert [instant.action for instant in snapshot.instants] == ["replacecommit", "commit"]


def shape(snapshot: TableSnapshot) -> list[tuple[str, bool, int, bool]]:
    """Slices: instant, whether there is a base file, number of logs, whether it is the latest."""
    return [(s.instant, s.base is not None, len(s.logs), s.is_latest) for s in snapshot.slices]


def test_a_log_belongs_to_the_slice_that_was_newest_when_it_was_completed(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.commit(20, 35, {A: 2}, action="deltacommit", logs=True)  # ends after the compaction began
    table.commit(22, 24, {A: 2}, action="deltacommit", logs=True)
    table.commit(30, 32, {A: 6}, started="compaction", operation="COMPACT")
    snapshot = look(table)
    assert shape(snapshot) == [(at(10), True, 1, False), (at(30), True, 1, True)]
    assert snapshot.table.rows is None


def test_logs_without_a_base_file_and_those_before_the_first(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5, B: 5}, action="deltacommit", logs=True)
    table.commit(20, 22, {A: 5, B: 5}, action="deltacommit", logs=True)
    table.commit(30, 32, {A: 5}, started="compaction", operation="COMPACT")
    table.commit(40, 42, {A: 5}, action="deltacommit", logs=True)
    assert shape(look(table)) == [
        (at(10), False, 2, False),
        (at(30), True, 1, True),
        (at(10), False, 2, True),
    ]


def test_a_planned_compaction_splits_no_slice_for_a_reader(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.commit(20, 22, {A: 2}, action="deltacommit", logs=True)
    table.compaction(30, A)
    table.commit(40, 42, {A: 2}, action="deltacommit", logs=True)
    snapshot = look(table)
    assert shape(snapshot) == [(at(10), True, 2, True)]
    assert [instant.action for instant in snapshot.pending] == ["compaction"]


def test_a_log_of_a_commit_in_flight_is_not_there(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.commit(20, None, {A: 2}, action="deltacommit", logs=True)
    assert shape(look(table)) == [(at(10), True, 0, True)]


def test_a_file_group_without_a_committed_file_has_no_slice(tmp_path: Path) -> None:
    table = mor(tmp_path)
    table.commit(10, None, {A: 5}, action="deltacommit")
    table.compaction(20, A)
    assert look(table).slices == ()


def test_a_savepoint_does_not_begin_the_active_timeline(table: HandMade) -> None:
    """The commit that it keeps is archived, as all are that are older than the oldest action."""
    table.kind = "orc"  # whose rows are not read
    table.instant(1, 30, "savepoint")
    table.base(5, A)
    table.commit(10, 12)
    assert [part.group for part in look(table).slices] == [A]


def test_in_version_6_a_log_is_named_after_its_slice(tmp_path: Path) -> None:
    table = mor(tmp_path, version=6)
    table.commit(10, 12, {A: 5}, action="deltacommit")
    table.log(10, A, number=1)
    table.log(10, A, number=2)
    table.commit(30, 32, {A: 6}, action="commit", started="compaction", operation="COMPACT")
    assert shape(look(table)) == [(at(10), True, 2, False), (at(30), True, 0, True)]
    assert look(table).table.rows == 6


def test_files_of_another_engine_are_refused(table: HandMade) -> None:
    """Their names do not follow Hudi's rules, so the table would seem to be empty."""
    folder = table.root / "sensor_id=10"
    folder.mkdir()
    (folder / "part-0.parquet").write_bytes(b"x")
    path = f"sensor_id=10/part-0.parquet_{at(10)}_hudiext"
    stat = dict.fromkeys(COUNTS, 1) | {"fileId": "part-0.parquet", "path": path}
    record = {
        "partitionToWriteStats": {"sensor_id=10": [stat]},
        "extraMetadata": {},
        "operationType": "INSERT_OVERWRITE",
        "partitionToReplaceFileIds": {},
    }
    table.instant(10, 12, "replacecommit", avro(COMMIT, record))
    assert refusal(table) == (
        f"file://{table.root} registers data files that Hudi did not write, such as "
        "sensor_id=10/part-0.parquet, and inspect cannot read them; let Hudi list "
        "them: CALL show_fsview_latest(table => 'NAME')"
    )


def test_partition_columns_of_a_custom_key_generator(table: HandMade) -> None:
    table.properties["hoodie.table.partition.fields"] = "city:simple,at:timestamp"
    table.save()
    assert look(table).table.partition == ["city", "at"]
