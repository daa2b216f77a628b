"""A lesson loads what it uses: the first one neither clusters nor S3, Kafka or the inspector."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from code_lines import code_lines
from running import run_program

PROGRAM = """
import sys
from hudilab_lessons import instants, plots, start
lab = start("00_hello_hudi", rows=4320)
lab.location("hello_amounts")
lab.spark.stop()
print({name: module.__file__ for name, module in sys.modules.items() if name.startswith("hud")})
"""


def test_the_first_lesson(tmp_path: Path) -> None:
    done = run_program(sys.executable, "-c", PROGRAM, env={"HUDILAB_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr[-3000:]
    modules = {
        name: Path(file)
        for name, file in ast.literal_eval(done.stdout.splitlines()[-1]).items()
        if name.partition(".")[0] != "hudi"
    }
    lines = {name: code_lines(file) for name, file in modules.items()}
    assert len(lines) <= 26, sorted(lines)
    assert sum(lines.values()) <= 3000, lines
    assert not {"hudilab_jobs", "hudilab_cli"} & {name.partition(".")[0] for name in lines}
