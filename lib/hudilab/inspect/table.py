"""Collect everything that a table's files say about it, as one consistent snapshot."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from hudilab.errors import InspectError
from hudilab.formats import read_properties
from hudilab.inspect.model import Commit, Event, Partition, Slice
from hudilab.inspect.oldarchive import OldHistory
from hudilab.inspect.slices import build_slices, parse_files
from hudilab.inspect.store import PROPERTIES, Entry, Store, Vanished, reading_parquet, typed
from hudilab.inspect.timeline import (
    WRITES,
    History,
    events_of,
    parse_commit,
    parse_content,
    read_commits,
)

__all__ = ["Facts", "read_facts"]

OLDEST, NEWEST = 6, 9
SMALL = 104857600  # bytes; Hudi's default of hoodie.parquet.small.file.limit
FOOTERS = 1000  # most footers to read, for files whose row count no commit gives
_INSTANT = re.compile(r"_(\d{14,20})\.")
_BUCKET = re.compile(r"\d{8}-")


@dataclass(frozen=True)
class Facts:
    """What a table's files say.

    Attributes:
        events: The active timeline, oldest first.
        archived: The archived timeline, oldest first; None if it was not read.
        archive: The archived timeline itself, read on demand.
        commits: Contents of completed writes, by time.
        slices: All committed slices, by partition, file group and instant.
        clean_begin: The earliest commit that the last clean retained; None if it records none.
        cleaned: Files that cleans deleted, as (partition, name), if `clean_begin` is None.
        signs: Maps a pending instant to its writer's last heartbeat or data file, in seconds since
            1970.
        locks: Whether writers keep heartbeats, as they do with a lock.
    """

    uri: str
    properties: Mapping[str, str]
    version: int
    is_utc: bool
    events: tuple[Event, ...]
    archived: tuple[Event, ...] | None
    archive: History
    commits: Mapping[str, Commit]
    slices: tuple[Slice, ...]
    clean_begin: str | None
    cleaned: tuple[tuple[str, str], ...]
    signs: Mapping[str, float]
    locks: bool
    first_commit: str | None

    @property
    def has_history(self) -> bool:
        """Return whether there is an archived timeline."""
        return self.archive.exists

    def commit_of(self, event: Event) -> Commit | None:
        """Return what a completed write says; None for any other instant."""
        wrote = event.is_done and event.action in WRITES
        return self.commits.get(event.time) if wrote else None

    def latest(self) -> list[Slice]:
        """Return the slices that a snapshot query reads."""
        return [one for one in self.slices if one.is_latest]

    def partitions(self) -> list[Partition]:
        """Return the partitions by path."""
        found: dict[str, list[Slice]] = defaultdict(list)
        for one in self.latest():
            found[one.partition].append(one)
        return [_partition(path, slices) for path, slices in sorted(found.items())]

    def has_buckets(self) -> bool:
        """Return whether file groups are named after buckets."""
        latest = self.latest()
        return bool(latest) and all(_BUCKET.match(one.group) for one in latest)


def _partition(path: str, slices: list[Slice]) -> Partition:
    rows = [one.rows for one in slices]
    return Partition(
        path=path,
        bytes=sum(one.bytes for one in slices),
        files=sum((one.base is not None) + len(one.logs) for one in slices),
        groups=len(slices),
        rows=None if None in rows else sum(row for row in rows if row is not None),
        log_bytes=sum(one.log_bytes for one in slices),
        base_bytes=sum(one.base_bytes for one in slices),
        small=sum(one.base is not None and one.base_bytes < SMALL for one in slices),
    )


def read_facts(store: Store, *, archived: bool = False, rows: bool = True) -> Facts:
    """Read a table; if it changes in the meantime, read it again.

    Args:
        archived: Also read the archived timeline and its commits.
        rows: Look up the row counts of the latest files.

    Raises:
        InspectError: Not a table, damaged, unreadable, or of an unsupported table version.
    """
    for _ in range(5):
        try:
            return _read(store, archived, rows)
        except Vanished as error:
            missing = str(error)
    raise InspectError(
        f"{store.uri}/{missing} was deleted during the read: the table changed in each of five "
        "attempts; try again when fewer writers are running: hudilab inspect TABLE"
    )


def _read(store: Store, archived: bool, rows: bool) -> Facts:
    properties, version = _properties(store)
    layout = int(properties.get("hoodie.timeline.layout.version") or (1 if version < 8 else 2))
    entries = store.files()
    is_utc = properties.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC"
    folder, archive = _timeline(store, properties, layout, entries, is_utc)
    events = events_of(entries, folder, is_utc)
    commits = read_commits(store, events)
    old = _archived(archive, events, commits) if archived else None
    slices = _slices(store, entries, events, commits, archive, by_completion=layout >= 2)
    if rows:
        slices = _with_rows(store, slices, commits, archive)
    begin, cleaned = _cleaning(store, events, archive)
    return Facts(
        uri=store.uri,
        properties=properties,
        version=version,
        is_utc=is_utc,
        events=tuple(events),
        archived=old,
        archive=archive,
        commits=commits,
        slices=tuple(slices),
        clean_begin=begin,
        cleaned=cleaned,
        signs=_signs(entries, events),
        locks=store.has(".hoodie/.heartbeat"),
        first_commit=begin or _first_commit(events, archive),
    )


def _archived(
    archive: History, events: Collection[Event], commits: dict[str, Commit]
) -> tuple[Event, ...]:
    """Return the archived events that are not active; adds their commits to `commits`."""
    known = {(one.time, one.action) for one in events}
    old = tuple(one for one in archive.events() if (one.time, one.action) not in known)
    times = [one.time for one in old if one.action in WRITES]
    for time, content in archive.contents(times).items():
        commits.setdefault(time, parse_commit(content))
    return old


def _slices(
    store: Store,
    entries: Collection[Entry],
    events: list[Event],
    commits: dict[str, Commit],
    archive: History,
    *,
    by_completion: bool,
) -> list[Slice]:
    files = parse_files(entries)
    logged = {time for found in files.values() for time, _ in found.logs}
    unknown = logged - {one.time for one in events}
    return build_slices(
        files,
        events,
        replaced={pair: time for time, commit in commits.items() for pair in commit.replaced},
        compacting=_compacting(store, events),
        older={one.time: one.completed or one.time for one in archive.events()} if unknown else {},
        by_completion=by_completion,
    )


def _timeline(
    store: Store, properties: Mapping[str, str], layout: int, entries: Collection[Entry], utc: bool
) -> tuple[str, History]:
    """Return the folder of the active timeline, and the archived timeline."""
    if layout < 2:
        # "archived" in tables that Hudi 0.x created, "history" in those of 1.x.
        archived = f".hoodie/{properties.get('hoodie.archivelog.folder', 'archived')}"
        return ".hoodie", OldHistory(store, entries, archived.rstrip("/"), utc)
    folder = f".hoodie/{properties.get('hoodie.timeline.path', 'timeline')}"
    history = f"{folder}/{properties.get('hoodie.timeline.history.path', 'history')}"
    there = any(one.path == f"{history}/_version_" for one in entries)
    return folder, History(store, history if there else "", utc)


def _properties(store: Store) -> tuple[dict[str, str], int]:
    file = f"{store.uri}/{PROPERTIES}"
    try:
        data = store.read(PROPERTIES)
    except Vanished:
        raise _no_table(store) from None
    properties = read_properties(data.decode("utf-8", "replace"))
    version = properties.get("hoodie.table.version", "")
    needed = ("hoodie.table.name", "hoodie.table.type", "hoodie.table.version")
    missing = [name for name in needed if not properties.get(name)]
    if missing or not version.isdecimal():
        what = (
            "is empty" if not data.strip() else f"lacks {', '.join(missing) or 'a valid version'}"
        )
        raise InspectError(
            f"{file} {what}; restore it from its backup: " + typed(f"{file}.backup", "cp", file)
        )
    if int(version) > NEWEST:
        raise InspectError(
            f"{store.uri} has table version {version}, but inspect supports no version newer than "
            f"{NEWEST}; use the Hudi release that wrote it: CALL show_timeline(table => 'NAME')"
        )
    if int(version) < OLDEST:
        raise InspectError(
            f"{store.uri} has table version {version}, but inspect supports no version older than "
            f"{OLDEST}; upgrade the table: "
            "CALL upgrade_table(table => 'NAME', to_version => 'SIX')"
        )
    return properties, int(version)


def _no_table(store: Store) -> InspectError:
    below = store.tables_below()
    if not below:
        return InspectError(
            f"{store.uri} is not a Hudi table: it has no {PROPERTIES}; "
            "give the folder that contains .hoodie: hudilab inspect TABLE"
        )
    shown = ", ".join(below[:20]) + (f" and {len(below) - 20} more" if len(below) > 20 else "")
    return InspectError(
        f"{store.uri} is not a table but contains {len(below)}: {shown}; "
        f"choose one: hudilab inspect '{below[0]}'"
    )


def _compacting(store: Store, events: Collection[Event]) -> dict[tuple[str, str], str]:
    """Return the file groups of pending compactions, each with its compaction's time."""
    pending = [one for one in events if one.action == "compaction" and not one.is_done]
    paths = [one.files["REQUESTED"] for one in pending if "REQUESTED" in one.files]
    times = [one.time for one in pending if "REQUESTED" in one.files]
    found = {}
    for time, path, data in zip(times, paths, store.read_all(paths), strict=True):
        plan = parse_content(data, f"{store.uri}/{path}")
        for one in plan.get("operations") or ():
            found[one.get("partitionPath") or "", one.get("fileId") or ""] = time
    return found


def _with_rows(
    store: Store, slices: list[Slice], commits: Mapping[str, Commit], archive: History
) -> list[Slice]:
    """Fill in the row counts of base files without logs, from commits or footers."""
    known = {stat.path: stat.writes for commit in commits.values() for stat in commit.stats}
    latest = [one for one in slices if one.is_latest and one.base and not _data_logs(one)]
    times = {one.instant for one in latest if one.base not in known}
    if times:
        for content in archive.contents(times).values():
            known |= {stat.path: stat.writes for stat in parse_commit(content).stats}
    missing = [one.base for one in latest if one.base and one.base not in known]
    if missing and len(missing) <= FOOTERS and missing[0].endswith(".parquet"):
        known |= _footers(store, missing)
    return [
        one if one.base is None or _data_logs(one) else one._replace(rows=known.get(one.base))
        for one in slices
    ]


def _data_logs(one: Slice) -> bool:
    """Return whether a slice has logs with rows; change data capture logs only repeat rows."""
    return any(not log.endswith(".cdc") for log in one.logs)


def _footers(store: Store, paths: list[str]) -> dict[str, int]:
    from pyarrow import parquet

    found = {}
    for path in paths:
        damaged = (
            f"the data file {store.uri}/{path} is damaged; restore it from a backup, or return "
            "to a savepoint: CALL rollback_to_savepoint(table => 'NAME', instant_time => 'T')"
        )
        with reading_parquet(path, damaged):
            found[path] = parquet.read_metadata(store.open(path)).num_rows
    return found


def _cleaning(
    store: Store, events: Collection[Event], archive: History
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the earliest commit that the last clean retained, or the files cleans deleted."""
    cleans = [one for one in events if one.action == "clean" and one.is_done]
    contents = []
    for one in reversed(cleans):
        path = one.files["COMPLETED"]
        contents.append(parse_content(store.read(path), f"{store.uri}/{path}"))
        if contents[-1].get("earliestCommitToRetain"):
            break
    if not cleans:
        times = [one.time for one in archive.events() if one.action == "clean"][-1:]
        contents = list(archive.contents(times).values())
    if contents and contents[-1].get("earliestCommitToRetain"):
        return str(contents[-1]["earliestCommitToRetain"]), ()
    deleted = (
        (partition, PurePosixPath(name).name)
        for content in contents
        for partition, found in (content.get("partitionMetadata") or {}).items()
        for name in found.get("deletePathPatterns") or ()
    )
    return None, tuple(deleted)


def _signs(entries: Collection[Entry], events: Collection[Event]) -> dict[str, float]:
    """Return when each pending instant's writer last wrote a heartbeat or a data file."""
    found = {one.time: 0.0 for one in events if not one.is_done}
    if not found:
        return found
    for entry in entries:
        name = PurePosixPath(entry.path).name
        heartbeat = entry.path.startswith(".hoodie/.heartbeat/")
        match = None if heartbeat else _INSTANT.search(name)
        time = name if heartbeat else match[1] if match else ""
        if time in found:
            found[time] = max(found[time], entry.modified)
    return found


def _first_commit(events: Collection[Event], archive: History) -> str | None:
    """Return the time of the table's first completed write, archived or not."""
    both = (*archive.events(), *events)
    return min((one.time for one in both if one.is_done and one.action in WRITES), default=None)
