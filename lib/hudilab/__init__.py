"""Settings, paths, table specs with their Hudi options, and generated rows.

Each name is loaded when it is first used, because settings and paths need neither Spark nor Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudilab.errors import LabError
    from hudilab.generate import readings_table, sensor_readings, sensor_stream
    from hudilab.paths import TableLocation
    from hudilab.settings import load_settings
    from hudilab.table import TableSpec

__version__ = "0.1.0"

__all__ = [
    "LabError",
    "TableLocation",
    "TableSpec",
    "load_settings",
    "readings_table",
    "sensor_readings",
    "sensor_stream",
]

_MODULES = {
    "LabError": "errors",
    "TableLocation": "paths",
    "TableSpec": "table",
    "load_settings": "settings",
    "readings_table": "generate",
    "sensor_readings": "generate",
    "sensor_stream": "generate",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # A kernel of JupyterLab's may have a PYTHONPATH that hides what these modules import.
    import_module("hudilab.python_path").take_over_path()
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
