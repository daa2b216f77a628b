"""Folders of another account, or without rights: named before anything is written to them."""

from __future__ import annotations

import os
import pwd
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hudi_sink.access import denied

NOBODY = 65534  # of whom nothing is


@pytest.fixture
def table() -> Iterator[Path]:
    """Outside of pytest's folders, which are private."""
    with tempfile.TemporaryDirectory() as home:
        table = Path(home, "t")
        (table / ".hoodie" / "timeline").mkdir(parents=True)
        for folder in (Path(home), *Path(home).rglob("*")):
            folder.chmod(0o755)
        yield table
        (table / ".hoodie").chmod(0o755)


def ask(table: Path, *, write: bool) -> str:
    refusal = denied(f"file://{table}", ".hoodie", ".hoodie/timeline", "p=1", write=write)
    return "; ".join(refusal or ())


def as_nobody(ask: Callable[[], str]) -> str:
    """What the function returns to another account; only root can become that."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another account")
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            os.write(write, ask().encode())
        finally:
            os._exit(0)
    os.close(write)
    with open(read) as answer:  # noqa: PTH123 - a pipe
        answer_text = answer.read()
    os.waitpid(child, 0)
    return answer_text


def test_a_table_of_ones_own_or_none(table: Path) -> None:
    assert ask(table, write=True) == ask(table, write=False) == ""
    assert ask(table / "not there", write=True) == ""
    assert denied("s3a://bucket/table", write=True) is None


def test_a_table_of_another_account(table: Path) -> None:
    nobody = pwd.getpwuid(NOBODY).pw_name
    if any(not folder.stat().st_mode & 0o001 for folder in table.parents):
        pytest.skip(f"the folder of temporary files, {table.parents[1]}, is private")
    remedy = f"run this as root, or have root grant {nobody} access"
    assert as_nobody(lambda: ask(table, write=False)) == ""
    for folder in (table, table / ".hoodie", table / ".hoodie" / "timeline"):
        assert as_nobody(lambda: ask(table, write=True)) == (
            f"{folder} belongs to root, and {nobody} may not write to it; {remedy}"
        )
        folder.chmod(0o777)
    assert as_nobody(lambda: ask(table, write=True)) == ""
    (table / "p=1").mkdir(mode=0o755)  # as of a batch that somebody ran with sudo
    assert f"{table}/p=1 belongs to root" in as_nobody(lambda: ask(table, write=True))
    table.parent.chmod(0o700)
    for write in (True, False):
        assert f"{table.parent} belongs to root" in as_nobody(lambda: ask(table, write=write))  # noqa: B023


def test_a_folder_of_ones_own_without_rights(table: Path) -> None:
    (table / ".hoodie").chmod(0o555)

    def ask_owner(*, write: bool) -> str:
        if os.geteuid() != 0:
            return ask(table, write=write)
        os.chown(table / ".hoodie", NOBODY, NOBODY)  # root itself may do everything
        os.chown(table, NOBODY, NOBODY)
        return as_nobody(lambda: ask(table, write=write))

    assert ask_owner(write=False) == ""
    assert ask_owner(write=True) == (
        f"{table}/.hoodie has mode 0555; run: chmod u+rwx {table}/.hoodie"
    )
