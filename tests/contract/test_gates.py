"""The tools behind the gates fail on samples that must fail, each for its own reason."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gates
import pytest
import slices

ROOT = Path(__file__).resolve().parents[2]
BAD = ROOT / "tests" / "bad"
GOOD = Path(__file__).with_name("good.ipynb")
RULES = (ROOT / "tests" / "nbval_sanitize.cfg").read_text()


def test_each_gate_is_run_once() -> None:
    assert sorted([*gates.QUICK, *gates.SLOW, gates.LONG]) == sorted(gates.GATES)
    golden = [gate for gate in gates.GATES if gate.startswith("golden cells")]
    notebooks = [notebook for gate in golden for notebook in gates.lessons(gate)]
    here = (ROOT / "notebooks").glob("*.ipynb")
    assert sorted(notebooks) == sorted(f"notebooks/{path.name}" for path in here)
    deep = (ROOT / "Makefile").read_text().partition("\ntest-deep:")[2].partition("\n\n")[0]
    assert f'--gate "{gates.LONG}"' in deep


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
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # those of Jupyter take seconds
    monkeypatch.setattr(gates, "QUICK", ("slow", "bad", "later"))
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


def test_a_gate_waits_for_those_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    command = f"import time; open({str(log)!r}, 'a').write('%s\\n'); time.sleep(0.3)"
    for name in ("first", "other", "second"):
        (tmp_path / f"gate_{name}.py").write_text(f"{command % name}\n{command % name}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    names = ("second", "first", "other")
    monkeypatch.setattr(gates, "QUICK", names)
    monkeypatch.setattr(gates, "GATES", {name: (f"gate_{name}",) for name in names})
    monkeypatch.setattr(gates, "AFTER", {"second": ("first", "other")})
    assert gates.main("--quick") == 0
    lines = log.read_text().split()
    assert lines[-2:] == ["second", "second"]
    assert lines[:4] != ["first", "first", "other", "other"], "one after the other"


def test_slices_hold_each_deep_test_once() -> None:
    tests = [f"tests/spark/test_{n // 10}.py::test_{n}" for n in range(90)]
    tests += [f"tests/services/test_{n // 10}.py::test_{n}" for n in range(30)]
    seconds = {test: 60.0 for test in tests if not test.endswith("5")}
    found = slices.slices(tests, seconds)
    assert sorted(test for parts in found for part in parts for test in part) == sorted(tests)
    assert len(found) == 3
    for parts in found:
        assert slices.takes(parts, seconds) <= slices.LONGEST
        assert all(test.startswith(slices.SERVERS) for test in parts[0])
        for part in parts:
            assert part == [test for test in tests if test in part], "in order, for the fixtures"
    assert slices.slices([], {}) == []
    with pytest.raises(SystemExit, match="test_7 takes 1201 s"):
        slices.slices(["tests/spark/test_0.py::test_7"], {"tests/spark/test_0.py::test_7": 1201})


def test_ten_slices_are_enough() -> None:
    """So that each deep test runs again within ten runs of CI."""
    seconds = json.loads(slices.SECONDS.read_text("utf-8"))
    assert len(slices.slices(list(seconds), seconds)) <= 10


def test_tests_with_servers_follow_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of another folder, too, as two brokers cannot have one port."""
    tests = [f"tests/{folder}/test_a.py::test_b" for folder in ("crash", "notebooks", "services")]
    (tmp_path / "seconds.json").write_text("{}")
    (tmp_path / "waiting.txt").touch()
    monkeypatch.setattr(slices, "deep_tests", lambda: tests)
    monkeypatch.setattr(slices, "SECONDS", tmp_path / "seconds.json")
    monkeypatch.setattr(slices, "WAITING", tmp_path / "waiting.txt")
    monkeypatch.setattr(gates, "GATES", {})
    monkeypatch.setattr(gates, "AFTER", {})
    started = list[str]()
    monkeypatch.setattr(gates.Run, "gates", lambda _, names: started.extend(names))
    assert slices.main() == 0
    crash, notebooks, services = (f"tests/{n}" for n in ("crash", "notebooks", "services"))
    assert started[:2] == [f"{notebooks} of part 1", f"{services} of part 1"]
    assert [name.partition(" ")[0] for name in started] == [notebooks, services, crash]
    after = {f"{services} of part 1": (f"{notebooks} of part 1",)}
    assert after == gates.AFTER


def test_a_test_waits_only_with_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "waiting.txt"
    monkeypatch.setattr(slices, "WAITING", file)
    tests = ["tests/a.py::test_b[1]", "tests/a.py::test_b[2]", "tests/a.py::test_c"]
    file.write_text("# a comment\n\ntests/a.py::test_b: it needs a second machine\n")
    assert slices.waiting(tests) == dict.fromkeys(tests[:2], "it needs a second machine")
    for line in ("tests/a.py::test_c", "tests/gone.py: renamed"):
        file.write_text(line)
        with pytest.raises(SystemExit, match="or a reason is missing"):
            slices.waiting(tests)
