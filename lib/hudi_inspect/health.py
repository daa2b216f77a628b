"""Check a table's health: each check has one line, with the remedy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

from hudi_inspect.model import Event, Health, iso, many, size
from hudi_inspect.table import Facts
from hudi_inspect.timeline import WRITES

# Under these names the lab's writer adds its stream and batch to a commit.
QUERY, BATCH = "hudilab.query_id", "hudilab.batch_id"
TARGET = 125829120  # bytes; Hudi's default of hoodie.parquet.max.file.size
MERGEABLE = 100  # files that merging would save
DELTAS = 10  # delta commits without a compaction
VERSIONS = 40  # commits for which superseded files may stay
ACTIVE = 100  # completed instants on the active timeline
RECENT = 50  # newest batches, searched for two writers


def check_health(facts: Facts, now: datetime, stuck: float) -> list[Health]:
    """Return all checks, in a fixed order; an instant is stuck after `stuck` idle seconds."""
    return [
        _small_files(facts),
        _compaction(facts),
        _dead_writer(facts, now, stuck),
        _services(facts, now, stuck),
        _cleaner(facts),
        _archive(facts),
        _two_writers(facts),
    ]


def _name(facts: Facts) -> str:
    return facts.properties["hoodie.table.name"].replace("'", "")


def _small_files(facts: Facts) -> Health:
    saved = total = 0
    for partition in facts.partitions():
        sizes = partition.base_bytes
        total += partition.small
        saved += max(0, partition.small - max(1, -(-sizes // TARGET)))
    limit = f"(fails at {MERGEABLE})"
    detail = f"{many(total, 'base file')} under 100 MiB, {saved:,} fewer if merged {limit}"
    if facts.has_buckets():
        fewest = "lower hoodie.bucket.index.num.buckets and rewrite the table with"
        remedy = f"{fewest} hoodie.datasource.write.operation=insert_overwrite_table"
    else:
        remedy = f"CALL run_clustering(table => '{_name(facts)}')"
    return _health("small files", saved < MERGEABLE, detail, remedy)


def _compaction(facts: Facts) -> Health:
    if facts.properties["hoodie.table.type"] != "MERGE_ON_READ":
        return Health("compaction", True, "not needed: COPY_ON_WRITE has no logs", "")
    done = sorted((event for event in facts.events if event.is_done), key=_end)
    last = max((i for i, event in enumerate(done) if event.action == "commit"), default=-1)
    since = sum(event.action == "deltacommit" for event in done[last + 1 :])
    logs = sum(part.log_bytes for part in facts.latest())
    bases = sum(part.base_bytes for part in facts.latest())
    ratio = (
        f"logs are {logs / bases:.1f} times the size of the base files"
        if bases
        else "no base files yet"
    )
    behind = since > DELTAS and logs > 0
    detail = f"{many(since, 'delta commit')} since the last compaction, {ratio}"
    options = "hoodie.compact.inline.max.delta.commits=1"
    remedy = (
        f"CALL run_compaction(op => 'scheduleAndExecute', table => '{_name(facts)}', "
        f"options => '{options}')"
    )
    return _health("compaction", not behind, detail, remedy)


def _left(facts: Facts, now: datetime, stuck: float, actions: tuple[str, ...]) -> list[Event]:
    """Return the pending instants whose writers were last active too long ago."""
    moment = now.timestamp()
    return [
        event
        for event in facts.events
        if not event.is_done
        and event.action in actions
        and moment - max(event.touched, facts.signs.get(event.time, 0.0)) > stuck
    ]


def _dead_writer(facts: Facts, now: datetime, stuck: float) -> Health:
    pending = [event for event in facts.events if not event.is_done and event.action in WRITES]
    left = _left(facts, now, stuck, WRITES)
    if not left:
        text = f"{many(len(pending), 'pending write')}, still active"
        return Health("dead writer", True, text if pending else "no pending writes", "")
    first = left[0]
    detail = (
        f"{many(len(left), 'stuck write')}, oldest: {first.action} {first.time} ({first.state}), "
        f"pending since {iso(first.requested_at) or first.time}"
    )
    return Health(
        "dead writer",
        False,
        detail,
        "restart its writer, and the next write rolls it back; if "
        "hoodie.clean.failed.writes.policy=LAZY, run a clean instead: "
        f"CALL run_clean(table => '{_name(facts)}')",
    )


_CALLS = {
    "compaction": "CALL run_compaction(op => 'execute', table => '{}')",
    "clustering": "CALL run_clustering(table => '{}')",
    "clean": "CALL run_clean(table => '{}')",
}


def _services(facts: Facts, now: datetime, stuck: float) -> Health:
    waiting = [event for event in facts.events if not event.is_done and event.action not in WRITES]
    actions = tuple({event.action for event in waiting})
    left = _left(facts, now, stuck, actions)
    if not left:
        text = f"{many(len(waiting), 'pending table service')}, not stuck"
        return Health("services", True, text if waiting else "no pending table services", "")
    counts = Counter(event.action for event in left)
    what = ", ".join(f"{count} {action}" for action, count in sorted(counts.items()))
    first = left[0]
    detail = f"stuck: {what}, oldest pending since {iso(first.requested_at) or first.time}"
    call = _CALLS.get(first.action, "restart the writer, and its next write completes it")
    return Health("services", False, detail, call.format(_name(facts)))


def _end(event: Event) -> tuple[str, str]:
    return iso(event.completed_at or event.requested_at) or event.time, event.time


def _cleaner(facts: Facts) -> Health:
    writes = [event.time for event in facts.events if event.is_done and event.action in WRITES]
    gone = [part for part in facts.slices if part.ended is not None]
    ends = [part.ended for part in gone if part.ended is not None]
    behind = sum(time > min(ends) for time in writes) if ends else 0
    detail = many(len(gone), "superseded slice")
    if ends:
        kept = size(sum(part.bytes for part in gone))
        detail += f" ({kept}), the oldest superseded {many(behind, 'commit')} ago"
    return _health(
        "cleaner",
        behind <= VERSIONS,
        detail,
        f"CALL run_clean(table => '{_name(facts)}', options => 'hoodie.clean.max.commits=1'), and "
        "set hoodie.clean.automatic=true in the writer",
    )


def _archive(facts: Facts) -> Health:
    done = sum(event.is_done for event in facts.events)
    return _health(
        "archive",
        done <= ACTIVE,
        f"{many(done, 'completed instant')} on the active timeline",
        f"CALL archive_commits(table => '{_name(facts)}'), and set hoodie.archive.automatic=true "
        "in the writer",
    )


def batches(facts: Facts) -> Iterator[tuple[Event, str, int]]:
    """Yield the streams' batches in order of completion, as (instant, query, batch number).

    Reads the stamps of the lab's writer and those of Hudi's own streaming sink.
    """
    events = sorted((*(facts.archived or ()), *facts.events), key=_end)
    seen: dict[str, int] = {}
    for event in events:
        extra = facts.commits[event.time].extra if event.time in facts.commits else {}
        if QUERY in extra and str(extra.get(BATCH, "")).isdecimal():
            yield event, extra[QUERY], int(extra[BATCH])
        elif sink := extra.get("_hudi_streaming_sink_checkpoint"):
            try:
                found = {str(key): int(value) for key, value in json.loads(sink).items()}
            except (ValueError, TypeError, AttributeError):
                continue
            # Each commit repeats every stream's last batch; only that of its own stream is new.
            yield from (
                (event, key, value) for key, value in found.items() if seen.get(key) != value
            )
            seen |= found


def _two_writers(facts: Facts) -> Health:
    recent = list(batches(facts))[-RECENT:]
    queries = [query for _, query, _ in recent]
    turns = [query for i, query in enumerate(queries) if i == 0 or queries[i - 1] != query]
    count = len(set(queries))
    if count < 2:
        text = "only one stream wrote to the table" if count else "no stream wrote to the table"
        return Health("two writers", True, text, "")
    # Streams that write one after the other need no lock; streams whose commits alternate do.
    between = len(turns) > count
    if not between or facts.locks:
        why = "with a lock" if between else "one after the other"
        return Health("two writers", True, f"{count} streams wrote to the table, {why}", "")
    return Health(
        "two writers",
        False,
        f"{count} streams alternate commits, apparently without a lock (no .hoodie/.heartbeat)",
        "set hoodie.write.concurrency.mode=optimistic_concurrency_control and a "
        "hoodie.write.lock.provider in each writer; in the lab: ExactlyOnceSink(..., shared=True)",
    )


def _health(check: str, ok: bool, detail: str, remedy: str) -> Health:
    return Health(check, ok, detail, "" if ok else remedy)
