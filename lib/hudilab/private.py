"""Create folders and files that no other account on the machine can read."""

from __future__ import annotations

import os
from pathlib import Path


def private_folder(folder: Path) -> Path:
    """Create the folder and its missing parents with mode 0700, and return it.

    Existing folders keep their mode.

    Raises:
        OSError: a folder cannot be created.
    """
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)
    return folder


def write_private(file: Path, text: str) -> None:
    """Write a file that only this account can read: mode 0600 from the first byte on.

    The write is atomic: a temporary file in the same folder, then a rename.
    """
    half = file.with_name(f".{file.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(text.encode())
    half.replace(file)
