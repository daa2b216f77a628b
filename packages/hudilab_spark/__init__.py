"""Open a Spark session with Hudi, on this machine or a cluster, and run its streams."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudilab.python_path import take_over_path

if TYPE_CHECKING:
    from hudilab_spark.session import open_session
    from hudilab_spark.streams import drain

__all__ = ["drain", "open_session"]

_MODULES = {"drain": "streams", "open_session": "session"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    take_over_path()  # before the modules that a PYTHONPATH may hide
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
