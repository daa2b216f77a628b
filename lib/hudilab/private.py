"""Folders and files that no other account of the machine can read."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["private_folder", "write_private"]


def private_folder(folder: Path) -> Path:
    """The folder, made where it is missing, as what is missing above it is: mode 0700.

    A folder that is there keeps its mode. Raises OSError.
    """
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)
    return folder


def write_private(file: Path, text: str) -> None:
    """Write a file that this account alone can read: mode 0600 from its first byte on.

    It is written beside and renamed, so that it is never half there.
    """
    half = file.with_name(f".{file.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        out.write(text.encode())
    half.replace(file)
