"""Inspect any Hudi table without a JVM: `inspect(table)`, and the command `hudi-inspect`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudi_inspect.errors import InspectError
    from hudi_inspect.snapshot import TableSnapshot, inspect
    from hudi_inspect.store import S3Access

__all__ = ["InspectError", "S3Access", "TableSnapshot", "inspect"]

_MODULES = {
    "InspectError": "errors",
    "S3Access": "store",
    "TableSnapshot": "snapshot",
    "inspect": "snapshot",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
