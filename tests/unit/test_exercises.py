"""A check of an exercise tells a right answer from a wrong one, and survives any answer."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from hudilab.lessons.exercises import Exercise

CASES = [
    (7, 7, True, "right: 7"),
    (7, 8, False, "not yet: count them"),
    (7, None, False, "no answer yet: count them"),
    (7, ..., False, "no answer yet: count them"),
    (1, True, False, "not yet: count them"),
    (True, 1, False, "not yet: count them"),
    (True, True, True, "right: True"),
    ({"a": 1}, {"a": 1}, True, "right: {'a': 1}"),
    (lambda answer: answer > 2, 3, True, "right: 3"),
    (lambda answer: answer > 2, 2, False, "not yet: count them"),
    (lambda answer: answer > 2, "many", False, "not yet, TypeError: count them"),
    (lambda answer: len(answer) == 100, "x" * 100, True, f"right: {'x' * 77}..."),
]


@pytest.mark.parametrize(("right", "answer", "accepted", "printed"), CASES)
def test_an_answer_is_judged_and_the_verdict_printed(
    right: object,
    answer: object,
    accepted: bool,
    printed: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert bool(Exercise(right, "count them").check(answer)) is accepted
    assert capsys.readouterr().out == printed + "\n"


def test_a_cell_that_ends_in_a_check_shows_what_it_prints_and_no_more() -> None:
    shell = InteractiveShell.instance()
    verdict = Exercise(7, "count them").check(8)
    assert shell.display_formatter.format(verdict) == ({}, {})
