"""Find the folder on this disk that an account may not read or write, and say what helps."""

from __future__ import annotations

import os
import pwd
import shlex
import stat
from pathlib import Path

from hudilab.paths import local_path


def denied(uri: str, *inside: str, write: bool) -> tuple[str, str] | None:
    """Return the folder that the account may not read or write, and the remedy; None if it may.

    Args:
        inside: Folders in it to check, too; missing folders are ignored.
    """
    if (local := local_path(uri)) is None:
        return None
    for folder in (local, *(local / name for name in inside)):
        # A folder below one without access seems to be missing.
        deepest = next(above for above in (folder, *folder.parents) if os.path.lexists(above))
        needed = os.X_OK
        if deepest == folder:
            needed |= os.W_OK if write else os.R_OK
        if os.path.isdir(deepest) and not os.access(deepest, needed):  # noqa: PTH112 - no error
            return _whose(deepest, write)
    return None


def _whose(folder: Path, write: bool) -> tuple[str, str]:
    status = folder.stat()
    owner, me = _account(status.st_uid), _account(os.geteuid())
    if write and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return f"{folder} is on a file system that is mounted read-only", "mount it writable"
    if owner == me:
        mode = f"{stat.S_IMODE(status.st_mode):04o}"
        return f"{folder} has mode {mode}", f"run: chmod u+rwx {shlex.quote(str(folder))}"
    return (
        f"{folder} belongs to {owner}, and {me} may not {'write to' if write else 'read'} it",
        f"run this as {owner}, or have {owner} grant {me} access",
    )


def _account(number: int) -> str:
    """Return an account's name, or its number if it has no name, as in many containers."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
