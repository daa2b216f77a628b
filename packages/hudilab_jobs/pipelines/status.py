"""Show a job's current activity on stderr, between its lines."""

from __future__ import annotations

import os
import shutil
import time
from threading import Event, Lock, Thread
from types import TracebackType

from hudilab_spark.signals import WIPE

SECOND, MINUTE = 1.0, 60.0


class Status:
    """Shows a text with its age: updated in a terminal, else as a line after a minute of silence.

    A thread writes the text, so that it also appears while the program waits for Spark.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
        self._stderr = os.dup(2)  # while a JVM starts, descriptor 2 is the JVM's log
        self._in_place, self._is_shown = os.isatty(self._stderr), is_shown
        self._text, self._since = "", time.monotonic()
        self._printed = self._since
        self._lock, self._ended = Lock(), Event()
        self._thread = Thread(target=self._run, name="hudilab-status", daemon=True)

    def __enter__(self) -> Status:
        """Start showing the text."""
        if self._is_shown:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop showing the text."""
        self._ended.set()
        if self._is_shown:
            self._thread.join()
        self._wipe()
        os.close(self._stderr)

    def show(self, text: str) -> None:
        """Show this text from now on."""
        if text != self._text:
            self._text, self._since = text, time.monotonic()

    def print(self, line: str, *, to_stderr: bool = False) -> None:
        """Print a line of the job."""
        with self._lock:
            self._wipe()
            if to_stderr:
                os.write(self._stderr, f"hudilab: {line}\n".encode())
            else:
                print(line, flush=True)
            self._printed = time.monotonic()

    def _run(self) -> None:
        while not self._ended.wait(SECOND):
            now = time.monotonic()
            with self._lock:
                if self._text and (self._in_place or now - self._printed >= MINUTE):
                    self._write(f"{self._text}, {_age(now - self._since)}")
                    self._printed = now

    def _write(self, text: str) -> None:
        if not self._in_place:
            os.write(self._stderr, f"hudilab: {text}\n".encode())
            return
        # The cursor stays at the start, so that the next line replaces this text.
        width = shutil.get_terminal_size().columns - 1
        os.write(self._stderr, f"{WIPE}{text[:width]}\r".encode())

    def _wipe(self) -> None:
        if self._in_place and self._is_shown:
            os.write(self._stderr, WIPE.encode())


def _age(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 2 * MINUTE else f"{seconds / MINUTE:.0f} min"
