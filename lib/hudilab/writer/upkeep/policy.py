"""Decide which batches of a stream run table services after their commit."""

from __future__ import annotations

from hudilab.errors import TableError
from hudilab.writer.options import CLEAN, INLINE
from hudilab.writer.spec import TableSpec

__all__ = ["SMALL_LOG", "TIDY_EVERY", "check_tidy", "tidy_options"]

TIDY_EVERY = 20  # batches of appends
COMPACT_EVERY = 10  # batches of upserts
COMPACT_ALL_EVERY = 200
CLEAN_AFTER = 20  # batches after a compaction of all: hoodie.clean.max.commits
SMALL_LOG = 4 * 1024 * 1024  # bytes: some 30,000 rows of sensors


def check_tidy(every: int | None, *, shared: bool) -> None:
    """Raise TableError if a stream into a shared table is to tidy it."""
    if shared and every is not None:
        raise TableError(
            f"tidy_every={every} is not allowed for a shared table: Hudi loses rows when two "
            "writers merge files at the same time; leave out tidy_every, and merge files in one "
            "separate job, with CALL run_clustering"
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
    second. Each 200th batch compacts all, so that reads never open thousands of small logs; twenty
    batches later, what it replaced is removed. Only batches that compact may clean.

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


def _compaction(batch_id: int, written: int) -> dict[str, str]:
    number = batch_id % COMPACT_ALL_EVERY
    everything = number == COMPACT_ALL_EVERY - 1
    cleans = number == CLEAN_AFTER - 1 and batch_id > COMPACT_ALL_EVERY
    grown = number % COMPACT_EVERY == COMPACT_EVERY - 1 and written >= SMALL_LOG
    if not (everything or cleans or grown):
        # Without a compaction there is nothing to clean, and Hudi would look in each batch.
        return {INLINE: "false", CLEAN: "false"}
    return {
        INLINE: "true",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.compaction.logfile.size.threshold": "0" if everything else str(SMALL_LOG),
    }
