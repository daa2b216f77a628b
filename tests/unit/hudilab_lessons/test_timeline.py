"""Instants and data files from the names that Hudi 1.2 really wrote (table version 9)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hudi_inspect.names import DataFile, parse_file
from hudilab_lessons.timeline import parse_instants, tree_of

AT = "20261121035706985"
END = "20261121035710605"
REQUESTED = datetime(2026, 11, 21, 3, 57, 6, 985_000, UTC)
COMPLETED = datetime(2026, 11, 21, 3, 57, 10, 605_000, UTC)


@pytest.mark.parametrize(
    ("names", "action", "state"),
    [
        ([f"{AT}.commit.requested"], "commit", "REQUESTED"),
        ([f"{AT}.commit.requested", f"{AT}.inflight"], "commit", "INFLIGHT"),
        (
            [f"{AT}.commit.requested", f"{AT}.inflight", f"{AT}_{END}.commit"],
            "commit",
            "COMPLETED",
        ),
        ([f"{AT}.deltacommit.requested"], "deltacommit", "REQUESTED"),
        (
            [f"{AT}.deltacommit.inflight", f"{AT}.deltacommit.requested"],
            "deltacommit",
            "INFLIGHT",
        ),
        (
            [f"{AT}.deltacommit.inflight", f"{AT}_{END}.deltacommit"],
            "deltacommit",
            "COMPLETED",
        ),
        # A compaction or a clustering that is completed is a commit of its own kind.
        ([f"{AT}.compaction.inflight", f"{AT}.compaction.requested"], "compaction", "INFLIGHT"),
        ([f"{AT}.compaction.inflight", f"{AT}_{END}.commit"], "commit", "COMPLETED"),
        ([f"{AT}.clustering.inflight", f"{AT}_{END}.replacecommit"], "replacecommit", "COMPLETED"),
        ([f"{AT}.rollback.requested", f"{AT}.rollback.inflight"], "rollback", "INFLIGHT"),
        ([f"{AT}.rollback.inflight", f"{AT}_{END}.rollback"], "rollback", "COMPLETED"),
        ([f"{AT}.clean.requested", f"{AT}.clean.inflight"], "clean", "INFLIGHT"),
        ([f"{AT}.clean.inflight", f"{AT}_{END}.clean"], "clean", "COMPLETED"),
        ([f"{AT}.savepoint.inflight", f"{AT}_{END}.savepoint"], "savepoint", "COMPLETED"),
    ],
)
def test_the_files_of_one_instant(names: list[str], action: str, state: str) -> None:
    when = COMPLETED if state == "COMPLETED" else None
    for order in (names, names[::-1]):
        (instant,) = parse_instants(order)
        assert (instant.action, instant.state) == (action, state)
        assert (instant.requested, instant.completed) == (REQUESTED, when)


def test_a_savepoint_and_the_commit_it_keeps_are_two_instants() -> None:
    names = [
        f"{AT}.deltacommit.inflight",
        f"{AT}.deltacommit.requested",
        f"{AT}.savepoint.inflight",
        f"{AT}_{END}.deltacommit",
        "20261121035706985_20261121035723181.savepoint",
    ]
    for order in (names, names[::-1]):
        parsed = parse_instants(order)
        assert [(instant.action, instant.state) for instant in parsed] == [
            ("deltacommit", "COMPLETED"),
            ("savepoint", "COMPLETED"),
        ]


def test_oldest_first_whatever_the_listing() -> None:
    names = ["20261121035712296_20261121035713712.commit", f"{AT}_{END}.deltacommit"]
    assert [parse_instant.action for parse_instant in parse_instants(names)] == [
        "deltacommit",
        "commit",
    ]
    assert [parse_instant.action for parse_instant in parse_instants(names[::-1])] == [
        "deltacommit",
        "commit",
    ]


@pytest.mark.parametrize(
    "name",
    [
        f".{AT}.commit.requested.crc",
        "history/manifest_1",
        "_version_",
        f"{AT}.commit.requested.tmp",
        f"{AT}",
        "2026112103570698.commit",
        "00000000000000000_20261121035708776.deltacommit",  # only the metadata table has it
        "",
    ],
)
def test_other_files_are_no_instants(name: str) -> None:
    assert parse_instants([name]) == []


GROUP = "9a5173f7-f356-49bb-91cf-ff7d5f8b9a21-0"


@pytest.mark.parametrize(
    ("path", "file"),
    [
        (
            f"sensor_id=10/{GROUP}_1-21-25_{AT}.parquet",
            DataFile("sensor_id=10", GROUP, AT, True),
        ),
        (f"{GROUP}_1-21-25_{AT}.parquet", DataFile("", GROUP, AT, True)),
        (
            f"day=2026-01-01/sensor_id=10/{GROUP}_0-188-256_{AT}.parquet",
            DataFile("day=2026-01-01/sensor_id=10", GROUP, AT, True),
        ),
        (
            f"sensor_id=10/.{GROUP}_{AT}.log.1_1-45-58",
            DataFile("sensor_id=10", GROUP, AT, False),
        ),
        (
            f"sensor_id=10/.{GROUP}_{AT}.log.12_0-80-105",
            DataFile("sensor_id=10", GROUP, AT, False),
        ),
    ],
)
def test_a_data_file(path: str, file: DataFile) -> None:
    assert parse_file(path) == file


@pytest.mark.parametrize(
    "path",
    [
        f"sensor_id=10/.{GROUP}_1-21-25_{AT}.parquet.crc",
        f"sensor_id=10/..{GROUP}_{AT}.log.1_1-45-58.crc",
        "sensor_id=10/.hoodie_partition_metadata",
        ".hoodie/hoodie.properties",
        f".hoodie/metadata/files/.files-0000-0_{AT}.log.1_0-27-32",
        ".hoodie/timeline/history/00000001_00000002_0.parquet",
        f".hoodie/metadata/files/files-0000-0_0-5-4_{AT}.parquet",
        "notes.parquet",
    ],
)
def test_other_files_are_no_data_files(path: str) -> None:
    assert parse_file(path) is None


ID, OTHER = "0b6c9d5e-8f7a-4c3b-9d2e-1f0a5b4c3d2e", "ffffffff-8f7a-4c3b-9d2e-1f0a5b4c3d2e"
FIRST, SECOND, LATER = "20260102030405006", "20260102030405999", "20260102030411000"


@pytest.mark.parametrize("ids", [(ID, OTHER), (OTHER, ID)])
def test_a_tree_is_the_same_whatever_the_ids_and_the_time(ids: tuple[str, str]) -> None:
    changed, unchanged = ids
    paths = [
        f"day=2/.{changed}-0_{LATER}.log.1_0-31-40",
        f"day=2/{unchanged}-0_1-14-22_{FIRST}.parquet",
        f"day=2/{changed}-0_0-14-21_{FIRST}.parquet",
        f"day=2/.{changed}-0_0-14-21_{FIRST}.parquet.crc",
        "day=10/.hoodie_partition_metadata",
        f".hoodie/timeline/{FIRST}_{SECOND}.commit",
        ".hoodie/hoodie.properties",
    ]
    assert tree_of(paths).splitlines() == [
        ".hoodie/",
        "  hoodie.properties",
        "  timeline/",
        "    t1_t2.commit",
        "day=2/",
        "  .A_t3.log.1_w",
        "  A_w_t1.parquet",
        "  B_w_t1.parquet",
        "day=10/",
        "  .hoodie_partition_metadata",
    ]


def test_more_than_26_file_groups_have_two_letters() -> None:
    ids = (f"{number:08x}-8f7a-4c3b-9d2e-1f0a5b4c3d2e-0" for number in range(28))
    names = tree_of(f"{id}_0-1-{n}_{FIRST}.parquet" for n, id in enumerate(ids)).splitlines()
    assert sorted(names, key=len)[-2:] == ["AA_w_t1.parquet", "AB_w_t1.parquet"]


def test_a_folder_without_files_is_an_empty_tree() -> None:
    assert tree_of([]) == ""
