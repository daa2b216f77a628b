"""`hudilab inspect` without Spark and Java, and the line that names what a command lacks."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from cases import read_cases
from unit.handmade import HandMade

from hudilab_cli import missing
from hudilab_cli.missing import install_command

CASES = read_cases(__file__)

ROOT = Path(__file__).resolve().parents[2]
A = "aaaaaaaa-0000-0000-0000-000000000000-0"
# What an installation with the extra `inspect` does not have.
HEAVY = (
    *("pyspark", "py4j", "pydantic", "pydantic_core", "tqdm", "pandas", "pyarrow", "numpy"),
    *("pooch", "psutil", "cryptography", "hudi", "matplotlib", "trustme"),
    *("confluent_kafka", "boto3", "botocore", "nbformat", "papermill", "packaging", "duckdb"),
)
# Modules of `hudilab` that the sink imports.
BELOW_THE_SINK = ("errors", "files", "paths", "table")
ALONE = """
import sys
sys.modules |= dict.fromkeys({})  # importing one of these is a ModuleNotFoundError now
from {} import main
main()
"""
LAB, INSPECTOR = "hudilab_cli.cli", "hudi_inspect.cli"
LIGHT = ALONE.format(HEAVY, LAB)


@pytest.fixture
def table(tmp_path: Path) -> HandMade:
    """A table with one commit in its timeline and one in its archive, a Parquet file."""
    table = HandMade(tmp_path / "readings")
    table.archive((0, 5, "commit", {"operationType": "INSERT"}))
    table.commit(10, 15, {A: 7})
    return table


def run(*command: str | Path, cwd: Path = ROOT, fails: bool = False) -> str:
    """The output of a command that finds no Java; of one that fails, what it says of that."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={"PATH": "", "HOME": str(cwd), "HUDILAB_HOME": str(cwd / "home")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def check_inspect(command: Sequence[str | Path], table: HandMade) -> None:
    location = table.root.parent
    report = json.loads(run(*command, "--json", "--archived", table.root, cwd=location))
    assert [instant["archived"] for instant in report["instants"]] == [False, True]
    assert "readings" in run(*command, table.root, cwd=location).splitlines()[0]
    run(*command, "--html", "page.html", table.root, cwd=location)
    assert "readings" in (location / "page.html").read_text("utf-8")


def test_the_inspectors_readme(table: HandMade) -> None:
    """What it shows, but for `pip install`."""
    python = Path(sys.executable)
    shown = (ROOT / "packages" / "hudi_inspect" / "README.md").read_text("utf-8")
    assert "pip install ./packages/hudi_inspect\n" in shown
    shell, code = re.findall(r"```(?:sh|python)\n(.*?)```", shown, re.DOTALL)
    for command in shell.splitlines()[1:]:
        name, *words = command.replace("/data/readings", str(table.root)).split()
        assert run(python.with_name(name), *words, cwd=table.root.parent)
    code = code.replace("/data/readings", str(table.root))
    rows, newest = run(python, "-c", code, cwd=table.root.parent).splitlines()
    assert rows == "7 rows; time travel back to 2026-01-01T00:00:00.000Z"
    assert newest == "20260101000010000 commit COMPLETED 7"


def test_the_inspector_imports_nothing_heavy(table: HandMade) -> None:
    check_inspect([sys.executable, "-c", LIGHT, "inspect"], table)


def test_the_inspectors_own_command_needs_nothing_of_the_lab(table: HandMade) -> None:
    others = (*HEAVY, "hudi", "typer", "click", "rich", "hudilab", "hudi_sink", "hudilab_cli")
    command = [sys.executable, "-c", ALONE.format(others, INSPECTOR)]
    check_inspect(command, table)
    assert run(*command, "none", cwd=table.root.parent, fails=True) == (
        f"hudi-inspect: {table.root.parent}/none does not exist; "
        "give the table's folder: hudi-inspect TABLE\n"
    )


def test_the_sink_imports_nothing_but_pyspark() -> None:
    """In functions, too: those of the sink, and of the modules of `hudilab` that it uses."""
    files = [*(ROOT / "packages" / "hudi_sink").glob("*.py")]
    files += [ROOT / "lib" / "hudilab" / f"{name}.py" for name in BELOW_THE_SINK]
    imported: set[str] = set()
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module))
    own = {name for name in imported if name.startswith("hudilab.")}
    assert own == {f"hudilab.{name}" for name in BELOW_THE_SINK}
    others = {name.partition(".")[0] for name in imported} - sys.stdlib_module_names
    assert others == {"hudi_sink", "hudilab", "py4j", "pyspark"}


def test_a_rewind_sees_a_process_without_psutil() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as runs:
        # It stays a zombie until it is waited for.
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        code = "import sys; sys.modules['psutil'] = None; from hudi_sink.rewind import _is_running"
        shown = run(
            *(sys.executable, "-c", f"{code}; print(*map(_is_running, map(int, sys.argv[1:])))"),
            *map(str, (os.getpid(), runs.pid, ended.pid, 99_999_999)),
        )
    ended.wait()
    assert shown == f"True True {sys.platform != 'linux'} False\n"


def test_help_needs_nothing_heavy() -> None:
    shown = run(sys.executable, "-c", LIGHT, "--help")
    assert all(command in shown for command in ("inspect", "jars", "submit", "tidy"))


@pytest.mark.parametrize(
    ("command", "package"),
    CASES["packages of commands"],
)
def test_a_command_names_the_package_that_it_lacks(command: str, package: str) -> None:
    error = run(sys.executable, "-c", LIGHT, *command.split(), fails=True)
    assert error == (
        f"hudilab: {command.split()[0]} needs {package}, which is not installed; "
        f"install it with: {install_command()}\n"
    )


@pytest.mark.parametrize(
    ("checkout", "stamp", "pip", "command"),
    [
        (True, True, True, "make setup"),
        (True, False, True, "{python} -m pip install 'hudilab[lab]'"),
        (True, False, False, "uv sync --extra lab --project {checkout}"),
        (False, False, True, "{python} -m pip install 'hudilab[lab]'"),
        (False, False, False, "uv pip install --python {python} 'hudilab[lab]'"),
    ],
)
def test_the_command_that_installs_it_fits_the_environment(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    checkout: bool,
    stamp: bool,
    pip: bool,
    command: str,
) -> None:
    for name, wanted in (("pyproject.toml", checkout), ("hudilab-setup.json", stamp)):
        if wanted:
            (tmp_path / name).write_text("")
    monkeypatch.setattr(missing, "find_spec", lambda name: pip or None)
    shown = install_command(tmp_path, tmp_path)
    assert shown == command.format(python=sys.executable, checkout=tmp_path)


@pytest.mark.parametrize(
    ("modules", "options", "needs", "pip"),
    CASES["packages of inspect"],
)
def test_inspect_names_the_package_that_it_lacks_and_what_installs_it(
    table: HandMade, modules: list[str], options: tuple[str, ...], needs: str, pip: str
) -> None:
    older = next(table.timeline.glob("*.commit"))  # so that only the archive says its rows
    older.unlink()
    table.commit(20, 25, {A: 7})
    hudilab: list[str | Path] = [sys.executable, "-c", ALONE.format(modules, LAB)]
    error = run(*hudilab, "inspect", table.root, *options, cwd=table.root.parent, fails=True)
    assert error.count("\n") == 1
    assert error.endswith(
        f" needs {needs}, which is not installed; install it with: pip install {pip}\n"
    )
    assert pip in (ROOT / "pyproject.toml").read_text("utf-8") or " " in pip


def test_inspect_on_s3_names_the_package_that_it_lacks() -> None:
    code = ALONE.format(["boto3", "botocore"], LAB)
    assert run(sys.executable, "-c", code, "inspect", "s3://bucket/table", fails=True) == (
        "hudilab: cannot read s3://bucket/table: Python's client for S3 is missing; install it: "
        "pip install boto3\n"
    )


INSPECTOR_HOME = ROOT / "packages" / "hudi_inspect"
NEEDS = ("arro3", "fastavro", "typing_extensions.py")


def wheel_of_the_inspector(folder: Path) -> Path:
    """Build the package from a copy, because setuptools leaves its own folders there."""
    source, made = folder / "source", folder / "made"
    shutil.copytree(INSPECTOR_HOME, source, ignore=shutil.ignore_patterns("__pycache__"))
    options = ("--no-deps", "--no-build-isolation", "--no-index", "-w", made)
    command: list[str | Path] = [sys.executable, "-m", "pip", "wheel", *options, source]
    subprocess.run(command, capture_output=True, check=True)
    (wheel,) = made.iterdir()
    return wheel


def test_the_inspectors_project_is_that_of_the_lab() -> None:
    alone = tomllib.loads((INSPECTOR_HOME / "pyproject.toml").read_text("utf-8"))["project"]
    lab = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = lab["optional-dependencies"]
    assert alone["version"] == lab["version"]
    assert alone["dependencies"] == extras["inspect"]
    assert alone["optional-dependencies"]["s3"] == extras["s3"]
    assert alone["optional-dependencies"]["count"] == [
        name for name in extras["lab"] if name.startswith("hudi==")
    ]
    assert alone["scripts"].items() <= lab["scripts"].items()


@pytest.mark.deep
def test_the_inspectors_wheel_runs_with_what_it_names(tmp_path: Path) -> None:
    """Python sees neither this checkout nor an installed package, but for what is linked."""
    linked, table = tmp_path / "linked", tmp_path / "table"
    with zipfile.ZipFile(wheel_of_the_inspector(tmp_path)) as wheel:
        wheel.extractall(linked)
    for name in NEEDS:
        (linked / name).symlink_to(Path(sysconfig.get_path("platlib")) / name)
    with tarfile.open(ROOT / "tests/unit/samples/hudi/tables/cow_savepoint.tar.xz") as kept:
        kept.extractall(table)
    code = (
        f"import sys; sys.path.append({str(linked)!r}); from hudi_inspect.cli import main; main()"
    )
    command: list[str | Path] = [sys.executable, "-I", "-S", "-c", code, table]
    report = json.loads(run(*command, "--json", "--archived", cwd=tmp_path))
    answers = Path(f"{ROOT}/tests/unit/samples/hudi/tables/cow_savepoint.json")
    assert report["table"]["rows"] == json.loads(answers.read_text("utf-8"))["rows"]
    assert "COPY_ON_WRITE" in run(*command, cwd=tmp_path).splitlines()[0]
    run(*command, "--html", "page.html", cwd=tmp_path)
    assert "COPY_ON_WRITE" in (tmp_path / "page.html").read_text("utf-8")
    assert {"py.typed", "page.html"} <= {file.name for file in (linked / "hudi_inspect").iterdir()}
