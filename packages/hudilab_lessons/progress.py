"""Record a learner's solved exercises in `progress.json` in the lab's home, on this machine only.

Only a person's answers are recorded. JupyterLab and other front ends allow a cell to request input
(`allow_stdin` in Jupyter's protocol), while papermill, nbval and nbconvert do not.
"""

from __future__ import annotations

import fcntl
import json
import re
from pathlib import Path

from hudilab.errors import LabError, PathError
from hudilab.files import private_folder, write_private

FILE = "progress.json"


def record(exercise: str) -> str:
    """Record a person's right answer to an exercise of the running lesson; never raise an error.

    Returns:
        A message for the learner if the answer was not recorded or a damaged file was renamed;
        otherwise an empty string.
    """
    from hudilab.settings import load_settings  # the command that reads needs no pydantic

    try:
        from hudilab_lessons.lesson import has_person  # the command that reads needs no lesson

        if not has_person():
            return ""
        home = load_settings().home
        (private_folder(home) / "locks").mkdir(exist_ok=True)
        with (home / "locks" / "progress").open("w") as lock:  # two lessons may be open
            fcntl.flock(lock, fcntl.LOCK_EX)
            return _add(home / FILE, topic(_app()), exercise)
    except OSError as error:
        return f"this answer was not recorded: cannot write {error.filename} ({error.strerror})"
    # The answer is right even if it can't be recorded, so the lesson's cell must not fail.
    except Exception as error:  # noqa: BLE001
        return f"this answer was not recorded: {error}"


def read(file: Path) -> dict[str, list[str]]:
    """Return the names of the solved exercises by topic; empty without a file.

    Raises:
        PathError: The file is damaged, or cannot be read.
    """
    try:
        solved = json.loads(file.read_text("utf-8"))
        if all(isinstance(names, list) for names in solved.values()) and all(
            isinstance(name, str) for names in solved.values() for name in names
        ):
            return dict(solved)
        problem = "is damaged"
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise PathError(
            f"{file} cannot be read ({error.strerror})",
            "make it readable, or begin again: hudilab progress --reset",
        ) from None
    except (AttributeError, ValueError):
        problem = "is damaged"
    raise PathError(f"{file} {problem}", "delete it and begin again: hudilab progress --reset")


def topic(lesson: str) -> str:
    """Return a lesson's name without its number, which may change."""
    return re.sub(r"^\d+_", "", lesson)


def _app() -> str:
    """Return the lesson's own name, from `open_session(settings, app=...)`."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is None:
        raise LabError("no Spark session is open", "run the lesson from its first cell")
    return str(session.sparkContext.appName)


def _add(file: Path, lesson: str, exercise: str) -> str:
    notice, solved = "", dict[str, list[str]]()
    try:
        solved = read(file)
    except PathError:
        number = len([*file.parent.glob(f"{file.stem}.damaged-*.json")]) + 1
        damaged = file.with_name(f"{file.stem}.damaged-{number}.json")
        file.rename(damaged)
        notice = f"{file} was damaged: it is now {damaged.name}, and your progress begins again"
    names = sorted({*solved.get(lesson, ()), exercise})
    write_private(file, json.dumps(solved | {lesson: names}, indent=1) + "\n")
    return notice
