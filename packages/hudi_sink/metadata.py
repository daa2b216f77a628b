"""Keys of commit metadata, and options that preserve a table's metadata table and indexes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hudilab.table import METADATA, STREAMED

PROPERTIES = ".hoodie/hoodie.properties"  # of a table
MOST_BUCKETS = 10_000  # above every table's buckets, below almost every random file group id
# A commit stores its batch under these keys. After a change, no table matches its stream.
PREFIX = "hudilab."
QUERY = f"{PREFIX}query_id"
BATCH = f"{PREFIX}batch_id"
COVERS = f"{PREFIX}covers"  # the digest of the offsets that the batch read
SOURCE = f"{PREFIX}source"
QUARANTINED = f"{PREFIX}quarantined"  # number of quarantined rows of the batch
KEYS = f"{PREFIX}keys"  # MICROS: all keys of the table have their times in microseconds
MICROS = "micros"
SHARED = f"{PREFIX}shared"  # the lock that the writer took, see `locks.sharing_options`


def index_options(properties: Mapping[str, str], definitions: str = "") -> dict[str, str]:
    """Return read and write options that preserve a table's metadata table and indexes.

    A write without these options deletes the metadata table with its indexes, and a read without
    them uses no index. Empty for a table without a metadata table.

    Args:
        properties: The pairs of `hoodie.properties`.
        definitions: The text of `.hoodie/.index_defs/index.json`, empty without that file.
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

    They read the metadata table's newest log, once for each partition. `options` is the result of
    `index_options`.
    """
    return table.startswith("s3a:") and options.get(METADATA) == "true"


def closing_options(table: str) -> dict[str, str]:
    """Return write options that compact a metadata table on S3 at the start of each commit.

    Hudi 1.2 never closes its s3a connection after it reads a log block of the metadata table. A
    stream of upserts would use up the 96 connections in four batches and hang. After a compaction,
    there are no logs to read. Source: tests/services/test_s3.py.
    """
    return {"hoodie.metadata.compact.max.delta.commits": "1"} if table.startswith("s3a:") else {}


def overlap_options(table: str, tasks: int) -> dict[str, str]:
    """Return write options with which up to `tasks` tasks delete markers on S3 in parallel.

    By default, a single task lists and deletes a commit's markers, which is fastest on a disk. On
    S3, that task would send five sequential requests per partition.
    """
    names = ("finalize.write", "markers.delete")
    every = {f"hoodie.{name}.parallelism": str(tasks) for name in names}
    return every if table.startswith("s3a:") else {}
