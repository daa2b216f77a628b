"""Let a test act as another account, or without root's right to read everything; needs root.

A home of mode 0700, such as root's, is closed to other accounts, and so is a checkout in it.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534


def why_not(*needed: Path) -> str:
    """Return why NOBODY cannot use these files, or why nothing can act as NOBODY; empty if it can.

    Files that a test's program loads before it becomes NOBODY are not needed.
    """
    if os.geteuid() != 0:
        return "only root can act as another account"
    for path in needed:
        for folder in reversed((*path.parents, *path.resolve().parents)):
            if not folder.stat().st_mode & stat.S_IXOTH:
                return f"other accounts cannot enter {folder}, and need {path.name} in it"
    return ""


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """Make file modes apply to root, in this thread and those it starts."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert libc.capget(header, sets) == 0
    effective = sets[0]
    sets[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
    assert libc.capset(header, sets) == 0
    try:
        yield
    finally:
        sets[0] = effective
        assert libc.capset(header, sets) == 0
