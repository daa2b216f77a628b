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
    """Assert that a text is one line that names all of `failed` in order and ends in `remedy`."""
    assert "\n" not in text, f"more than one line: {text}"
    assert text.endswith(remedy), f"does not end in {remedy!r}: {text}"
    rest = text.removesuffix(remedy)
    for name in failed:
        _, named, rest = rest.partition(name)
        assert named, f"{name!r} is not named before the remedy: {text}"


@contextmanager
def refused(
    kind: type[LabError], *failed: str, remedy: str
) -> Iterator[pytest.ExceptionInfo[LabError]]:
    """The block must raise an error of this kind that `assert_refusal` accepts."""
    with pytest.raises(kind) as caught:
        yield caught
    assert_refusal(str(caught.value), *failed, remedy=remedy)
