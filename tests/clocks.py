"""Tables whose writer had a clock that was ahead, and programs whose clock can be set."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from running import folder

# Adds the seconds in a file to the time of day that a process reads; they may change meanwhile.
PRELOAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *ahead;  /* nanoseconds */

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("CLOCK_AHEAD");
  int file = path ? open(path, O_RDONLY) : -1;
  if (file >= 0) ahead = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    long long time = now->tv_sec * 1000000000LL + now->tv_nsec + *ahead;
    now->tv_sec = time / 1000000000LL;
    now->tv_nsec = time % 1000000000LL;
  }
  return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec precise;
  (void)zone;
  int failed = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return failed;
}

time_t time(time_t *seconds) {
  struct timespec precise;
  clock_gettime(CLOCK_REALTIME, &precise);
  if (seconds) *seconds = precise.tv_sec;
  return precise.tv_sec;
}
"""


def instants(table: str) -> list[str]:
    """All times in the names of a timeline's files."""
    files = (folder(table) / ".hoodie" / "timeline").glob("*")
    return re.findall(r"\d{17}", " ".join(file.name for file in files))


def set_ahead(table: str, seconds: float) -> None:
    """Rename all instants, as if the clock of the table's writer had been ahead."""

    def later(match: re.Match[bytes]) -> bytes:
        moment = datetime.strptime(match[0].decode(), "%Y%m%d%H%M%S%f")
        return f"{moment + timedelta(seconds=seconds):%Y%m%d%H%M%S%f}"[:17].encode()

    time = re.compile(rb"20\d{15}")
    for file in [file for file in folder(table).rglob("*") if file.is_file()]:
        if file.suffix == ".crc":
            file.unlink()
            continue
        if ".hoodie" in file.parts:
            file.write_bytes(time.sub(later, file.read_bytes()))
        file.rename(file.with_name(time.sub(later, file.name.encode()).decode()))
    # A commit in flight finds its files by its folder of markers.
    for markers in (folder(table) / ".hoodie" / ".temp").glob("20*"):
        markers.rename(markers.with_name(time.sub(later, markers.name.encode()).decode()))


def set_newest_ahead(table: str, seconds: float) -> None:
    """Rename all instants, so that the newest is `seconds` later than now."""
    newest = datetime.strptime(max(instants(table)), "%Y%m%d%H%M%S%f")
    now = datetime.now(UTC).replace(tzinfo=None)
    set_ahead(table, seconds + (now - newest).total_seconds())


class Clock:
    """The clock of programs that start with `env`; it is right until it is `set`."""

    def __init__(self, home: Path) -> None:
        if (compiler := shutil.which("cc")) is None:
            pytest.skip("no C compiler, to set the clock of one program only")
        self._file, library = home / "clock", home / "clock.so"
        home.mkdir(exist_ok=True)
        source = library.with_suffix(".c")
        source.write_text(PRELOAD)
        command = [compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"]
        subprocess.run(command, check=True)
        self.set(0)
        self.env = {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(self._file)}

    def set(self, ahead: float) -> None:
        """Set the clock of all its programs so many seconds ahead."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", round(ahead * 1e9)))
