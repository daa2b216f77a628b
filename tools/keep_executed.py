"""A pytest plugin that keeps the notebooks that nbval runs, with all outputs.

`pytest -p tools.keep_executed --executed-to DIR --nbval-lax notebooks/03_*` writes DIR/03_*.ipynb
when each of its cells has passed.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from nbval.plugin import IPyNbCell

ROOT = Path(__file__).resolve().parent.parent
PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--executed-to", type=Path, help="folder for notebooks as nbval ran them")


def pytest_sessionfinish(session: pytest.Session) -> None:
    folder = session.config.getoption("--executed-to")
    if folder is None:
        return
    from executed import save  # tools/ is importable only after pytest has read its settings

    home = os.environ.get("HUDILAB_HOME") or ROOT / ".lab"
    for file, items in groupby(session.items, key=lambda item: item.parent):
        cells = [item for item in items if hasattr(item, "test_outputs")]
        passed = [item for item in cells if item.stash.get(PASSED, False)]
        if cells and len(passed) == sum(cell.cell_type == "code" for cell in file.nb.cells):
            for item in cast("list[IPyNbCell]", cells):
                item.cell.outputs = item.test_outputs
            save(file.nb, folder / file.path.name, Path(home))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    return report
