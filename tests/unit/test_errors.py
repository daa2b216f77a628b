"""The family of errors: what a reader sees of one in a cell is its own line."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from hudilab import errors
from hudilab.operations.runner import NotebookFailed

FAMILY = [getattr(errors, name) for name in errors.__all__]


def test_all_are_the_lab_s() -> None:
    assert len(FAMILY) == 14
    assert all(issubclass(one, errors.LabError) and one.__doc__ for one in FAMILY)
    assert issubclass(NotebookFailed, errors.LabError)
    # No two kinds in one: `except JarError` must not catch a ConfigError.
    assert all(one.__mro__[1] is errors.LabError for one in FAMILY if one is not errors.LabError)


@pytest.mark.parametrize("one", FAMILY)
def test_a_cell_shows_one_line(one: type[errors.LabError]) -> None:
    assert one("a; b")._render_traceback_() == [f"{one.__name__}: a; b"]


def test_ipython_shows_that_line_and_no_stack_trace(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell.instance()
    try:
        shell.run_cell("from hudilab.errors import JarError\nraise JarError('no jar; fetch it')")
        shown = capsys.readouterr()
    finally:
        InteractiveShell.clear_instance()
    assert (shown.out + shown.err).strip() == "JarError: no jar; fetch it"
