"""Exercises that check an answer, and help more after each wrong attempt."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from numbers import Number
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from hudilab.errors import root_cause
from hudilab_lessons import progress


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right; true or false in an `if` or an `assert`."""

    right: bool

    def __bool__(self) -> bool:
        return self.right

    def _ipython_display_(self) -> None:
        """Show nothing as the value of a cell: `check` has printed the verdict."""


@dataclass
class _Answers:
    """The answers to one exercise in this kernel: the different wrong ones, and the newest."""

    wrong: dict[Hashable, Any] = field(default_factory=dict)
    newest_is_right: bool = False


# By exercise: a check cell that runs again makes a new object of the same exercise.
_ANSWERS: dict[str, _Answers] = {}


class Exercise:
    """One exercise: its right answer, a hint for wrong ones, and its name in `hudilab progress`."""

    def __init__(self, right: Any, hint: str, name: str = "") -> None:
        """Say what is right.

        Args:
            right: the right answer, or a function that gets an answer and returns True, or False,
                or a text that names the first wrong thing. A function that raises counts as False.
            hint: one sentence that helps after a second wrong answer.
            name: the heading of the exercise, which is unique in the lesson; for a prediction, the
                section's with "(prediction)". Without a name, a right answer is not recorded.
        """
        self._right, self._hint, self._name = right, hint, name
        self._answers = _ANSWERS.setdefault(name or hint, _Answers())

    def check(self, answer: Any) -> Verdict:
        """Print and return whether a learner's answer is right; record it if it is.

        The first wrong answer gets its first wrong part, the second also the hint, and the third
        points to the solution. Repeating a wrong answer does not count as another try. `None` and
        `...`, the values in an exercise before you start, are not answers. A list is as good as a
        tuple.
        """
        if answer is None or answer is ...:
            print("not attempted; write your answer, run its cell, then this one")
            self._answers.newest_is_right = False
            return Verdict(False)
        is_right, comment = self._judge(answer)
        print(comment if is_right else comment + self._help(answer))
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
        """Return how many exercises this kernel has checked whose newest answer is right."""
        return sum(answers.newest_is_right for answers in _ANSWERS.values())

    def _judge(self, answer: Any) -> tuple[bool, str]:
        is_right, problem = self._compare(answer)
        if is_right:
            return True, f"right: {_short(answer)}"
        # After a failed cell, the check judges an older answer, so it names the answer.
        judged = f" (your answer: {_short(repr(answer))})" if _is_plain(answer) else ""
        return False, f"not yet{judged}{problem}"

    def _help(self, answer: Any) -> str:
        """Return the help after a wrong answer: more for each new one."""
        tries = self._answers.wrong
        # Repeating an answer is not a new try. Answers are kept, so that no two share an id.
        code = getattr(answer, "__code__", id(answer))
        tries[repr(answer) if _is_plain(answer) else code] = answer
        hint = f": {self._hint}" if len(tries) > 1 else ""
        if len(tries) < 3:
            return hint
        joined = f"{hint} The" if hint.endswith("?") else f"{hint}; the"
        return f"{joined} solution is folded below"

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
    # 1 == True: a number is not an answer to a question for yes or no.
    for kind in (bool, int, float, str, dict, list | tuple):
        if isinstance(right, kind):
            return "" if _is_of(kind, answer) else f", it should be {_article(right)}"
    return ""


def _first_wrong(answer: Any, right: Any) -> str:
    """Name the first wrong part of a dictionary or a list, without giving its right value away."""
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
    if isinstance(answer, DataFrame):
        text = f"DataFrame[{', '.join(map(': '.join, answer.dtypes))}]"  # without a query
    else:
        text = getattr(answer, "__name__", None) or str(answer)
    return text if len(text) <= 80 else f"{text[:77]}..."
