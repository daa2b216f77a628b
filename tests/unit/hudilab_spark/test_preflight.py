"""What a machine must have: real limits of real processes, and files as Linux writes them."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from cases import read_cases
from refusals import refused

from hudilab.errors import PathError, SessionError
from hudilab.settings import load_settings
from hudilab_spark import preflight
from hudilab_spark.conf import session_settings
from hudilab_spark.preflight import (
    ADDRESSES,
    FILES,
    check_machine,
    has_name,
    heap_that_fits,
    java_flags,
    make_temporary,
    memory_limit,
    problems,
    temporary_folder,
)

CASES = read_cases(__file__)

SHOW = """
import sys
from pathlib import Path
from hudilab_spark.preflight import problems
for problem in problems(Path(sys.argv[1])):
    print(problem)
"""
Limit = tuple[int, int]


def test_this_machine_is_fine(tmp_path: Path) -> None:
    assert list(problems(tmp_path / "missing" / "home")) == []
    assert list(tmp_path.iterdir()) == []
    assert 0 < memory_limit()[0] < 2**40


@pytest.mark.parametrize(
    ("limits", "problem", "remedy"),
    [
        (
            {resource.RLIMIT_NOFILE: (256, 256)},
            f"256 open files, and Spark with Hudi needs {FILES}; raise the hard limit",
            "check with: ulimit -Hn",
        ),
        # Java raises a soft limit by itself.
        ({resource.RLIMIT_NOFILE: (256, 4096)}, "", ""),
        (
            {resource.RLIMIT_AS: (3 * 2**30, 3 * 2**30)},
            f"3072 MB of addresses (ulimit -v), and Java reserves {ADDRESSES} MB",
            "lift the limit: ulimit -v unlimited",
        ),
    ],
)
def test_a_limit_of_the_shell(
    tmp_path: Path, limits: dict[int, Limit], problem: str, remedy: str
) -> None:
    def limit() -> None:
        for kind, values in limits.items():
            resource.setrlimit(kind, values)

    done = subprocess.run(
        [sys.executable, "-c", SHOW, tmp_path],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=True,
    )
    assert problem in done.stdout
    assert done.stdout.strip().endswith(remedy)
    assert len(done.stdout.splitlines()) == bool(problem)


@pytest.mark.parametrize(
    ("line", "file", "text", "limit"),
    CASES["control groups"],
)
def test_limits_of_control_groups(
    tmp_path: Path, line: str, file: str, text: str, limit: int | None
) -> None:
    """In a container, the path is that of the machine, and only the root is there."""
    proc, mounted = tmp_path / "cgroup", tmp_path / "mounted"
    proc.write_text(f"1:name=systemd:/x\n{line}\n")
    (mounted / file).parent.mkdir(parents=True)
    (mounted / file).write_text(text)
    limits = list(preflight._control_groups(proc, mounted))
    assert limits == ([] if limit is None else [(mounted / file, limit)])
    assert list(preflight._control_groups(tmp_path / "none", mounted)) == []


@pytest.mark.parametrize(
    ("limit", "heap"), [(24_000, 2048), (2698, 2048), (1536, 886), (953, 512), (100, 512)]
)
def test_the_heap_leaves_room_for_the_rest(
    monkeypatch: pytest.MonkeyPatch, limit: int, heap: int
) -> None:
    monkeypatch.setattr(preflight, "memory_limit", lambda: (limit, "the machine's memory"))
    assert heap_that_fits(2048) == heap
    assert session_settings(load_settings(env={}), ())["spark.driver.memory"] == (
        "2g" if heap == 2048 else f"{heap}m"
    )


def test_an_account_without_a_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nobody = next(uid for uid in range(60_000, 65_000) if not has_name(uid))
    assert has_name(0)
    monkeypatch.setattr(os, "getuid", lambda: nobody)
    name, home = java_flags(tmp_path)[1:]
    assert (name, home) == (f"-Duser.name=uid{nobody}", f"-Duser.home={tmp_path}")
    settings = load_settings()
    check_machine(settings)
    with refused(SessionError, str(nobody), "/etc/passwd", remedy="or use RUNTIME_ENV=LOCAL"):
        check_machine(replace(settings, runtime="DOCKER"))


def test_temporary_files_are_in_the_home_if_programs_may_run_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert temporary_folder(tmp_path / "new").parent == tmp_path / "new" / "tmp"
    assert temporary_folder(tmp_path / "a,b").parent == Path("/tmp")
    monkeypatch.setattr(preflight, "_executable", lambda _: False)
    assert temporary_folder(tmp_path).parent == Path("/tmp")


def test_the_temporary_files_of_a_jvm_that_was_killed_are_removed(tmp_path: Path) -> None:
    own = temporary_folder(tmp_path)
    host = own.name.removesuffix(str(os.getpid()))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, used = (own.with_name(f"{host}{pid}") for pid in (ended.pid, 99999999))
    another = own.with_name(f"hudilab-elsewhere-{ended.pid}")
    for folder in (left, used, another):
        (folder / "blockmgr-1").mkdir(parents=True)
    jvm = subprocess.Popen([sys.executable, "-c", "input()", str(used)], stdin=subprocess.PIPE)
    try:
        make_temporary(own)
    finally:
        jvm.communicate(b"\n")
    assert sorted(tmp_path.joinpath("tmp").iterdir()) == sorted([own, used, another])
    assert own.stat().st_mode & 0o777 == 0o700
    own.rmdir()
    own.write_text("a file")
    with refused(
        PathError,
        f"{own} for temporary files cannot be created",
        remedy="HUDILAB_HOME to a writable folder",
    ):
        make_temporary(own)


def test_starts_at_the_same_time_remove_the_same_folders(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = temporary_folder(tmp_path)
    host = own.name.removesuffix(str(os.getpid()))
    left = [own.with_name(f"{host}{99999999 + number}") for number in range(8)]
    for folder in left:
        (folder / "blockmgr-1").mkdir(parents=True)

    def another_start_is_faster(_: Path) -> bool:
        for folder in left:
            shutil.rmtree(folder, ignore_errors=True)
        return False

    monkeypatch.setattr(preflight, "_in_use", another_start_is_faster)
    make_temporary(own)
    assert list(own.parent.iterdir()) == [own]


def test_a_name_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """/etc/hosts without localhost, or with another machine's address."""
    unknown = OSError(-2, "Name or service not known")
    for answer in (unknown, ["10.1.2.3"]):
        monkeypatch.setattr(socket, "gethostbyname", Mock(side_effect=answer))
        [problem] = preflight._loopback()
        assert "localhost" in str(problem)
        assert str(problem).endswith("add this line to /etc/hosts: 127.0.0.1 localhost")
