"""Inspect any Hudi table without a JVM: `inspect(table)`, and the command `hudilab inspect`."""

from __future__ import annotations

from hudilab.inspect.files.entries import S3Access
from hudilab.inspect.inspection import Inspection, inspect
from hudilab.inspect.options import Options

__all__ = ["Inspection", "Options", "S3Access", "inspect"]
