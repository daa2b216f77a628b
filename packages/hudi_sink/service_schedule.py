"""Decide which batches of a stream run table services after their commit."""

from __future__ import annotations

import math
from typing import NamedTuple

from hudilab.errors import TableError
from hudilab.table import CLEAN, INLINE, TableSpec

CLUSTER_EVERY = 20  # batches of appends
COMPACT_EVERY = 10  # batches of upserts
COMPACT_SMALL_EVERY = 50
COMPACT_ALL_EVERY = 200
CLEAN_AFTER = 20  # batches after a compaction of small logs
# Bytes of a file that appends merge: rows, and the filter of keys that Hudi puts into each file.
SMALL_FILE = 128 * 1024 + 440_000
SMALL_ON_S3 = 64 * 1024 * 1024
SMALL_LIMIT = "hoodie.clustering.plan.strategy.small.file.limit"
SMALL_LOG = 4 * 1024 * 1024  # bytes: some 30,000 rows of sensors
SMALL_COMPACTION = 16  # MB read and written: two seconds of two cores
TARGET_IO = "hoodie.compaction.target.io"
LEAST_LOGS = "hoodie.compaction.logfile.size.threshold"  # of a slice that is compacted
QUIET = {INLINE: "false", CLEAN: "false"}  # options of a batch without services


def check_services(every: int | None, *, shared: bool) -> None:
    """Raise TableError if table services are requested for a shared table."""
    if shared and every is not None:
        raise TableError(
            f"services_every={every} is not allowed for a shared table: Hudi loses rows when two "
            "writers merge files at the same time",
            "omit services_every, and merge files in a single separate job: CALL run_clustering",
        )


def merged_files(table: str) -> dict[str, str]:
    """Return the option that limits the size of the files that a clustering merges.

    With Hudi's own limit of 300 MB, each merge would rewrite what earlier merges wrote.
    """
    return {SMALL_LIMIT: str(SMALL_ON_S3 if table.startswith("s3a:") else SMALL_FILE)}


def service_options(
    spec: TableSpec,
    table: str,
    batch_id: int,
    every: int = CLUSTER_EVERY,
    written: int = SMALL_LOG,
) -> dict[str, str]:
    """Return the options with which a batch runs table services after its commit, or none.

    Appends (bulk_insert): each `every`-th batch merges small files (`merged_files`), and deletes
    the files that an earlier merge replaced, unless a retained commit needs them.

    Upserts of MERGE_ON_READ ignore `every`:

    - Each tenth batch compacts file slices with 4 MB of logs, so that small batches don't rewrite a
      large table. It skips this if the stream has written less, because a plan takes 0.5 s.
    - Each 50th batch compacts the slices with the largest logs, up to 16 MB, because compactions
      and reads take 3 ms for each log of any size. Each 200th batch compacts all slices.
    - Twenty batches later, a compaction cleans the replaced files. Other batches must not clean.

    Upserts of COPY_ON_WRITE clean by themselves, and MERGE_ON_READ with `cdc` must not compact.

    Args:
        written: The bytes that the stream has written since a batch last ran services.
    """
    if spec.operation == "upsert" and spec.logs() and not spec.cdc:
        return _compaction(batch_id, written)
    if spec.operation != "bulk_insert" or batch_id % every != every - 1:
        return {}
    each_time = {f"hoodie.clustering.{kind}.max.commits": "1" for kind in ("inline", "async")}
    each_time |= {"hoodie.clean.max.commits": "1"}
    return {"hoodie.clustering.inline": "true", CLEAN: "true"} | each_time | merged_files(table)


class _Compaction(NamedTuple):
    """A compaction, and the batches that run it: those with `batch % every == at`.

    Attributes:
        logs: Minimum bytes of a compacted file slice's logs.
        io: Maximum MB to read and write.
        written: Minimum bytes that the stream has written since the last services.
        below: Upper limit of the same bytes.
        first: The first batch that may run it.
    """

    every: int
    at: int
    logs: int
    io: int | None = None
    written: int = 0
    below: float = math.inf
    first: int = 0


def _compaction(batch_id: int, written: int) -> dict[str, str]:
    every_few, fifty, all_ = COMPACT_EVERY, COMPACT_SMALL_EVERY, COMPACT_ALL_EVERY
    schedule = (
        _Compaction(all_, all_ - 1, logs=0),
        # If ten batches write more, the last row compacts their logs soon enough.
        _Compaction(fifty, fifty - 1, logs=0, io=SMALL_COMPACTION, below=2 * SMALL_LOG),
        # Hudi cleans only after a compaction: this one removes what the rows above have replaced.
        _Compaction(fifty, CLEAN_AFTER - 1, logs=SMALL_LOG, first=fifty),
        _Compaction(every_few, every_few - 1, logs=SMALL_LOG, written=SMALL_LOG),
    )
    for due in schedule:
        if batch_id % due.every != due.at or batch_id < due.first:
            continue
        if due.written <= written < due.below:
            options = {
                INLINE: "true",
                "hoodie.compact.inline.max.delta.commits": "1",
                LEAST_LOGS: str(due.logs),
            }
            return options | ({TARGET_IO: str(due.io)} if due.io else {})
    # Without a compaction there is nothing to clean, but Hudi would check in each batch.
    return QUIET
