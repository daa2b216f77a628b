"""kill -9 the driver at random moments of one run: the table still equals the generator."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from kills import Killed, record, rows_once
from running import finish, start_program

WRITER = Path(__file__).parents[1] / "programs" / "writer.py"
ROWS_PER_BATCH = 200


class Run:
    """One streaming run that survives its driver: start, kill and finish it."""

    script, writing, where = WRITER, "append", "disk"
    whole = ROWS_PER_BATCH  # what a reader sees is a multiple of it

    def __init__(self, home: Path, table_type: str, batches: int) -> None:
        self.table_type, self.batches = table_type, batches
        self.rows = batches * ROWS_PER_BATCH
        self.env = {"HUDILAB_HOME": str(home), "RUNTIME_ENV": "", "IS_LOCAL": ""}
        self.look_in(home / "warehouse")

    def look_in(self, warehouse: Path) -> None:
        """Where the warehouse's files are, to see how far the run is."""
        self.checkpoint = warehouse / "_checkpoints" / "lab" / "sensor_readings"
        self.table = warehouse / "lab" / "sensor_readings"
        self.timeline = self.table / ".hoodie" / "timeline"

    def start(self) -> subprocess.Popen[str]:
        sizes = self.table_type, str(self.rows), str(self.batches)
        return start_program(str(self.script), *sizes, env=self.env)

    def batches_done(self) -> int:
        notes = self.checkpoint / "commits"
        return sum(note.name.isdecimal() for note in notes.glob("*")) if notes.exists() else 0

    def commits(self) -> int:
        return len(list(self.timeline.glob("*_*commit"))) if self.timeline.exists() else 0

    def kill_in(self, delay: float) -> dict[str, object]:
        """Start, wait for one more batch, wait `delay` seconds, kill -9 Python and JVM at once."""
        process, before = self.start(), self.batches_done()
        patience = time.monotonic() + 120
        while self.batches_done() == before and process.poll() is None:
            assert time.monotonic() < patience, "no batch in 120 s"
            time.sleep(0.02)
        time.sleep(delay)
        alive = process.poll() is None
        if alive:
            os.killpg(process.pid, signal.SIGKILL)
        _, err = process.communicate()
        assert alive, f"the run ended before its kill: {err[-3000:]}"
        rows = rows_once(self.table)
        assert rows % self.whole == 0, "the second engine reads half a batch"
        return {
            "rows": rows,
            "delay s": round(delay, 2),
            "batches done": self.batches_done(),
            "commits": self.commits(),
            "in flight": len(list(self.timeline.glob("*commit.requested"))) - self.commits(),
        }

    def record(self, kills: int, lost: int, twice: int) -> None:
        writing = f"{self.writing}, {self.table_type}"
        record(Killed("driver", writing, self.where, kills, kills, lost, twice))

    def finish(self, process: subprocess.Popen[str] | None = None) -> dict[str, Any]:
        return dict(json.loads(finish(process or self.start(), 300).splitlines()[-1]))


def survive(run: Run, kills: int, seed: int) -> list[dict[str, object]]:
    moments = random.Random(seed)
    table = [run.kill_in(moments.uniform(0.0, 2.5)) for _ in range(kills)]
    result = run.finish()
    print(f"\n{run.table_type}, {kills} kills, seed {seed}, {run.rows} rows, {run.batches} batches")
    for kill in table:
        print("  ", kill)
    print("  ", result)
    run.record(kills, result["lost"], result["twice"])
    assert result["rows"] == run.rows
    assert result["commits"] == run.batches
    assert result["merges"] >= 1
    return table


# `make test` kills a stream of appends in tests/crash.
@pytest.mark.deep
@pytest.mark.kills
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_ten_kills_lose_nothing_and_repeat_nothing(tmp_path: Path, table_type: str) -> None:
    table = survive(Run(tmp_path, table_type, batches=60), kills=10, seed=10)
    assert any(kill["in flight"] for kill in table), "no kill hit a write: widen the moments"
