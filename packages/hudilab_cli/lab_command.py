"""Open JupyterLab from a checkout; see `hudilab lab --help`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from hudilab.errors import ConfigError


def open_lab(project: Path, arguments: Sequence[str]) -> None:
    """Replace this process with `tools/lab.py`, which opens copies of the notebooks.

    Raises:
        ConfigError: the project has no such file, because it is no checkout.
    """
    program = project / "tools" / "lab.py"
    if not program.is_file():
        raise ConfigError(
            f"{project} is no checkout, so it has no notebooks",
            "clone the repository, and run: export HUDILAB_CONF=/path/to/checkout/conf",
        )
    os.execv(sys.executable, [sys.executable, str(program), *arguments])  # does not return
