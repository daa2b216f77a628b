"""A person's right answers are recorded in one small file; no fault of it ends a lesson."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession
from refusals import refused

from hudilab.errors import PathError
from hudilab_lessons import lesson
from hudilab_lessons.progress import FILE, read, record


def person(monkeypatch: pytest.MonkeyPatch, allow_stdin: bool, app: str = "04_update") -> None:
    """Let cells run as a front end, or a headless run, sends them."""
    parent = {"content": {"allow_stdin": allow_stdin}}
    kernel = SimpleNamespace(get_parent=lambda channel: parent)
    monkeypatch.setattr(lesson, "get_ipython", lambda: SimpleNamespace(kernel=kernel))
    context = SimpleNamespace(appName=app)
    session = SimpleNamespace(sparkContext=context) if app else None
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: session)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path / "home"))
    person(monkeypatch, allow_stdin=True)
    return tmp_path / "home" / FILE


def test_right_answers_are_kept_by_lesson_each_once(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [record(name) for name in ("winner", "late", "winner")] == ["", "", ""]
    person(monkeypatch, allow_stdin=True, app="12_update")  # the lesson has a new number
    record("delete")
    person(monkeypatch, allow_stdin=True, app="05_inspect")
    record("winner")
    assert read(file) == {"update": ["delete", "late", "winner"], "inspect": ["winner"]}
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_headless_run_and_a_plain_python_record_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person(monkeypatch, allow_stdin=False)
    assert record("winner") == ""
    monkeypatch.setattr(lesson, "get_ipython", lambda: None)
    assert record("winner") == ""
    assert not file.parent.exists()


DAMAGED = ["", "{", "[]", "7", '{"update": 1}', '{"update": "winner"}', '{"update": [1]}']


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_is_renamed_with_a_message(file: Path, text: str) -> None:
    file.parent.mkdir()
    for number in (1, 2):
        file.write_text(text)
        with refused(PathError, str(file), "is damaged", remedy="hudilab progress --reset"):
            read(file)
        damaged = file.with_name(f"progress.damaged-{number}.json")
        assert record("winner") == (
            f"{file} was damaged: it is now {damaged.name}, and your progress begins again"
        )
        assert damaged.read_text() == text
        assert read(file) == {"update": ["winner"]}


def test_a_file_that_cannot_be_read_is_no_damage(file: Path) -> None:
    file.mkdir(parents=True)
    with refused(PathError, str(file), "cannot be read", remedy="hudilab progress --reset"):
        read(file)


def test_no_fault_ends_the_lesson(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.write_text("a file, not a folder")
    notice = record("winner")
    assert notice.startswith("this answer was not recorded: HUDILAB_HOME=")
    assert "set it to a directory" in notice
    file.parent.unlink()
    file.parent.mkdir()
    (file.parent / "locks").write_text("a file, not a folder")
    assert record("winner") == (
        f"this answer was not recorded: cannot write {file.parent / 'locks'} (File exists)"
    )
    (file.parent / "locks").unlink()
    person(monkeypatch, allow_stdin=True, app="")
    assert record("winner") == (
        "this answer was not recorded: no Spark session is open; run the lesson from its first cell"
    )
