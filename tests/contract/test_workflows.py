"""Machines of others: the workflows of .github, the dev container, and Binder's image."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import gates
import yaml
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


def test_a_pull_request_runs_every_gate() -> None:
    """That of a fork, too: its commits are no push to this repository."""
    ran: set[str] = set()
    for file in FILES:
        workflow = yaml.safe_load(file.read_text("utf-8"))
        # YAML 1.1 reads the key `on` as true.
        if "pull_request" not in workflow[True]:
            continue
        for job in workflow["jobs"].values():
            if "if" in job:
                continue
            commands = [step["run"] for step in job["steps"] if "run" in step]
            if "make check" in commands:
                ran |= set(gates.QUICK)
            if 'make test GATE="${{ matrix.gate }}"' in commands:
                ran |= set(job["strategy"]["matrix"]["gate"])
            ran |= {gate for text in commands for gate in re.findall(r"GATE=(\w+)", text)}
    assert ran == set(gates.GATES)


def test_the_actions_are_kept_up_to_date() -> None:
    file = ROOT / ".github" / "dependabot.yml"
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.dependabot"]
    subprocess.run([*check, str(file)], check=True, capture_output=True)
    updates = yaml.safe_load(file.read_text("utf-8"))["updates"]
    (actions,) = [it for it in updates if it["package-ecosystem"] == "github-actions"]
    assert actions["directories"] == ["/", SETUP.removeprefix(".")]


def test_the_image_is_published_without_a_secret_of_another_registry() -> None:
    text = (ROOT / ".github" / "workflows" / "image.yml").read_text("utf-8")
    assert "secrets." not in text
    assert text.count("registry: ghcr.io") == text.count("docker/login-action@") == 2
    assert '--tag "$IMAGE:$VERSION" --tag "$IMAGE:latest" ' in text


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
    commands = script.read_text("utf-8")
    assert "make setup\n" in commands
    # The address in the manual opens a lesson's copy.
    assert "tools/lab.py --copies lessons\n" in commands
    assert "lab/tree/lessons/00_hello_hudi.ipynb" in (ROOT / "docs" / "setup.md").read_text("utf-8")
    supported = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    python = (ROOT / "binder" / "runtime.txt").read_text("utf-8").strip().removeprefix("python-")
    assert python in SpecifierSet(supported["project"]["requires-python"])
