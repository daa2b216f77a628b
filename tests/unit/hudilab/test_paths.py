"""Locations: the spelling, the layout, and what every refusal names."""

from __future__ import annotations

import os
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from cases import read_cases
from others import bound_by_modes
from refusals import refused

from hudilab.errors import PathError
from hudilab.files import close_home
from hudilab.paths import TableLocation, local_path, locate, rewrite_scheme
from hudilab_spark.warehouse import check_writable, make_home

HOME = Path("/home/me/lab")
CASES = read_cases(__file__)


def tree(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize(("uri", "expected"), CASES["one spelling"].items())
def test_one_spelling_for_each_place(uri: str, expected: str) -> None:
    assert rewrite_scheme(uri, HOME) == expected
    assert rewrite_scheme(expected, HOME) == expected


@pytest.mark.parametrize("case", CASES["refused warehouses"], ids=itemgetter("says"))
def test_a_bad_warehouse_is_refused(case: dict[str, Any]) -> None:
    for uri in case["warehouses"]:
        with refused(PathError, f"warehouse.path {case['says']}", remedy=case["remedy"]) as caught:
            rewrite_scheme(uri)
        assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("is_local", [True, False])
def test_a_bad_warehouse_is_refused_whether_local_or_not(is_local: bool) -> None:
    for warehouse, fault in (("hdfs://h/x", "unknown scheme, 'hdfs'"), ("file://h/x", "a host")):
        with pytest.raises(PathError, match=f"path has.* {fault}"):
            locate(warehouse, "lab", "t", is_local=is_local, home=HOME)


def test_a_tilde_is_the_users_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    assert rewrite_scheme("~/lab") == "file:///home/someone/lab"
    assert rewrite_scheme("~lab", HOME) == "file:///home/me/lab/~lab"


def test_layout_local() -> None:
    assert locate("warehouse", "lab", "readings", is_local=True, home=HOME) == TableLocation(
        warehouse="file:///home/me/lab/warehouse",
        table="file:///home/me/lab/warehouse/lab/readings",
        checkpoint="file:///home/me/lab/warehouse/_checkpoints/lab/readings",
        database="lab",
        name="readings",
        notices=(),
    )


def test_layout_on_s3_with_a_run_and_the_rewriting_said_once() -> None:
    location = locate("s3://bucket/w", "lab", "readings", is_local=False, home=HOME, run_id="r-1.a")
    assert location == TableLocation(
        warehouse="s3a://bucket/w",
        table="s3a://bucket/w/run-r-1.a/lab/readings",
        checkpoint="s3a://bucket/w/run-r-1.a/_checkpoints/lab/readings",
        database="lab",
        name="readings",
        notices=("s3:// rewritten to s3a://: s3a://bucket/w",),
    )


def test_only_a_rewriting_is_noticed() -> None:
    rewritten = ("s3n:// rewritten to s3a://: s3a://bucket",)
    for warehouse in ("s3a://bucket", "S3A://bucket", "s3n://bucket"):
        location = locate(warehouse, "lab", "t", is_local=False, home=HOME)
        assert location.notices == (rewritten if warehouse[:3] == "s3n" else ())


def test_local_replaces_an_s3_warehouse_and_says_so() -> None:
    location = locate("s3://bucket/w", "lab", "t", is_local=True, home=HOME)
    assert location.table == "file:///home/me/lab/warehouse/lab/t"
    assert location.notices == (
        "IS_LOCAL is true or unset: warehouse.path is ignored, the warehouse is "
        "file:///home/me/lab/warehouse",
    )


@pytest.mark.parametrize("warehouse", ["warehouse", "/data/w", "file:///data/w"])
def test_a_local_warehouse_is_refused_when_not_local(warehouse: str) -> None:
    with pytest.raises(PathError) as caught:
        locate(warehouse, "lab", "t", is_local=False, home=HOME)
    assert str(caught.value) == (
        "warehouse.path is a local path but IS_LOCAL is false; "
        "set warehouse.path to s3://<bucket>/<prefix>, or IS_LOCAL to true"
    )


@pytest.mark.parametrize("run_id", CASES["good runs"])
def test_run_ids_that_are_good(run_id: str) -> None:
    location = locate("w", "lab", "t", is_local=True, home=HOME, run_id=run_id)
    assert location.table == f"file:///home/me/lab/w/run-{run_id}/lab/t"


@pytest.mark.parametrize("run_id", CASES["refused runs"])
def test_run_ids_that_are_refused(run_id: str) -> None:
    remedy = "'_', '-' and '.', not starting with '.' or '_', and without '..'"
    with refused(PathError, f"parameter run_id={run_id!r}", "1 to 64", remedy=remedy):
        locate("w", "lab", "t", is_local=True, home=HOME, run_id=run_id)


def test_no_table_lies_inside_a_table_of_another_run() -> None:
    names, runs = ("x", "lab", "run", "run_x"), ("", "x", "lab", "run-x", "run_x")
    places = [
        locate("w", database, table, is_local=True, home=HOME, run_id=run)
        for run in runs
        for database in names
        for table in names
    ]
    folders = {uri for location in places for uri in (location.table, location.checkpoint)}
    assert len(folders) == 2 * len(places)
    assert not [
        folder for folder in folders if any(folder.startswith(f"{other}/") for other in folders)
    ]


def test_a_second_stream_has_a_checkpoint_that_no_table_has() -> None:
    location = locate("w", "lab", "t", is_local=True, home=HOME, run_id="r")
    second = location.checkpoint_of("to_topic")
    assert second == "file:///home/me/lab/w/run-r/_checkpoints/lab/t-to_topic"
    folder, _, name = second.rpartition("/")
    assert folder == location.checkpoint.rpartition("/")[0]
    with pytest.raises(PathError, match=r"table\.name="):
        locate("w", "lab", name, is_local=True, home=HOME)


@pytest.mark.parametrize("stream", CASES["refused streams"])
def test_streams_that_cannot_name_a_checkpoint(stream: str) -> None:
    remedy = "; use letters, digits and _, not starting with a digit"
    with refused(PathError, f"stream={stream!r}", remedy=remedy):
        locate("w", "lab", "t", is_local=True, home=HOME).checkpoint_of(stream)


@pytest.mark.parametrize("name", CASES["refused names"])
def test_names_that_are_refused(name: str) -> None:
    remedy = "; use letters, digits and _, not starting with a digit, and not _checkpoints"
    for key, names in {"database.name": (name, "t"), "table.name": ("lab", name)}.items():
        with refused(PathError, f"{key}={name!r}", remedy=remedy):
            locate("w", *names, is_local=True, home=HOME)


@pytest.mark.parametrize("folder", ["plain", "a b", "100%", "a%20b", "#1"])
def test_a_local_uri_names_the_very_directory(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder / "lab" / "t").mkdir(parents=True)
    location = locate(str(tmp_path / folder), "lab", "t", is_local=True, home=HOME)
    path = local_path(location.table)
    assert path is not None
    assert path.is_dir()
    assert local_path("s3a://bucket/lab/t") is None


# --- writable


@pytest.mark.parametrize("mark", ["[", "{", "*", "?", "\\"])
@pytest.mark.parametrize("warehouse", ["warehouse", "s3://bucket/pre"])
def test_a_path_that_spark_takes_for_a_pattern_is_refused(
    tmp_path: Path, warehouse: str, mark: str
) -> None:
    """Two folders `a*` and `ab` would both be read."""
    local = not warehouse.startswith("s3")
    named = warehouse if local else f"{warehouse}{mark}x"
    home = tmp_path / f"a{mark}b" if local else tmp_path
    with refused(PathError, "contains", mark, remedy="a path without * ? [ \\ {"):
        locate(named, "db", "t", is_local=local, home=home)


def test_writable_says_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    check_writable(locate(str(tmp_path / "a b" / "w"), "lab", "t", is_local=True, home=HOME))
    assert tree(tmp_path) == []
    (tmp_path / "w" / "lab" / "t").mkdir(parents=True)
    check_writable(locate(str(tmp_path / "w"), "lab", "t", is_local=True, home=HOME))
    assert tree(tmp_path) == ["w", "w/lab", "w/lab/t"]


def test_s3_is_not_looked_at() -> None:
    check_writable(locate("s3a://bucket", "lab", "t", is_local=False, home=HOME))


NO_PLACE = "; make it writable, or set warehouse.path to a writable directory"


@pytest.mark.parametrize("setting", ["warehouse.path", "HUDILAB_WAREHOUSE"])
def test_a_directory_that_takes_no_files_is_refused(
    setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting.isupper():
        monkeypatch.setenv(setting, "/proc/hudilab/w")
    location = locate("/proc/hudilab/w", "lab", "t", is_local=True, home=HOME)
    remedy = f"; make it writable, or set {setting} to a writable directory"
    with refused(PathError, setting, "/proc (No such file or directory)", remedy=remedy):
        check_writable(location, tmp_path)  # a warehouse elsewhere is not the home's fault
    assert not os.path.lexists("/proc/hudilab")


def test_a_read_only_directory_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    location = locate(str(tmp_path / "w"), "lab", "t", is_local=True, home=HOME)
    denied = f"{tmp_path} (Permission denied)"
    with bound_by_modes():
        with refused(PathError, "warehouse.path", denied, remedy=NO_PLACE):
            check_writable(location)
        with refused(PathError, f"the lab's home {denied}", remedy=f"; {NO_HOME}"):
            make_home(tmp_path)


NO_HOME = "make it writable, or set HUDILAB_HOME to a writable folder"


@pytest.mark.parametrize("part", ["", "a/home"])
def test_a_home_that_cannot_be_written_is_named(tmp_path: Path, part: str) -> None:
    """Whoever needs it: a warehouse in it, or the session's log."""
    (tmp_path / "file").write_text("kept")
    cases = {tmp_path / "file" / part: "File exists", Path("/proc/hudilab"): "No such file or"}
    for home, why in cases.items():
        location = locate("warehouse", "lab", "t", is_local=True, home=home)
        for check in (partial(check_writable, location, home), partial(make_home, home)):
            with pytest.raises(PathError) as caught:
                check()
            text = str(caught.value)
            assert text.startswith(f"cannot write to the lab's home {home} ({why}")
            assert text.endswith(f"); {NO_HOME}")


def test_a_home_is_made_for_its_user_only(tmp_path: Path) -> None:
    make_home(tmp_path / "a" / "home")
    for folder in ("a", "a/home"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700
    for name, mode in {".lab": 0o700, "other": 0o755}.items():
        home = tmp_path / name
        home.mkdir()
        home.chmod(0o755)
        make_home(home)  # a folder of another name may hold other things
        assert home.stat().st_mode & 0o777 == mode
    problem = close_home(tmp_path / "other")
    assert problem
    assert problem.remedy == f"chmod 700 {tmp_path}/other"


@pytest.mark.parametrize("where", ["w", "w/lab", "w/lab/t", "w/_checkpoints", "w/run-r1"])
@pytest.mark.parametrize("link", [False, True])
def test_a_file_in_the_way_is_refused(tmp_path: Path, where: str, link: bool) -> None:
    file = tmp_path / where
    file.parent.mkdir(parents=True, exist_ok=True)
    file.symlink_to("nowhere") if link else file.write_text("kept")
    before = tree(tmp_path)
    run_id = "r1" if where == "w/run-r1" else ""
    location = locate(str(tmp_path / "w"), "lab", "t", is_local=True, home=HOME, run_id=run_id)
    with pytest.raises(PathError) as caught:
        check_writable(location, HOME)
    assert str(caught.value) == (
        f"warehouse.path: {file} exists but is not a directory; move it, or set warehouse.path to "
        "another directory"
    )
    assert tree(tmp_path) == before
