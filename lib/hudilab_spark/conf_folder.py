"""One folder with every file of conf/, for the programs that look for all of them in one place."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import get_args

from hudilab.errors import PathError
from hudilab.files import private_folder
from hudilab.groups import FILE
from hudilab.settings import Runtime, Settings


def conf_files(settings: Settings) -> dict[str, Path]:
    """Return the files of conf/ and of the runtimes' folders in it, by their path within conf/.

    Files that HUDILAB_CONF lacks are the project's, but for those that name tables and servers.
    """
    files_by_name: dict[str, Path] = {}
    for folder in (settings.project / "conf", settings.conf_dir):
        for part in ("", *(name.lower() for name in get_args(Runtime))):
            files = [file for file in (folder / part).glob("[!.]*") if file.is_file()]
            files_by_name |= {
                str(Path(part, file.name)): file
                for file in files
                if folder == settings.conf_dir or file.name != FILE
            }
    return files_by_name


def conf_folder(settings: Settings) -> Path:
    """Return HUDILAB_CONF, or if files are missing there, a folder in the home with links to all.

    Raises:
        PathError: the home cannot be written.
    """
    wanted = conf_files(settings)
    if all(file.is_relative_to(settings.conf_dir) for file in wanted.values()):
        return settings.conf_dir
    digest = sha256(os.fsencode(settings.conf_dir)).hexdigest()[:16]
    folder = settings.home / "conf" / digest
    try:
        for name, file in wanted.items():
            _link(private_folder((folder / name).parent) / file.name, file)
        for link in folder.rglob("[!.]*"):
            if link.is_symlink() and str(link.relative_to(folder)) not in wanted:
                link.unlink(missing_ok=True)
    except OSError as error:
        raise PathError(
            f"cannot write to {folder} ({error.strerror})",
            "make it writable, or set HUDILAB_HOME to a writable folder",
        ) from None
    return folder


def _link(link: Path, file: Path) -> None:
    """Point a link to a file in one step: another program may be reading it."""
    if link.is_symlink() and link.readlink() == file:
        return
    half = link.with_name(f".{link.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    half.symlink_to(file)
    half.replace(link)
