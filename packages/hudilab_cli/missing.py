"""The command that installs what a light installation lacks."""

from __future__ import annotations

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

_CHECKOUT = Path(__file__).resolve().parents[2]  # without one, this is a folder of Python's
_STAMP = "hudilab-setup.json"  # in an environment that `make setup` made


def install_command(checkout: Path = _CHECKOUT, prefix: Path = Path(sys.prefix)) -> str:
    """Return the command for this environment: of make, with pip, or of uv, which has no pip."""
    python = shlex.quote(sys.executable)
    in_checkout = (checkout / "pyproject.toml").is_file()
    if in_checkout and (prefix / _STAMP).is_file():
        return "make setup"
    if find_spec("pip"):
        # The lab itself is installed already, so pip only adds what the extra names.
        return f"{python} -m pip install 'hudilab[lab]'"
    if in_checkout:
        return f"uv sync --extra lab --project {shlex.quote(str(checkout))}"
    return f"uv pip install --python {python} 'hudilab[lab]'"
