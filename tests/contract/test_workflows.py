"""The workflows of .github: each sets a machine up with one action, and runs gates that exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import gates
import yaml

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SETUP = "./.github/actions/setup"


def jobs() -> dict[str, list[dict[str, Any]]]:
    """The steps of each job, by file and name."""
    return {
        f"{file.name}: {name}": job["steps"]
        for file in FILES
        for name, job in yaml.safe_load(file.read_text("utf-8"))["jobs"].items()
    }


def test_python_is_set_up_by_the_action_and_after_the_checkout() -> None:
    used = {name: [step.get("uses", "") for step in steps] for name, steps in jobs().items()}
    with_action = [name for name, actions in used.items() if SETUP in actions]
    assert len(with_action) >= 5
    assert (ROOT / SETUP / "action.yml").is_file()
    for name in with_action:
        assert used[name][:2] == ["actions/checkout@v4", SETUP], name
    assert not [name for name, actions in used.items() if "setup-python" in str(actions)]
    assert {
        name for name, steps in jobs().items() if re.search(r"make |\.venv/bin", str(steps))
    } == set(with_action)


def test_each_gate_that_takes_long_is_run() -> None:
    text = "".join(file.read_text("utf-8") for file in FILES)
    (matrix,) = re.findall(r"gate:\n((?: +- .*\n)+)", text)
    named = {line.strip().removeprefix("- ") for line in matrix.splitlines()}
    others = {"book", *(name for lane in gates.QUICK for name in lane)}
    assert named == {*gates.GATES} - others
    assert set(re.findall(r'GATE="?([\w ]+)', text)) <= set(gates.GATES)
