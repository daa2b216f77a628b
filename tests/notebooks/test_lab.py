"""`make lab`: JupyterLab's own settings, with copies of the lessons."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from lab import FIRST

ROOT = Path(__file__).resolve().parents[2]


def test_jupyterlab_opens_the_copies_and_at_first_lesson_00(tmp_path: Path) -> None:
    env = os.environ | {"HUDILAB_HOME": str(tmp_path), "HUDILAB_CONF": "", "RUNTIME_ENV": ""}
    env["JUPYTER_CONFIG_DIR"] = str(tmp_path / "config")
    run = partial(subprocess.run, env=env, capture_output=True, text=True, timeout=60, check=True)
    command = [sys.executable, str(ROOT / "tools" / "lab.py"), "--show-config"]
    done = run(command, cwd=tmp_path)
    copies = tmp_path / "notebooks"
    assert done.stdout.count(": copied\n") == len(list((ROOT / "notebooks").glob("[0-9]*.ipynb")))
    assert f"  .root_dir = '{copies}'\n" in done.stdout
    first = f"  .default_url = '/lab/tree/{FIRST}'\n"
    assert first in done.stdout
    assert (copies / FIRST).is_file()
    again = run(command, cwd=tmp_path)
    assert "  .default_url = '/lab'\n" in again.stdout
    where = "from hudilab.runtime.settings import load_settings as s; print(s().conf_dir)"
    found = run([sys.executable, "-c", where], cwd=copies)
    assert found.stdout == f"{ROOT}/conf\n"
