"""The preflight to its end: a real session, and a worker whose Python is another one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hudilab.runtime.doctor import supported

OTHER = """
import sys
from collections import namedtuple

version_info = namedtuple("version_info", "major minor micro releaselevel serial")
sys.version_info = version_info(3, 10, 0, "final", 0)
"""


def doctor(home: Path, **env: str) -> tuple[int, dict[str, dict[str, Any]]]:
    """Exit code and checks by name of `hudilab doctor --json` in a process of its own."""
    unset = {"RUNTIME_ENV": "", "IS_LOCAL": "", "HUDILAB_CONF": "", "PYSPARK_PYTHON": ""}
    clean = {name: value for name, value in os.environ.items() if name not in unset}
    done = subprocess.run(
        [str(Path(sys.executable).with_name("hudilab")), "doctor", "--json"],
        env=clean | {"HUDILAB_HOME": str(home)} | env,
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, {check["name"]: check for check in json.loads(done.stdout)}


@pytest.mark.deep
def test_a_healthy_machine(tmp_path: Path) -> None:
    code, checks = doctor(tmp_path)
    assert code == 0
    assert [name for name, check in checks.items() if check["required"] and not check["ok"]] == []
    pins = supported()
    found = re.fullmatch(r"Spark (.+), Scala (.+)[.]\d+, Hudi (.+)", checks["spark"]["found"])
    assert found
    assert list(found.groups()) == [pins[name] for name in ("Spark", "Scala", "Hudi")]
    python = f"{sys.version_info.major}.{sys.version_info.minor} with hudilab 0.1.0"
    assert checks["worker python"]["found"] == f"{python}; driver {python}"
    assert len(checks) == 11


@pytest.mark.deep
def test_a_worker_with_another_python(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(OTHER)
    wrapper = tmp_path / "python3.10"
    wrapper.write_text(
        f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n'
    )
    wrapper.chmod(0o755)
    code, checks = doctor(tmp_path, PYSPARK_PYTHON=str(wrapper))
    assert code == 1
    assert [name for name, check in checks.items() if check["required"] and not check["ok"]] == [
        "worker python"
    ]
    found = checks["worker python"]["found"]
    assert "[PYTHON_VERSION_MISMATCH] Python in worker has different version (3, 10)" in found
    assert checks["worker python"]["remedy"] == (
        "run driver and workers with the same Python and package: set PYSPARK_PYTHON"
    )
