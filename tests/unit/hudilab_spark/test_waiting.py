"""A wait has a limit, and says what did not come."""

from __future__ import annotations

import pytest

from hudilab.errors import WaitError
from hudilab_spark.waiting import wait_for


def test_it_asks_until_the_condition_is_true() -> None:
    answers = iter([0, [], "", "there"])
    wait_for(lambda: next(answers), 60, "an answer")
    assert list(answers) == []


def test_what_does_not_come_is_named() -> None:
    with pytest.raises(WaitError) as caught:
        wait_for(lambda: False, 0.2, "two commits", "see its log /a.log")
    assert str(caught.value) == "timed out after 0.2 s waiting for two commits; see its log /a.log"
    with pytest.raises(
        WaitError, match=r"^timed out after 0 s waiting for a worker; see the logs, then "
    ):
        wait_for(lambda: False, 0, "a worker")
