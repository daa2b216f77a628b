"""Names in the metadata of commits, and options that keep a table's metadata table and indexes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hudilab.table import METADATA, STREAMED

PROPERTIES = ".hoodie/hoodie.properties"  # of a table
MOST_BUCKETS = 10_000  # more than any table has; a random id of a file group is not below it
# A commit stores its batch under these names. If they change, no table matches its stream.
PREFIX = "hudilab."
QUERY = f"{PREFIX}query_id"
BATCH = f"{PREFIX}batch_id"
COVERS = f"{PREFIX}covers"  # the digest of the offsets that the batch read
SOURCE = f"{PREFIX}source"
QUARANTINED = f"{PREFIX}quarantined"  # how many rows of the batch were quarantined
KEYS = f"{PREFIX}keys"  # MICROS: of all keys of the table, each time is in microseconds
MICROS = "micros"
SHARED = f"{PREFIX}shared"  # the lock that the writer took, see `locks.sharing_options`


def index_options(properties: Mapping[str, str], definitions: str = "") -> dict[str, str]:
    """Return the options with which reads and writes keep a table's metadata table and indexes.

    A write without these options deletes the metadata table and every index in it; a read without
    them uses none. Empty for a table without a metadata table.

    Args:
        properties: The pairs of `hoodie.properties`.
        definitions: The text of `.hoodie/.index_defs/index.json`, empty if there is none.
    """
    partitions = properties.get("hoodie.table.metadata.partitions", "").split(",")
    if partitions == [""]:
        return {}
    indexes = json.loads(definitions or "{}").get("indexDefinitions", {})
    record = indexes.get("record_index", {}).get("indexOptions", {})
    scope = "" if record.get("isPartitioned") == "true" else "global."
    names = {
        "column_stats": "index.column.stats.enable",
        "partition_stats": "index.partition.stats.enable",
        "bloom_filters": "index.bloom.filter.enable",
        "record_index": f"{scope}record.level.index.enable",
    }
    options = {METADATA: "true"}
    options |= {f"hoodie.metadata.{names[part]}": "true" for part in partitions if part in names}
    if "record_index" in partitions:
        options[STREAMED] = "false"
    return options


def leaks_connections(table: str, options: Mapping[str, str]) -> bool:
    """Return whether table services after a commit would leave connections to S3 open.

    They read the log that the commit has added to the metadata table, once for each partition.

    Args:
        options: As `index_options` returns them.
    """
    return table.startswith("s3a:") and options.get(METADATA) == "true"


def closing_options(table: str) -> dict[str, str]:
    """Return write options with which a metadata table on S3 leaves no connection open.

    Hudi 1.2 never closes the connection with which it reads a log block of the metadata table
    through s3a, so a stream of upserts uses up s3a's 96 connections in four batches, and hangs.
    Compacted at the start of each commit, the metadata table has no logs to read, until the commit
    adds one, see `leaks_connections`. Without effect on a table without a metadata table. Source:
    tests/services/test_s3.py.
    """
    return {"hoodie.metadata.compact.max.delta.commits": "1"} if table.startswith("s3a:") else {}


def overlap_options(table: str, tasks: int) -> dict[str, str]:
    """Return write options that let up to `tasks` tasks wait for S3 at the same time.

    On a disk, a single task lists and deletes a commit's markers, because starting a job takes
    longer. On S3, that task would send five requests per partition, one after the other.
    """
    names = ("finalize.write", "markers.delete")
    every = {f"hoodie.{name}.parallelism": str(tasks) for name in names}
    return every if table.startswith("s3a:") else {}
