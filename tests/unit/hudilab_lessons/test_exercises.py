"""A check of an exercise tells a right answer from a wrong one, and survives any answer."""

from __future__ import annotations

import pytest
from cases import read_cases
from IPython.core.interactiveshell import InteractiveShell

from hudilab_lessons import exercises, progress
from hudilab_lessons.exercises import Exercise


@pytest.fixture(autouse=True)
def new_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exercises, "_ANSWERS", {})


NO_ANSWER = "not attempted; write your answer, run its cell, then this one"
CASES = read_cases(__file__)
# What JSON has no form for.
ODD = [
    (7, ..., NO_ANSWER),
    ([1, 2], (1, 2), "✓ right"),
    ((1, 2), (0, 3), "✗ not yet (your answer: (0, 3)), value 1 is wrong"),
    ([1, 2], {1, 2}, "✗ not yet, it should be a list"),
    ((1, 2), [1, 2], "✓ right"),
    ((1, 2), [1], "✗ not yet (your answer: [1]), it should have 2 values"),
    ((1, 2), 1, "✗ not yet (your answer: 1), it should be a tuple of 2"),
    (lambda answer: answer > 2, 3, "✓ right"),
    (lambda answer: answer > 2, 2, "✗ not yet (your answer: 2)"),
    (lambda answer: answer > 2, "many", "✗ not yet (your answer: 'many'), TypeError"),
    (lambda answer: answer() > 2, 2, "✗ not yet (your answer: 2), it should be a function"),
    (lambda answer: "one row is missing", 2, "✗ not yet (your answer: 2), one row is missing"),
    (lambda answer: answer == 1, print, "✗ not yet"),
    ("none", "x" * 79, "✗ not yet"),
    (lambda answer: len(answer) == 100, "x" * 100, "✓ right"),
]


@pytest.mark.parametrize(("right", "answer", "printed"), [*CASES["answers"], *ODD])
def test_an_answer_is_judged_and_the_verdict_printed(
    right: object, answer: object, printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bool(Exercise(right, "count them").check(answer)) is printed.startswith("✓")
    assert capsys.readouterr().out == printed + "\n"


@pytest.mark.parametrize(("answers", "printed"), CASES["help"])
def test_each_other_wrong_answer_brings_more_help(
    answers: list[object], printed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for answer in answers:  # as a cell does that runs again
        Exercise(7, "count them", name="a number").check(answer)
    assert capsys.readouterr().out.splitlines()[-1] == printed


def test_exercises_do_not_share_their_tries(capsys: pytest.CaptureFixture[str]) -> None:
    for hint, name in (("one", ""), ("two", ""), ("one", "first"), ("one", "second")):
        Exercise(7, hint, name).check(8)
    assert capsys.readouterr().out.splitlines() == ["✗ not yet (your answer: 8)"] * 4


ONE, OTHER = object(), object()
FUNCTIONS = [eval(text) for text in ("lambda x: x", "lambda x: x", "lambda x: x + 1")]


@pytest.mark.parametrize("answers", [FUNCTIONS, [ONE, ONE, OTHER]])
def test_a_function_that_was_defined_again_and_one_object_are_the_same_try(
    answers: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    exercise = Exercise(lambda _: False, "add two")
    for answer in answers:
        exercise.check(answer)
    assert capsys.readouterr().out.splitlines() == ["✗ not yet", "✗ not yet", "✗ not yet: add two"]


def test_a_solution_counts_for_nobody(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded: list[str] = []
    monkeypatch.setattr(progress, "record", recorded.append)
    exercise = Exercise(7, "count them", name="a number")
    assert [bool(exercise.accepts(answer)) for answer in (7, 8, 9, "7")] == [True, *[False] * 3]
    exercise.check(8)
    assert recorded == []
    assert capsys.readouterr().out.splitlines() == [
        "not yet (your answer: 8): count them",
        "not yet (your answer: 9): count them",
        "not yet (your answer: '7'), it should be an int: count them",
        "✗ not yet (your answer: 8)",
    ]


def test_right_answers_are_counted_once_and_the_newest_counts() -> None:
    counts = []
    for name, answer in (("one", 7), ("one", 7), ("two", 7), ("two", 8), ("one", None)):
        Exercise(7, "count them", name).check(answer)
        counts.append(Exercise.count_right())
    Exercise(7, "count them", "three").accepts(7)
    assert [*counts, Exercise.count_right()] == [1, 1, 2, 1, 0, 0]


def test_a_right_answer_to_a_named_exercise_is_recorded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded: list[str] = []

    def record(name: str) -> str:
        recorded.append(name)
        return "a notice"

    monkeypatch.setattr(progress, "record", record)
    for name in ("", "a number"):
        Exercise(7, "count them", name).check(8)
        Exercise(7, "count them", name).check(7)
    assert recorded == ["a number"]
    wrong, right = "✗ not yet (your answer: 8)", "✓ right"
    assert capsys.readouterr().out.splitlines() == [wrong, right, wrong, right, "a notice"]


def test_a_verdict_is_a_bar_in_a_notebook_and_escapes_the_answer() -> None:
    page = exercises._Shown(False, "not yet (your answer: '<b>')")._repr_html_()
    assert "border-left: 4px solid #e09600" in page
    assert "✗ not yet (your answer: &#x27;&lt;b&gt;&#x27;)" in page
    assert "#2e9e4f" in exercises._Shown(True, "right")._repr_html_()


def test_a_cell_that_ends_in_a_check_shows_what_it_prints_and_no_more() -> None:
    formatter = InteractiveShell.instance().display_formatter
    assert formatter is not None
    verdict = Exercise(7, "count them").check(8)
    assert formatter.format(verdict) == ({}, {})
