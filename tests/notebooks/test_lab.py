"""`make lab`: JupyterLab's own settings, with copies of the lessons; kernels, and how they end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import psutil
import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from kernels import running_lab
from lab import FIRST, OPENED

ROOT = Path(__file__).resolve().parents[2]
# What a user has for another project: another folder and other kernels.
CONFIG = """
c.FileContentsManager.root_dir = c.ServerApp.root_dir = c.ServerApp.preferred_dir = "/"
c.KernelSpecManager.allowed_kernelspecs = {"ir"}
c.MultiKernelManager.default_kernel_name = "ir"
"""
SPEC = {"argv": ["/opt/other/bin/python"], "display_name": "Other", "language": "python"}
LOOK = """
import os, sys
import matplotlib.pyplot as plt
print(os.getpid(), sys.executable, plt.get_backend(), sys.flags.optimize)
"""
START = """
from hudilab_lessons import start
lab = start("90_spark_under_the_hood")
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What a user has in the shell and in the home."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "jupyter_server_config.py").write_text(CONFIG)
    for name in ("python3", "ir"):
        spec = tmp_path / "jupyter" / "kernels" / name / "kernel.json"
        spec.parent.mkdir(parents=True)
        spec.write_text(json.dumps(SPEC))
    return os.environ | {
        "HUDILAB_HOME": str(tmp_path),
        "HUDILAB_CONF": "",
        "RUNTIME_ENV": "",
        "IS_LOCAL": "",
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTER_PATH": str(tmp_path / "jupyter"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "MPLBACKEND": "Agg",
        "PYTHONOPTIMIZE": "1",
    }


def test_jupyterlab_opens_the_copies_and_at_first_lesson_00(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    run = partial(
        subprocess.run, env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    command = [sys.executable, str(ROOT / "tools" / "lab.py"), "--no-browser", "--allow-root"]
    command += ["--show-config"]
    done = run(command, cwd=tmp_path)
    copies = tmp_path / "notebooks"
    lessons = len(list((ROOT / "notebooks").glob("[0-9]*.ipynb")))
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("lab: "))
    assert line == f"lab: {lessons} lessons copied to {copies}"
    roots = [line for line in done.stdout.splitlines() if line.startswith("  .root_dir")]
    assert roots == [f"  .root_dir = '{copies}'"] * 2
    first = f"  .default_url = '/lab/tree/{FIRST}'\n"
    assert first in done.stdout
    assert (copies / FIRST).is_file()
    # A start that failed, or that opened no notebook, does not count.
    assert first in run(command, cwd=tmp_path).stdout
    (copies / OPENED).mkdir()
    assert "  .default_url = '/lab'\n" in run(command, cwd=tmp_path).stdout
    where = "from hudilab.settings import load_settings as s; print(s().conf_dir)"
    printed_path = run([sys.executable, "-c", where], cwd=copies)
    assert printed_path.stdout == f"{ROOT}/conf\n"


class JupyterLab:
    """A running JupyterLab, by its REST API."""

    def __init__(self, folder: Path, address: str, token: str) -> None:
        self.folder, self.address, self.token = folder, address, token

    def ask(self, what: str, method: str = "GET", **content: object) -> Any:
        request = Request(f"{self.address}/{what}", method=method)
        request.add_header("Authorization", f"token {self.token}")
        request.data = json.dumps(content).encode() if content else None
        with urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def open(self, notebook: str) -> tuple[str, BlockingKernelClient]:
        """Open a notebook as a browser does; return its kernel's name and a client of it."""
        checkpoints = f"api/contents/{notebook}/checkpoints"
        if not self.ask(checkpoints):
            self.ask(checkpoints, "POST")
        kernel = {"name": "python3"}
        session = {"path": notebook, "name": notebook, "type": "notebook", "kernel": kernel}
        name = self.ask("api/sessions", "POST", **session)["kernel"]["id"]
        file = self.folder / "runtime" / f"kernel-{name}.json"
        client = BlockingKernelClient(connection_file=str(file))
        client.load_connection_file()
        client.start_channels()
        client.wait_for_ready(timeout=120)
        return name, client


@pytest.fixture
def jupyterlab(tmp_path: Path, environment: dict[str, str]) -> Iterator[JupyterLab]:
    with running_lab(tmp_path, environment) as (address, token):
        yield JupyterLab(tmp_path, address, token)


def output(client: BlockingKernelClient, source: str) -> str:
    """What a cell prints, and its error."""
    texts: list[str] = []

    def take(message: dict[str, Any]) -> None:
        texts.append(message["content"].get("text", ""))
        texts.extend(message["content"].get("traceback", ()))

    client.execute_interactive(source, timeout=300, output_hook=take)
    return "".join(texts)


@pytest.mark.deep
def test_a_kernel_is_this_pythons_own_and_takes_its_jvm_along(jupyterlab: JupyterLab) -> None:
    kernels = jupyterlab.ask("api/kernelspecs")
    assert (kernels["default"], [*kernels["kernelspecs"]]) == ("python3", ["python3"])
    assert FIRST in [file["name"] for file in jupyterlab.ask("api/contents")["content"]]
    for how in ("shutdown", "kill -9"):
        name, client = jupyterlab.open(FIRST)
        pid, *looked = output(client, LOOK).split()
        assert (looked[0], looked[2]) == (sys.executable, "0")
        assert (jupyterlab.folder / "notebooks" / OPENED).is_dir()
        assert "inline" in looked[1]
        assert "Spark 3.5" in output(client, START)
        (jvm,) = psutil.Process(int(pid)).children()
        assert "java" in jvm.name()
        client.stop_channels()
        if how == "shutdown":
            jupyterlab.ask(f"api/kernels/{name}", "DELETE")
        else:
            os.kill(int(pid), signal.SIGKILL)
        psutil.wait_procs([jvm], timeout=30)
        assert not jvm.is_running(), f"the JVM outlives a {how}"


@pytest.mark.deep
def test_a_start_up_file_that_opens_spark_is_named(jupyterlab: JupyterLab) -> None:
    startup = jupyterlab.folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    opens = "from pyspark.sql import SparkSession; SparkSession.builder.getOrCreate()"
    (startup / "00.py").write_text(opens)
    (startup / "01.py").write_text("other = 1")
    _, client = jupyterlab.open(FIRST)
    printed = output(client, START)
    client.stop_channels()
    assert "SessionError: a Spark session is already running with " in printed
    assert printed.rstrip().endswith(
        f"take Spark out of {startup / '00.py'}, and restart the kernel"
    )
