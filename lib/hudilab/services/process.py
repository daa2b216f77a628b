"""A server as a process that outlives its starter: one for a folder, found again, stopped by id.

What all servers share. Each folder has two locks: `lock`, which the server inherits and which
proves who it is, and `starting`, which a starter holds from its look at the folder until the
server answers.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import psutil

from hudilab.errors import ServiceError
from hudilab.locks import LOCK, STARTING, find
from hudilab.private import private_folder

__all__ = [
    "JVM",
    "Launched",
    "PortTaken",
    "check_disk",
    "choose_port",
    "find",
    "free_port",
    "in_use",
    "launch",
    "refuse_second",
    "retry",
    "running",
    "start",
    "starting",
    "stop",
    "wait_until",
]

HOST = "127.0.0.1"
TURN = 120.0  # seconds to wait for another starter: no server takes as long
DYING = 5.0  # seconds that a killed server may have its lock when it is seen no more
# Small, and quick to be ready: a lesson's servers run beside Spark on two cores.
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Duser.timezone=UTC")


class PortTaken(ServiceError):
    """Another program was faster: the port was free when it was chosen."""


class Server(Protocol):
    """A server that answers."""

    def describe(self) -> str:
        """Where it listens and logs: one line."""


S = TypeVar("S", bound=Server)


class Launched(NamedTuple):
    """A server that was started, its log, and the size that the log had before."""

    process: psutil.Popen
    log: Path
    mark: int


def start(
    folder: Path, look: Callable[[], S | None], fits: Callable[[S], bool], begin: Callable[[], None]
) -> S:
    """The server of the folder: the one that `look` finds, else the one that `begin` starts.

    Of two starters at one time the second gets the server of the first.
    Errors: ServiceError when the one that runs does not fit; those of `begin`, which leave none.
    """
    with starting(folder):
        if (there := look()) is None:
            refuse_second(folder)
            retry(folder, begin)
            there = look()
        elif not fits(there):
            raise ServiceError(
                f"{there.describe()} is running and other settings are asked for; "
                f"stop it with: hudilab services stop {folder.name}"
            )
    if there is None:
        raise ServiceError(
            f"{folder.name} has ended as soon as it answered; see the log in {folder}, "
            f"and start it again with: hudilab services start {folder.name}"
        )
    return there


def retry(folder: Path, begin: Callable[[], None]) -> None:
    """Start a server, with other ports once more where they were taken; it leaves none behind."""
    for last in (False, False, True):
        try:
            begin()
        except BaseException as error:
            stop(folder)
            if last or not isinstance(error, PortTaken):
                raise
        else:
            return


@contextmanager
def running(
    look: Callable[[], S | None], begin: Callable[[], S], end: Callable[[], object]
) -> Iterator[S]:
    """A server for the time of a `with` block; one that ran before it runs on after it."""
    before = look()
    try:
        yield begin()
    finally:
        if before is None:
            end()


@contextmanager
def starting(folder: Path, patience: float = TURN) -> Iterator[None]:
    """Make the folder and hold the right to start its server; a second starter waits here.

    Errors: ServiceError when the folder cannot be written, or after `patience` seconds.
    """
    with _opened(folder, STARTING) as turn:
        if not _taken(turn, patience):
            raise ServiceError(
                f"another program has been starting {folder.name} in {folder} for "
                f"{patience:.0f} s; end it, and start again"
            )
        yield


def launch(
    folder: Path, command: Sequence[str], output: Path, env: Mapping[str, str] | None = None
) -> Launched:
    """Start `command` in a session of its own; what it prints goes to the end of `output`.

    The server inherits a lock on `folder`, which is free again when the last process of it is
    gone: two servers on one folder of data would destroy it. Errors: ServiceError when one runs.
    """
    with _locked(folder) as lock, output.open("ab") as out:
        before = out.tell()
        process = psutil.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=None if env is None else dict(env),
            pass_fds=[lock],
            start_new_session=True,
        )
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
                taken = "Address already in use" in text or "Failed to bind" in text
                raise (PortTaken if taken else ServiceError)(why(text, code, server.log))
        if ready():
            return
        if time.monotonic() > ends:
            raise ServiceError(late)
        time.sleep(0.05)


def refuse_second(folder: Path) -> None:
    """Raise ServiceError when a server runs on this folder that `find` cannot see."""
    with _locked(folder):
        pass


@contextmanager
def _locked(folder: Path) -> Iterator[int]:
    """The lock that a server inherits."""
    # Both are open here: who has only the lock is a server.
    with _opened(folder, STARTING), _opened(folder, LOCK) as lock:
        if not _taken(lock, DYING):
            raise ServiceError(
                f"{folder.name} is running already in {folder}, and not as a process of yours; "
                "stop it as its owner, or set HUDILAB_HOME to a folder of your own"
            )
        yield lock


@contextmanager
def _opened(folder: Path, name: str) -> Iterator[int]:
    try:
        private_folder(folder)
        folder.chmod(0o700)
        descriptor = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise ServiceError(
            f"cannot use {folder} for a server ({error.strerror}); set HUDILAB_HOME"
        ) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _taken(descriptor: int, patience: float) -> bool:
    """Whether it could be locked within `patience` seconds."""
    ends = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > ends:
                return False
            time.sleep(0.05)
        else:
            return True


def check_disk(folder: Path, what: str, least: int) -> None:
    """Make the folder for `what`; ServiceError when it cannot be, or `least` bytes are not free."""
    try:
        private_folder(folder)
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
    # Where a program listens on all addresses, some systems allow a second one on this address.
    with socket.socket() as client:
        client.settimeout(1)
        # The system may choose the very port for this end, and connect it to itself.
        return client.connect_ex((HOST, port)) == 0 and client.getsockname()[1] != port
