"""What all servers have in common: one for a folder, found, refused and stopped alike."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import psutil
import pytest

from hudilab.errors import ServiceError
from hudilab.settings import Settings, load_settings
from hudilab_cli import servers as services
from hudilab_cli.servers import folder as server_folder
from hudilab_cli.servers import process
from hudilab_cli.servers.folder import starting
from hudilab_spark.waiting import wait_for

# A blank, an umlaut, an apostrophe and a comma: Java's and SQL's own syntax, and a name.
HOME = "o'brien, jürgen's home"


class Kind(NamedTuple):
    """A server's functions, and the options that make it small."""

    name: str
    start: Callable[..., Any]
    find: Callable[[Settings], Any]
    stop: Callable[[Settings], int | None]
    options: dict[str, Any]


SMALL = {"cluster": {"workers": 1, "cores": 1, "memory": "512m"}}


def kind_of(name: services.Name) -> Kind:
    """Return the kind of a server that is registered; its module has one function start_..."""
    module, functions = import_module(f"{services.__name__}.{name}"), services.service(name)
    (start,) = (
        function
        for text, function in vars(module).items()
        if text.startswith("start_") and function.__module__ == module.__name__
    )
    options: dict[str, Any] = dict(SMALL.get(name, {}))
    return Kind(name, partial(start, **options), functions.find, functions.stop, options)


# All kinds start the same way, so one of them runs every day; the others have their own tests.
DAILY = "s3"
KINDS = [
    pytest.param(kind_of(name), id=name, marks=[] if name == DAILY else pytest.mark.deep)
    for name in services.NAMES
]


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    kind: Kind = request.param
    return kind


@pytest.fixture(scope="module")
def home(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """One home a kind, and in it one server for as many tests as it lives."""
    settings = replace(load_settings(env={}), home=tmp_path_factory.mktemp(kind.name) / HOME)
    yield settings
    kind.stop(settings)


def command(kind: Kind, settings: Settings, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from hudilab_cli.cli import main; main()",
            "services",
            *words,
        ],
        env=os.environ | {"HUDILAB_HOME": str(settings.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def has_open(pid: int, path: str) -> bool:
    return path in [one.path for one in psutil.Process(pid).open_files()]


def test_two_starts_at_once_are_one_server(kind: Kind, home: Settings) -> None:
    home.home.mkdir()
    folder = home.home / "services" / kind.name
    with starting(folder):
        options = [text for key, value in kind.options.items() for text in (f"--{key}", str(value))]
        both = [command(kind, home, "start", kind.name, *options) for _ in range(2)]
        for one in both:
            name = str(folder / "starting")
            wait_for(partial(has_open, one.pid, name), 60, "the second starter")
        assert kind.find(home) is None
    said = [one.communicate(timeout=120) for one in both]
    assert [one.returncode for one in both] == [0, 0], said
    server = kind.find(home)
    assert [out.splitlines()[0] for out, _ in said] == [server.describe()] * 2
    # All that it keeps is below its home, whatever signs that has in its name.
    assert [path.name for path in home.home.parent.iterdir()] == [HOME]


def test_a_second_start_finds_the_first(kind: Kind, home: Settings) -> None:
    server = kind.start(home)
    assert kind.start(home) == server == kind.find(home)
    port = int(server.address.rpartition(":")[2])
    assert kind.start(home, port=port) == server


def test_another_port_than_the_running_one_is_refused(kind: Kind, home: Settings) -> None:
    server = kind.start(home)
    with pytest.raises(ServiceError) as caught:
        kind.start(home, port=process.free_port())
    assert str(caught.value) == (
        f"{server.describe()} is already running with other settings; stop it with: hudilab "
        f"services stop {kind.name}"
    )
    assert kind.find(home) == server


def test_its_folder_is_for_its_user_only(kind: Kind, home: Settings) -> None:
    kind.start(home)
    for folder in (home.home / "services", home.home / "services" / kind.name):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_neither_a_clock_nor_a_file_says_who_runs(
    kind: Kind, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a step of the clock processes seem to have been made at another time."""
    server = kind.start(home)
    (home.home / "services" / kind.name / "pid").write_text('{"pid": 1, "created": 1.0}')
    real = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: real(self) + 3600)
    assert kind.find(home) == server
    shown = command(kind, home, "status", kind.name)
    assert shown.communicate(timeout=60) == (f"{server.describe()}\n", "")
    assert kind.stop(home) == server.pid
    assert not psutil.pid_exists(server.pid)
    assert (kind.find(home), kind.stop(home)) == (None, None)


def test_a_restart_keeps_the_address_and_a_killed_one_is_none(kind: Kind, home: Settings) -> None:
    first = kind.start(home)
    assert kind.stop(home) == first.pid
    again = kind.start(home)
    assert again.address == first.address
    psutil.Process(again.pid).kill()
    wait_for(
        lambda: kind.find(home) is None, 10, "its end"
    )  # dead, and not waited for by its parent
    kind.stop(home)  # a cluster's workers


def test_a_port_in_use_is_named(kind: Kind, home: Settings) -> None:
    kind.stop(home)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ServiceError) as caught:
            kind.start(home, port=port)
    assert str(caught.value) == (
        f"port {port} is in use; choose another with --port, or leave out --port to get a free one"
    )
    assert kind.find(home) is None


@pytest.mark.deep
def test_a_port_that_was_taken_meanwhile_is_left(
    kind: Kind, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free when it was chosen, and somebody else's when the server wants it."""
    kind.stop(home)
    choose = process.choose_port
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        chosen = iter([port])
        monkeypatch.setattr(process, "choose_port", lambda *a: next(chosen, None) or choose(*a))
        server = kind.start(home)
    assert next(chosen, None) is None
    assert server.address.rpartition(":")[2] != str(port)
    assert kind.stop(home) == server.pid


def test_a_server_that_cannot_be_seen_is_not_touched(
    kind: Kind, home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another account's: this program has the lock, and is no server."""
    monkeypatch.setattr(server_folder, "DYING", 0.2)
    kind.stop(home)
    folder = home.home / "services" / kind.name
    files = {file: file.read_bytes() for file in folder.iterdir() if file.is_file()}
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ServiceError) as caught:
            kind.start(home)
    assert str(caught.value) == (
        f"{kind.name} is already running in {folder}, but the process is not yours; stop it as its "
        "owner, or set HUDILAB_HOME to a folder of your own"
    )
    assert {file: file.read_bytes() for file in folder.iterdir() if file.is_file()} == files


def test_a_starter_that_hangs_is_named(kind: Kind, home: Settings) -> None:
    folder = home.home / "services" / kind.name
    with (
        starting(folder),
        pytest.raises(ServiceError) as caught,
        starting(folder, patience=0.1),
    ):
        pass
    assert str(caught.value) == (
        f"another program has been starting {kind.name} in {folder} for 0 s; stop that program, "
        "then start again"
    )


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::"])
def test_who_listens_on_all_addresses_uses_the_port(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    both = ":" in address
    with socket.create_server((address, 0), family=family, dualstack_ipv6=both) as other:
        port = other.getsockname()[1]
        assert process.in_use(port)
    assert not process.in_use(port)
