"""An older release of Hudi reaches tables on this disk only."""

from __future__ import annotations

import pytest

from hudilab.errors import SessionError
from hudilab.settings import load_settings
from hudilab_lessons.releases import GROUPS, Release
from hudilab_spark.jars import read_lock


def test_a_warehouse_on_s3_is_refused() -> None:
    with pytest.raises(SessionError) as raised:
        Release(load_settings(env={"RUNTIME_ENV": "AWS", "IS_LOCAL": "false"}), "0.15")
    assert str(raised.value) == (
        "Hudi 0.15 runs in a separate Spark, which can only access this disk; run the lesson with "
        "the local warehouse: -p runtime LOCAL"
    )


def test_the_lock_has_the_releases() -> None:
    lock = read_lock(load_settings(env={}).project / "jars" / "jars.lock")
    versions = {
        name: lock[group][0].coordinate.rpartition(":")[2] for name, group in GROUPS.items()
    }
    assert versions == {"0.15": "0.15.0", "1.0": "1.0.2"}
