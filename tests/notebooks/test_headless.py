"""`hudilab run` in other people's environments, without Spark: one line when it fails, no more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import ipykernel
import nbformat
import pytest
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager
from nbformat.v4 import new_code_cell, new_notebook
from running import HUDILAB, run_program

from hudilab_cli import kernel

PROJECT = Path(__file__).resolve().parents[2]
BAD = PROJECT / "tests" / "bad"
# What ipykernel's control thread does at the end, slowed down.
SLOW = """
import os, runpy, sys, threading, time
import ipykernel.iostream as io

def schedule(self, event):
    if not self.thread.is_alive():
        return event()
    self._events.append(event)
    pipe = self._event_pipe
    if threading.current_thread().name == "Control":
        time.sleep(0.3)
    try:
        pipe.send(b"")
    except Exception as error:
        print(f"closed too early: {error}", file=open(sys.argv.pop(), "a"))
        raise

io.IOPubThread.schedule = schedule
program, error_file = sys.argv[1:3]
sys.argv[:] = [program, *sys.argv[3:], error_file]
sys.path.insert(0, os.path.dirname(program))
runpy.run_path(program, run_name="__main__")
"""


def run(home: Path, notebook: Path, **env: str) -> subprocess.CompletedProcess[str]:
    home.mkdir(parents=True, exist_ok=True)
    env = {"HUDILAB_HOME": str(home), "RUNTIME_ENV": "", "IS_LOCAL": ""} | env
    return run_program(HUDILAB, "run", notebook, env=env, cwd=home)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("hudilab: ")
    return line


def notebook(folder: Path, *sources: str) -> Path:
    first = new_code_cell("rows = 1", metadata={"tags": ["parameters"]})
    cells = [new_code_cell(source, metadata={"tags": ["result"]}) for source in sources]
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=[first, *cells]), folder / "nb.ipynb")
    return folder / "nb.ipynb"


@pytest.mark.parametrize("program", ["ours", "ipykernel's"])
def test_the_kernel_answers_a_shutdown_before_it_closes_its_channels(
    tmp_path: Path, program: str
) -> None:
    theirs = Path(ipykernel.__file__).parent.with_name("ipykernel_launcher.py")
    file = kernel.__file__ if program == "ours" else theirs
    (tmp_path / "slow.py").write_text(SLOW)
    errors = tmp_path / "errors"
    argv = [sys.executable, str(tmp_path / "slow.py"), str(file), str(errors)]
    manager = KernelManager()
    manager._kernel_spec = KernelSpec(argv=[*argv, "-f", "{connection_file}"], language="python")
    with (tmp_path / "log").open("w") as log:
        manager.start_kernel(stdout=log, stderr=log)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=120)
    client.stop_channels()
    manager.shutdown_wait_time = 60
    manager.shutdown_kernel()
    # The other kernel shows that this test can see the fault.
    assert errors.exists() == (program != "ours")


def test_what_a_user_keeps_for_other_kernels_has_no_say(tmp_path: Path) -> None:
    spec = tmp_path / "jupyter" / "kernels" / "python3"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text('{"argv": ["/opt/other/bin/python"], "language": "python"}')
    startup = tmp_path / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "01.py").write_text("spark = 'mine'")
    every = "c.InteractiveShell.ast_node_interactivity = 'all'"
    (startup.parent / "ipython_config.py").write_text(every)
    (tmp_path / "start.py").write_text("spark = 'mine'")
    look = "import sys; print('spark' in globals(), sys.executable); 'shown'; None"
    draw = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"
    home = tmp_path / "{rows} [1] o'brien jürgen"
    done = run(
        home,
        notebook(tmp_path, look, draw),
        JUPYTER_PATH=str(tmp_path / "jupyter"),
        IPYTHONDIR=str(tmp_path / "ipython"),
        PYTHONSTARTUP=str(tmp_path / "start.py"),
        MPLBACKEND="TkAgg",
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == f"False {sys.executable}"
    executed = nbformat.read(home / "executed" / "nb.ipynb", as_version=4)
    looked, drawn = executed.cells[-2:]
    assert len(looked.outputs) == 1
    assert any("image/png" in output.get("data", {}) for output in drawn.outputs)


def test_the_asserts_of_a_lesson_run_in_a_shell_whose_python_skips_them(tmp_path: Path) -> None:
    done = run(tmp_path / "home", notebook(tmp_path, "assert rows == 2"), PYTHONOPTIMIZE="1")
    assert done.returncode == 1
    ignored, failed = done.stderr.splitlines()
    assert ignored.startswith("hudilab: ignored PYTHONOPTIMIZE of this shell")
    assert "failed at 'assert rows == 2': AssertionError" in failed


def test_a_kernel_that_cannot_start_is_one_line_with_its_last_words(tmp_path: Path) -> None:
    # A module that hides an installed one would be left out of PYTHONPATH.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'kernel.py' in ''.join(sys.orig_argv): sys.exit('this is no kernel')\n"
    )
    done = run(tmp_path / "home", notebook(tmp_path), PYTHONPATH=str(tmp_path))
    words = "nb.ipynb: the kernel did not start: SystemExit: this is no kernel; see the log "
    assert words in one_line(done)


def test_a_kernel_that_dies_is_one_line_and_the_notebook_is_kept(tmp_path: Path) -> None:
    killed = "dies.ipynb: the kernel was killed; free memory, or use fewer rows; see the log "
    assert killed in one_line(run(tmp_path, BAD / "dies.ipynb"))
    assert (tmp_path / "executed" / "dies.ipynb").is_file()
