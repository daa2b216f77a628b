"""A new process goes on with a table that another one wrote, whatever is due at that commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

APPEND = Path(__file__).parents[1] / "programs" / "append.py"


def append(home: Path, commits: int) -> int:
    done = subprocess.run(
        [sys.executable, str(APPEND), str(home / "table"), str(commits)],
        env=os.environ | {"HUDILAB_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stdout)


@pytest.mark.deep
def test_the_tenth_commit_in_a_new_process(tmp_path: Path) -> None:
    # The metadata table is compacted at its tenth commit: here that is a new JVM's first work.
    assert append(tmp_path, 9) == 9
    assert append(tmp_path, 1) == 10
    compactions = list((tmp_path / "table/.hoodie/metadata/.hoodie/timeline").glob("*_*.commit"))
    assert len(compactions) == 1, "no compaction was due: the test misses its moment"
