"""The batches that are stopped at each of their changes."""

from __future__ import annotations

from crash.harness import Case

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
CASES = {
    "append-cow": Case(COW, "bulk_insert"),
    "append-mor": Case(MOR, "bulk_insert"),
    "upsert-cow": Case(COW, "upsert"),
    "upsert-mor": Case(MOR, "upsert"),
}
