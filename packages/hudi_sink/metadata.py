"""Keys of commit metadata, and options that preserve a table's metadata table and indexes."""

from __future__ import annotations

import json
from collections.abc import Mapping

from hudilab.table import COLUMN_STATS, METADATA, PARTITION_STATS, STREAMED

SERVER = "hoodie.embed.timeline.server"

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

    A write with other options would add a metadata table, or delete one with its indexes.

    Args:
        properties: The pairs of `hoodie.properties`.
        definitions: The text of `.hoodie/.index_defs/index.json`, empty without that file.
    """
    partitions = properties.get("hoodie.table.metadata.partitions", "").split(",")
    if partitions == [""]:
        return {METADATA: "false"}
    indexes = json.loads(definitions or "{}").get("indexDefinitions", {})
    record = indexes.get("record_index", {}).get("indexOptions", {})
    partitioned = record.get("isPartitioned") == "true"
    in_sql = any(part.startswith(("secondary_index_", "expr_index_")) for part in partitions)
    scope = "" if partitioned else "global."
    names = {
        "bloom_filters": "hoodie.metadata.index.bloom.filter.enable",
        "record_index": f"hoodie.metadata.{scope}record.level.index.enable",
    }
    options = {METADATA: "true", STREAMED: "false"}
    options |= {names[part]: "true" for part in partitions if part in names}
    # Without statistics, queries through an index of SQL return no rows.
    options[COLUMN_STATS] = str(in_sql or "column_stats" in partitions).lower()
    options[PARTITION_STATS] = str("partition_stats" in partitions).lower()
    if in_sql or (partitioned and "partition_stats" in partitions):
        # Without the server, an update of such an index can fail with a NullPointerException.
        options[SERVER] = "true"
    return options


def first_options(table: str, *, shared: bool = False) -> dict[str, str]:
    """Return write options of the sink for a new table, which those of the spec replace.

    Hudi's timeline server listens on all addresses, and deletes any folder for any program. The
    sink's few tasks need no server for markers and file views. With streaming writes, a resumed
    stream fails for two minutes if its driver died while it compacted the metadata table. On S3,
    Hudi 1.2 leaves connections open when it reads a metadata table. If two streams share a new
    table, queries through a metadata table that both begin can miss rows.
    """
    options = {SERVER: "false", "hoodie.write.markers.type": "DIRECT", STREAMED: "false"}
    return options | ({METADATA: "false"} if shared or table.startswith("s3a:") else {})


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
