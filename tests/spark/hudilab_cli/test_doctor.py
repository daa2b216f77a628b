"""The preflight to its end: a real session, and a shell that names another Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hudilab_cli.doctor import supported


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
    match = re.fullmatch(r"Spark (.+), Scala (.+)[.]\d+, Hudi (.+)", checks["spark"]["result"])
    assert match
    assert list(match.groups()) == [pins[name] for name in ("Spark", "Scala", "Hudi")]
    python = f"{sys.version_info.major}.{sys.version_info.minor} with hudilab 0.1.0"
    assert checks["worker python"]["result"] == f"{python}; driver {python}"
    assert len(checks) == 14


@pytest.mark.deep
def test_a_shell_with_another_python(tmp_path: Path) -> None:
    """Its workers would have another version; for those of a cluster see the services' tests."""
    code, checks = doctor(tmp_path, PYSPARK_PYTHON="/usr/bin/python2", HUDILAB_JAVA="")
    assert code == 0
    assert checks["worker python"]["ok"]
    assert not checks["environment"]["ok"]
    assert checks["environment"]["result"].startswith("ignored PYSPARK_PYTHON of this shell")
