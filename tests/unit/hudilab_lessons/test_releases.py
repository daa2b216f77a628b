"""An older release of Hudi reaches tables on this disk only."""

from __future__ import annotations

import pytest

from hudilab.errors import SessionError
from hudilab.settings import load_settings
from hudilab_lessons.releases import Release


def test_a_warehouse_on_s3_is_refused() -> None:
    with pytest.raises(SessionError) as raised:
        Release(load_settings(env={"RUNTIME_ENV": "AWS", "IS_LOCAL": "false"}), "0.15")
    assert str(raised.value) == (
        "Hudi 0.15 runs in a separate Spark, which can only access this disk; run the lesson with "
        "the local warehouse: -p runtime LOCAL"
    )
