"""Show a learner's solved exercises; see `hudilab progress --help`."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from hudilab.errors import PathError
from hudilab_lessons.progress import FILE, read, topic


def command(
    reset: Annotated[
        bool, typer.Option("--reset", help="Delete the record of solved exercises.")
    ] = False,
) -> None:
    """Show how many exercises of each lesson you have solved, and which are still open."""
    from hudilab_jobs.settings import load_settings

    settings = load_settings()
    if reset:
        print(forget(settings.home / FILE))
        return
    for line in table(settings.project / "notebooks", settings.home / FILE):
        print(line)


def table(folder: Path, file: Path) -> Iterator[str]:
    """Yield a line for each lesson in a folder, the open exercises of begun lessons, and a total.

    Raises:
        PathError: There are no lessons, or the progress file is damaged.
    """
    solved = read(file)
    lessons = {path.stem: named_exercises(path) for path in sorted(folder.glob("[0-9]*.ipynb"))}
    if not any(lessons.values()):
        raise PathError(
            f"{folder} has no lessons with exercises",
            "run the command in a checkout of the lab: .venv/bin/hudilab progress",
        )
    width = max(map(len, lessons))
    yield f"{'lesson':<{width}}  solved"
    done = total = 0
    for lesson, names in lessons.items():
        open_names = [name for name in names if name not in solved.get(topic(lesson), ())]
        count = len(names) - len(open_names)
        yield f"{lesson:<{width}}  {count:>2} of {len(names)}"
        if count:  # in the other lessons, all exercises are open
            yield from (f"  open: {name}" for name in open_names)
        done, total = done + count, total + len(names)
    yield f"{'all':<{width}}  {done:>2} of {total}"


def named_exercises(notebook: Path) -> list[str]:
    """Return the names of the exercises in a notebook's check cells, in order."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    checks = [cell for cell in cells if "check" in cell["metadata"].get("tags", ())]
    return [name for cell in checks for name in names_in("".join(cell["source"]))]


def names_in(source: str) -> list[str]:
    """Return the names of the exercises in a cell: `Exercise(..., name="...")`."""
    return [
        str(word.value.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Exercise"
        for word in node.keywords
        if word.arg == "name" and isinstance(word.value, ast.Constant)
    ]


def forget(file: Path) -> str:
    """Delete the progress file, even a damaged one; return a line about it.

    Raises:
        PathError: It cannot be deleted.
    """
    try:
        file.unlink()
    except FileNotFoundError:
        return f"nothing to delete: {file} does not exist"
    except OSError as error:
        raise PathError(
            f"cannot delete {file} ({error.strerror})", f"delete it yourself: rm '{file}'"
        ) from None
    return f"deleted {file}"
