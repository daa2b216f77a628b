"""Decide which batches of a stream run table services after their commit."""

from __future__ import annotations

import math
from typing import NamedTuple

from hudilab.errors import TableError
from hudilab.table import CLEAN, INLINE, TableSpec

TIDY_EVERY = 20  # batches of appends
COMPACT_EVERY = 10  # batches of upserts
COMPACT_SMALL_EVERY = 50
COMPACT_ALL_EVERY = 200
CLEAN_AFTER = 20  # batches after a compaction of small logs: hoodie.clean.max.commits
SMALL_LOG = 4 * 1024 * 1024  # bytes: some 30,000 rows of sensors
SMALL_COMPACTION = 16  # MB read and written: two seconds of two cores
TARGET_IO = "hoodie.compaction.target.io"
LEAST_LOGS = "hoodie.compaction.logfile.size.threshold"  # of a slice that is compacted
QUIET = {INLINE: "false", CLEAN: "false"}  # a batch that runs no services


def check_tidy(every: int | None, *, shared: bool) -> None:
    """Raise TableError if table services are requested for a shared table."""
    if shared and every is not None:
        raise TableError(
            f"tidy_every={every} is not allowed for a shared table: Hudi loses rows when two "
            "writers merge files at the same time",
            "leave out tidy_every, and merge files in one separate job, with CALL run_clustering",
        )


def tidy_options(
    spec: TableSpec, batch_id: int, every: int = TIDY_EVERY, written: int = SMALL_LOG
) -> dict[str, str]:
    """Return options that make one batch in `every` run table services after its commit.

    Appends (bulk_insert): files of fewer bytes than
    `hoodie.clustering.plan.strategy.small.file.limit` are merged. Files that an earlier merge
    replaced are removed unless a retained commit needs them. Empty for the other batches.

    Upserts of MERGE_ON_READ, each tenth batch whatever `every` is: file slices whose logs have
    grown to 4 MB are compacted, so that small batches do not rewrite a large table. If the stream
    has written less since the last services, none are run, because to plan them takes half a
    second. Every 50th batch compacts the slices with the largest logs, up to 16 MB, because a
    compaction and a read take 3 ms for each log, however small it is. Each 200th compacts all.
    Twenty batches after either, what it replaced is removed. Only batches that compact may clean.

    Empty for other tables: upserts of COPY_ON_WRITE clean by themselves, and those of MERGE_ON_READ
    with `cdc` must not compact.

    Args:
        written: The bytes that the stream has written since a batch last ran services.
    """
    if spec.operation == "upsert" and spec.logs() and not spec.cdc:
        return _compaction(batch_id, written)
    if spec.operation != "bulk_insert" or batch_id % every != every - 1:
        return {}
    each_time = {f"hoodie.clustering.{kind}.max.commits": "1" for kind in ("inline", "async")}
    each_time |= {"hoodie.clean.max.commits": "1"}
    return {"hoodie.clustering.inline": "true", CLEAN: "true"} | each_time


class _Compaction(NamedTuple):
    """A compaction, and the batches that run it: their numbers leave `at` when divided by `every`.

    Attributes:
        logs: Bytes; file slices with smaller logs are left alone.
        io: MB that it reads and writes at most.
        written: Bytes that the stream must have written since the last services, and `below` those
            that it must not.
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
        # Ten batches that write more let logs grow large soon enough.
        _Compaction(fifty, fifty - 1, logs=0, io=SMALL_COMPACTION, below=2 * SMALL_LOG),
        # Hudi cleans after a compaction only: this one is for what the rows above have replaced.
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
    # Without a compaction there is nothing to clean, and Hudi would look in each batch.
    return QUIET
