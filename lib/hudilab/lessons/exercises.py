"""Exercises that say whether an answer is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
        """Print and return whether an answer is right; if not, print the hint, too.

        `None` and `...`, the values in an exercise before you start, are never right.
        """
        if answer is None or answer is ...:
            print(f"no answer yet: {self._hint}")
            return Verdict(False)
        found, problem = self._compare(answer)
        print(f"right: {_short(answer)}" if found else f"not yet{problem}: {self._hint}")
        return Verdict(found)

    def _compare(self, answer: Any) -> tuple[bool, str]:
        right: Callable[[Any], Any] = self._right if callable(self._right) else self._equal
        try:
            return bool(right(answer)), ""
        except Exception as error:  # whatever a learner's answer does to the check
            return False, f", {type(error).__name__}"

    def _equal(self, answer: Any) -> bool:
        # 1 == True: a number is not an answer to a question for yes or no.
        return isinstance(answer, bool) == isinstance(self._right, bool) and answer == self._right


def _short(answer: Any) -> str:
    text = str(answer)
    return text if len(text) <= 80 else f"{text[:77]}..."
