"""Names in Hudi's files and in the lab's stamps, and forms of text, that all rooms share."""

from __future__ import annotations

__all__ = [
    "BATCH",
    "COVERS",
    "MOST_BUCKETS",
    "PREFIX",
    "PROPERTIES",
    "QUARANTINED",
    "QUERY",
    "SHARED",
    "SOURCE",
    "many",
    "read_properties",
]

PROPERTIES = ".hoodie/hoodie.properties"  # of a table
# The names under which a commit's metadata holds its stamp.
PREFIX = "hudilab."
QUERY, BATCH = PREFIX + "query_id", PREFIX + "batch_id"
COVERS, SOURCE = PREFIX + "covers", PREFIX + "source"
QUARANTINED = PREFIX + "quarantined"  # how many rows of the batch were set aside
MOST_BUCKETS = 10_000  # more than any table has; a random id of a file group is not below it
SHARED = PREFIX + "shared"  # which lock the writer took; see hudilab.writer.spec.sharing_options


def read_properties(text: str) -> dict[str, str]:
    """Return the key-value pairs of a table's `hoodie.properties`."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.replace("\\:", ":") for key, value in pairs if not key.startswith("#")}


def many(count: int, what: str) -> str:
    """Return a count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {what}" + ("" if count == 1 else "s")
