"""Times, sizes and counts as text."""

from __future__ import annotations

from datetime import UTC, datetime


def iso(moment: datetime | None) -> str | None:
    """Return a moment as ISO 8601 in UTC with milliseconds."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size(count: float) -> str:
    """Return a number of bytes in readable units."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")
