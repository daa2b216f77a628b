"""The set-up: its locks, what it does and doesn't do again, which Python, and its refusals."""

from __future__ import annotations

import ast
import errno
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bootstrap
import pytest
import yaml
from cases import read_cases
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from refusals import assert_refusal

from hudilab_cli.bundle import NEEDS
from hudilab_cli.doctor import supported
from hudilab_spark.java import fits

ROOT = Path(__file__).resolve().parents[3]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT, GROUPS = PYPROJECT["project"], PYPROJECT["dependency-groups"]
EXTRAS = PROJECT["optional-dependencies"]
SELF, *LAB = EXTRAS["lab"]
PARTS = Requirement(SELF).extras
ASKED = [*PROJECT["dependencies"], *LAB, *(text for part in PARTS for text in EXTRAS[part])]
RUNTIME = (ROOT / "requirements.lock").read_text()
DEV = (ROOT / "requirements-dev.lock").read_text()
DATABASE = (ROOT / "requirements-database.lock").read_text()
HERE = list(sys.version_info[:2])


def pins(lock: str) -> dict[str, str]:
    """Package -> version; each block is a pin with its hashes, and nothing else."""
    versions: dict[str, str] = {}
    for block in re.split(r"\n(?=\S)", lock.rstrip("\n")):
        assert re.fullmatch(r"\S+==\S+( ; .+)?( \\\n +--hash=sha256:[0-9a-f]{64})+", block), block
        name, _, version = block.split()[0].partition("==")
        versions[canonicalize_name(name)] = version
    return versions


LOCKS = {
    RUNTIME: ASKED,
    DEV: [*ASKED, *GROUPS["dev"], *GROUPS["book"]],
    DATABASE: EXTRAS["database"],
}


def test_a_lock_pins_every_direct_dependency_with_hashes() -> None:
    for lock, wanted in LOCKS.items():
        for requirement in map(Requirement, wanted):
            assert Version(pins(lock)[canonicalize_name(requirement.name)]) in requirement.specifier
        assert pins(lock).items() <= pins(DEV).items()
    # What builds the packages is locked, too, and the set-up installs the lock in parts.
    blocks = bootstrap.requirement_blocks(RUNTIME, bootstrap.BUILD_TOOLS)
    assert sorted(pins(blocks)) == ["packaging", "setuptools", "wheel"]
    parts = bootstrap.shares(RUNTIME)
    assert list(pins(parts[0])) == ["pyspark"]
    assert sorted("".join(parts).splitlines()) == sorted(RUNTIME.splitlines())


def test_a_job_needs_no_more_than_the_bundle_has() -> None:
    """The bundle brings no pyspark, which is the platform's."""
    for_jobs = [*PROJECT["dependencies"], *EXTRAS["jobs"], *EXTRAS["kafka"], *EXTRAS["s3"]]
    assert {Requirement(text).name for text in for_jobs} == set(NEEDS)
    assert {*PARTS, "lab", "database"} == set(EXTRAS)
    # The tools of the tests are no extra of the package.
    assert set(GROUPS) == {"dev", "book"}
    assert PYPROJECT["tool"]["uv"]["default-groups"] == []


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
        assert pins(Path(run[-1]).read_text("utf-8"))
    assert runs[-1] == ["--no-deps", "--no-build-isolation", "-e", str(checkout)]


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


@pytest.mark.parametrize(
    ("change", "dev", "wanted"),
    [
        (lambda _: None, False, []),
        (lambda _: None, True, ["dev"]),
        (lambda root: stamp(root, dev=True), False, []),  # dev has more
        (append("requirements.lock", "# changed\n"), False, ["runtime"]),
        (without("bin/hudilab"), False, ["create", "runtime"]),
        (without("hudilab-setup.json"), False, ["create", "runtime"]),
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
    stamp(checkout, dev=False, python=[3, 11 if HERE[1] > 11 else 12])
    assert steps(checkout, False, monkeypatch, find=True) == []
    assert steps(checkout, False, monkeypatch) == ["create", "runtime"]


# --- which Python


def test_the_supported_versions_are_everywhere_the_same() -> None:
    wanted = SpecifierSet(PROJECT["requires-python"])
    assert tuple(f"3.{n}" for n in range(30) if f"3.{n}.0" in wanted) == bootstrap.SUPPORTED
    classified = [text for text in PROJECT["classifiers"] if text.startswith("Programming")]
    named = [text.rpartition(" ")[2] for text in classified]
    assert named == list(bootstrap.SUPPORTED)
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    assert workflow["jobs"]["check"]["strategy"]["matrix"]["python"] == named
    assert supported()["Python"] == f"{named[0]} to {named[-1]}"


def program(path: Path, line: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
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


def taken_over(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Pythons that took over: instead of ending this process, an exec ends the attempt."""
    done: list[str] = []

    def execv(path: str, arguments: list[str]) -> None:
        assert arguments == [path, *sys.argv]
        done.append(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "execv", execv)
    return done


@pytest.mark.parametrize("case", read_cases(__file__), ids=json.dumps)
def test_another_python_is_refused_or_starts_one_that_fits(
    machine: Path, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    """`programs` are the lines of this machine's; 3.11 False can't make an environment."""
    other = program(machine / "a place" / "python3", f"echo {case['running']} True")
    monkeypatch.setenv("PATH", f"{other.parent}{os.pathsep}{machine / 'bin'}")
    for name, line in case["programs"].items():
        program(machine / name, line)
    taken = str(machine / case["taken"])
    remedy = case["remedy"].format(taken=taken, bin=machine / "bin")
    with pytest.raises(bootstrap.SetupError) as caught:
        bootstrap.check_python(False, str(other))
    named = f"{other} is Python {case['running']}, but the lab needs Python 3.11, 3.12 or 3.13"
    assert_refusal(str(caught.value), named, remedy=remedy)
    done = taken_over(monkeypatch)
    with pytest.raises(KeyboardInterrupt if case["taken"] else bootstrap.SetupError):
        bootstrap.check_python(True, str(other))
    assert done == ([taken] if case["taken"] else [])


def test_the_python_that_is_asked_for_takes_over(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = program(machine / "bin" / "python3.12", "echo 3.12 True")
    done: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda path, arguments: done.append(arguments))
    monkeypatch.setattr(sys, "argv", ["tools/bootstrap.py", "--python", "python3.12", "--dev"])
    bootstrap.use("python3.12")
    assert done == [[str(fits), "tools/bootstrap.py", "--dev"]]
    with pytest.raises(bootstrap.SetupError) as caught:
        bootstrap.use("python3.11")
    tip = f"there is 3.12 ({fits}), so use: make run PYTHON=python3.12"
    assert str(caught.value) == f"PYTHON=python3.11 is not there; {tip}"


def test_an_old_python_can_read_the_file() -> None:
    text = (ROOT / "tools" / "bootstrap.py").read_text()
    ast.parse(text, feature_version=(3, 6))
    assert "__future__" not in text


# --- what a machine refuses


def test_a_python_without_venv_is_refused(
    checkout: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "find_spec", lambda name: name == "venv" or None)
    number = ".".join(map(str, HERE))
    problem = (
        f"{sys.executable} has no modules venv and ensurepip, which Debian and Ubuntu package "
        f"apart; install them, such as with: apt install python{number}-venv"
    )
    without("bin/hudilab")(checkout)
    with pytest.raises(bootstrap.SetupError) as caught:
        bootstrap.Setup(checkout, checkout / "log", False).run()
    assert str(caught.value) == problem
    fits = program(machine / "bin" / "python3.13", "echo 3.13 True")
    done = taken_over(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        bootstrap.Setup(checkout, checkout / "log", False, find=True).run()
    assert done == [str(fits)]


# --- HOME


@pytest.mark.parametrize("home", [None, "", "/nonexistent", "relative"])
def test_the_set_up_needs_no_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None
) -> None:
    """Packages are built with a home in .venv; pip would report a fault of the network."""
    if home is None:
        monkeypatch.delenv("HOME")
        monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # an account without a name
    else:
        monkeypatch.setenv("HOME", home)
    assert bootstrap.environment(tmp_path)["HOME"] == str(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    assert bootstrap.environment(tmp_path)["HOME"] == str(tmp_path.parent)


# --- what pip may take from the user


def test_pip_takes_sources_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = """[global]
index-url = https://mirror.example/simple
cert = /global.pem
target = /tmp/x
[install]
cert = /install.pem
user = true
"""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    (tmp_path / "pip.conf").write_text(conf)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_DEFAULT_TIMEOUT", "33")
    setup = bootstrap.Setup(tmp_path, tmp_path / "log", False)
    setup.python = sys.executable
    assert "PIP_DEFAULT_TIMEOUT" not in setup.env
    chosen = setup.sources()
    wanted = {
        "PIP_INDEX_URL": "https://mirror.example/simple",
        "PIP_CERT": "/install.pem",
        "PIP_DEFAULT_TIMEOUT": "33",
    }
    # A pip.conf of the whole machine may add to it.
    assert {name: chosen.get(name) for name in wanted} == wanted
    assert not {"PIP_USER", "PIP_TARGET"} & chosen.keys()
    (tmp_path / "pip.conf").write_text("index-url = x\n")
    with pytest.raises(bootstrap.SetupError, match="; correct or remove that file, then run: make"):
        setup.sources()


def test_a_home_that_cannot_be_written_is_named_with_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HUDILAB_HOME", "/closed/home")
    for folder, remedy in (
        ("/closed", "set HUDILAB_HOME to a folder of your own"),
        (f"{ROOT}/.venv", "make that folder writable, or clone the repository into another one"),
    ):
        line = bootstrap.in_words(PermissionError(errno.EACCES, "Permission denied", folder))
        assert line == f"cannot write {folder} (Permission denied); {remedy}, then run: make setup"


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


@pytest.mark.network
@pytest.mark.deep
def test_a_fresh_clone_runs_in_a_path_that_people_have(tmp_path: Path) -> None:
    folder = tmp_path / "o'brien j\u00fcrgen" / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    shutil.copytree(ROOT / "jars" / "core", folder / "jars" / "core", copy_function=os.link)
    env = os.environ | {"HUDILAB_HOME": "", "MAKELEVEL": "", "MAKEFLAGS": "", "VIRTUAL_ENV": ""}
    done = subprocess.run(
        ["make", "--no-print-directory", "run"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.splitlines()[-1].startswith("hudilab: rows=5000 commits=5 partitions=11 ")
