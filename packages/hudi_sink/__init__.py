"""Write a stream into a Hudi table exactly once, and run the table's services."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudi_sink.sink import ExactlyOnceSink

__all__ = ["ExactlyOnceSink"]

_MODULES = {"ExactlyOnceSink": "sink"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
