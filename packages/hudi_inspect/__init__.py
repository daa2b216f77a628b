"""Inspect any Hudi table without a JVM: `inspect(table)`, and the command `hudi-inspect`."""

from __future__ import annotations

from hudi_inspect.errors import InspectError
from hudi_inspect.snapshot import TableSnapshot, inspect
from hudi_inspect.store import S3Access

__all__ = ["InspectError", "S3Access", "TableSnapshot", "inspect"]
