"""Wait for something while a program that the test started is running."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from hudilab.operations.waiting import wait_for


def wait_while_running(
    program: subprocess.Popen[str], condition: Callable[[], object], seconds: float, what: str
) -> None:
    """Wait until `condition` is true; fail at once, with the program's stderr, if it ends first."""

    def there() -> object:
        assert program.poll() is None, program.communicate()[1][-3000:]
        return condition()

    wait_for(there, seconds, what)
