"""The process of an application: found only as long as it is that one, and gone when ended."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hudilab.files import write_private
from hudilab_spark import cluster
from hudilab_spark.cluster import end_driver, find_driver, note_driver

# A driver that does not listen, with a program below it that does not either.
STUBBORN = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "child"])
print("ready", flush=True)
signal.pause()
"""


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "stubborn.py")],
        env=os.environ | {"HUDILAB_LOG_FILE": "/its.log"},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["ready\n"] * 2
    yield process
    if process.poll() is None:
        os.killpg(process.pid, 9)
    process.stdout.close()
    process.wait()


def test_only_the_process_that_was_noted_is_found(
    driver: subprocess.Popen[str], tmp_path: Path
) -> None:
    note_driver(tmp_path, "app-1", driver.pid, "/its.log")
    note_driver(tmp_path, "app-2", driver.pid, "/another.log")  # its process id was used again
    note_driver(tmp_path, "app-3", 2**22 + 1, "/its.log")  # more than a process id can be
    (tmp_path / "submitted" / "app-4.json").write_text("half")
    process = find_driver(tmp_path, "app-1")
    assert process is not None
    assert process.pid == driver.pid
    assert [find_driver(tmp_path, f"app-{number}") for number in (2, 3, 4, 5)] == [None] * 4


def test_it_and_what_it_started_are_gone(
    driver: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "END", 0.5)
    process = psutil.Process(driver.pid)
    (child,) = process.children()
    end_driver(process)
    # Nobody has asked for its exit code yet: what is left is that, and no program.
    assert process.status() == psutil.STATUS_ZOMBIE
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert driver.wait() == -9


def test_what_is_private_is_private_from_the_start(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        note_driver(tmp_path, "app-1", 1, "")
        (tmp_path / "open").touch(mode=0o666)
        with (tmp_path / "open").open() as watching:  # opened by somebody when it could be
            write_private(tmp_path / "open", "a sécret")
            assert watching.read() == ""
    finally:
        os.umask(before)
    folder = tmp_path / "submitted"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for file in (folder / "app-1.json", tmp_path / "open"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (tmp_path / "open").read_text("utf-8") == "a sécret"
    assert [path.name for path in folder.iterdir()] == ["app-1.json"]
