"""A check of an exercise tells a right answer from a wrong one, and survives any answer."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from hudilab.lessons.exercises import Exercise

CASES = [
    (7, 7, True, "right: 7"),
    (7, 7.0, True, "right: 7.0"),
    (7, 8, False, "not yet (your answer: 8): count them"),
    (7, None, False, "no answer yet: count them"),
    (7, ..., False, "no answer yet: count them"),
    (7, "7", False, "not yet (your answer: '7'), it should be an int: count them"),
    (1, True, False, "not yet (your answer: True), it should be an int: count them"),
    (True, 1, False, "not yet (your answer: 1), it should be a bool: count them"),
    (True, True, True, "right: True"),
    (0.5, "half", False, "not yet (your answer: 'half'), it should be a float: count them"),
    ("none", 0, False, "not yet (your answer: 0), it should be a str: count them"),
    ("none", "all", False, "not yet (your answer: 'all'): count them"),
    ([1, 2], (1, 2), True, "right: (1, 2)"),
    ([1, 2], [1], False, "not yet (your answer: [1]): count them"),
    ([1, 2], {1, 2}, False, "not yet, it should be a list: count them"),
    ((1, 2), [1, 2], True, "right: [1, 2]"),
    ((1, 2), [1], False, "not yet (your answer: [1]), it should have 2 values: count them"),
    ((1, 2), 1, False, "not yet (your answer: 1), it should be a tuple of 2: count them"),
    ({"a": 1}, {"a": 1}, True, "right: {'a': 1}"),
    ({"a": 1}, {"a": 2}, False, "not yet (your answer: {'a': 2}): count them"),
    (
        {"a": 1, "b": 2},
        {"A": 1},
        False,
        "not yet (your answer: {'A': 1}), the keys should be 'a', 'b': count them",
    ),
    ({"a": 1}, [1], False, "not yet (your answer: [1]), it should be a dict: count them"),
    (lambda answer: answer > 2, 3, True, "right: 3"),
    (lambda answer: answer > 2, 2, False, "not yet (your answer: 2): count them"),
    (
        lambda answer: answer > 2,
        "many",
        False,
        "not yet (your answer: 'many'), TypeError: count them",
    ),
    (lambda answer: answer == 1, print, False, "not yet: count them"),
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
    formatter = InteractiveShell.instance().display_formatter
    assert formatter is not None
    verdict = Exercise(7, "count them").check(8)
    assert formatter.format(verdict) == ({}, {})
