"""Inspect any Hudi table without a JVM: `inspect(table)`, and the command `hudilab inspect`."""

from __future__ import annotations

from hudi_inspect.inspection import Inspection, inspect
from hudi_inspect.options import Options
from hudi_inspect.store import S3Access

__all__ = ["Inspection", "Options", "S3Access", "inspect"]
