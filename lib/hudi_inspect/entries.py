"""What a store lists: files, without those that no report needs; and how S3 is reached."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

# Not needed, and large: among them the metadata table and the markers of running writes.
SKIPPED = (".hoodie/metadata", ".hoodie/.temp", ".hoodie/.aux", ".hoodie/.schema")
DEPTH = 3  # levels of folders below the given one that are searched for tables


class Entry(NamedTuple):
    """A file: path relative to the table, size in bytes, last change in seconds since 1970."""

    path: str
    size: int
    modified: float


class Vanished(Exception):
    """A listed file no longer exists: the table changed during the read."""


@dataclass(frozen=True)
class S3Access:
    """How to reach S3. What is empty, and the keys, come from AWS's own variables and files.

    Attributes:
        endpoint: http(s)://host[:port] of a server other than Amazon's.
        region: Of the bucket.
    """

    endpoint: str = ""
    region: str = ""
