"""A refusal is pinned by what it names and by its remedy, so that its prose can be reworded.

An error of the lab is one line: what failed, then the remedy, which ends it. Give of the first part
the names and values that a user needs, such as "option 'hoodie.a'", and the remedy as it is typed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from hudilab.errors import LabError


def assert_refusal(text: str, *failed: str, remedy: str) -> None:
    """Assert that a refusal is one line that names all of `failed` in order, then ends in `remedy`.

    Names count as whole words: `t1` is not named by `t10`.
    """
    assert failed, "give what failed"
    assert remedy, "give the remedy"
    assert "\n" not in text, f"more than one line: {text}"
    assert text.endswith(remedy), f"does not end in {remedy!r}: {text}"
    rest = text.removesuffix(remedy)
    for name in failed:
        found = _after(rest, name)
        assert found is not None, f"{name!r} is not named before the remedy: {text}"
        rest = found


@contextmanager
def refused(
    kind: type[LabError], *failed: str, remedy: str
) -> Iterator[pytest.ExceptionInfo[LabError]]:
    """The block must raise an error of this kind that `assert_refusal` accepts."""
    with pytest.raises(kind) as caught:
        yield caught
    assert_refusal(str(caught.value), *failed, remedy=remedy)


def _after(text: str, name: str) -> str | None:
    """What follows the first place where the name stands as a whole word, or None."""
    start = text.find(name)
    while start >= 0:
        end = start + len(name)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (_joined(before, name[0]) or _joined(name[-1], after)):
            return text[end:]
        start = text.find(name, start + 1)
    return None


def _joined(left: str, right: str) -> bool:
    """Whether two neighbours are within one word."""
    return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")
