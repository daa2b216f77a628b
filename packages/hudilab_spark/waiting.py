"""Wait for a condition, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable

from hudilab.errors import WaitError


def wait_for(
    condition: Callable[[], object],
    seconds: float,
    what: str,
    remedy: str = "see the logs, then start again",
) -> None:
    """Poll `condition` ten times a second until it is true; its exceptions propagate.

    Raises:
        WaitError: the condition is still false after `seconds`.
    """
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            raise WaitError(f"timed out after {seconds:g} s waiting for {what}", f"{remedy}")
        time.sleep(0.1)
