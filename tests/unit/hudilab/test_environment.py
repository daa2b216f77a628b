"""What a process of the lab takes over from the shell: the lists, the notice, and PYTHONPATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cases import read_cases
from refusals import assert_refusal

from hudilab.errors import PathError
from hudilab.python_path import shadows
from hudilab_spark.environment import (
    dropped,
    file_names,
    for_java,
    ignored,
    take_over,
    take_over_home,
)

CASES = read_cases(__file__)

FOREIGN = CASES["foreign"]
OURS = CASES["ours"]


def test_what_is_foreign_is_left_out_and_the_rest_stays(capsys: pytest.CaptureFixture[str]) -> None:
    env = FOREIGN | OURS
    assert dropped(env) == sorted(FOREIGN)
    assert for_java(env) == OURS | file_names()
    take_over("LOCAL", env)
    assert env == OURS
    take_over("LOCAL", env)
    line, *more = capsys.readouterr().err.splitlines()
    assert not more
    assert line.startswith(f"hudilab: ignored {', '.join(sorted(FOREIGN))} of this shell")
    assert line.endswith(
        "; unset them, or set what you need in the folder that HUDILAB_CONF names (Spark) and in "
        "HUDILAB_JAVA_OPTIONS (Java)"
    )
    assert "org.x" not in line  # a value may be a secret


def test_a_home_that_cannot_be_written_is_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    lab = tmp_path / "lab"
    for env, account in (
        ({"HOME": str(tmp_path / "none")}, "/"),
        ({"HOME": str(tmp_path / "file")}, "/"),
        ({"HOME": ""}, "/"),
        ({"HOME": "relative"}, "/"),
        ({}, ""),  # an account without a name
        ({}, "/nonexistent"),
    ):
        given = env.get("HOME", account)
        take_over_home(lab, env, account)
        assert env == {"HOME": f"{lab}/account"}
        assert lab.stat().st_mode & 0o777 == 0o700
        assert capsys.readouterr().err == (
            f"hudilab: HOME={given!r} is not a writable folder, so programs keep their own files "
            f"in {lab}/account; set HOME to a folder of your own\n"
        )
    for env, account in (({"HOME": str(tmp_path)}, "/"), ({}, str(tmp_path))):
        before = dict(env)
        take_over_home(lab, env, account)
        assert env == before
    with pytest.raises(PathError) as caught:
        take_over_home(tmp_path / "file", {"HOME": ""})
    remedy = "set HOME or HUDILAB_HOME to a folder of your own"
    assert_refusal(str(caught.value), "HOME=''", str(tmp_path / "file"), remedy=remedy)
    assert capsys.readouterr().err == ""


def test_a_cluster_says_which_python_its_machines_have() -> None:
    env = {"PYSPARK_PYTHON": "/usr/bin/python3.11", "SPARK_PUBLIC_DNS": "host"}
    assert dropped(env | FOREIGN, "DOCKER") == sorted({*FOREIGN} - {"PYSPARK_PYTHON"})
    assert dropped(env, "LOCAL") == ["PYSPARK_PYTHON", "SPARK_PUBLIC_DNS"]


def test_the_settings_of_a_platform_stay() -> None:
    assert dropped(FOREIGN, "AWS") == []
    assert dropped(FOREIGN | {"PYSPARK_GATEWAY_PORT": "1"}) == []
    # Not those for a server of the lab's, which such a program starts.
    assert (
        for_java(FOREIGN | {"PYSPARK_GATEWAY_PORT": "1"})
        == {"PYSPARK_GATEWAY_PORT": "1"} | file_names()
    )


def test_no_notice_of_what_changes_nothing() -> None:
    """The lab's image sets these; a program that a session starts inherits the session's."""
    same = {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": ""}
    assert ignored(same) is None
    assert dropped(same) == ["PYSPARK_PYTHON", "SPARK_CONF_DIR"]
    assert ignored(FOREIGN | {"HUDILAB_JAVA": "Java 17 from PATH"}) is None


def test_a_folder_hides_modules_that_python_would_import(tmp_path: Path) -> None:
    folders = {name: tmp_path / name for name in ("pandas", "spark", "own", "plain")}
    for folder in folders.values():
        folder.mkdir()
    (folders["pandas"] / "pandas.py").touch()
    (folders["spark"] / "pyspark").mkdir()
    (folders["spark"] / "pyspark" / "__init__.py").touch()
    (folders["own"] / "helpers.py").touch()
    (folders["plain"] / "pyspark").mkdir()  # without __init__.py, it gives way to the installed one
    given = os.pathsep.join(map(str, [*folders.values(), tmp_path / "none"]))
    assert dict(shadows(given)) == {
        str(folders["pandas"]): str(folders["pandas"] / "pandas.py"),
        str(folders["spark"]): str(folders["spark"] / "pyspark" / "__init__.py"),
    }


@pytest.mark.parametrize("name", ["typer.py", "pyspark.py", "tomllib.py", "helpers.py"])
def test_the_command_runs_with_its_own_modules(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("raise RuntimeError('not the lab\\'s')")
    kept = tmp_path / "kept"
    kept.mkdir()
    env = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{kept}"}
    code = "import os, sys; from hudilab_cli import cli; print(os.environ['PYTHONPATH'])"
    done = subprocess.run(
        [sys.executable, "-c", code + "; print(sys.path)"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    path, lines = done.stdout.splitlines()
    if name == "helpers.py":
        assert (path, done.stderr) == (env["PYTHONPATH"], "")
    else:
        assert path == str(kept)
        assert f"'{tmp_path}'" not in lines
        assert f"({tmp_path / name})" in done.stderr
        assert done.stderr.endswith("; take them out of PYTHONPATH\n")


def test_a_module_that_was_imported_before_is_named(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").touch()
    done = subprocess.run(
        [sys.executable, "-c", "import pandas; from hudilab_lessons import start"],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"hudilab.errors.ConfigError: {tmp_path / 'pandas.py'} was imported in place of the lab's "
        "own module, because PYTHONPATH names its folder; unset PYTHONPATH and start again"
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere Java's file names are Unicode")
@pytest.mark.parametrize(("encoding", "set_"), [("ANSI_X3.4-1968", "C.UTF-8"), ("UTF-8", None)])
def test_java_can_read_any_file_name(
    monkeypatch: pytest.MonkeyPatch, encoding: str, set_: str | None
) -> None:
    monkeypatch.setattr("locale.getencoding", lambda: encoding)
    assert for_java({"LC_ALL": "C"}).get("LC_ALL") == (set_ or "C")
