"""README's table of the lessons says what the lessons say, and names each of them once."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from contract.measure import GRADE, RUN, measure

from hudilab_cli.progress_command import named_exercises

ROOT = Path(__file__).resolve().parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
README = (ROOT / "README.md").read_text("utf-8")
ROW = re.compile(
    r"^\| \[(\d\d) [^]]+\]\(notebooks/(\1_\w+\.ipynb)\) \| .+ \| (\d+) \+ (\d+) \|$", re.MULTILINE
)


def test_each_lesson_is_in_the_table_with_its_minutes() -> None:
    shown = [(file, int(read), int(solve)) for _, file, read, solve in ROW.findall(README)]
    sizes = {path.name: measure(nbformat.read(path, as_version=4)) for path in LESSONS}
    assert shown == [(name, size.read, size.exercises) for name, size in sizes.items()]


def test_the_minutes_of_a_run_are_known_of_each_lesson_and_of_no_other() -> None:
    assert list(RUN) == [path.name[:2] for path in LESSONS]


def test_all_lessons_together_have_at_most_30_000_words() -> None:
    cells = (cell for path in LESSONS for cell in nbformat.read(path, as_version=4).cells)
    assert sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown") <= 30_000


def test_all_manuals_together_have_at_most_23_500_words() -> None:
    pages = (ROOT / "docs").glob("*.md")
    assert sum(len(page.read_text("utf-8").split()) for page in pages) <= 23_500


def test_the_exam_has_as_many_questions_as_its_last_line_says() -> None:
    exam = LESSONS[-2]
    cells = nbformat.read(exam, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    grades = [grade for grade, _ in GRADE.findall(text)]
    assert set(grades) == {"Easy", "Medium", "Hard"}
    (score,) = [cell.source for cell in cells if "Exercise.count_right()" in cell.source]
    assert score.endswith(f'"of {len(grades)}")')
    assert len(named_exercises(exam)) == len(grades) == 11


def test_progress_lists_each_exercise_by_its_heading() -> None:
    for lesson in (*LESSONS, ROOT / "notebooks" / "_template.ipynb"):
        cells = nbformat.read(lesson, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        names = [name for name in named_exercises(lesson) if not name.endswith(" (prediction)")]
        assert names == re.findall(r"(?m)^## Exercise: (.+)$", text)
    first = named_exercises(LESSONS[0])
    assert first[:2] == ["Change a row of a table (prediction)", "Jack appears twice"]


def test_no_path_enters_sql_as_it_is() -> None:
    """An apostrophe would end the text, and Hudi's catalog takes a blank for %20: see sql_path."""
    texts = {
        path: path.read_text("utf-8").replace('\\"', '"')
        for folder in ("lib", "packages", "tools", "benchmarks", "notebooks")
        for path in sorted((ROOT / folder).rglob("*.*"))
        if path.suffix in {".py", ".ipynb"} and ".ipynb_checkpoints" not in path.parts
    }
    count = 0
    for path, text in texts.items():
        texts_of_sql = re.findall(r"(?:LOCATION|path =>|hudi_\w+\()\s*'\{([^}]*)\}", text)
        for given in texts_of_sql + re.findall(r"createTable\([^=]*path=(.+?), source=", text):
            count += 1
            made = rf"\b{re.escape(given)}(?:, \w+)? = (?:\w+\.)?sql_path\("
            assert "sql_path(" in given or re.search(made, text), f"{path.name}: {given}"
    assert count > 20
