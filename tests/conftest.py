"""Tests run as in an activated environment: the shell finds `hudilab`, and remedies name it so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest
from kills import lines

os.environ["PATH"] = os.pathsep.join((str(Path(sys.prefix, "bin")), os.environ.get("PATH", "")))
# A busy machine is no fault of what is tested.
hypothesis.settings.register_profile("lab", deadline=None)
hypothesis.settings.load_profile("lab")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failing-runs", type=int, default=5, help="how often a notebook must fail")
    parser.addoption("--types-to", type=Path, help="write the page of types to this file")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if table := lines():
        terminalreporter.section("killed with SIGKILL")
        terminalreporter.write("\n".join(table) + "\n")
