"""Hudi Streaming Lab: the plumbing under the notebooks."""

from __future__ import annotations

__version__ = "0.1.0"
