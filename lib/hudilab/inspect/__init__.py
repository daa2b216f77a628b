"""Inspect any Hudi table without a JVM: `inspect(table)`, and the command `hudilab inspect`."""

from __future__ import annotations

from hudilab.inspect.inspection import Inspection, inspect

__all__ = ["Inspection", "inspect"]
