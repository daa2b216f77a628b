"""Whether a test can act as another account: that takes root, and programs the other can start.

A home of mode 0700, such as root's, is closed to other accounts, and so is a checkout in it.
"""

from __future__ import annotations

import os
import stat
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
