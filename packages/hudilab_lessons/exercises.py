"""Exercises that check an answer, with more help after each wrong attempt."""

from __future__ import annotations

import html
from collections.abc import Hashable
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

from IPython.display import display
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from hudilab.errors import root_cause
from hudilab_lessons import progress

LONGEST = 80  # letters of a wrong answer that is printed
_BAR = '<div style="border-left: 4px solid {}; padding: 0.2em 0.8em">{}</div>'


@dataclass(frozen=True)
class _Shown:
    """A verdict as a line with a green or an amber bar; in plain text with ✓ or ✗."""

    right: bool
    text: str

    def __repr__(self) -> str:
        return f"{'✓' if self.right else '✗'} {self.text}"

    def _repr_html_(self) -> str:
        return _BAR.format("#2e9e4f" if self.right else "#e09600", html.escape(repr(self)))


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right; true or false in an `if` or an `assert`."""

    right: bool

    def __bool__(self) -> bool:
        return self.right

    def _ipython_display_(self) -> None:
        """Show nothing as the value of a cell, because `check` has printed the verdict."""


@dataclass
class _Answers:
    """A kernel's answers to an exercise: the different wrong answers, and the newest answer."""

    wrong: dict[Hashable, Any] = field(default_factory=dict)
    newest_is_right: bool = False


# By exercise, because a second run of a check cell creates a new object of the same exercise.
_ANSWERS: dict[str, _Answers] = {}


class Exercise:
    """An exercise: the right answer, a hint, and a name for `hudilab progress`."""

    def __init__(self, right: Any, hint: str, name: str = "") -> None:
        """Define the exercise.

        Args:
            right: the right answer, or a function of an answer that returns True, False, or a text
                about the first mistake. An exception counts as False.
            hint: a sentence to print after a second wrong answer.
            name: the exercise's heading, which is unique in the lesson; for a prediction, the
                section's heading with "(prediction)". Without a name, no answer is recorded.
        """
        self._right, self._hint, self._name = right, hint, name
        self._answers = _ANSWERS.setdefault(name or hint, _Answers())

    def check(self, answer: Any) -> Verdict:
        """Show and return whether a learner's answer is right; record a right answer.

        After the first wrong answer, show its first wrong part, after the second the hint, and
        after the third a pointer to the solution. A repeated wrong answer doesn't count. `None` and
        `...`, the initial values in an exercise, are not answers. Lists and tuples are equivalent.
        """
        if answer is None or answer is ...:
            print("not attempted; write your answer, run its cell, then this one")
            self._answers.newest_is_right = False
            return Verdict(False)
        is_right, comment = self._judge(answer)
        display(_Shown(is_right, comment if is_right else comment + self._help(answer)))
        self._answers.newest_is_right = is_right
        if is_right and self._name and (notice := progress.record(self._name)):
            print(notice)
        return Verdict(is_right)

    def accepts(self, answer: Any) -> Verdict:
        """Return whether the lesson's own solution is right; record nothing, print only errors."""
        is_right, comment = self._judge(answer)
        if not is_right:
            print(f"{comment}: {self._hint}")
        return Verdict(is_right)

    @staticmethod
    def count_right() -> int:
        """Return the number of this kernel's exercises with a right newest answer."""
        return sum(answers.newest_is_right for answers in _ANSWERS.values())

    def _judge(self, answer: Any) -> tuple[bool, str]:
        is_right, problem = self._compare(answer)
        if is_right:
            return True, "right"
        # After a failed cell, the answer may be an older one, so print it.
        is_short = _is_plain(answer) and len(repr(answer)) <= LONGEST
        judged = f" (your answer: {answer!r})" if is_short else ""
        return False, f"not yet{judged}{problem}"

    def _help(self, answer: Any) -> str:
        """Return the help after a wrong answer, which increases with each new one."""
        tries = self._answers.wrong
        # A repeated answer is no new attempt. Answers are kept, so that their ids differ.
        code = getattr(answer, "__code__", id(answer))
        tries[repr(answer) if _is_plain(answer) else code] = answer
        hint = f": {self._hint}" if len(tries) > 1 else ""
        if len(tries) < 3:
            return hint
        joined = f"{hint} The" if hint.endswith("?") else f"{hint}; the"
        return f"{joined} solution is at the end of the lesson"

    def _compare(self, answer: Any) -> tuple[bool, str]:
        if not callable(self._right):
            if problem := _form(answer, self._right):
                return False, problem
            if _listed(answer) == _listed(self._right):
                return True, ""
            return False, _first_wrong(answer, self._right)
        try:
            verdict = self._right(answer)
            return (False, f", {verdict}") if isinstance(verdict, str) else (bool(verdict), "")
        except Exception as error:  # noqa: BLE001  a learner's answer can make the check raise anything
            if not callable(answer) and str(error).endswith("object is not callable"):
                return False, ", it should be a function"
            of_java = isinstance(error, Py4JJavaError | PySparkException)
            return False, f", {root_cause(str(error)) if of_java else type(error).__name__}"


def _form(answer: Any, right: Any) -> str:
    """Return a hint about the answer's type, or an empty string."""
    if isinstance(right, dict) and isinstance(answer, dict):
        keys = ", ".join(map(repr, right))
        return "" if answer.keys() == right.keys() else f", the keys should be {keys}"
    if isinstance(right, list | tuple) and isinstance(answer, list | tuple):
        short = isinstance(right, tuple) and len(answer) != len(right)
        return f", it should have {len(right)} values" if short else ""
    # 1 == True, but a number doesn't answer a yes-or-no question.
    for kind in (bool, int, float, str, dict, list | tuple):
        if isinstance(right, kind):
            return "" if _is_of(kind, answer) else f", it should be {_article(right)}"
    return ""


def _first_wrong(answer: Any, right: Any) -> str:
    """Return a text about the first wrong part of a dictionary or list, without the right value."""
    if isinstance(right, dict):
        key = next(key for key in right if answer[key] != right[key])
        return f", the value of {key!r} is wrong"
    if not isinstance(right, list | tuple):
        return ""
    pairs = enumerate(zip(answer, right, strict=False), 1)
    wrong = [number for number, (given, wanted) in pairs if given != wanted]
    if wrong:
        return f", value {wrong[0]} is wrong"
    return ", values are missing" if len(answer) < len(right) else ", it has too many values"


def _is_of(kind: Any, answer: Any) -> bool:
    if kind in (int, float):
        return isinstance(answer, Number) and not isinstance(answer, bool)
    return isinstance(answer, kind)


def _article(right: Any) -> str:
    """Return the type of the right answer with its article: "an int", "a tuple of 2"."""
    name = type(right).__name__
    size = f" of {len(right)}" if isinstance(right, tuple) else ""
    return f"{'an' if name == 'int' else 'a'} {name}{size}"


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _is_plain(answer: Any) -> bool:
    """Return whether an answer's text is the same in each run, unlike a frame or a function."""
    return isinstance(answer, str | Number | dict | list | tuple)
