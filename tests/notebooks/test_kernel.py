"""A notebook in a kernel that lives on: Run All, the stop button in the stream, Run All again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager
from nbformat import NotebookNode

from hudilab_spark.waiting import wait_for

PROJECT = Path(__file__).resolve().parents[2]
CELLS = nbformat.read(PROJECT / "notebooks" / "16_exactly_once.ipynb", as_version=4).cells
CODE = [cell for cell in CELLS if cell.cell_type == "code"]
PATIENCE = 300
SIZES = {"rows": 40, "batches": 4, "sensors": 1}
# The trigger's next moment is hours away: the cell waits for its second batch until it is
# interrupted, and its query would wait on.
SLOW = """
from hudilab_spark import drain
slow = readings.writeStream.foreachBatch(sink.write_batch)
slow = slow.option("checkpointLocation", location.checkpoint)
drain(slow.trigger(processingTime="86400 seconds").start(), batches=batches, deadline=600)
"""


class Kernel:
    """A kernel and its client; each cell is sent as JupyterLab sends it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager, self.client = manager, client

    def run(self, source: str) -> str:
        """What a cell prints; a cell that fails, fails the test."""
        printed: list[str] = []

        def take(message: dict[str, object]) -> None:
            content = message["content"]
            assert isinstance(content, dict)
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                printed.append(content["text"])

        reply = self.client.execute_interactive(source, timeout=PATIENCE, output_hook=take)
        assert reply["content"]["status"] == "ok", (source, reply["content"])
        return "".join(printed)

    def run_all(self, cells: list[NotebookNode], **parameters: object) -> str:
        """Cells in order, with other values in the parameters cell."""
        changed = "".join(f"\n{name} = {value!r}" for name, value in parameters.items())
        return "".join(
            self.run(cell.source + (changed if "parameters" in tags(cell) else ""))
            for cell in cells
        )


def tags(cell: NotebookNode) -> list[str]:
    return list(cell.metadata.get("tags", []))


def upto(text: str) -> int:
    """The number of the first code cell that has this text."""
    return next(number for number, cell in enumerate(CODE) if text in cell.source)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    manager = KernelManager(kernel_name="python3")
    env = {"HUDILAB_HOME": str(tmp_path), "RUNTIME_ENV": "", "IS_LOCAL": ""}
    manager.start_kernel(env=os.environ | env, cwd=str(tmp_path))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PATIENCE)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_picture_has_an_alternative_text(kernel: Kernel) -> None:
    pictures = []

    def take(message: dict[str, Any]) -> None:
        if message["msg_type"] == "display_data":
            pictures.append(message["content"])

    kernel.run("from hudilab_lessons.plots import describe_pictures\ndescribe_pictures()")
    kernel.client.execute_interactive(
        "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.title('Two')\nplt.show()",
        timeout=PATIENCE,
        output_hook=take,
    )
    [picture] = pictures
    assert len(picture["data"]["image/png"]) > 1000
    assert picture["metadata"] == {"image/png": {"alt": "Chart: Two"}}


def test_a_cell_can_end_in_a_dataframe_or_a_stream(kernel: Kernel) -> None:
    shown = []

    def take(message: dict[str, Any]) -> None:
        assert message["msg_type"] != "error", message["content"]
        if message["msg_type"] == "execute_result":
            shown.append(message["content"]["data"])

    kernel.run("from hudilab_lessons import start\nlab = start('begun', rows=5, sensors=2)")
    for source in ("lab.readings(3)", "lab.stream(5)"):
        kernel.client.execute_interactive(source, timeout=PATIENCE, output_hook=take)
    rows, columns = shown
    assert rows["text/html"].count("<tr>") == 4
    assert rows["text/plain"].count("\n") == 6
    assert columns == {
        "text/plain": "DataFrame[reading_id: bigint, sensor_id: int, temperature: decimal(6,2), "
        "measurement_time: timestamp]"
    }


@pytest.mark.deep
def test_run_all_after_the_stop_button_and_once_more(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run_all(CODE[: upto("range(batches)")], **SIZES)
    kernel.client.execute(SLOW)
    note = tmp_path / "warehouse" / "_checkpoints" / "lessons" / "exactly_once" / "commits" / "0"
    wait_for(note.exists, PATIENCE, "the first batch's commit")
    kernel.manager.interrupt_kernel()
    reply = kernel.client.get_shell_msg(timeout=PATIENCE)
    assert reply["content"]["ename"] == "KeyboardInterrupt"
    assert kernel.run("print(len(spark.streams.active))") == "0\n"

    right = "rows expected 40, in the table 40, lost 0, unexpected 0"
    assert right in kernel.run_all(CODE, **SIZES)
    # Also after the last cell, which keeps the session for a person's exercises.
    assert right in kernel.run_all(CODE[: upto("rows expected") + 1], **SIZES)
