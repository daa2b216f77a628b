"""Compare a table's newest instant with the clock, because Hudi derives instants from the time.

If the clock was ahead and is then corrected, the next commit gets an earlier instant than existing
commits. Hudi completes it, but its slices aren't the newest of existing file groups, so no query
returns their rows. Rows in new file groups are missing from incremental queries. No setting of Hudi
1.2 prevents that: its only time generator (`hoodie.time.generator.type`, WAIT_TO_ADJUST_SKEW) reads
the clock and sleeps for `hoodie.time.generator.max_expected_clock_skew_ms` (200), without a look at
the timeline. Within a JVM instants do increase: Hudi waits until the clock has passed the last
instant, even for an hour.
"""

from __future__ import annotations

import math
import re
from datetime import datetime

from hudilab.errors import TableError

LONGEST = 10.0  # seconds for which a write waits until the clock has passed the newest instant
NOTICE = 1.0  # longer waits are logged


def latest(instants: str) -> str:
    """Return the latest time in a text of instants, requested or completed; empty if none."""
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
    """Return the error for a clock that is behind; `zone` is the zone of the table's instants."""
    shown = _shown(newest)
    return TableError(
        f"the clock is behind the table {table}: the newest instant is {shown}, but the clock "
        f"shows {_shown(now)} ({zone} time), so readers would miss rows of this write",
        f"set the clock if it is wrong, else start again after {shown}",
    )


def clock_ahead(table: str, seconds: float) -> TableError:
    """Return the error about a clock that is ahead of the clock of the table's storage."""
    return TableError(
        f"the clock is {seconds:.0f} s ahead of the clock of the storage of {table}, so this "
        "writer would consider other writers dead and roll back their writes",
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
