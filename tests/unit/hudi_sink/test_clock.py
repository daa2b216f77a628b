"""The rule of the clock by itself; tests/spark/hudi_sink/test_clock.py sets real tables ahead."""

from __future__ import annotations

import math

import pytest
from refusals import assert_refusal

from hudi_sink.clock import clock_behind, latest, seconds_behind

COMMIT = "[20261127121700198__20261127121704157__commit__COMPLETED]"
PENDING = "[==>20261127121800000__deltacommit__REQUESTED]"


@pytest.mark.parametrize(
    ("instants", "newest"),
    [
        ("[]", ""),
        (f"[{COMMIT}]", "20261127121704157"),
        (f"[{COMMIT}, {PENDING}]", "20261127121800000"),
        (f"[{PENDING}, {COMMIT}]", "20261127121800000"),
        # Of whole seconds, as Hudi 0.x made them, and beside one of milliseconds.
        ("[20261127121704__commit__COMPLETED]", "20261127121704999"),
        (f"[{COMMIT}, 20261127121704__clean__COMPLETED]", "20261127121704999"),
        ("[00000000000002__commit__COMPLETED]", "00000000000002999"),
    ],
)
def test_the_newest_instant_is_of_any_action_and_state(instants: str, newest: str) -> None:
    assert latest(instants) == newest


@pytest.mark.parametrize(
    ("newest", "now", "seconds"),
    [
        ("", "20261127121704157", 0),
        ("20261127121704156", "20261127121704157", 0),
        # The next instant has to be later, not equal.
        ("20261127121704157", "20261127121704157", 0.001),
        ("20261127121705000", "20261127121704157", 0.844),
        ("20270101000000000", "20261231235959999", 0.002),
        ("20261127131704157", "20261127121704157", 3600.001),
        # No time, but Hudi compares texts.
        ("99999999999999999", "20261127121704157", math.inf),
    ],
)
def test_how_far_the_clock_is_behind(newest: str, now: str, seconds: float) -> None:
    assert seconds_behind(newest, now) == pytest.approx(seconds, abs=1e-9)


def test_a_refusal_names_both_times() -> None:
    assert_refusal(
        str(clock_behind("<table>", "20261127131704157", "20261127121704157", "UTC")),
        "<table>",
        "2026-11-27 13:17:04.157",
        "2026-11-27 12:17:04.157 (UTC time)",
        remedy="; set the clock if it is wrong, else start again after 2026-11-27 13:17:04.157",
    )
    assert "instant is 99999999999999999," in str(
        clock_behind("<table>", "9" * 17, "2" * 17, "UTC")
    )
