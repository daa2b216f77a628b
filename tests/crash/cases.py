"""The batches that are stopped at each of their changes, and changes that have to be among them."""

from __future__ import annotations

from dataclasses import replace

from crash.harness import Case

COW, MOR = "COPY_ON_WRITE", "MERGE_ON_READ"
# Files that a merge replaced are removed as soon as Hudi lets them be.
CLEAN = {"hoodie.clean.commits.retained": "1"}
COMPACT = {"hoodie.compact.inline.max.delta.commits": "3"}
ARCHIVE = CLEAN | {
    "hoodie.clean.max.commits": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "1",
}
NOTED = ("copy checkpoint offsets", "copy checkpoint commits", "delete marker", "nothing")
COMMIT = (*NOTED, "put commit.requested", "put inflight", "put base file", "put commit completed")
DELTA = (*NOTED, "put deltacommit.requested", "put deltacommit.inflight")
APPENDED = (*DELTA, "put base file", "put deltacommit completed")
LOGGED = (*DELTA, "put log file", "put deltacommit completed")
CREATED = ("put hoodie.properties", "put .hoodie_partition_metadata")
MERGED = ("put clustering.requested", "put clustering.inflight", "put replacecommit completed")
COMPACTED = ("put compaction.requested", "put compaction.inflight", "put commit completed")
CLEANED = ("put clean.requested", "put clean.inflight", "delete base file", "put clean completed")
ARCHIVED = ("put history N_N_N.parquet", "put history manifest_N", "put history _version_")
QUARANTINED = tuple(
    f"put {what} of the quarantine"
    for what in ("commit.requested", "inflight", "base file", "commit completed")
)
READ = ("put checkpoint source temporary", "copy checkpoint source")
UNDONE = ("put rollback.requested", "put rollback.inflight", "put rollback completed")

CASES = {
    "append, first batch": Case(COW, "bulk_insert", 0, must=(*COMMIT, *CREATED)),
    "upsert, first batch": Case(MOR, "upsert", 0, must=(*APPENDED, *CREATED)),
    "initial load, append": Case(COW, "bulk_insert", 0, first="load", must=(*COMMIT, *CREATED)),
    "initial load, copy on write": Case(COW, "upsert", 0, first="load", must=(*COMMIT, *CREATED)),
    "initial load, resumed by the stream": Case(
        COW, "upsert", 0, first="stream", must=(*COMMIT, *CREATED)
    ),
    "initial load, merge on read": Case(
        MOR, "upsert", 0, first="load", bad=True, must=(*COMMIT, *CREATED)
    ),
    "append, copy on write": Case(COW, "bulk_insert", must=COMMIT),
    "append, merge on read": Case(MOR, "bulk_insert", must=APPENDED),
    "upsert, copy on write": Case(COW, "upsert", must=COMMIT),
    "upsert, merge on read": Case(MOR, "upsert", must=LOGGED),
    "append + merge + clean, copy on write": Case(
        COW, "bulk_insert", tidy=True, hudi=CLEAN, must=(*COMMIT, *MERGED, *CLEANED)
    ),
    "append + merge + clean, merge on read": Case(
        MOR, "bulk_insert", tidy=True, hudi=CLEAN, must=(*APPENDED, *MERGED, *CLEANED)
    ),
    "upsert + compaction": Case(MOR, "upsert", hudi=COMPACT, must=(*LOGGED, *COMPACTED)),
    "append + archive, copy on write": Case(
        COW, "bulk_insert", 5, hudi=ARCHIVE, must=(*COMMIT, *ARCHIVED, "delete history _version_")
    ),
    "upsert + clean + archive, copy on write": Case(
        COW, "upsert", 5, hudi=ARCHIVE, must=(*COMMIT, *CLEANED, *ARCHIVED)
    ),
    "upsert + compaction + archive": Case(
        MOR, "upsert", 5, hudi=ARCHIVE | COMPACT, must=(*LOGGED, *COMPACTED, *ARCHIVED)
    ),
    "a resumed append, copy on write": Case(
        COW, "bulk_insert", recovery="put commit completed", must=(*UNDONE, *COMMIT)
    ),
    "a resumed upsert, merge on read": Case(
        MOR, "upsert", recovery="put deltacommit completed", must=(*UNDONE, *LOGGED)
    ),
    # The resume rolls it back and runs the existing plan again; it schedules no new one.
    "a resumed compaction": Case(
        MOR, "upsert", hudi=COMPACT, recovery="put commit completed", must=(*UNDONE, *COMPACTED[1:])
    ),
    "a resumed merge": Case(
        COW,
        "bulk_insert",
        tidy=True,
        hudi=CLEAN,
        recovery="put replacecommit completed",
        must=(*UNDONE, *MERGED),
    ),
    "append + merge beside, copy on write": Case(
        COW, "bulk_insert", beside=True, hudi=CLEAN, must=(*COMMIT, *MERGED)
    ),
    "upsert + compaction beside": Case(MOR, "upsert", beside=True, must=(*LOGGED, *COMPACTED)),
    "a resumed compaction beside": Case(
        MOR,
        "upsert",
        beside=True,
        recovery="put commit completed",
        must=(*UNDONE, *LOGGED, *COMPACTED),
    ),
    "append with a quarantine": Case(COW, "bulk_insert", bad=True, must=(*COMMIT, *QUARANTINED)),
    "upsert with a quarantine": Case(MOR, "upsert", bad=True, must=(*LOGGED, *QUARANTINED)),
    "a resumed upsert with a quarantine": Case(
        MOR,
        "upsert",
        bad=True,
        recovery="put commit completed of the quarantine",
        must=(
            *LOGGED,
            *(f"put rollback.{state} of the quarantine" for state in ("requested", "inflight")),
        ),
    ),
    "append from files, copy on write": Case(COW, "bulk_insert", files=True, must=(*COMMIT, *READ)),
    "append from files, merge on read": Case(
        MOR, "bulk_insert", files=True, must=(*APPENDED, *READ)
    ),
    "insert from files, copy on write": Case(COW, "insert", files=True, must=(*COMMIT, *READ)),
    "upsert from files, copy on write": Case(COW, "upsert", files=True, must=(*COMMIT, *READ)),
    "upsert from files, merge on read": Case(MOR, "upsert", files=True, must=(*LOGGED, *READ)),
    # The tenth entry of a source's log also holds the nine before it.
    "upsert from files, the tenth batch": Case(
        MOR, "upsert", 9, files=True, must=(*LOGGED, "copy checkpoint source compacted")
    ),
    "two streams append": Case(COW, "bulk_insert", shared=True, must=COMMIT),
    "two streams upsert, copy on write": Case(COW, "upsert", shared=True, must=COMMIT),
    "two streams upsert, merge on read": Case(MOR, "upsert", shared=True, must=LOGGED),
}
CASES |= {
    f"{name}, the clock set back": replace(CASES[name], clock=True)
    for name in (
        "append, first batch",
        "append, copy on write",
        "upsert, merge on read",
        "initial load, copy on write",
        "append + merge + clean, copy on write",
        "upsert + compaction",
        "a resumed append, copy on write",
        "upsert with a quarantine",
    )
}
KILLED = Case(COW, "bulk_insert", 10)  # long enough for each kill to meet a batch
