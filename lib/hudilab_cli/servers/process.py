"""Background servers, one per folder: start, wait for and stop them.

All servers share this code. They outlive the command that started them.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import psutil
import typer

from hudilab.environment import for_java
from hudilab.errors import ServiceError
from hudilab.settings import Settings
from hudilab_cli.servers.folder import locked, refuse_second, starting
from hudilab_jobs.server_locks import find
from hudilab_spark.java import complaint, find_java

HOST = "127.0.0.1"
PATIENCE = 60.0  # seconds to wait for a server to answer
# A small heap and a fast start: a lesson's servers share two cores with Spark.
JVM = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"),
)


class PortTaken(ServiceError):
    """Another program took the port after it was chosen as free."""


class Server(Protocol):
    """A running server."""

    @property
    def address(self) -> str:
        """Return what its clients connect to: host:port, or a URL."""

    def describe(self) -> str:
        """Return one line: where it listens and logs."""


S = TypeVar("S", bound=Server)


class Service(NamedTuple):
    """What `hudilab services` can do with a server.

    The parameters of `command` are the options of `hudilab services start NAME`; `stop` returns the
    process id, or None if none was running.
    """

    command: Callable[..., None]
    find: Callable[[Settings], Server | None]
    stop: Callable[[Settings], int | None]


class Launched(NamedTuple):
    """A server that was started.

    `mark` is the size of its log before the start, in bytes.
    """

    process: psutil.Popen
    log: Path
    mark: int


def start(
    folder: Path,
    port: int,
    look: Callable[[], S | None],
    begin: Callable[[], None],
    fits: Callable[[S], bool] = lambda _: True,
) -> S:
    """Return the folder's server: the one that `look` finds, else the one that `begin` starts.

    If two programs start it at the same time, the second gets the first one's server. If `begin`
    fails, no server is left behind and its error is passed on.

    Raises:
        ServiceError: the running server does not fit, or the new one ended as soon as it answered.
    """
    with starting(folder):
        if (there := look()) is None:
            refuse_second(folder)
            retry(folder, begin)
            there = look()
        elif not (has_port(there, port) and fits(there)):
            raise ServiceError(
                f"{there.describe()} is already running with other settings",
                f"stop it with: hudilab services stop {folder.name}",
            )
    if there is None:
        raise ServiceError(
            f"{folder.name} exited as soon as it answered",
            f"see the log in {folder}, then start it "
            f"again with: hudilab services start {folder.name}",
        )
    return there


def retry(folder: Path, begin: Callable[[], None]) -> None:
    """Start a server, retrying up to twice if a port was taken; a failure leaves none behind."""
    for last in (False, False, True):
        try:
            begin()
        except BaseException as error:  # Ctrl-C, too: leave no process behind
            stop(folder)
            if last or not isinstance(error, PortTaken):
                raise
        else:
            return


@contextmanager
def running(
    settings: Settings,
    look: Callable[[Settings], S | None],
    begin: Callable[[Settings], S],
    end: Callable[[Settings], object],
) -> Iterator[S]:
    """Run a server for a `with` block; one that was running before keeps running."""
    before = look(settings)
    try:
        yield begin(settings)
    finally:
        if before is None:
            end(settings)


def launch(
    folder: Path, command: Sequence[str], output: Path, env: Mapping[str, str] | None = None
) -> Launched:
    """Start `command` in a session of its own, appending its output to `output`.

    The server inherits a lock on `folder`, released when its last process ends: two servers would
    destroy the data in one folder.

    Raises:
        ServiceError: a server is already running on this folder.
    """
    with locked(folder) as lock, output.open("ab") as out:
        before = out.tell()
        process = psutil.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=for_java() if env is None else dict(env),
            pass_fds=[lock],
            start_new_session=True,
        )
    return Launched(process, output, before)


def wait_until(
    ready: Callable[[], bool],
    started: Sequence[Launched],
    *,
    why: Callable[[str, int, Path], str],
    what: str,
    patience: float,
) -> None:
    """Wait until `ready` returns True; fail at once if one of the servers ends.

    Args:
        why: makes the error text from an ended server's output, exit code and log.
        what: what has not happened if the wait exceeds `patience` seconds, for the error text.

    Raises:
        PortTaken: a server ended because its port was in use.
        ServiceError: a server ended for another reason, or the wait exceeded `patience` seconds.
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
            logs = ", ".join(str(server.log) for server in started)
            raise ServiceError(f"{what} within {patience:.0f} s", f"see {logs}, then start again")
        time.sleep(0.05)


def why_ended(server: str, port: str, text: str, code: int, log: Path) -> str:
    """Return one line on why a server ended; the remedy, if the disk or its port is the cause."""
    if "No space left on device" in text:
        return f"the disk of {log.parent} is full; free space, or set HUDILAB_HOME (log: {log})"
    if "Address already in use" in text:
        return f"another program took {port}; start again (log: {log})"
    return f"{server} exited with code {code}: {complaint(text)}; see {log}"


def stop(folder: Path) -> int | None:
    """Terminate the folder's server, or kill it after 20 s; return its process id, if it ran."""
    process = find(folder)
    if process is None:
        return None
    process.terminate()
    try:
        process.wait(20)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(20)
    return process.pid


def java_command(jars: Iterable[Path], *flags: str) -> list[str]:
    """Return the command of a small JVM with these jars on its class path."""
    path = os.pathsep.join(map(str, jars))
    return [str(find_java().home / "bin" / "java"), *JVM, *flags, "-cp", path]


def port_option(usual: int) -> Any:
    """Return the option of a command that starts a server; 0 is its default."""
    return typer.Option(min=0, max=65535, help=f"Port; 0 picks {usual} or a free one.")


def port_of(address: str) -> int:
    """Return the port of host:port or of a URL without a path."""
    return int(address.rpartition(":")[2])


def has_port(server: Server, port: int) -> bool:
    """Return whether the server listens on `port`; 0 stands for any port."""
    return port in (0, port_of(server.address))


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def choose_port(port: int, *usual: int) -> int:
    """Return `port`; if it is 0, the first free one of `usual`, else any free port.

    Raises:
        ServiceError: `port` is in use.
    """
    if port and in_use(port):
        raise ServiceError(
            f"port {port} is in use",
            "choose another with --port, or leave out --port to get a free one",
        )
    return port or next((one for one in usual if one and not in_use(one)), 0) or free_port()


def in_use(port: int) -> bool:
    """Return whether the loopback port is taken or may not be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    # If a program listens on all addresses, some systems let another one bind this address.
    with socket.socket() as client:
        client.settimeout(1)
        # The system may pick this very port for the client and connect the socket to itself.
        return client.connect_ex((HOST, port)) == 0 and client.getsockname()[1] != port
