"""Times, sizes and counts as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from hudi_inspect.units import iso, many, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1024**2 - 1024, "1023.0 KiB"),
        (1024**2, "1.0 MiB"),
        (1024**3, "1.0 GiB"),
        (5000 * 1024**3, "5000.0 GiB"),
    ],
)
def test_a_size(count: int, text: str) -> None:
    assert size(count) == text


def test_a_moment_is_utc_with_milliseconds() -> None:
    assert iso(None) is None
    zone = timezone(timedelta(hours=2))
    assert iso(datetime(2026, 1, 1, 1, tzinfo=zone)) == "2025-12-31T23:00:00.000Z"
    assert iso(datetime(2026, 1, 1, 1, microsecond=5999, tzinfo=UTC)) == "2026-01-01T01:00:00.005Z"


def test_a_count() -> None:
    assert [many(n, "file") for n in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]
