"""Exercises that say whether an answer is right."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Number
from typing import Any

__all__ = ["Exercise", "Verdict"]


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right; true or false in an `if` or an `assert`."""

    right: bool

    def __bool__(self) -> bool:
        return self.right

    def _ipython_display_(self) -> None:
        """Show nothing as the value of a cell: `check` has printed the verdict."""


class Exercise:
    """One exercise: its right answer, and a hint for wrong ones."""

    def __init__(self, right: Any, hint: str) -> None:
        """Say what is right.

        Args:
            right: the right answer, or a function that gets an answer and returns whether it is
                right. A function that raises says no.
            hint: one sentence that helps after a wrong answer.
        """
        self._right, self._hint = right, hint

    def check(self, answer: Any) -> Verdict:
        """Print and return whether an answer is right; if not, print it, its form and the hint.

        `None` and `...`, the values in an exercise before you start, are never right. A list is as
        good as a tuple.
        """
        if answer is None or answer is ...:
            print(f"no answer yet: {self._hint}")
            return Verdict(False)
        is_right, problem = self._compare(answer)
        if is_right:
            print(f"right: {_short(answer)}")
        else:
            # After a cell that failed, the check judges an older answer: so it says which.
            judged = f" (your answer: {_short(repr(answer))})" if _is_plain(answer) else ""
            print(f"not yet{judged}{problem}: {self._hint}")
        return Verdict(is_right)

    def _compare(self, answer: Any) -> tuple[bool, str]:
        if not callable(self._right):
            problem = _form(answer, self._right)
            return not problem and bool(_listed(answer) == _listed(self._right)), problem
        try:
            return bool(self._right(answer)), ""
        except Exception as error:  # whatever a learner's answer does to the check
            return False, f", {type(error).__name__}"


def _form(answer: Any, right: Any) -> str:
    """What is wrong with the form of an answer, in words; "" if nothing is."""
    if isinstance(right, dict) and isinstance(answer, dict):
        keys = ", ".join(map(repr, right))
        return "" if answer.keys() == right.keys() else f", the keys should be {keys}"
    if isinstance(right, list | tuple) and isinstance(answer, list | tuple):
        short = isinstance(right, tuple) and len(answer) != len(right)
        return f", it should have {len(right)} values" if short else ""
    # 1 == True: a number is not an answer to a question for yes or no.
    for kind in (bool, int, float, str, dict, list | tuple):
        if isinstance(right, kind):
            return "" if _is_of(kind, answer) else f", it should be {_article(right)}"
    return ""


def _is_of(kind: Any, answer: Any) -> bool:
    if kind in (int, float):
        return isinstance(answer, Number) and not isinstance(answer, bool)
    return isinstance(answer, kind)


def _article(right: Any) -> str:
    """The type of the right answer with its article: "an int", "a tuple of 2"."""
    name = type(right).__name__
    size = f" of {len(right)}" if isinstance(right, tuple) else ""
    return f"{'an' if name == 'int' else 'a'} {name}{size}"


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _is_plain(answer: Any) -> bool:
    """Whether an answer prints alike in each run; a frame or a function may not."""
    return isinstance(answer, str | Number | dict | list | tuple)


def _short(answer: Any) -> str:
    text = str(answer)
    return text if len(text) <= 80 else f"{text[:77]}..."
