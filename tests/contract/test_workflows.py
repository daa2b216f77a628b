"""Machines of others: the workflows of .github, the dev container, and Binder's image."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import gates
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SETUP = "./.github/actions/setup"


def test_actions_of_others_are_pinned_by_hash() -> None:
    """A tag can be moved to other code, which would run with the registry's token."""
    files = [*FILES, ROOT / SETUP / "action.yml"]
    uses = [line for file in files for line in re.findall(r"uses: (.+)", file.read_text("utf-8"))]
    pinned = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+(; .+)?")
    assert [line for line in uses if line != SETUP and not pinned.fullmatch(line)] == []


def test_each_gate_that_takes_long_is_run() -> None:
    text = "".join(file.read_text("utf-8") for file in FILES)
    (matrix,) = re.findall(r"gate:\n((?: +- .*\n)+)", text)
    named = {line.strip().removeprefix("- ") for line in matrix.splitlines()}
    others = {"book", *gates.QUICK}
    assert named == {*gates.GATES} - others
    assert set(re.findall(r'GATE="?([\w ]+)', text)) <= set(gates.GATES)


def commands_of(*make: str) -> str:
    """What make would run; a target that does not exist fails."""
    command = ["make", "--no-print-directory", "-n", *make]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def test_the_dev_container_sets_up_and_opens_the_forwarded_jupyterlab() -> None:
    container = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text("utf-8"))
    assert "jars core" in commands_of(*container["postCreateCommand"].split()[1:])
    program, script, *arguments = container["postAttachCommand"]
    assert commands_of("lab").endswith(f"{program} {script} \n")
    options = dict(argument.partition("=")[::2] for argument in arguments)
    assert container["forwardPorts"] == [int(options["--port"]), 4040]
    # The lab asks for its token, and takes no request that another site's page sends.
    assert not any("token" in name or name.endswith("allow_origin") for name in options)
    origins = re.compile(options["--ServerApp.allow_origin_pat"])
    assert origins.match("https://urban-space-8888.app.github.dev")
    assert not origins.match("https://a.app.github.dev.example.org")


def test_binder_runs_the_set_up_of_everyone() -> None:
    script = ROOT / "binder" / "postBuild"
    assert os.access(script, os.X_OK)
    assert "make setup\n" in script.read_text("utf-8")
    supported = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    python = (ROOT / "binder" / "runtime.txt").read_text("utf-8").strip().removeprefix("python-")
    assert python in SpecifierSet(supported["project"]["requires-python"])
