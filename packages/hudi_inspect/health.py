"""Check a table's health, with a line and a remedy for each check."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from hudi_inspect.names import WRITES, Instant
from hudi_inspect.records import parse_map
from hudi_inspect.units import argument, brief, iso, many, size

if TYPE_CHECKING:
    from hudi_inspect.snapshot import TableSnapshot

# Keys with which the lab's writer adds its stream and batch to a commit.
QUERY, BATCH = "hudilab.query_id", "hudilab.batch_id"
SINK = "_hudi_streaming_sink_checkpoint"  # the key of Hudi's own streaming sink
TARGET = 125829120  # bytes; Hudi's default of hoodie.parquet.max.file.size
MERGEABLE = 100  # files that a merge would save
DELTAS = 10  # delta commits without a compaction
VERSIONS = 40  # commits after which superseded files should be cleaned
ACTIVE = 100  # completed instants on the active timeline
AHEAD = 10  # seconds by which two machines' clocks may differ
RECENT = 50  # newest batches, searched for two writers


class HealthCheck(NamedTuple):
    """The result of one check; the remedy is empty if the check is ok."""

    check: str
    ok: bool
    detail: str
    remedy: str

    def line(self) -> str:
        """Return the check as one line."""
        mark = "ok  " if self.ok else "FAIL"
        return f"{mark} {self.check:<14} {brief(self.detail)}" + (
            "" if self.ok else f"; {brief(self.remedy)}"
        )


class StreamBatch(NamedTuple):
    """A batch of a stream, and the instant that wrote it."""

    instant: Instant
    query: str
    number: int


def check_health(snapshot: TableSnapshot) -> list[HealthCheck]:
    """Return all checks, in a fixed order."""
    return [
        _small_files(snapshot),
        _compaction(snapshot),
        _dead_writer(snapshot),
        _services(snapshot),
        _cleaner(snapshot),
        _archive(snapshot),
        _two_writers(snapshot),
        _clock(snapshot),
    ]


def _check(check: str, ok: bool, detail: str, remedy: str = "") -> HealthCheck:
    return HealthCheck(check, ok, detail, "" if ok else remedy)


def _small_files(snapshot: TableSnapshot) -> HealthCheck:
    small = sum(partition.small for partition in snapshot.partitions)
    saved = sum(
        max(0, partition.small - ceil(partition.base_bytes / TARGET))
        for partition in snapshot.partitions
    )
    if snapshot.has_buckets:
        remedy = (
            "lower hoodie.bucket.index.num.buckets and rewrite the table with "
            "hoodie.datasource.write.operation=insert_overwrite_table"
        )
    else:
        remedy = f"CALL run_clustering(table => {argument(snapshot.name)})"
    return _check(
        "small files",
        saved < MERGEABLE,
        f"{many(small, 'base file')} under 100 MiB, {saved:,} fewer if merged "
        f"(fails at {MERGEABLE})",
        remedy,
    )


def _compaction(snapshot: TableSnapshot) -> HealthCheck:
    if snapshot.table.type != "MERGE_ON_READ":
        return _check("compaction", True, "not needed: COPY_ON_WRITE has no logs")
    done = [instant for instant in snapshot.timeline if instant.is_done]
    since = 0
    for instant in sorted(done, key=lambda instant: instant.end, reverse=True):
        if instant.action == "commit":
            break
        since += instant.action == "deltacommit"
    logs = sum(partition.log_bytes for partition in snapshot.partitions)
    bases = sum(partition.base_bytes for partition in snapshot.partitions)
    ratio = (
        f"logs are {logs / bases:.1f} times the size of the base files"
        if bases
        else "no base files yet"
    )
    return _check(
        "compaction",
        since <= DELTAS or not logs,
        f"{many(since, 'delta commit')} since the last compaction, {ratio}",
        f"CALL run_compaction(op => 'scheduleAndExecute', table => {argument(snapshot.name)}, "
        "options => 'hoodie.compact.inline.max.delta.commits=1')",
    )


def _stuck(snapshot: TableSnapshot, pending: Iterable[Instant]) -> list[Instant]:
    """Return the pending instants whose writers were last active too long ago."""
    now, limit = snapshot.options.now.timestamp(), snapshot.options.stuck_after
    return [
        instant
        for instant in pending
        if now - max(instant.touched, snapshot.activity[instant.time]) > limit
    ]


def _dead_writer(snapshot: TableSnapshot) -> HealthCheck:
    pending = [
        instant for instant in snapshot.timeline if not instant.is_done and instant.action in WRITES
    ]
    stuck = _stuck(snapshot, pending)
    if not stuck:
        active = f"{many(len(pending), 'pending write')}, still active"
        return _check("dead writer", True, active if pending else "no pending writes")
    first = stuck[0]
    return _check(
        "dead writer",
        False,
        f"{many(len(stuck), 'stuck write')}, oldest: {first.action} {first.time} ({first.state}), "
        f"pending since {iso(first.requested) or first.time}",
        "restart its writer, and the next write rolls it back; if "
        "hoodie.clean.failed.writes.policy=LAZY, run a clean instead: "
        f"CALL run_clean(table => {argument(snapshot.name)})",
    )


def _services(snapshot: TableSnapshot) -> HealthCheck:
    pending = [
        instant
        for instant in snapshot.timeline
        if not instant.is_done and instant.action not in WRITES
    ]
    stuck = _stuck(snapshot, pending)
    if not stuck:
        active = f"{many(len(pending), 'pending table service')}, not stuck"
        return _check("services", True, active if pending else "no pending table services")
    first, counts = stuck[0], Counter(instant.action for instant in stuck)
    actions = ", ".join(f"{counts[action]} {action}" for action in sorted(counts))
    calls = {
        "compaction": f"CALL run_compaction(op => 'execute', table => {argument(snapshot.name)})",
        "clustering": f"CALL run_clustering(table => {argument(snapshot.name)})",
        "clean": f"CALL run_clean(table => {argument(snapshot.name)})",
    }
    return _check(
        "services",
        False,
        f"stuck: {actions}, oldest pending since {iso(first.requested) or first.time}",
        calls.get(first.action, "restart the writer, and its next write completes it"),
    )


def _cleaner(snapshot: TableSnapshot) -> HealthCheck:
    superseded = [part for part in snapshot.slices if not part.is_latest]
    detail, behind = many(len(superseded), "superseded slice"), 0
    if superseded:
        oldest = min(part.ended for part in superseded if part.ended is not None)
        behind = sum(instant.is_write and instant.time > oldest for instant in snapshot.timeline)
        kept = size(sum(part.bytes for part in superseded))
        detail += f" ({kept}), the oldest superseded {many(behind, 'commit')} ago"
    return _check(
        "cleaner",
        behind <= VERSIONS,
        detail,
        f"CALL run_clean(table => {argument(snapshot.name)}, "
        "options => 'hoodie.clean.max.commits=1'), and set hoodie.clean.automatic=true in the "
        "writer",
    )


def _archive(snapshot: TableSnapshot) -> HealthCheck:
    done = sum(instant.is_done for instant in snapshot.timeline)
    return _check(
        "archive",
        done <= ACTIVE,
        f"{many(done, 'completed instant')} on the active timeline",
        f"CALL archive_commits(table => {argument(snapshot.name)}), and set "
        "hoodie.archive.automatic=true in the writer",
    )


def batches_of(instants: Collection[Instant]) -> Iterator[StreamBatch]:
    """Yield the batches of the lab's writers and of Hudi's own sinks, in order of completion."""
    seen: dict[str, int] = {}
    for instant in sorted(instants, key=lambda instant: instant.end):
        extra = instant.commit.extra if instant.commit else {}
        if QUERY in extra and (number := _number(extra.get(BATCH))) is not None:
            yield StreamBatch(instant, extra[QUERY], number)
        elif SINK in extra:
            # A commit repeats every stream's last batch, and only its own stream's is new.
            for query, value in parse_map(extra[SINK]).items():
                number = _number(value)
                if number is not None and seen.get(query) != number:
                    yield StreamBatch(instant, query, number)
                    seen[query] = number


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _two_writers(snapshot: TableSnapshot) -> HealthCheck:
    queries = [batch.query for batch in snapshot.batches[-RECENT:]]
    turns = [query for i, query in enumerate(queries) if i == 0 or queries[i - 1] != query]
    count = len(set(queries))
    if count < 2:
        streams = "only one stream wrote to the table" if count else "no commit names a stream"
        return _check("two writers", True, streams)
    # Only streams with alternating commits need a lock, not streams that write in sequence.
    alternate = len(turns) > count
    if not alternate or snapshot.has_heartbeats:
        how = "with a lock" if alternate else "one after the other"
        return _check("two writers", True, f"{count} streams wrote to the table, {how}")
    return _check(
        "two writers",
        False,
        f"{count} streams alternate commits, apparently without a lock (no .hoodie/.heartbeat)",
        "set hoodie.write.concurrency.mode=optimistic_concurrency_control and a "
        "hoodie.write.lock.provider in each writer; in the lab: ExactlyOnceSink(..., shared=True)",
    )


def _clock(snapshot: TableSnapshot) -> HealthCheck:
    """Check that no instant is in the future, and that a stream's later batch has a later instant.

    Readers choose the slice with the newest instant. Rows written after the clock was set back
    have older instants than the rows they replace, so no reader returns them.
    """
    times = [
        moment
        for instant in snapshot.timeline
        for moment in (instant.requested, instant.completed)
        if moment is not None
    ]
    latest = max(times, default=snapshot.options.now)
    ahead = (latest - snapshot.options.now).total_seconds()
    if ahead > AHEAD:
        return _check(
            "clock",
            False,
            f"the newest instant is {iso(latest)}, {ahead:,.0f} s ahead of this machine's clock",
            "set the clock if it is wrong; otherwise write nothing before that time, because "
            "readers would not return the rows",
        )
    newest: dict[str, str] = {}
    late, after = [], ""
    for batch in sorted(snapshot.batches, key=lambda batch: batch.number):
        before = newest.get(batch.query, "")
        if batch.instant.time < before:
            late.append(batch)
            after = max(after, before)
        newest[batch.query] = max(before, batch.instant.time)
    if late:
        names = ", ".join(f"batch {batch.number} ({batch.instant.time})" for batch in late)
        return _check(
            "clock",
            False,
            f"readers may miss rows of {names}: older than an earlier batch of the stream "
            f"({after})",
            "the clock was set back: write their rows again from the source, to a new table with "
            "a new checkpoint",
        )
    return _check("clock", True, "no instant is in the future, or older than an earlier batch")
