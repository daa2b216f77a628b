"""Stream into Apache Hudi tables exactly once, and look into them.

These are the names that lessons and jobs need most; the modules hold the rest. Each is loaded when
it is first used, because settings, paths and tables need neither Spark nor Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudilab.config import Settings, load_settings
    from hudilab.errors import LabError
    from hudilab.ledger import BatchLedger
    from hudilab.lessons.sources import sensor_readings, sensor_stream
    from hudilab.paths import Place, locate
    from hudilab.session import open_session
    from hudilab.storage import prepare, reset
    from hudilab.streams import drain, progress_rows, run_until_end
    from hudilab.tables import TableSpec

__version__ = "0.1.0"

__all__ = [
    "BatchLedger",
    "LabError",
    "Place",
    "Settings",
    "TableSpec",
    "drain",
    "load_settings",
    "locate",
    "open_session",
    "prepare",
    "progress_rows",
    "reset",
    "run_until_end",
    "sensor_readings",
    "sensor_stream",
]

_MODULES = {
    "config": ("Settings", "load_settings"),
    "errors": ("LabError",),
    "ledger": ("BatchLedger",),
    "paths": ("Place", "locate"),
    "session": ("open_session",),
    "lessons.sources": ("sensor_readings", "sensor_stream"),
    "storage": ("prepare", "reset"),
    "streams": ("drain", "progress_rows", "run_until_end"),
    "tables": ("TableSpec",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"hudilab.{module}"), name)
    raise AttributeError(f"module 'hudilab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
