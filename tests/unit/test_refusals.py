"""The tests' own check of refusals finds a wrong name and a wrong remedy."""

from __future__ import annotations

import pytest
from refusals import assert_refusal, refused

from hudilab.errors import PathError, TableError

TEXT = "table t1 lacks column v, which is the key; add it with: hudilab add v"


def test_the_names_in_order_and_the_remedy() -> None:
    assert_refusal(TEXT, "table t1", "v", "key", remedy="; add it with: hudilab add v")
    with refused(TableError, "column v", remedy="hudilab add v"):
        raise TableError(TEXT)


@pytest.mark.parametrize(
    ("failed", "remedy", "problem"),
    [
        (("table t2",), "hudilab add v", "'table t2' is not named before the remedy"),
        (("table t",), "hudilab add v", "'table t' is not named before the remedy"),
        (("able t1",), "hudilab add v", "'able t1' is not named before the remedy"),
        (("column v", "table t1"), "hudilab add v", "'table t1' is not named before the remedy"),
        (("hudilab",), "hudilab add v", "'hudilab' is not named before the remedy"),
        (("table t1",), "hudilab add w", "does not end in 'hudilab add w'"),
        (("table t1",), "hudilab add", "does not end in 'hudilab add'"),
        ((), "hudilab add v", "give what failed"),
        (("table t1",), "", "give the remedy"),
    ],
)
def test_another_refusal_fails(failed: tuple[str, ...], remedy: str, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        assert_refusal(TEXT, *failed, remedy=remedy)


def test_a_refusal_is_one_line() -> None:
    with pytest.raises(AssertionError, match="more than one line"):
        assert_refusal(TEXT.replace("; ", ";\n"), "table t1", remedy="hudilab add v")


def test_another_kind_of_error_is_not_caught() -> None:
    with pytest.raises(PathError), refused(TableError, "column v", remedy="hudilab add v"):
        raise PathError(TEXT)


def test_a_block_that_refuses_nothing_fails() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"),
        refused(TableError, "column v", remedy="hudilab add v"),
    ):
        pass
