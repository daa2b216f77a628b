"""What sets the lab up agrees with itself: pyproject.toml, locks, environment.yml, Makefile."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from hudilab.operations.ship.bundle import NEEDS
from hudilab.runtime.java.find import fits

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
SELF, *LAB = EXTRAS["lab"]
PARTS = Requirement(SELF).extras
ASKED = [*PROJECT["dependencies"], *LAB, *(text for part in PARTS for text in EXTRAS[part])]
RUNTIME = (ROOT / "requirements.lock").read_text()
DEV = (ROOT / "requirements-dev.lock").read_text()
TARGETS = {"help", "setup", "setup-dev", "run", "lab", "test", "test-deep"}
TARGETS |= {"check", "lesson", "golden", "bundle", "bench", "lock"}
TARGETS |= {"book", "words", "clean", "places"}
HASH = f" \\\n    --hash=sha256:{'0' * 64}\n"


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
    found: dict[str, tuple[str, int]] = {}
    for block in re.split(r"\n(?=\S)", lock.rstrip("\n")):
        pin, *hashes = block.split(" \\\n")
        valid = [line for line in hashes if re.fullmatch(r" +--hash=sha256:[0-9a-f]{64}", line)]
        assert len(valid) == len(hashes), block
        found[canonicalize_name(pin.split("==")[0])] = (pin, len(hashes))
    return found


def problems(requirements: list[str], lock: str) -> list[str]:
    """Where a lock does not pin what is required."""
    pins, found = entries(lock), []
    for name, (pin, hashes) in pins.items():
        if not re.match(r"[\w.-]+==[\w.!+]+( ; |$)", pin) or not hashes:
            found.append(f"{name}: no exact version with a hash")
    if found:
        return found
    for text in requirements:
        wanted = Requirement(text)
        pin, _ = pins.get(canonicalize_name(wanted.name), ("", 0))
        if not pin:
            found.append(f"{wanted.name}: not in the lock")
        elif Version(pin.split(" ;")[0].split("==")[1]) not in wanted.specifier:
            found.append(f"{wanted.name}: {pin} is not {wanted.specifier}")
    return found


def test_the_lock_pins_every_direct_dependency() -> None:
    assert len(ASKED) > 20
    assert len(entries(RUNTIME)) > 100
    assert problems(ASKED, RUNTIME) == []


def test_a_job_needs_no_more_than_the_bundle_has() -> None:
    """The bundle brings no pyspark, which is the platform's."""
    for_jobs = [*PROJECT["dependencies"], *EXTRAS["jobs"], *EXTRAS["kafka"], *EXTRAS["s3"]]
    assert {Requirement(text).name for text in for_jobs} == set(NEEDS)


def test_the_lab_has_every_part() -> None:
    assert Requirement(SELF).name == "hudilab"
    assert {*PARTS, "lab", "dev", "book"} == set(EXTRAS)


def test_the_dev_lock_pins_every_direct_dependency() -> None:
    assert len(EXTRAS["dev"]) > 5
    assert problems([*ASKED, *EXTRAS["dev"], *EXTRAS["book"]], DEV) == []


def test_the_dev_lock_is_the_lock_and_more() -> None:
    # Without the markers: what only some systems need at run time, all may need for tests.
    runtime, dev = (
        {name: pin.split(" ;")[0] for name, (pin, _) in entries(lock).items()}
        for lock in (RUNTIME, DEV)
    )
    assert {name: dev.get(name) for name in runtime} == runtime
    assert "pytest" in dev.keys() - runtime.keys()


@pytest.mark.parametrize(
    ("lock", "found"),
    [
        (f"a==2.1{HASH}", []),
        (f"a==1.5{HASH}", ["a: a==1.5 is not >=2"]),
        (f"b==2{HASH}", ["a: not in the lock"]),
        ("a==2\n", ["a: no exact version with a hash"]),
        (f"a==2.*{HASH}", ["a: no exact version with a hash"]),
        (f"a==2{HASH}b @ file:///x{HASH}", ["b @ file:///x: no exact version with a hash"]),
    ],
)
def test_a_bad_lock_is_noticed(lock: str, found: list[str]) -> None:
    assert problems(["a>=2"], lock) == found


@pytest.mark.parametrize("lock", [RUNTIME, DEV])
def test_a_lock_names_no_host_and_no_folder(lock: str) -> None:
    assert not re.search(r"://|find-links|index-url|@ file|^-", lock, re.MULTILINE)


def test_what_builds_the_packages_is_locked() -> None:
    for lock in (RUNTIME, DEV):
        blocks = bootstrap.requirement_blocks(lock, bootstrap.BUILD_TOOLS)
        assert sorted(entries(blocks)) == ["packaging", "setuptools", "wheel"]
        assert problems(["setuptools>=77"], blocks) == []


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


def test_make_help_explains_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    defined = re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE)
    assert sorted(defined) == sorted(TARGETS)
    # Below another make, as in `make test`, make says which directory it enters.
    command = ["make", "--no-print-directory"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    explained = dict(line.removeprefix("make ").split(None, 1) for line in done.stdout.splitlines())
    assert sorted(explained) == sorted(TARGETS)


def test_the_files_that_targets_call_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    called = re.findall(r"\b(?:tools|benchmarks)/\w+\.py\b", makefile)
    assert len(called) >= 4
    (default,) = re.findall(r"^BENCH \?= (\w+)$", makefile, re.MULTILINE)
    choices = re.findall(r"\bBENCH=(\w+)", makefile)
    assert choices == ["updates"]
    called += [f"benchmarks/{name}.py" for name in (default, *choices)]
    assert [path for path in called if not (ROOT / path).is_file()] == []


def test_ci_runs_make_test_and_nothing_else() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    commands = [line for line in script.read_text().splitlines() if line and line[0] != "#"]
    assert commands[0] == "set -euo pipefail"
    assert commands[-1] == "exec make test </dev/null"
    assert len(commands) == 3


def test_gates_stop_at_the_first_that_fails(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    commands = {"good": ("timeit", "-n1", "0"), "bad": ("no_such_tool",), "late": ("timeit",)}
    monkeypatch.setattr(gates, "GATES", commands)
    monkeypatch.setattr(gates, "QUICK", (tuple(commands),))
    assert gates.main("--quick") == 1
    output = capfd.readouterr().out
    assert "== 1/3 good: timeit -n1 0\n" in output
    assert "== good passed in " in output
    assert "== bad FAILED after " in output
    assert "late" not in output


def test_one_gate_with_arguments(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gates, "GATES", {"one": ("timeit", "-n1"), "other": ("no_such_tool",)})
    assert gates.main("--gate", "one", "-r1", "print(4711)") == 0
    assert "== 1/2 one: timeit -n1 -r1 print(4711)\n4711\n" in capfd.readouterr().out
    with pytest.raises(SystemExit):
        gates.main("-r1", "print(4711)")
    assert "applies to one gate; choose it with --gate NAME" in capfd.readouterr().err
    with pytest.raises(SystemExit):
        gates.main("--lesson", "0")
    error = capfd.readouterr().err
    assert re.search(r"\d+ notebooks start with '0'; choose one of: 00_\w+, 01_", error)


def test_gates_come_cheapest_first() -> None:
    names = "lint|format|types|unit tests|notebook contract|Spark tests|services|crashes|notebooks"
    kinds = ("", " of later lessons", " with servers", " of long lessons")
    golden = [f"golden cells{which}" for which in kinds]
    assert list(gates.GATES) == [*names.split("|"), *golden, "book"]


def test_every_notebook_belongs_to_one_gate() -> None:
    golden = [gate for gate in gates.GATES if gate.startswith("golden cells")]
    found = [name for gate in golden for name in gates.lessons(gate)]
    there = (ROOT / "notebooks").glob("*.ipynb")
    assert sorted(found) == sorted(f"notebooks/{path.name}" for path in there)
    assert [name[10:12] for name in gates.lessons("golden cells with servers")] == ["09"]


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


def stamp(root: Path, dev: bool) -> None:
    setup = bootstrap.Setup(root, root / "log", dev)
    content = {**setup.wanted, "digest": bootstrap.digest(root), "dev": dev}
    setup.stamp.write_text(json.dumps(content))


def steps(root: Path, dev: bool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a set-up would do, without doing it."""
    done: list[str] = []
    monkeypatch.setattr(bootstrap.Setup, "create", lambda _: done.append("create"))
    monkeypatch.setattr(
        bootstrap.Setup, "install", lambda one: done.append("dev" if one.dev else "runtime")
    )
    bootstrap.Setup(root, root / "log", dev).run()
    return done


def test_a_finished_set_up_does_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert steps(checkout, False, monkeypatch) == []


def test_dev_covers_runtime_and_not_the_other_way(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert steps(checkout, True, monkeypatch) == ["dev"]
    assert steps(checkout, False, monkeypatch) == []


def test_a_changed_lock_brings_up_to_date(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamp(checkout, dev=True)
    with (checkout / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert steps(checkout, False, monkeypatch) == ["dev"]


def test_settings_of_tools_are_not_a_change(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (checkout / "pyproject.toml").open("a") as pyproject:
        pyproject.write("[tool.other]\nx = 1\n")
    assert steps(checkout, False, monkeypatch) == []


@pytest.mark.parametrize("part", ["bin/python", "bin/hudilab", "hudilab-setup.json"])
def test_a_half_made_environment_is_made_anew(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    (checkout / ".venv" / part).unlink()
    assert steps(checkout, False, monkeypatch) == ["create", "runtime"]


@pytest.mark.parametrize("text", ["", "[]", '{"root": "/elsewhere", "python": [3, 11]}', "null"])
def test_a_stamp_of_another_place_or_none_makes_anew(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (checkout / ".venv" / "hudilab-setup.json").write_text(text)
    assert steps(checkout, False, monkeypatch) == ["create", "runtime"]


def test_another_python_is_refused_with_the_remedy() -> None:
    bootstrap.check_python((3, 11), "python3")
    for version in ((3, 10), (3, 12)):
        with pytest.raises(bootstrap.SetupError) as caught:
            bootstrap.check_python(version, "/usr/bin/python3")
        assert str(caught.value) == (
            f"Python 3.11 is required, but /usr/bin/python3 is 3.{version[1]}; install Python 3.11 "
            "and run: make PYTHON=/path/to/python3.11 ..."
        )


def test_what_pip_says_in_another_encoding_is_told(tmp_path: Path) -> None:
    setup = bootstrap.Setup(tmp_path, tmp_path / "log", False)
    setup.log.write_text("")
    output = "Downloading x-1.whl (2.5 MB)\nERROR: Could not open /home/jürgen/x.\n"
    (tmp_path / "said").write_bytes(output.encode("latin-1"))
    with pytest.raises(bootstrap.SetupError) as caught:
        setup.call(["sh", "-c", f"cat '{tmp_path}/said'; exit 1"], remedy="try again")
    error = f"Could not open /home/j\N{REPLACEMENT CHARACTER}rgen/x; try again (log: {setup.log})"
    assert str(caught.value) == error
    assert setup.downloaded() == 2.5


def test_of_several_commands_the_one_that_failed_is_told(tmp_path: Path) -> None:
    setup = bootstrap.Setup(tmp_path, tmp_path / "log", False)
    setup.log.write_text("")
    fails, works = ["sh", "-c", "echo ERROR: no room; exit 1"], ["sh", "-c", "sleep 0.1; echo done"]
    with pytest.raises(bootstrap.SetupError) as caught:
        setup.call(works, fails, works, remedy="try again")
    assert str(caught.value) == f"no room; try again (log: {setup.log})"
    assert setup.log.read_text().count("\ndone\n") == 2


def test_the_parts_of_a_lock_are_the_lock() -> None:
    for lock in (RUNTIME, DEV):
        parts = bootstrap.shares(lock)
        assert list(entries(parts[0])) == ["pyspark"]
        assert sorted("".join(parts).splitlines()) == sorted(lock.splitlines())


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
