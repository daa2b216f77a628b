"""Code of the lessons: exercises, pictures, faults, flights, reads of the past."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hudilab.python_path import take_over_path

if TYPE_CHECKING:
    from hudilab_lessons.exercises import Exercise
    from hudilab_lessons.lesson import start
    from hudilab_lessons.timeline import instants

__all__ = ["Exercise", "instants", "start"]

_MODULES = {"Exercise": "exercises", "instants": "timeline", "start": "lesson"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    take_over_path()  # before the modules that a PYTHONPATH may hide
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
