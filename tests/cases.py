"""Case files: a table of inputs and of what becomes of them, in JSON beside the test that reads it.

A reader who finds a case that the lab gets wrong adds a line, and needs no Python for that.
"""

from __future__ import annotations

import json
from math import isfinite
from pathlib import Path
from typing import Any


def read_cases(test: str) -> Any:
    """The content of x.json beside the module test_x.py."""
    file = Path(test)
    return json.loads(file.with_name(f"{file.stem.removeprefix('test_')}.json").read_text("utf-8"))


def data(text: str) -> bytes:
    """The bytes of a case's text; those that are not UTF-8 are lone surrogates in JSON."""
    return text.encode("utf-8", "surrogateescape")


def plain(value: Any) -> Any:
    """A value as a case file has it: decimals, times, and numbers that JSON lacks are texts."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, int | str):
        return value
    return value if isinstance(value, float) and isfinite(value) else str(value)
