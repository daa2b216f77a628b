"""Instants and data files from the names that Hudi 1.2 really wrote (table version 9)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from cases import read_cases

from hudi_inspect.names import DataFile, parse_file
from hudilab_lessons.timeline import parse_instants, tree_of

CASES = read_cases(__file__)
AT = "20261121035706985"
END = "20261121035710605"
REQUESTED = datetime(2026, 11, 21, 3, 57, 6, 985_000, UTC)
COMPLETED = datetime(2026, 11, 21, 3, 57, 10, 605_000, UTC)


@pytest.mark.parametrize(("names", "action", "state"), CASES["instants"])
def test_the_files_of_one_instant(names: list[str], action: str, state: str) -> None:
    """A compaction or a clustering that is completed is a commit of its own kind."""
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


@pytest.mark.parametrize("name", CASES["no instants"])
def test_other_files_are_no_instants(name: str) -> None:
    assert parse_instants([name]) == []


@pytest.mark.parametrize(("path", "file"), CASES["data files"])
def test_a_data_file(path: str, file: list[Any]) -> None:
    assert parse_file(path) == DataFile(*file)


@pytest.mark.parametrize("path", CASES["no data files"])
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
        f".hoodie/metadata/files/.files-0000-0_{FIRST}0.log.1_0-0-0",
        ".hoodie/metadata/.hoodie/hoodie.properties",
    ]
    assert tree_of(paths).splitlines() == [
        ".hoodie/",
        "  hoodie.properties",
        "  metadata/ (the metadata table)",
        "  timeline/",
        "    t1_t2.commit",
        "day=2/",
        "  .A_t3.log.1_w",
        "  A_w_t1.parquet",
        "  B_w_t1.parquet",
        "day=10/",
        "  .hoodie_partition_metadata",
    ]
    only_day = [".A_t3.log.1_w", "A_w_t1.parquet", "B_w_t1.parquet"]
    assert tree_of(paths, "day=2").splitlines() == only_day


def test_more_than_26_file_groups_have_two_letters() -> None:
    ids = (f"{number:08x}-8f7a-4c3b-9d2e-1f0a5b4c3d2e-0" for number in range(28))
    names = tree_of(f"{id}_0-1-{n}_{FIRST}.parquet" for n, id in enumerate(ids)).splitlines()
    assert sorted(names, key=len)[-2:] == ["AA_w_t1.parquet", "AB_w_t1.parquet"]
