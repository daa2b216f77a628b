"""Tests run as in an activated environment: the shell finds `hudilab`, and remedies name it so."""

from __future__ import annotations

import os
import socket
import sys
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import hypothesis
import pytest
from kills import lines

from hudilab_spark.fetch import repository

os.environ["PATH"] = os.pathsep.join((str(Path(sys.prefix, "bin")), os.environ.get("PATH", "")))
# A busy machine is no fault of what is tested.
hypothesis.settings.register_profile("lab", deadline=None)
hypothesis.settings.load_profile("lab")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--types-to", type=Path, help="write the page of types to this file")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if table := lines():
        terminalreporter.section("killed with SIGKILL")
        terminalreporter.write("\n".join(table) + "\n")


@cache
def unreachable() -> str:
    """Why the repository of jars, for any place on the network, can't be reached; "" if it can."""
    address = urlsplit(repository())
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=5).close()
    except OSError as error:
        return str(error)
    return ""


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("network") and (why := unreachable()):
        pytest.skip(f"no network: {why}")
