"""Tests run as in an activated environment: the shell finds `hudilab`, and remedies name it so.

Every error of the lab that a test provokes in its own process has to be in docs/errors.md.
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
    parser.addoption(
        "--write-errors", action="store_true", help="write what the tests provoke to docs/errors.md"
    )


@pytest.fixture(autouse=True)
def listed(request: pytest.FixtureRequest) -> Iterator[None]:
    file, *_, name = request.node.nodeid.partition("[")[0].split("::")
    test = name.removeprefix("test_")
    yield from ERRORS.during(file, test)
    if file.startswith("tests/contract"):
        return  # what contributors meet is not listed
    if not request.config.getoption("--write-errors"):
        unlisted = ERRORS.unlisted(file, test)
        command = f"add them with: .venv/bin/python -m pytest {file} --write-errors"
        assert unlisted == [], f"docs/errors.md lacks these errors; {command}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-errors"):
        ERRORS.write()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if table := lines():
        terminalreporter.section("killed with SIGKILL")
        terminalreporter.write("\n".join(table) + "\n")
