"""Handle Ctrl-C and SIGTERM in a program with a stream.

The first signal stops the stream after its batch, and the second ends the program.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

CLEANUP_SECONDS = 1.0  # for a JVM to remove its temporary files
WIPE = "\r\x1b[K"  # clears the line of a terminal


@contextmanager
def stop_on_signal(
    signals: list[int] | None = None, *, at_once: bool = False
) -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list instead of ending the program; restore handlers on exit.

    The first signal prints a line on stderr. A second signal ends this process and its JVM at once
    with exit code 128 + signal, and the stream later resumes from its checkpoint. Open the session
    first, because Spark installs its own handler.

    Args:
        signals: A list that other blocks of this program share.
        at_once: Raise KeyboardInterrupt at the first signal, because there is no batch to finish.
    """
    received: list[int] = [] if signals is None else signals
    stderr = os.dup(2)  # while a JVM starts, descriptor 2 is the JVM's log
    after = "" if at_once else " after this batch; press Ctrl-C again to stop at once"
    line = f"{WIPE if os.isatty(stderr) else ''}hudilab: stopping{after}\n"

    def receive(number: int, _: FrameType | None) -> None:
        if received:
            _end(number)
        received.append(number)
        with suppress(OSError):  # print might be interrupted in the middle of a line
            os.write(stderr, line.encode())
        if at_once:
            logging.disable()  # py4j would print a traceback of the interrupted call
            raise KeyboardInterrupt

    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        logging.disable(logging.NOTSET)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(stderr)


def _end(number: int) -> NoReturn:
    """End this process and its JVM."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    java = getattr(getattr(context, "_gateway", None), "proc", None)
    if java is not None:
        java.terminate()
        try:
            java.wait(CLEANUP_SECONDS)
        except subprocess.TimeoutExpired:
            java.kill()
    os._exit(128 + number)
