"""Inspect a table: `inspect(table)` reads a snapshot of its files."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from hudi_inspect.archive import Archive
from hudi_inspect.content import MAX_CONTENT, parse_content
from hudi_inspect.errors import InspectError, Unreadable
from hudi_inspect.health import HealthCheck, StreamBatch, batches_of, check_health
from hudi_inspect.names import Entry, Instant, instants_of, moment, parse_file
from hudi_inspect.plans import pending_compactions, retained_by_cleans
from hudi_inspect.properties import read_table_properties
from hudi_inspect.records import parse_commit, parse_map
from hudi_inspect.rows import count_snapshot, with_rows
from hudi_inspect.slices import Slice, SliceBuilder
from hudi_inspect.store import PROPERTIES, S3Access, Store, Vanished, open_store, reading
from hudi_inspect.timeline import read_commits, unreadable
from hudi_inspect.units import argument, iso, many, quoted, to_json
from hudi_inspect.window import QueryWindow, find_window

SOURCE = "hudilab.source"  # the key of the lab's writer for its source in a commit
MOST_BUCKETS = 10_000  # above every table's buckets, below almost every random file group id
MAX_LEVELS = 100  # of nested values in a shown file
NOTES, NAMES = 20, 5  # maximum numbers of unreadable and of skipped files in the notes
SMALL = 104857600  # bytes; Hudi's default of hoodie.parquet.small.file.limit
_FOLDERS = {"hoodie.timeline.path": "timeline", "hoodie.timeline.history.path": "history"}
_INSTANT = re.compile(r"_(\d{14,20})\.")


@dataclass(frozen=True)
class Options:
    """The options of an inspection.

    Attributes:
        archived: Include the instants of the archived timeline.
        count: Count the rows with hudi-rs, which reads the data; for tables without the number in
            their commits.
        since: Show only instants from this time on: an instant, or ISO 8601 (UTC).
        partition: Include the file slices of this partition.
        stuck_after: Seconds without activity after which a pending instant counts as stuck.
        now: The current time.
        s3: The access to S3; by default from AWS's own environment variables and files.
    """

    archived: bool = False
    count: bool = False
    since: str = ""
    partition: str = ""
    stuck_after: float = 600.0
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    s3: S3Access = field(default_factory=S3Access)


@dataclass(frozen=True)
class TableSummary:
    """The table's properties, and the totals of a snapshot query."""

    uri: str
    name: str
    type: str
    version: int
    record_key: list[str]
    partition: list[str]
    index: str | None
    rows: int | None
    bytes: int
    files: int
    file_groups: int
    partitions: int


class Partition(NamedTuple):
    """Totals of a partition's latest slices."""

    path: str
    bytes: int
    files: int
    groups: int
    rows: int | None
    log_bytes: int
    base_bytes: int
    small: int


@dataclass(frozen=True, eq=False)
class TableSnapshot:
    """The state of a table in its files; a notebook shows it as a page.

    Attributes:
        is_utc: Whether the times of instants are in UTC, rather than the writer's time zone.
        since: Show only instants from this time on.
        timeline: The active timeline, oldest first.
        archived: The archived timeline, oldest first; None if it was not read.
        unread: The folder of an unsupported archive, relative to the table; usually empty.
        slices: All committed slices, by partition, file group and instant.
        clean_begin: The earliest commit that the last clean retained, or None.
        cleaned: Files that cleans deleted, as (partition, name), if `clean_begin` is None.
        first_commit: The first completed write, archived or not, or the earliest retained commit
            in a clean.
        activity: The last heartbeat or data file of pending instants' writers, in seconds since
            1970.
        has_heartbeats: Whether writers send heartbeats, as with a lock.
        problems: Errors of unreadable files, which the snapshot lacks.
        counted: The number of rows from hudi-rs; None without `Options.count`.
    """

    store: Store
    options: Options
    properties: Mapping[str, str]
    version: int
    is_utc: bool
    since: datetime | None
    timeline: tuple[Instant, ...]
    archived: tuple[Instant, ...] | None
    archive: Archive
    unread: str
    slices: tuple[Slice, ...]
    clean_begin: str | None
    cleaned: tuple[tuple[str, str], ...]
    first_commit: str | None
    activity: Mapping[str, float]
    has_heartbeats: bool
    problems: tuple[InspectError, ...]
    counted: int | None = None

    @property
    def uri(self) -> str:
        """The table's location."""
        return self.store.uri

    @property
    def name(self) -> str:
        """The table's name in its properties."""
        return self.properties["hoodie.table.name"]

    @cached_property
    def history(self) -> tuple[Instant, ...]:
        """The archived timeline, if it was read, and the active timeline."""
        return (*(self.archived or ()), *self.timeline)

    @cached_property
    def instants(self) -> list[Instant]:
        """The instants to show, newest first."""
        shown = (instant for instant in self.history if _is_after(instant, self.since))
        return sorted(shown, key=lambda instant: (instant.time, instant.action), reverse=True)

    @cached_property
    def pending(self) -> list[Instant]:
        """The instants that have not completed, newest first."""
        return [instant for instant in reversed(self.timeline) if not instant.is_done]

    @cached_property
    def latest_slices(self) -> list[Slice]:
        """The slices that a snapshot query reads."""
        return [part for part in self.slices if part.is_latest]

    @cached_property
    def chosen_slices(self) -> list[Slice]:
        """The slices of the chosen partition; without one, all slices."""
        chosen = self.options.partition
        return [part for part in self.slices if not chosen or part.partition == chosen]

    @cached_property
    def partitions(self) -> list[Partition]:
        """Totals of each partition's latest slices, by path."""
        slices = defaultdict(list)
        for part in self.latest_slices:
            slices[part.partition].append(part)
        return [_partition(path, slices[path]) for path in sorted(slices)]

    @cached_property
    def has_buckets(self) -> bool:
        """Whether the table has a bucket index, which no table property contains.

        The lab's writer records the number of buckets in its commits. In other tables, the file
        group of bucket 7 is 00000007-..., and random ids are above `MOST_BUCKETS`.
        """
        for instant in sorted(self.history, key=lambda instant: instant.time, reverse=True):
            if instant.commit and SOURCE in instant.commit.extra:
                return "buckets" in parse_map(instant.commit.extra[SOURCE])
        groups = {part.group for part in self.latest_slices}
        return bool(groups) and all(
            re.fullmatch("[0-9]{1,8}", group[:8]) and int(group[:8]) < MOST_BUCKETS
            for group in groups
        )

    @cached_property
    def table(self) -> TableSummary:
        """The table's properties, and the totals of a snapshot query."""
        partitions = self.partitions
        return TableSummary(
            uri=self.uri,
            name=self.name,
            type=self.properties["hoodie.table.type"],
            version=self.version,
            record_key=self._columns("hoodie.table.recordkey.fields"),
            partition=self._columns("hoodie.table.partition.fields"),
            index=self._index(),
            rows=_total(partition.rows for partition in partitions)
            if self.counted is None
            else self.counted,
            bytes=sum(partition.bytes for partition in partitions),
            files=sum(partition.files for partition in partitions),
            file_groups=sum(partition.groups for partition in partitions),
            partitions=len(partitions),
        )

    def _columns(self, name: str) -> list[str]:
        columns = self.properties.get(name, "").split(",")
        # A custom key generator adds types: "city:simple,at:timestamp".
        return [column.partition(":")[0].strip() for column in columns if column.strip()]

    def _index(self) -> str | None:
        """Return the index from the files, because the properties lack a writer's index."""
        indexes = self.properties.get("hoodie.table.metadata.partitions", "").split(",")
        if "record_index" in indexes:
            return "RECORD_INDEX"
        return "BUCKET" if self.has_buckets else None

    @cached_property
    def batches(self) -> list[StreamBatch]:
        """The batches of streams, in order of completion."""
        return list(batches_of(self.history))

    @cached_property
    def writers(self) -> list[StreamBatch]:
        """The last batch of each stream, by query."""
        last = {batch.query: batch for batch in self.batches}
        return [last[query] for query in sorted(last)]

    @cached_property
    def window(self) -> QueryWindow:
        """How far back queries can go."""
        return find_window(self)

    @cached_property
    def health(self) -> list[HealthCheck]:
        """All health checks, in a fixed order."""
        return check_health(self)

    @property
    def is_healthy(self) -> bool:
        """Whether every check is ok."""
        return all(check.ok for check in self.health)

    @property
    def notes(self) -> list[str]:
        """Notes about missing parts of the report; usually empty."""
        notes = [str(problem) for problem in self.problems[:NOTES]]
        if (more := len(self.problems) - NOTES) > 0:
            notes.append(f"{many(more, 'more file')} can't be read")
        if skipped := self.store.skipped:
            names = ", ".join(map(quoted, skipped[:NAMES]))
            names += f" and {len(skipped) - NAMES} more" if len(skipped) > NAMES else ""
            notes.append(
                f"{names} can't be read: inspect reads only regular files inside the table, and "
                "follows no link to a path outside it"
            )
        if self.unread:
            notes.append(
                f"the archive {self.unread} is not read, because the table has version "
                f"{self.version}: its instants are missing here, and queries may go further "
                "back; list its commits with CALL show_archived_commits(table => "
                f"{argument(self.name)})"
            )
        return notes

    def content(self, time: str) -> dict[str, Any]:
        """Return the whole content of an instant's files as plain values.

        `time` is the instant in the file name, or its time in the JSON.

        Raises:
            InspectError: The instant does not exist, or its file cannot be read.
        """
        instants = [*reversed(self.timeline), *reversed(self.archived or ())]
        chosen = [
            instant
            for instant in instants
            if time in (instant.time, iso(instant.requested), instant.completion_time)
        ]
        if not chosen:
            newest = instants[0].time if instants else ""
            older = " or, with --archived, an archived one" if self.archived is None else ""
            raise InspectError(
                f"{self.uri} has no instant {time!r}",
                f"choose one from its timeline{older}: hudi-inspect TABLE --instant {newest}",
            )
        content = {"instant": chosen[0].time} | _fields(chosen[0])
        with reading(self.uri):
            for instant in chosen:
                content |= self._contents(instant)
        return content

    def _contents(self, instant: Instant) -> dict[str, Any]:
        if instant.archived:
            contents = self.archive.contents([instant.time], _plain)
            return {instant.action: contents.get(instant.time, {})}
        contents = {}
        for state, path in instant.files.items():
            name = instant.action if state == "COMPLETED" else f"{instant.action}.{state.lower()}"
            try:
                data = self.store.read(path, most=MAX_CONTENT)
                # A requested or inflight file is empty if the action has no plan.
                if data or state == "COMPLETED":
                    contents[name] = _plain(parse_content(data))
            except Vanished:
                continue
            except Unreadable as error:
                raise unreadable(instant, f"{self.uri}/{path}", error) from None
        return contents

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON as plain values."""
        report: dict[str, Any] = {
            "table": dict(vars(self.table)),
            "instants": [_fields(instant) for instant in self.instants],
            "pending": [_fields(instant) for instant in self.pending],
            "writers": [
                {"query": batch.query, "last_batch": batch.number} for batch in self.writers
            ],
            "reach": self.window._asdict(),
            "health": [check._asdict() for check in self.health],
        }
        if path := self.options.partition:
            partition = next(partition for partition in self.partitions if partition.path == path)
            slices = [part._asdict() for part in self.chosen_slices]
            report["partition"] = {**partition._asdict(), "slices": slices}
        report["notes"] = self.notes  # last, where later versions may add names
        return report

    def to_json(self) -> str:
        """Return the JSON, with the file slices of the chosen partition."""
        return to_json(self.as_dict())

    def to_html(self) -> str:
        """Return a self-contained page with the archived instants."""
        from hudi_inspect.html import page

        return page(self._with_archive())

    def _repr_html_(self) -> str:
        from hudi_inspect.html import embedded

        return embedded(self._with_archive())

    def __str__(self) -> str:
        from hudi_inspect.text import text

        return text(self, width=120)

    __repr__ = __str__

    def _with_archive(self) -> TableSnapshot:
        if self.archived is not None or not self.archive.folder:
            return self
        with reading(self.uri):
            snapshot = read_snapshot(self.store, replace(self.options, archived=True))
        return replace(snapshot, counted=self.counted)


def inspect(table: str, **options: Any) -> TableSnapshot:
    """Inspect a Hudi table without a JVM; a notebook shows the result as a page.

    Args:
        table: A path or a file://, s3:// or s3a:// URI, such as the lab's `location.table`.
        options: Fields of `Options` by name, for example `archived=True`.

    Raises:
        InspectError: The folder is no table, is damaged or unreadable, or has an unsupported
            version.
    """
    chosen = Options(**options)
    store = open_store(table, chosen.s3)
    with reading(store.uri):
        snapshot = read_snapshot(store, chosen)
    paths = [partition.path for partition in snapshot.partitions]
    if chosen.partition and chosen.partition not in paths:
        near = ", ".join(paths[:10]) + (f" and {len(paths) - 10} more" if len(paths) > 10 else "")
        raise InspectError(
            f"{store.uri} has no partition {chosen.partition!r} (it has {near or 'none'})",
            f"choose one: hudi-inspect {quoted(table)} --partition={quoted(paths[0])}"
            if paths
            else f"omit --partition: hudi-inspect {quoted(table)}",
        )
    if chosen.count:
        with reading(store.uri):
            rows = count_snapshot(store, len(snapshot.latest_slices))
        snapshot = replace(snapshot, counted=rows)
    return snapshot


def read_snapshot(store: Store, options: Options) -> TableSnapshot:
    """Read a table, and if it changes meanwhile, read it again.

    Raises:
        InspectError: The folder is no table, is damaged or unreadable, or has an unsupported
            version.
    """
    for attempt in range(5):
        try:
            return _read(store, options, is_settled=attempt == 4)
        except Vanished as error:
            missing = str(error)
    raise InspectError(
        f"{store.uri}/{missing} was deleted during the read: the table changed in each of five "
        "attempts",
        "try again when fewer writers are running: hudi-inspect TABLE",
    )


def _read(store: Store, options: Options, *, is_settled: bool) -> TableSnapshot:
    properties, version = read_table_properties(store)
    layout = {"1": 1, "2": 2}.get(
        properties.get("hoodie.timeline.layout.version", ""), 1 if version < 8 else 2
    )
    entries = store.files()
    is_utc = properties.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC"
    unread = _old_archive(properties, entries) if layout < 2 else ""
    if options.archived and unread:
        raise InspectError(
            f"cannot read the archived timeline {store.uri}/{unread}: inspect reads archives "
            f"from table version 8 on, this is version {version}",
            "omit --archived, or let Hudi list them: CALL show_archived_commits(table => "
            f"{argument(properties['hoodie.table.name'])})",
        )
    problems: list[InspectError] = []
    folder, history = _folders(properties, entries, problems) if layout >= 2 else (".hoodie", "")
    archive = Archive(store, history, is_utc, problems, is_settled=is_settled)
    timeline = instants_of(entries, folder, is_utc)
    read_commits(store, timeline, problems)
    archived = _archived(archive, timeline) if options.archived else None
    writes = [instant for instant in (*timeline, *(archived or ())) if instant.commit]
    commits = [instant.commit for instant in writes if instant.commit]
    _refuse_external(store, (stat.path for commit in commits for stat in commit.stats))
    builder = SliceBuilder(
        timeline,
        replaced={
            group: write.time for write in writes if write.commit for group in write.commit.replaced
        },
        compacting=pending_compactions(store, timeline, problems),
        archived=_archived_ends(entries, timeline, archive),
        by_completion=layout >= 2,
    )
    clean_begin, cleaned = retained_by_cleans(store, timeline, archive, problems)
    slices = with_rows(store, builder.build(entries), commits, archive, problems)
    first_commit = clean_begin or _first_commit(timeline, archive)
    return TableSnapshot(
        store=store,
        options=options,
        properties=properties,
        version=version,
        is_utc=is_utc,
        since=_parse_since(options.since, is_utc),
        timeline=tuple(timeline),
        archived=archived,
        archive=archive,
        unread=unread,
        slices=tuple(slices),
        clean_begin=clean_begin,
        cleaned=cleaned,
        first_commit=first_commit,
        activity=_activity(entries, timeline),
        has_heartbeats=store.has(".hoodie/.heartbeat"),
        problems=tuple({str(problem): problem for problem in problems}.values()),
    )


def _old_archive(properties: Mapping[str, str], entries: Collection[Entry]) -> str:
    """Return the folder of a layout 1 archive, which is not read; empty without an archive."""
    # "archived" in tables of Hudi 0.x, "history" in tables of 1.x.
    name = properties.get("hoodie.archivelog.folder", "archived").rstrip("/")
    folder = f".hoodie/{name}"
    logs = f"{folder}/.commits_.archive."
    return folder if any(entry.path.startswith(logs) for entry in entries) else ""


def _folders(
    properties: Mapping[str, str], entries: Iterable[Entry], problems: list[InspectError]
) -> tuple[str, str]:
    """Return the folders of the active and the archived timeline, the latter possibly empty."""
    names = []
    for name, default in _FOLDERS.items():
        names.append(properties.get(name, default))
        if ".." in names[-1].split("/"):
            problems.append(
                InspectError(
                    f"{name}={names[-1]} is outside the table, so its instants are not read",
                    f"fix it in {PROPERTIES}, then try again: hudi-inspect TABLE",
                )
            )
    folder = f".hoodie/{names[0]}"
    history = f"{folder}/{names[1]}"
    exists = any(entry.path == f"{history}/_version_" for entry in entries)
    return folder, history if exists else ""


def _archived(archive: Archive, timeline: Collection[Instant]) -> tuple[Instant, ...]:
    """Return the archived instants that are not active, with the contents of writes."""
    active = {(instant.time, instant.action) for instant in timeline}
    archived = [
        instant for instant in archive.instants() if (instant.time, instant.action) not in active
    ]
    writes = [instant for instant in archived if instant.is_write]
    commits = archive.contents([write.time for write in writes], parse_commit)
    for write in writes:
        write.commit = commits.get(write.time)
    return tuple(archived)


def _refuse_external(store: Store, paths: Iterable[str]) -> None:
    """Raise InspectError for a table with files of other engines, which have no file group.

    Source: Hudi 1.2 `ExternalFilePathUtil`, which Apache XTable uses.
    """
    if path := next((path for path in paths if path.endswith("_hudiext")), ""):
        raise InspectError(
            f"{store.uri} registers data files that Hudi did not write, such as "
            f"{path.rsplit('_', 2)[0]}, and inspect cannot read them",
            "let Hudi list them: CALL show_fsview_latest(table => 'NAME')",
        )


def _archived_ends(
    entries: Collection[Entry], timeline: Collection[Instant], archive: Archive
) -> dict[str, str]:
    """Return the completion times of archived instants, if logs need them."""
    files = (parse_file(entry.path) for entry in entries if ".log." in entry.path)
    logged = {file.instant for file in files if file}
    if logged <= {instant.time for instant in timeline}:
        return {}
    return {instant.time: instant.completion_time or instant.time for instant in archive.instants()}


def _activity(entries: Collection[Entry], timeline: Collection[Instant]) -> dict[str, float]:
    """Return the time of the last heartbeat or data file of each pending instant's writer."""
    latest = {instant.time: 0.0 for instant in timeline if not instant.is_done}
    if not latest:
        return latest
    for entry in entries:
        name = PurePosixPath(entry.path).name
        match = _INSTANT.search(name)
        time = match[1] if match else ""
        if entry.path.startswith(".hoodie/.heartbeat/"):
            time = name
        if time in latest:
            latest[time] = max(latest[time], entry.modified)
    return latest


def _first_commit(timeline: Collection[Instant], archive: Archive) -> str | None:
    """Return the time of the table's first completed write, archived or not."""
    both = (*archive.instants(), *timeline)
    return min((instant.time for instant in both if instant.is_write), default=None)


def _partition(path: str, slices: list[Slice]) -> Partition:
    return Partition(
        path=path,
        bytes=sum(part.bytes for part in slices),
        files=sum((part.base is not None) + len(part.logs) for part in slices),
        groups=len(slices),
        rows=_total(part.rows for part in slices),
        log_bytes=sum(part.log_bytes for part in slices),
        base_bytes=sum(part.base_bytes for part in slices),
        small=sum(part.base is not None and part.base_bytes < SMALL for part in slices),
    )


def _total(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if a count is unknown."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total


def _fields(instant: Instant) -> dict[str, Any]:
    """Return an instant's fields in the JSON."""
    return {
        "requested": iso(instant.requested),
        "completed": iso(instant.completed),
        "action": instant.action,
        "state": instant.state,
        "operation": instant.operation,
        "rows_written": instant.rows_written,
        "rows_updated": instant.rows_updated,
        "rows_deleted": instant.rows_deleted,
        "archived": instant.archived,
    }


def _plain(value: Any, level: int = 0) -> Any:
    """Return the content of a file as plain JSON values."""
    if level > MAX_LEVELS:
        raise Unreadable(f"contains values in more than {MAX_LEVELS} levels")
    if isinstance(value, dict):
        return {str(key): _plain(item, level + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, level + 1) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, str | int | float | bool | None) else repr(value)


def _parse_since(since: str, utc: bool) -> datetime | None:
    if not since:
        return None
    if re.fullmatch(r"\d{14,17}", since) and (instant := moment(since, utc)):
        return instant
    try:
        parsed = datetime.fromisoformat(since)
    except ValueError:
        raise InspectError(
            f"--since {since!r} is not a time",
            "give an instant or an ISO 8601 time: hudi-inspect TABLE --since 2026-01-31T12:00:00Z",
        ) from None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


def _is_after(instant: Instant, since: datetime | None) -> bool:
    last = instant.completed or instant.requested
    return since is None or (last is not None and last >= since)
