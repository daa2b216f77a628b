"""A server as a process that outlives its starter: one for a folder, found again, stopped by id."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from hudilab.errors import ServiceError

__all__ = [
    "JVM",
    "Launched",
    "check_disk",
    "choose_port",
    "find",
    "free_port",
    "in_use",
    "launch",
    "refuse_second",
    "stop",
    "wait_until",
]

HOST = "127.0.0.1"
# Small, and quick to be ready: a lesson's servers run beside Spark on two cores.
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")


class Launched(NamedTuple):
    """A server that was started, its log, and the size that the log had before."""

    process: psutil.Popen
    log: Path
    mark: int


def launch(
    folder: Path, command: Sequence[str], output: Path, env: Mapping[str, str] | None = None
) -> Launched:
    """Start `command` in a session of its own; what it prints goes to the end of `output`.

    The server inherits a lock on `folder`, which is free again when the last process of it is
    gone: two servers on one folder of data would destroy it. Errors: ServiceError when one runs.
    """
    descriptor = _lock(folder)
    try:
        with output.open("ab") as out:
            before = out.tell()
            process = psutil.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=None if env is None else dict(env),
                pass_fds=[descriptor],
                start_new_session=True,
            )
    finally:
        os.close(descriptor)
    # A number alone may belong to another process after a restart of the machine.
    mark = {"pid": process.pid, "created": process.create_time()}
    (folder / "pid").write_text(json.dumps(mark), encoding="utf-8")
    return Launched(process, output, before)


def wait_until(
    ready: Callable[[], bool],
    started: Sequence[Launched],
    *,
    why: Callable[[str, int, Path], str],
    late: str,
    patience: float,
) -> None:
    """Until `ready`; that one of the servers has ended is noticed at once.

    Errors: ServiceError with what `why` makes of its words, exit code and log; `late` after
    `patience` seconds.
    """
    ends = time.monotonic() + patience
    while True:
        for server in started:
            if (code := server.process.poll()) is not None:
                with server.log.open("rb") as written:
                    written.seek(server.mark)
                    text = written.read().decode("utf-8", "replace")
                raise ServiceError(why(text, code, server.log))
        if ready():
            return
        if time.monotonic() > ends:
            raise ServiceError(late)
        time.sleep(0.05)


def refuse_second(folder: Path) -> None:
    """Raise ServiceError when a server runs on this folder, whether `find` knows it or not."""
    os.close(_lock(folder))


def _lock(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        remedy = f"stop it with: hudilab services stop {folder.name}"
        raise ServiceError(f"{folder.name} is running already in {folder}; {remedy}") from None
    return descriptor


def check_disk(folder: Path, what: str, least: int) -> None:
    """Make the folder for `what`; ServiceError when it cannot be, or `least` bytes are not free."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise ServiceError(
            f"cannot use {folder} for {what} ({error.strerror}); set HUDILAB_HOME"
        ) from None
    if free < least:
        raise ServiceError(
            f"only {free / 1e6:.0f} MB are free for {what} in {folder}, "
            f"{least / 1e6:.0f} MB are needed; free space, or set HUDILAB_HOME"
        )


def find(folder: Path) -> psutil.Process | None:
    """The server that runs on this folder, or None."""
    try:
        mark = json.loads((folder / "pid").read_text(encoding="utf-8"))
        process = psutil.Process(mark["pid"])
        same = process.create_time() == mark["created"]
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except (OSError, ValueError, KeyError, TypeError, psutil.NoSuchProcess):
        return None


def stop(folder: Path, patience: float = 20) -> int | None:
    """Ask the folder's server to end, kill it after `patience` seconds; its id, None for none."""
    process = find(folder)
    if process is None:
        return None
    process.terminate()
    try:
        process.wait(patience)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(patience)
    (folder / "pid").unlink(missing_ok=True)
    return process.pid


def free_port() -> int:
    """A port of the loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def choose_port(port: int, *usual: int) -> int:
    """The port that is asked for; for 0 the first free one of `usual`, else any other.

    Errors: ServiceError when the one that is asked for is in use.
    """
    if port and in_use(port):
        raise ServiceError(
            f"port {port} is in use; choose another with --port, or none for a free one"
        )
    return port or next((one for one in usual if one and not in_use(one)), 0) or free_port()


def in_use(port: int) -> bool:
    """Whether somebody listens on this port of the loopback, or may not be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
