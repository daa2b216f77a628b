"""The tools behind the gates fail on samples that must fail, each for its own reason."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import gates
import nbval.plugin
import pytest
from contract import checks

ROOT = Path(__file__).resolve().parents[2]
BAD = ROOT / "tests" / "bad"
GOOD = Path(__file__).with_name("good.ipynb")
RULES = (ROOT / "tests" / "nbval_sanitize.cfg").read_text()
USED = {"dies", "format", "lint", "no_count", "raises", "two_parameters", "wrong_output"}


@pytest.fixture
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pytest that is started loads no plugins of Jupyter and others, which takes seconds."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def tool(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_every_sample_is_used() -> None:
    assert {path.stem for path in BAD.glob("*.ipynb")} == USED


@pytest.mark.usefixtures("few_plugins")
def test_skipped_tests_are_counted_with_their_reasons(tmp_path: Path) -> None:
    tests = """
import pytest
@pytest.mark.skipif(True, reason="no root")
def test_a(): pass
def test_b(): pytest.skip("no root")
def test_c(): pytest.skip("no disk")
def test_d(): pass
@pytest.mark.xfail
def test_e(): assert False
"""
    (tmp_path / "test_it.py").write_text(tests)
    report = tmp_path / "report.xml"
    assert gates.skip_lines(gates.skips(report)) == ["skipped tests: 0"]
    plain = ("--rootdir", str(tmp_path), "-c", os.devnull, "-p", "no:cacheprovider")
    done = tool("pytest", "-q", *plain, "--junitxml", str(report), str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert gates.skip_lines(gates.skips(report)) == [
        "skipped tests: 3",
        "       2  no root: test_it::test_a, test_it::test_b",
        "       1  no disk: test_it::test_c",
    ]


@pytest.mark.usefixtures("few_plugins")
def test_the_slowest_parts_are_told(tmp_path: Path) -> None:
    tests = "import time, pytest\n@pytest.mark.parametrize('s', [0, 2, 1])\n"
    (tmp_path / "test_it.py").write_text(tests + "def test_a(s): time.sleep(s / 10)\n")
    report = tmp_path / "report.xml"
    assert gates.parts(report) == []
    plain = ("--rootdir", str(tmp_path), "-c", os.devnull, "-p", "no:cacheprovider")
    done = tool("pytest", "-q", *plain, "--junitxml", str(report), str(tmp_path))
    assert done.returncode == 0, done.stdout
    found = gates.parts(report)
    assert [name for _, name in found] == [f"test_it::test_a[{s}]" for s in (0, 2, 1)]
    lines = gates.slowest(found, count=2)
    assert [line.split()[-1] for line in lines] == ["test_it::test_a[2]", "test_it::test_a[1]"]
    assert 0.2 <= float(lines[0].split()[0]) < 5


def test_each_gate_is_run_once() -> None:
    lanes = (*gates.QUICK, *gates.SLOW, gates.SPARE, *gates.LAST)
    run = [name for lane in lanes for name in lane]
    assert sorted([*run, gates.LONG]) == sorted(gates.GATES)
    deep = (ROOT / "Makefile").read_text().partition("\ntest-deep:")[2].partition("\n\n")[0]
    assert f'--gate "{gates.LONG}"' in deep


def test_a_lane_that_has_ended_takes_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    run, waits = gates.Run(), threading.Event()

    def gate(name: str) -> None:
        if name == "long":
            assert waits.wait(60)
        ran.append(name)
        if name == "d":
            waits.set()

    monkeypatch.setattr(run, "_gate", gate)
    run.stage((("long",), ("a", "b")), ("c", "d"))
    assert ran == ["a", "b", "c", "d", "long"]


@pytest.mark.usefixtures("few_plugins")
def test_a_gate_that_fails_stops_the_other_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    begun, slept, ended = (tmp_path / name for name in ("begun", "slept", "ended"))
    (tmp_path / "test_slow.py").write_text(
        "import pathlib, time, pytest\n"
        "@pytest.fixture\n"
        "def server():\n"
        "    yield\n"
        f"    pathlib.Path({str(ended)!r}).touch()\n"
        "def test_a(server):\n"
        f"    pathlib.Path({str(begun)!r}).touch()\n"
        "    time.sleep(60)\n"
        f"    pathlib.Path({str(slept)!r}).touch()\n"
    )
    waits = (
        f"import pathlib, time\nwhile not pathlib.Path({str(begun)!r}).exists(): time.sleep(0.1)"
    )
    (tmp_path / "waits.py").write_text(f"{waits}\nraise SystemExit('this gate fails')\n")
    plain = ("--rootdir", str(tmp_path), "-c", os.devnull, "-p", "no:cacheprovider")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(gates, "QUICK", (("slow", "later"), ("bad",)))
    later = tmp_path / "later"
    touches = ("timeit", "-n1", "-r1", f"open({str(later)!r}, 'w')")
    slow = ("pytest", "-q", *plain, str(tmp_path))
    monkeypatch.setattr(gates, "GATES", {"slow": slow, "later": touches, "bad": ("waits",)})
    assert gates.main("--quick") == 1
    assert ended.exists(), "the slow test's server was left running"
    assert not slept.exists(), "the slow test was not stopped"
    assert not later.exists()
    printed = capfd.readouterr().out
    assert "this gate fails\n== bad FAILED after " in printed
    assert "== slow" not in printed


def test_lint() -> None:
    done = tool("ruff", "check", str(BAD / "lint.ipynb"))
    assert done.returncode == 1
    assert "F401" in done.stdout
    assert "Found 1 error" in done.stdout
    assert tool("ruff", "check", str(GOOD)).returncode == 0


def test_format() -> None:
    done = tool("ruff", "format", "--check", str(BAD / "format.ipynb"))
    assert done.returncode == 1
    assert "1 file would be reformatted" in done.stdout
    assert tool("ruff", "format", "--check", str(GOOD)).returncode == 0


def test_contract() -> None:
    found = {path.stem: list(checks.broken(path)) for path in sorted(BAD.glob("*.ipynb"))}
    # The others keep the contract: another gate must find them.
    assert {name: rules for name, rules in found.items() if rules} == {
        "no_count": ["facts"],
        "two_parameters": ["parameters"],
    }


PATTERNS = nbval.plugin.get_sanitize_patterns(RULES)
SAMPLES = [
    ("at <20260102030405678_20260102030406789.commit>", "at <<instant>_<instant>.commit>"),
    ("UI    http://127.0.0.1:4041/jobs", "UI    <UI>/jobs"),
    ("9a5173f7-f356-49bb-91cf-ff7d5f8b9a21-0_1-21-25.parquet", "<uuid>-0_1-21-25.parquet"),
    (
        "An error occurred while calling o231.save.",
        "An error occurred while calling <object>.save.",
    ),
]
UNTOUCHED = ["rows 5000", "202601020304056789", "sensor_id=10 444", "http://127.0.0.1", "o231.x"]


def sanitized(text: str) -> str:
    for pattern, replacement in PATTERNS:
        text = re.sub(pattern, replacement, text)
    return text


def test_every_rule_is_read() -> None:
    """nbval drops a rule with an empty replacement, or a line between its two, silently."""
    rules = [line for line in RULES.splitlines() if line.startswith("regex:")]
    assert len(PATTERNS) == len(rules) == RULES.count("\n[") == len(SAMPLES)
    assert all(replacement.strip() for _, replacement in PATTERNS)


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_every_rule_fires_on_its_sample_alone(number: int) -> None:
    before, after = SAMPLES[number]
    assert sanitized(before) == after
    fired = [bool(re.search(pattern, before)) for pattern, _ in PATTERNS]
    assert fired == [location == number for location in range(len(SAMPLES))]


def test_other_text_is_compared_as_it_is() -> None:
    assert [sanitized(text) for text in UNTOUCHED] == UNTOUCHED
