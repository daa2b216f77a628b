"""Which right answers are recorded: those in a front end with a person, by Jupyter's protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

from hudilab_lessons.progress import FILE, read

# A session without Spark, which takes seconds to start.
SESSION = """
from types import SimpleNamespace
from pyspark.sql import SparkSession

context = SimpleNamespace(appName="04_update")
SparkSession.getActiveSession = lambda: SimpleNamespace(sparkContext=context)
"""
CELLS = (
    SESSION,
    "from hudilab_lessons import Exercise\n\nanswer = 7",
    "of_batch = Exercise(7, 'count them', name='rows')\nof_batch.check(answer)",
    "shown = Exercise(8, 'count them', name='shown')\nassert shown.accepts(8)",
)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "HUDILAB_WAREHOUSE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path))
    return tmp_path / FILE


@pytest.mark.parametrize("allow_stdin", [True, False])
def test_a_front_end_says_whether_a_person_can_be_asked(file: Path, allow_stdin: bool) -> None:
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for cell in CELLS:
            reply = client.execute_interactive(cell, allow_stdin=allow_stdin, timeout=60)
            assert reply["content"]["status"] == "ok", reply["content"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert read(file) == ({"update": ["rows"]} if allow_stdin else {})


def test_a_headless_run_records_nothing(file: Path) -> None:
    nb = new_notebook(cells=[new_code_cell(cell) for cell in CELLS])
    NotebookClient(nb, kernel_name="python3", timeout=60).execute()
    assert [output["data"]["text/plain"] for output in nb.cells[2].outputs] == ["✓ right"]
    assert not file.exists()
