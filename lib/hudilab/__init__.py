"""Stream into Apache Hudi tables exactly once, and look into them: what most lessons use.

The rooms below hold the rest. Each name is loaded when it is first used, because settings, paths
and table specs need neither Spark nor Java.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hudilab.errors import LabError, root_cause
    from hudilab.lessons.exercises import Exercise
    from hudilab.lessons.lab import start
    from hudilab.lessons.sizes import check_sizes
    from hudilab.lessons.sources import readings_table, sensor_readings, sensor_stream
    from hudilab.lessons.timeline import instants
    from hudilab.paths import Place
    from hudilab.runtime.places import LESSONS, prepare, reset
    from hudilab.runtime.s3 import storage_options
    from hudilab.runtime.session import describe, open_session
    from hudilab.runtime.settings import load_settings
    from hudilab.runtime.streams import drain, progress_rows
    from hudilab.writer.commits import Commits
    from hudilab.writer.files import delete_file, exists, list_files
    from hudilab.writer.ledger import BatchLedger
    from hudilab.writer.metadata import closing_options
    from hudilab.writer.spec import TableSpec

__version__ = "0.1.0"

__all__ = [
    "LESSONS",
    "BatchLedger",
    "Commits",
    "Exercise",
    "LabError",
    "Place",
    "TableSpec",
    "check_sizes",
    "closing_options",
    "delete_file",
    "describe",
    "drain",
    "exists",
    "instants",
    "list_files",
    "load_settings",
    "open_session",
    "prepare",
    "progress_rows",
    "readings_table",
    "reset",
    "root_cause",
    "sensor_readings",
    "sensor_stream",
    "start",
    "storage_options",
]

_MODULES = {
    "errors": ("LabError", "root_cause"),
    "paths": ("Place",),
    "lessons.exercises": ("Exercise",),
    "lessons.lab": ("start",),
    "lessons.sizes": ("check_sizes",),
    "lessons.sources": ("readings_table", "sensor_readings", "sensor_stream"),
    "lessons.timeline": ("instants",),
    "runtime.places": ("LESSONS", "prepare", "reset"),
    "runtime.s3": ("storage_options",),
    "runtime.session": ("describe", "open_session"),
    "runtime.settings": ("load_settings",),
    "runtime.streams": ("drain", "progress_rows"),
    "writer.commits": ("Commits",),
    "writer.files": ("delete_file", "exists", "list_files"),
    "writer.ledger": ("BatchLedger",),
    "writer.metadata": ("closing_options",),
    "writer.spec": ("TableSpec",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"hudilab.{module}"), name)
    raise AttributeError(f"module 'hudilab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
