"""Inspect any Hudi table without a JVM: `inspect(table)`, and the command `hudilab inspect`."""

from __future__ import annotations

from hudilab.operations.inspect.inspection import Inspection, inspect
from hudilab.operations.inspect.options import Options
from hudilab.operations.inspect.store import S3Access

__all__ = ["Inspection", "Options", "S3Access", "inspect"]
