"""Compare a table's newest instant with the clock, because Hudi names commits after the time.

If the clock was ahead and is then set right, the next commit gets an earlier instant than those
that the table has. Hudi commits it, but its file slices are not the newest of their file groups, so
no reader ever returns the rows. No setting of Hudi 1.2 prevents that. Its only time generator
(`hoodie.time.generator.type`, WAIT_TO_ADJUST_SKEW) takes the time, then sleeps for
`hoodie.time.generator.max_expected_clock_skew_ms` (200), until the clocks of other writers have
passed it, too. It never looks at the timeline. Within a JVM, instants do increase: after the clock
was set back, Hudi waits until it has passed the last one, even if that takes an hour.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

from hudilab.errors import TableError

LONGEST = 10.0  # seconds for which a write waits until the clock has passed the newest instant
NOTICE = 1.0  # a longer wait is printed


def latest(instants: str) -> str:
    """Return the latest time in a text of instants, requested or completed; empty without one."""
    # Hudi treats instants of whole seconds, from older releases, as the end of the second.
    return max((time.ljust(17, "9") for time in re.findall(r"\d{14,17}", instants)), default="")


def seconds_behind(newest: str, now: str) -> float:
    """Return the seconds until the clock (`now`) has passed another instant; 0 if it has."""
    if newest < now:
        return 0.0
    moments = _moment(newest), _moment(now)
    if moments[0] is None or moments[1] is None:
        return math.inf
    return (moments[0] - moments[1]).total_seconds() + 0.001


def clock_behind(table: str, newest: str, now: str, zone: str) -> TableError:
    """Return the error that names both times; `zone` is that of the table's instants."""
    shown = _shown(newest)
    return TableError(
        f"the clock is behind the table {table}: the newest instant is {shown}, but the clock "
        f"shows {_shown(now)} ({zone} time), so no reader would ever see the rows of this write",
        f"set the clock if it is wrong, else start again after {shown}",
    )


def clock_ahead(table: str, seconds: float) -> TableError:
    """Return the error about a clock that is ahead of the clock of the table's storage."""
    return TableError(
        f"the clock is {seconds:.0f} s ahead of the clock of the storage of {table}, so this "
        "writer would take others for dead and roll back what they are writing",
        "set the clock, and start again",
    )


def _moment(instant: str) -> datetime | None:
    try:
        return datetime.strptime(instant, "%Y%m%d%H%M%S%f")
    except ValueError:
        return None


def _shown(instant: str) -> str:
    moment = _moment(instant)
    return instant if moment is None else moment.isoformat(" ", "milliseconds")
