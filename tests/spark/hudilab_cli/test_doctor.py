"""The preflight to its end, with a real session."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from running import HUDILAB, run_program

from hudilab_cli.doctor import supported


@pytest.mark.deep
def test_a_healthy_machine(tmp_path: Path) -> None:
    unset = ("RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF", "PYSPARK_PYTHON")
    env = dict.fromkeys(unset, "") | {"HUDILAB_HOME": str(tmp_path)}
    done = run_program(HUDILAB, "doctor", "--json", env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)}
    assert [name for name, check in checks.items() if check["required"] and not check["ok"]] == []
    pins = supported()
    match = re.fullmatch(r"Spark (.+), Scala (.+)[.]\d+, Hudi (.+)", checks["spark"]["result"])
    assert match
    assert list(match.groups()) == [pins[name] for name in ("Spark", "Scala", "Hudi")]
    python = f"{sys.version_info.major}.{sys.version_info.minor} with hudilab 0.1.0"
    assert checks["worker python"]["result"] == f"{python}; driver {python}"
    assert len(checks) == 14
