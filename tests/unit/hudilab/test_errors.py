"""The family of errors: what a reader sees of one in a cell is its own line."""

from __future__ import annotations

import logging
import os
import shlex
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from others import bound_by_modes

from hudilab import errors
from hudilab_cli.runner import NotebookFailed

FAMILY = [kind for name, kind in vars(errors).items() if name.endswith("Error")]


def test_all_are_the_lab_s() -> None:
    assert len(FAMILY) == 14
    assert all(issubclass(kind, errors.LabError) and kind.__doc__ for kind in FAMILY)
    assert issubclass(NotebookFailed, errors.LabError)
    # No two kinds in one: `except JarError` must not catch a ConfigError.
    assert all(kind.__mro__[1] is errors.LabError for kind in FAMILY if kind is not errors.LabError)


def test_ipython_shows_that_line_and_no_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell.instance()
    try:
        shell.run_cell("from hudilab.errors import JarError\nraise JarError('no jar; fetch it')")
        shown = capsys.readouterr()
    finally:
        InteractiveShell.clear_instance()
    assert (shown.out + shown.err).strip() == "JarError: no jar; fetch it"


@pytest.mark.parametrize("text", ["x: No space left on device", "[Errno 122] Disk quota exceeded"])
def test_a_disk_is_full(text: str) -> None:
    assert errors.is_full(text)
    assert not errors.is_full(text[:-1])


def test_a_line_of_the_sink_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    errors.show_log()
    errors.show_log()
    logging.getLogger("hudi_sink").info("one line")
    assert capsys.readouterr().err == "hudilab: one line\n"


REMEDY = "start one with: hudilab services start kafka && hudilab apps; see hudilab's log"


def test_a_command_that_the_shell_finds_is_typed_as_it_is() -> None:
    assert str(errors.KafkaError(REMEDY)) == REMEDY


def test_a_command_that_it_does_not_find_has_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No environment needs to be activated for a remedy; the text of a log is left alone."""
    monkeypatch.setenv("PATH", os.defpath)
    monkeypatch.setattr(sys, "prefix", os.path.realpath(sys.prefix))
    monkeypatch.chdir(tmp_path)
    tool = shlex.quote(f"{sys.prefix}/bin/hudilab")
    assert str(errors.KafkaError(REMEDY)) == (
        f"start one with: {tool} services start kafka && {tool} apps; see hudilab's log"
    )
    monkeypatch.chdir(sys.prefix)
    once = str(errors.KafkaError(REMEDY))
    assert once.startswith("start one with: bin/hudilab services start")
    assert str(errors.StreamError(once)) == once  # an error that another error quotes
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # a platform without the command
    assert str(errors.KafkaError(REMEDY)) == REMEDY


def test_a_remedy_is_typed_where_another_account_may_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", f"{tmp_path}/closed/venv")
    monkeypatch.setenv("PATH", "/usr/bin")
    (tmp_path / "closed").mkdir(0o000)
    with bound_by_modes():
        assert str(errors.JarError("no jar; run: hudilab jars")) == "no jar; run: hudilab jars"
