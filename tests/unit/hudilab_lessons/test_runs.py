"""One run of a lesson at a time with the same tables; Python must not skip asserts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hudilab.errors import LabError, ParameterError
from hudilab_lessons.lesson import check_asserts, hold

HOLD = """
import sys
from pathlib import Path
from hudilab_lessons.lesson import hold
hold(Path(sys.argv[1]), "02_lesson", "file:///w/lessons", "")
hold(Path(sys.argv[1]), "02_lesson", "file:///w/lessons", "")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_run_is_refused_by_name_until_the_first_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ParameterError) as caught:
            hold(tmp_path, "02_lesson", "file:///w/lessons", "")
        assert str(caught.value) == (
            f"run_id='': process {other.pid} is running 02_lesson with the same tables, in "
            "file:///w/lessons; wait for it, shut down its kernel, or use another run_id: "
            "-p run_id NAME"
        )
        hold(tmp_path, "02_lesson", "file:///w/run-a/lessons", "a")
        hold(tmp_path, "03_lesson", "file:///w/lessons", "")
        hold(tmp_path / "other home", "02_lesson", "file:///w/lessons", "")
        other.kill()
    hold(tmp_path, "02_lesson", "file:///w/lessons", "")


@pytest.mark.parametrize(
    ("options", "named"), [(["-O"], "python -O"), ([], "PYTHONOPTIMIZE=1"), ([], "")]
)
def test_a_python_that_skips_asserts_is_refused(options: list[str], named: str) -> None:
    program = "from hudilab_lessons.lesson import check_asserts; check_asserts()"
    env = {"PYTHONOPTIMIZE": "1"} if "=" in named else {}
    command = [sys.executable, *options, "-c", program]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (named == "")
    assert f"SessionError: {named} makes Python skip each assert" in done.stderr or not named


def test_the_refusal_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = type("Flags", (), {"optimize": 1})
    monkeypatch.setattr("hudilab_lessons.lesson.sys.flags", flags)
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    with pytest.raises(LabError, match=r"; start it without that option: unset PYTHONOPTIMIZE$"):
        check_asserts()
