"""A new process goes on with a table that another one wrote, whatever is due at that commit."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import finish, start_program

APPEND = Path(__file__).parents[1] / "programs" / "append.py"


def append(home: Path, commits: int) -> int:
    where = {"HUDILAB_HOME": str(home)}
    return int(
        finish(start_program(str(APPEND), str(home / "table"), str(commits), env=where), 300)
    )


@pytest.mark.deep
def test_the_tenth_commit_in_a_new_process(tmp_path: Path) -> None:
    # The metadata table is compacted at its tenth commit: here that is a new JVM's first work.
    assert append(tmp_path, 9) == 9
    assert append(tmp_path, 1) == 10
    compactions = list((tmp_path / "table/.hoodie/metadata/.hoodie/timeline").glob("*_*.commit"))
    assert len(compactions) == 1, "no compaction was due: the test misses its moment"
