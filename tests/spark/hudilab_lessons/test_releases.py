"""A function runs with an older release of Hudi, and what goes wrong there is one line."""

from __future__ import annotations

import os
from typing import Any

import pytest

from hudilab.errors import SessionError
from hudilab.settings import load_settings
from hudilab_lessons.releases import Release

pytestmark = [pytest.mark.deep, pytest.mark.network]


def add(spark: Any, number: int) -> Any:
    return spark.range(3).count() + number


def fail(spark: Any) -> Any:
    return spark.sql("SELECT * FROM nowhere").count()


def end(spark: Any) -> Any:
    __import__("os")._exit(3)


def test_what_runs_there() -> None:
    release = Release(load_settings(env=dict(os.environ)), "0.15")
    try:
        assert release.run(add, number=4) == 7
        with pytest.raises(SessionError, match=r"Hudi 0\.15: .*TABLE_OR_VIEW_NOT_FOUND"):
            release.run(fail)
        for _ in range(2):
            with pytest.raises(SessionError, match=r"the session of Hudi 0\.15 has ended: .*; res"):
                release.run(end)
    finally:
        release.close()
