"""Start, wait for, find and stop background servers; a home has at most one of each kind.

Servers outlive the command that started them. Their records are `<home>/services/<name>.json`.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import psutil

from hudilab.errors import ServiceError
from hudilab.files import private_folder, properties, read_properties, write_private
from hudilab.settings import Settings
from hudilab_cli.servers import SPECS, Name
from hudilab_spark.environment import for_java
from hudilab_spark.java import complaint, find_java
from hudilab_spark.server_records import (
    read_record,
    record_file,
    running_process,
    seconds_after_boot,
    server_folder,
)

HOST = "127.0.0.1"
START_TIMEOUT = 60.0  # seconds to wait for a server to answer
TURN = 120.0  # seconds to wait for another program that starts the same server
# A small heap and a fast start, because a lesson's servers share two cores with Spark.
JVM = (
    *("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US"),
)


class PortTaken(ServiceError):
    """Another program took the port after it was chosen as free."""


@dataclass(frozen=True)
class Server:
    """A running server.

    Attributes:
        address: The clients' address: host:port, or a URL.
        about: The whole record.
    """

    name: ClassVar[Name]
    address: str
    pid: int
    log: Path
    about: Mapping[str, Any] = field(repr=False)  # may contain a password

    @property
    def folder(self) -> Path:
        """Return the folder with the server's data and settings."""
        return Path(self.about["data"])

    def describe(self) -> str:
        """Return a line with address and log."""
        return f"{self.name} at {self.address}, process {self.pid}, log {self.log}"


S = TypeVar("S", bound=Server)


class Service(NamedTuple, Generic[S]):
    """The functions of a server's module."""

    start: Callable[..., S]
    find: Callable[[Settings], S | None]
    stop: Callable[[Settings], int | None]


class Launch(NamedTuple):
    """A server's command, and the check that it answers."""

    command: Sequence[str]
    address: str
    answers: Callable[[], bool]
    env: Mapping[str, str] | None = None  # by default this process's own
    about: Mapping[str, Any] = {}  # for its record


class Launched(NamedTuple):
    """A started server; `mark` is the size of its log before the start, in bytes."""

    process: psutil.Popen
    log: Path
    mark: int


# --- start, find and stop


def start(
    settings: Settings,
    kind: type[S],
    port: int,
    prepare: Callable[[Path], Launch],
    fits: Callable[[S], bool] = lambda _: True,
) -> S:
    """Return the home's running server of a kind, or start one and wait until it answers.

    `prepare` gets the server's folder. If two programs start a server at the same time, both get
    the same server. A failure leaves no server behind.

    Raises:
        ServiceError: the running server does not fit, or the new one ended as soon as it answered.
    """
    with starting(settings, kind.name) as folder:
        server = find(settings, kind)
        if server is None:
            retry(settings, kind.name, lambda: _begin(settings, kind.name, folder, prepare(folder)))
            server = find(settings, kind)
        elif port not in (0, port_of(server.address)) or not fits(server):
            raise another_runs(server)
    if server is None:
        raise ServiceError(
            f"{kind.name} exited as soon as it answered",
            f"see the log in {folder}, then start it again with: hudilab services start "
            f"{kind.name}",
        )
    return server


def _begin(settings: Settings, name: Name, folder: Path, plan: Launch) -> None:
    server = launch(plan.command, folder / f"{name}.log", plan.env)
    record(settings, name, server, plan.address, **plan.about)
    what = f"{SPECS[name].title} did not answer at {plan.address}"
    wait_until(plan.answers, [server], name=name, what=what)


def another_runs(server: Server) -> ServiceError:
    """Return the error for a start with other options than the running server's."""
    return ServiceError(
        f"{server.describe()} is already running with other settings",
        f"stop it with: hudilab services stop {server.name}",
    )


@contextmanager
def starting(settings: Settings, name: Name) -> Iterator[Path]:
    """Create the server's folder and lock its start; a second program waits for the lock.

    Raises:
        ServiceError: the folder is not writable, or the wait exceeds TURN.
    """
    folder = server_folder(settings.home, name)
    try:
        private_folder(folder).chmod(0o700)
        lock = (folder / "lock").open("ab")
    except OSError as error:
        raise ServiceError(
            f"cannot use {folder} for a server ({error.strerror})",
            "set HUDILAB_HOME to a writable folder",
        ) from None
    with lock:
        ends = time.monotonic() + TURN
        while not _locked(lock.fileno()):
            if time.monotonic() > ends:
                raise ServiceError(
                    f"another program has been starting {name} in {folder} for {TURN:.0f} s",
                    "stop that program, then start again",
                )
            time.sleep(0.05)
        yield folder


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def retry(settings: Settings, name: Name, begin: Callable[[], None]) -> None:
    """Start a server, with two retries if its port is taken; a failure leaves none behind."""
    for last in (False, False, True):
        try:
            begin()
        except BaseException as error:  # also after Ctrl-C, leave no process behind
            stop(settings, name)
            if last or not isinstance(error, PortTaken):
                raise
        else:
            return


def find(settings: Settings, kind: type[S]) -> S | None:
    """Return the home's running server of a kind, or None."""
    about = read_record(settings.home, kind.name)
    if running_process(about) is None:
        return None
    return kind(about["address"], about["pid"], Path(about["log"]), about)


def stop(settings: Settings, name: Name, how: int = signal.SIGTERM) -> int | None:
    """Stop the home's server and keep its data; return its process id, or None if none ran."""
    return end(running_process(read_record(settings.home, name)), how)


def end(process: psutil.Process | None, how: int = signal.SIGTERM) -> int | None:
    """End a process with a signal, or kill it after 20 s; return its id."""
    if process is None:
        return None
    process.send_signal(how)
    try:
        process.wait(20)
    except psutil.TimeoutExpired:
        process.kill()
        process.wait(20)
    return process.pid


# --- helpers of a server's module


def check_disk(settings: Settings, name: Name, folder: Path) -> None:
    """Create the folder for a server's data, and check its free disk space.

    Raises:
        ServiceError: the folder cannot be created, or too little is free.
    """
    spec = SPECS[name]
    try:
        private_folder(folder)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise ServiceError(
            f"cannot use {folder} for {spec.data} ({error.strerror})",
            "set HUDILAB_HOME to a writable folder",
        ) from None
    if free < spec.least_free:
        raise ServiceError(
            f"only {free / 1e6:.0f} MB are free for {spec.data} in {folder}, but "
            f"{spec.least_free / 1e6:.0f} MB are needed",
            "free space, or set HUDILAB_HOME",
        )


def render(settings: Settings, template: str, **values: object) -> dict[str, str]:
    """Return the pairs of a .properties file in conf/services, with its placeholders replaced."""
    text = settings.conf_file(f"services/{template}").read_text("utf-8")
    pairs = read_properties(text).items()
    return {key: Template(value).substitute(values) for key, value in pairs}


def write_settings(file: Path, pairs: Mapping[str, str]) -> None:
    """Write a server's settings, which may contain a secret."""
    write_private(file, properties(pairs))


def copy_settings(settings: Settings, name: str, folder: Path) -> None:
    """Copy a file of conf/services to the server's folder."""
    shutil.copyfile(settings.conf_file(f"services/{name}"), folder / name)


def launch(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Launched:
    """Start `command` in a new session and its log's folder; append its output to the log."""
    with log.open("ab") as out:
        before = out.tell()
        process = psutil.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
            env=for_java() if env is None else dict(env),
            start_new_session=True,
        )
    return Launched(process, log, before)


def record(settings: Settings, name: Name, server: Launched, address: str, **about: Any) -> None:
    """Write the record of a server that was just launched."""
    lines = {"address": address, "log": str(server.log), "data": str(server.log.parent), **about}
    write_record(settings, name, identity(server) | lines)


def write_record(settings: Settings, name: Name, about: Mapping[str, Any]) -> None:
    """Write a record, with mode 0600 because of its password."""
    write_private(record_file(settings.home, name), json.dumps(about, indent=2) + "\n")


def identity(server: Launched) -> dict[str, Any]:
    """Return the fields of a record that identify a process, for `running_process`."""
    return {"pid": server.process.pid, "created": seconds_after_boot(server.process)}


def wait_until(
    ready: Callable[[], bool],
    started: Sequence[Launched],
    *,
    name: Name,
    what: str,
) -> None:
    """Wait until `ready` returns True; fail at once if one of the servers ends.

    Args:
        what: the start of the error if the wait exceeds START_TIMEOUT.

    Raises:
        PortTaken: a server ended because its port was in use.
        ServiceError: a server ended for another reason, or the wait exceeded START_TIMEOUT.
    """
    ends = time.monotonic() + START_TIMEOUT
    while True:
        for server in started:
            if (code := server.process.poll()) is not None:
                with server.log.open("rb") as written:
                    written.seek(server.mark)
                    text = written.read().decode("utf-8", "replace")
                raise why_ended(name, text, code, server.log)
        if ready():
            return
        if time.monotonic() > ends:
            logs = ", ".join(str(server.log) for server in started)
            problem = f"{what} within {START_TIMEOUT:.0f} s"
            raise ServiceError(problem, f"see {logs}, then start again")
        time.sleep(0.05)


def why_ended(name: Name, text: str, code: int, log: Path) -> ServiceError:
    """Return the error for a server that has ended, from its output, exit code and log."""
    spec = SPECS[name]
    if "No space left on device" in text:
        problem = f"the disk of {log.parent} is full"
        return ServiceError(problem, f"free space, or set HUDILAB_HOME (log: {log})")
    if "Address already in use" in text or "Failed to bind" in text:
        return PortTaken(f"another program took {spec.ports}", f"start again (log: {log})")
    # Spark has several servers, and their logs have their names.
    title = f"Spark's {log.stem}" if "Spark" in spec.ports else spec.title
    return ServiceError(f"{title} exited with code {code}: {complaint(text)}", f"see {log}")


def java_command(jars: Iterable[Path], *flags: str) -> list[str]:
    """Return the command of a small JVM with these jars on its class path."""
    path = os.pathsep.join(map(str, jars))
    return [str(find_java().home / "bin" / "java"), *JVM, *flags, "-cp", path]


# --- ports


def port_of(address: str) -> int:
    """Return the port of host:port or of a URL without a path."""
    return int(address.rpartition(":")[2])


def free_port() -> int:
    """Return a currently free loopback port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def server_port(settings: Settings, name: Name, port: int) -> int:
    """Return `port`, or if it is 0, the server's last port, its usual port or any free port.

    Raises:
        ServiceError: `port` is in use.
    """
    last = port_of(read_record(settings.home, name).get("address", ":0"))
    return choose_port(port, last, SPECS[name].port)


def choose_port(port: int, *usual: int) -> int:
    """Return `port`, or if it is 0, the first free port of `usual` or any free port.

    Raises:
        ServiceError: `port` is in use.
    """
    if port and in_use(port):
        raise ServiceError(
            f"port {port} is in use",
            "choose another with --port, or omit --port to get a free one",
        )
    free = (choice for choice in usual if choice and not in_use(choice))
    return port or next(free, 0) or free_port()


def in_use(port: int) -> bool:
    """Return whether the loopback port is taken or can't be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    # Some systems let a program bind this address while another listens on all addresses.
    with socket.socket() as client:
        client.settimeout(1)
        # The system may choose the same port for the client and connect the socket to itself.
        return client.connect_ex((HOST, port)) == 0 and client.getsockname()[1] != port
