"""JupyterLab as `make lab` opens it, and what a running server says of its kernels."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import nbformat
from playwright.sync_api import Page

from hudilab_cli.servers.process import free_port
from hudilab_spark.waiting import wait_for

LAB = Path(__file__).resolve().parents[1] / "tools" / "lab.py"


@contextmanager
def running_lab(folder: Path, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Start JupyterLab, whose log is in the folder; give its address and token."""
    port, token = free_port(), secrets.token_hex(8)
    command = [sys.executable, str(LAB), "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", f"--IdentityProvider.token={token}"]
    with (folder / "jupyter.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: api(address, token, "status") is not None, 120, "JupyterLab")
        yield address, token
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)


def api(address: str, token: str, what: str) -> object:
    try:
        with urlopen(f"{address}/api/{what}?token={token}", timeout=5) as answer:
            return json.load(answer)
    except URLError:
        return None


def kernels_of(address: str, token: str, name: str) -> list[dict[str, object]]:
    """The kernels of a notebook; earlier tests may have left those of others."""
    sessions = api(address, token, "sessions")
    assert isinstance(sessions, list)
    return [session["kernel"] for session in sessions if session["path"] == name]


def connected(address: str, token: str, name: str) -> bool:
    """Whether a page is connected to a notebook's idle kernel; before, what it runs is ignored."""
    kernels = kernels_of(address, token, name)
    return any(kernel["execution_state"] == "idle" and kernel["connections"] for kernel in kernels)


def run_all(page: Page, notebook: Path) -> None:
    """Run All on a page with a notebook, until each cell has run, or one has failed."""
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    def finished() -> bool:
        page.keyboard.press("Control+s")
        try:
            cells = nbformat.read(notebook, as_version=4).cells
        except nbformat.reader.NotJSONError:
            return False  # JupyterLab is writing it
        code = [cell for cell in cells if cell.cell_type == "code"]
        failed = any(out.output_type == "error" for cell in code for out in cell.outputs)
        return failed or all(cell.execution_count for cell in code)

    wait_for(finished, 240, f"{notebook.name} to run")
