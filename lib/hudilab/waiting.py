"""Wait for a condition, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable

from hudilab.errors import WaitError

__all__ = ["wait_for"]


def wait_for(
    condition: Callable[[], object],
    seconds: float,
    what: str,
    remedy: str = "see the logs, and start again",
) -> None:
    """Ask `condition` ten times a second until it is true; what it raises is not caught.

    `what` names the awaited thing, and `remedy` what to do when it does not come.
    Errors: WaitError after `seconds`.
    """
    ends = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > ends:
            raise WaitError(f"waited {seconds:g} s for {what}, in vain; {remedy}")
        time.sleep(0.1)
