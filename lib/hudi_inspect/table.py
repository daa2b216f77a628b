"""Collect everything that a table's files say about it, as one consistent snapshot."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from hudi_inspect.errors import InspectError
from hudi_inspect.history import History
from hudi_inspect.model import Commit, Event, Partition, Slice
from hudi_inspect.properties import read_table_properties
from hudi_inspect.rows import with_rows
from hudi_inspect.slices import View, build_slices, parse_file
from hudi_inspect.store import Entry, Store, Vanished
from hudi_inspect.timeline import WRITES, events_of, parse_commit, parse_content, read_commits

SOURCE = "hudilab.source"  # under this name the lab's writer describes its source in a commit
MOST_BUCKETS = 10_000  # more than any table has; a random id of a file group is not below it
SMALL = 104857600  # bytes; Hudi's default of hoodie.parquet.small.file.limit
_INSTANT = re.compile(r"_(\d{14,20})\.")


@dataclass(frozen=True)
class Facts:
    """What a table's files say.

    Attributes:
        events: The active timeline, oldest first.
        archived: The archived timeline, oldest first; None if it was not read.
        unread: The folder of an archive that cannot be read, relative to the table; mostly empty.
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
    unread: str
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
        return bool(self.archive.folder)

    def commit_of(self, event: Event) -> Commit | None:
        """Return what a completed write says; None for any other instant."""
        wrote = event.is_done and event.action in WRITES
        return self.commits.get(event.time) if wrote else None

    def latest(self) -> list[Slice]:
        """Return the slices that a snapshot query reads."""
        return [part for part in self.slices if part.is_latest]

    def partitions(self) -> list[Partition]:
        """Return the partitions by path."""
        found: dict[str, list[Slice]] = defaultdict(list)
        for part in self.latest():
            found[part.partition].append(part)
        return [_partition(path, slices) for path, slices in sorted(found.items())]

    def has_buckets(self) -> bool:
        """Return whether the table has a bucket index, which is no property of a table.

        The lab's writer records the number of buckets in its stamp. In a table that others wrote,
        bucket 7's file group is 00000007-...; a random id of eight digits is not below the limit.
        """
        extras = (self.commits[time].extra for time in sorted(self.commits, reverse=True))
        if stamp := next((extra[SOURCE] for extra in extras if SOURCE in extra), ""):
            return "buckets" in json.loads(stamp)
        groups = {part.group for part in self.latest()}
        return bool(groups) and all(
            group[:8].isdecimal() and int(group[:8]) < MOST_BUCKETS for group in groups
        )


def _partition(path: str, slices: list[Slice]) -> Partition:
    rows = [part.rows for part in slices]
    return Partition(
        path=path,
        bytes=sum(part.bytes for part in slices),
        files=sum((part.base is not None) + len(part.logs) for part in slices),
        groups=len(slices),
        rows=None if None in rows else sum(row for row in rows if row is not None),
        log_bytes=sum(part.log_bytes for part in slices),
        base_bytes=sum(part.base_bytes for part in slices),
        small=sum(part.base is not None and part.base_bytes < SMALL for part in slices),
    )


def read_facts(store: Store, *, archived: bool = False) -> Facts:
    """Read a table, with its archived timeline if asked; if it changes meanwhile, read it again.

    Raises:
        InspectError: Not a table, damaged, unreadable, or of an unsupported table version.
    """
    for _ in range(5):
        try:
            return _read(store, archived)
        except Vanished as error:
            missing = str(error)
    raise InspectError(
        f"{store.uri}/{missing} was deleted during the read: the table changed in each of five "
        "attempts",
        "try again when fewer writers are running: hudilab inspect TABLE",
    )


def _read(store: Store, archived: bool) -> Facts:
    properties, version = read_table_properties(store)
    layout = int(properties.get("hoodie.timeline.layout.version") or (1 if version < 8 else 2))
    entries = store.files()
    is_utc = properties.get("hoodie.table.timeline.timezone", "LOCAL").upper() == "UTC"
    unread = _old_archive(properties, entries) if layout < 2 else ""
    if archived and unread:
        raise InspectError(
            f"cannot read the archived timeline {store.uri}/{unread}: inspect reads archives from "
            f"table version 8 on, this is version {version}",
            "omit --archived, or let Hudi list "
            f"them: CALL show_archived_commits(table => '{properties['hoodie.table.name']}')",
        )
    folder, archive = _timeline(store, properties, layout, entries, is_utc)
    events = events_of(entries, folder, is_utc)
    commits = read_commits(store, events)
    _refuse_external(store, commits)
    old = _archived(archive, events, commits) if archived else None
    view = View(
        events=events,
        replaced={pair: time for time, commit in commits.items() for pair in commit.replaced},
        compacting=_compacting(store, events),
        older=_older(entries, events, archive),
        by_completion=layout >= 2,
    )
    begin, cleaned = _cleaning(store, events, archive)
    return Facts(
        uri=store.uri,
        properties=properties,
        version=version,
        is_utc=is_utc,
        events=tuple(events),
        archived=old,
        archive=archive,
        unread=unread,
        commits=commits,
        slices=tuple(with_rows(store, build_slices(entries, view), commits, archive)),
        clean_begin=begin,
        cleaned=cleaned,
        signs=_signs(entries, events),
        locks=store.has(".hoodie/.heartbeat"),
        first_commit=begin or _first_commit(events, archive),
    )


def _refuse_external(store: Store, commits: Mapping[str, Commit]) -> None:
    """Refuse a table that registers files of other engines: their names do not say whose they are.

    Source: Hudi 1.2 `ExternalFilePathUtil`, as Apache XTable uses it.
    """
    stats = (stat.path for commit in commits.values() for stat in commit.stats)
    if path := next((path for path in stats if path.endswith("_hudiext")), ""):
        raise InspectError(
            f"{store.uri} registers data files that Hudi did not write, such as "
            f"{path.rsplit('_', 2)[0]}, and inspect does not know what they hold",
            "let Hudi list them: CALL show_fsview_latest(table => 'NAME')",
        )


def _old_archive(properties: Mapping[str, str], entries: Collection[Entry]) -> str:
    """Return the folder of a layout 1 archive, which is not read; empty if there is none."""
    # "archived" in tables that Hudi 0.x created, "history" in those of 1.x.
    name = properties.get("hoodie.archivelog.folder", "archived").rstrip("/")
    folder = f".hoodie/{name}"
    logs = f"{folder}/.commits_.archive."
    return folder if any(entry.path.startswith(logs) for entry in entries) else ""


def _timeline(
    store: Store, properties: Mapping[str, str], layout: int, entries: Collection[Entry], utc: bool
) -> tuple[str, History]:
    """Return the folder of the active timeline, and the archived timeline."""
    if layout < 2:
        return ".hoodie", History(store, "", utc)
    folder = f".hoodie/{properties.get('hoodie.timeline.path', 'timeline')}"
    history = f"{folder}/{properties.get('hoodie.timeline.history.path', 'history')}"
    exists = any(entry.path == f"{history}/_version_" for entry in entries)
    return folder, History(store, history if exists else "", utc)


def _archived(
    archive: History, events: Collection[Event], commits: dict[str, Commit]
) -> tuple[Event, ...]:
    """Return the archived events that are not active; adds their commits to `commits`."""
    known = {(event.time, event.action) for event in events}
    old = tuple(event for event in archive.events() if (event.time, event.action) not in known)
    times = [event.time for event in old if event.action in WRITES]
    for time, content in archive.contents(times).items():
        commits.setdefault(time, parse_commit(content))
    return old


def _older(
    entries: Collection[Entry], events: Collection[Event], archive: History
) -> dict[str, str]:
    """Return the completion times of archived instants, if logs need them."""
    files = (parse_file(entry.path) for entry in entries if ".log." in entry.path)
    logged = {file.instant for file in files if file}
    if logged <= {event.time for event in events}:
        return {}
    return {event.time: event.completed or event.time for event in archive.events()}


def _compacting(store: Store, events: Collection[Event]) -> dict[tuple[str, str], str]:
    """Return the file groups of pending compactions, each with its compaction's time."""
    plans = {
        event.time: event.files["REQUESTED"]
        for event in events
        if event.action == "compaction" and not event.is_done and "REQUESTED" in event.files
    }
    found = {}
    contents = store.each(store.read, plans.values())
    for (time, path), data in zip(plans.items(), contents, strict=True):
        plan = parse_content(data, f"{store.uri}/{path}")
        for operation in plan.get("operations") or ():
            found[operation.get("partitionPath") or "", operation.get("fileId") or ""] = time
    return found


def _cleaning(
    store: Store, events: Collection[Event], archive: History
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """Return the earliest commit that the last clean retained, or the files cleans deleted."""
    cleans = [event for event in events if event.action == "clean" and event.is_done]
    contents = []
    for event in reversed(cleans):
        path = event.files["COMPLETED"]
        contents.append(parse_content(store.read(path), f"{store.uri}/{path}"))
        if contents[-1].get("earliestCommitToRetain"):
            break
    if not cleans:
        times = [event.time for event in archive.events() if event.action == "clean"][-1:]
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
    found = {event.time: 0.0 for event in events if not event.is_done}
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
    writes = (
        event.time
        for event in (*archive.events(), *events)
        if event.is_done and event.action in WRITES
    )
    return min(writes, default=None)
