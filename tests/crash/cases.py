"""The batches that are stopped at each of their changes."""

from __future__ import annotations

from crash.harness import Case

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
# Files that a merge replaced are removed as soon as Hudi lets them be.
CLEAN = {"hoodie.clean.commits.retained": "1"}
COMPACT = {"hoodie.compact.inline.max.delta.commits": "3"}
ARCHIVE = {
    "hoodie.clean.max.commits": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
}
CASES = {
    "append, first batch": Case(COW, "bulk_insert", 0),
    "upsert, first batch": Case(MOR, "upsert", 0),
    "append, killed": Case(COW, "bulk_insert", 8),
    "append, copy on write": Case(COW, "bulk_insert"),
    "append, merge on read": Case(MOR, "bulk_insert"),
    "upsert, copy on write": Case(COW, "upsert"),
    "upsert, merge on read": Case(MOR, "upsert"),
    "append + tidy, copy on write": Case(COW, "bulk_insert", 4, (2, 4, 5), CLEAN),
    "append + tidy, merge on read": Case(MOR, "bulk_insert", 4, (2, 4, 5), CLEAN),
    "upsert + compaction": Case(MOR, "upsert", hudi=COMPACT),
    "append + archive, copy on write": Case(COW, "bulk_insert", 4, hudi=ARCHIVE),
    "upsert + clean + archive, copy on write": Case(COW, "upsert", 4, hudi=ARCHIVE),
    "upsert + clean + archive, merge on read": Case(MOR, "upsert", 4, hudi=ARCHIVE | COMPACT),
}
