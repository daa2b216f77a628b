"""Import the lab's own modules, and not others of the same name that PYTHONPATH leads to."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from hudilab.errors import ConfigError


def source_folders() -> list[Path]:
    """Return the folders that the lab is imported from: in a checkout, `lib` and `packages`."""
    here = Path(__file__).resolve().parents[1]
    return [here, *filter(Path.is_dir, [here.with_name("packages")])]


def shadows(folders: str) -> Iterator[tuple[str, str]]:
    """Yield each folder of a PYTHONPATH that hides a module of the lab, and the module's file.

    This includes modules of Python's library, and of the packages that the lab installs.
    """
    own = {Path(path).resolve() for path in sys.path if path.endswith("site-packages")}
    own.update(source_folders())
    known = set(sys.stdlib_module_names).union(*map(_modules, own)) - {"__pycache__"}
    for folder in filter(None, folders.split(os.pathsep)):
        if Path(folder).resolve() not in own and (
            hidden := known & set(modules := _modules(folder))
        ):
            yield folder, modules[min(hidden)]


def take_over_path(env: MutableMapping[str, str] = os.environ) -> None:
    """Ignore the folders of PYTHONPATH that hide a module of the lab, and report it on stderr.

    For this process and those it starts. Returns at once if PYTHONPATH is not set.

    Raises:
        ConfigError: this process has imported one of the hiding modules already.
    """
    given = env.get("PYTHONPATH", "")
    # A worker's and a submitted program's PYTHONPATH is Spark's own.
    if not given or "SPARK_ENV_LOADED" in env or not (hiding := dict(shadows(given))):
        return
    gone = {str(Path(folder).absolute()) for folder in hiding}
    sys.path[:] = [path for path in sys.path if str(Path(path).absolute()) not in gone]
    if kept := [folder for folder in given.split(os.pathsep) if folder and folder not in hiding]:
        env["PYTHONPATH"] = os.pathsep.join(kept)
    else:
        del env["PYTHONPATH"]
    files = set(hiding.values())
    if late := sorted(
        files & {getattr(module, "__file__", "") for module in list(sys.modules.values())}
    ):
        raise ConfigError(
            f"{late[0]} was imported in place of the lab's own module, because PYTHONPATH names "
            "its folder",
            "unset PYTHONPATH and start again",
        )
    print(
        f"hudilab: ignored the folders of PYTHONPATH that hide a module of the lab's "
        f"({', '.join(sorted(files))}); take them out of PYTHONPATH",
        file=sys.stderr,
        flush=True,
    )


def _modules(folder: str | Path) -> dict[str, str]:
    """Return the modules in a folder, each with its file; a folder without __init__ hides none."""
    modules = {}
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return {}
    for entry in entries:
        name, _, rest = entry.name.partition(".")
        if entry.is_dir():
            init = Path(entry.path, "__init__.py")
            if init.is_file():
                modules[entry.name] = str(init)
        elif rest in ("py", "pyc") or rest.endswith("so"):
            modules[name] = entry.path
    return modules
