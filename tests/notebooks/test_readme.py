"""Commands of README and manuals: quick ones are run here, all of them in a fresh clone (deep)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import run_program

from hudilab_cli.parameters import defaults, parse
from hudilab_cli.runner import find_notebook

PROJECT = Path(__file__).resolve().parents[2]
README = (PROJECT / "README.md").read_text(encoding="utf-8")
# In this order: the first writes what the others read.
MANUALS = (
    *("parameters", "inspect", "tidy", "rewind", "kafka", "s3", "cluster", "catalog", "database"),
    "setup",
)
OTHERS = ("settings", "exactly-once", "troubleshooting", "silent")
PAGES = {name: (PROJECT / f"docs/{name}.md").read_text("utf-8") for name in MANUALS + OTHERS}


def commands(text: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


COMMANDS = [line for text in (README, *PAGES.values()) for line in commands(text)]
# Of these pages, only what needs no account and no hours.
for page, start in (
    ("docs/deploy.md", "make bundle"),
    ("benchmarks/README.md", "make bench ARGS="),
):
    text = (PROJECT / page).read_text(encoding="utf-8")
    COMMANDS += [line for line in commands(text) if line.startswith(start)]
DATABASE = "installing packages of requirements-database.lock"
QUICK = (".venv/bin/hudilab doctor", ".venv/bin/hudilab jars core")
RUNS = [command for command in COMMANDS if re.search(r"\b(make|hudilab) run\b", command)]


def test_the_readme_starts_with_the_main_commands() -> None:
    assert commands(README) == ["make lab", "make run", "make test"]


def test_the_manuals_have_commands() -> None:
    assert len(COMMANDS) >= 20
    assert set(QUICK) < set(COMMANDS)
    assert len([line for line in COMMANDS if line.startswith(("make bundle", "make bench"))]) == 2


@pytest.mark.parametrize("command", QUICK)
def test_quick_commands_run(command: str, tmp_path: Path) -> None:
    done = shell(command, PROJECT, {"HUDILAB_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]


@pytest.mark.parametrize("command", RUNS)
def test_notebooks_and_parameters_of_the_commands_exist(command: str) -> None:
    words = shlex.split(command.partition("ARGS=")[2].strip('"') or command)
    names = [
        word for word in words if word[:2].isdecimal() and words[words.index(word) - 2] != "-p"
    ]
    notebooks = [find_notebook(name, PROJECT) for name in names or ["02", "03"]]
    known = {name: value for path in notebooks for name, value in defaults(path).items()}
    pairs = [(words[at + 1], words[at + 2]) for at, word in enumerate(words) if word == "-p"]
    assert len(parse(pairs, known, command)) == len(pairs)


@pytest.mark.network
@pytest.mark.deep
def test_every_command_in_a_fresh_clone(tmp_path: Path) -> None:
    """Empty caches, no JAVA_HOME, no java on PATH: Python, make, git and the network are enough."""
    clone, tools = tmp_path / "clone", tmp_path / "bin"
    subprocess.run(["git", "clone", "-q", str(PROJECT), str(clone)], check=True)
    tools.mkdir()
    for folder in reversed(os.environ["PATH"].split(os.pathsep)):
        for tool in Path(folder).glob("*"):
            if not tool.name.startswith(("java", "mvn", "python", "pip", "hudilab")):
                (tools / tool.name).unlink(missing_ok=True)
                (tools / tool.name).symlink_to(tool)
    python = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (tools / python).symlink_to(Path(sys.base_prefix) / "bin" / python)
    assert shutil.which("java", path=str(tools)) is None
    env = {
        "PATH": str(tools),
        "HOME": str(tmp_path / "home"),
        "PIP_CACHE_DIR": str(tmp_path / "pip"),
        "JAVA_HOME": "",
        "VIRTUAL_ENV": "",
        "HUDILAB_HOME": "",
        # Or a make inside `make test-deep` would say which directories it enters and leaves.
        "MAKELEVEL": "",
        "MAKEFLAGS": "",
    }
    first = shell("make run", clone, env)
    assert first.returncode == 0, first.stdout[-1000:] + first.stderr[-2000:]
    assert first.stdout.splitlines()[-1].startswith("hudilab: rows=5000 commits=5 partitions=11 ")
    for command in [command for command in COMMANDS if command not in ("make test", "make lab")]:
        done = shell(command, clone, env)
        assert done.returncode == 0, command + done.stdout[-1000:] + done.stderr[-2000:]
        lines = [line for line in done.stdout.splitlines() if line.startswith("setup: ")]
        installed = [line for line in lines if DATABASE not in line]  # comes with its first start
        assert not installed, "a second run has nothing to set up"


def shell(command: str, folder: Path, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return run_program("bash", "-c", command, env=env, cwd=folder, timeout=1200)
