"""Stream into Apache Hudi tables exactly once, and look into them: what most lessons use.

The rooms below hold the rest. Each name is loaded when it is first used, because settings, paths
and table specs need neither Spark nor Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudilab.errors import LabError
    from hudilab.lessons.exercises import Exercise
    from hudilab.lessons.lab import start
    from hudilab.lessons.sources import readings_table, sensor_readings, sensor_stream
    from hudilab.lessons.timeline import instants
    from hudilab.paths import Place
    from hudilab.runtime.session import open_session
    from hudilab.runtime.settings import load_settings
    from hudilab.runtime.streams import drain
    from hudilab.writer.ledger import BatchLedger
    from hudilab.writer.metadata import closing_options
    from hudilab.writer.spec import TableSpec

__version__ = "0.1.0"

__all__ = [
    "BatchLedger",
    "Exercise",
    "LabError",
    "Place",
    "TableSpec",
    "closing_options",
    "drain",
    "instants",
    "load_settings",
    "open_session",
    "readings_table",
    "sensor_readings",
    "sensor_stream",
    "start",
]

_MODULES = {
    "errors": ("LabError",),
    "paths": ("Place",),
    "lessons.exercises": ("Exercise",),
    "lessons.lab": ("start",),
    "lessons.sources": ("readings_table", "sensor_readings", "sensor_stream"),
    "lessons.timeline": ("instants",),
    "runtime.session": ("open_session",),
    "runtime.settings": ("load_settings",),
    "runtime.streams": ("drain",),
    "writer.ledger": ("BatchLedger",),
    "writer.metadata": ("closing_options",),
    "writer.spec": ("TableSpec",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            # A kernel of JupyterLab's may have a PYTHONPATH that hides what these modules import.
            import_module("hudilab.runtime.environment").take_over_path()
            return getattr(import_module(f"hudilab.{module}"), name)
    raise AttributeError(f"module 'hudilab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
