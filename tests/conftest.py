"""Tests run as in an activated environment: the shell finds `hudilab`, and remedies name it so.

Every error of the lab that a test provokes in its own process is one line and says what to do.
`--errors-to FILE` records them, for the book.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from errorindex import Errors
from kills import lines

os.environ["PATH"] = os.pathsep.join((str(Path(sys.prefix, "bin")), os.environ.get("PATH", "")))
ERRORS = Errors()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--errors-to", type=Path, help="record the errors that the tests provoke")
    parser.addoption("--failing-runs", type=int, default=5, help="how often a notebook must fail")
    parser.addoption("--types-to", type=Path, help="write the page of types to this file")


@pytest.fixture(autouse=True)
def noted(request: pytest.FixtureRequest) -> Iterator[None]:
    file, *_, name = request.node.nodeid.partition("[")[0].split("::")
    yield from ERRORS.during(file, name.removeprefix("test_"))
    assert ERRORS.unclear() == [], "write each error as one line: what failed; what to do"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if record := session.config.getoption("--errors-to"):
        ERRORS.save(record)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if table := lines():
        terminalreporter.section("killed with SIGKILL")
        terminalreporter.write("\n".join(table) + "\n")
