"""Read a timeline: instants from file names, and the content of their files.

Layout 1 (table version 6) keeps `.hoodie/<time>.<action>`, JSON for commits; layout 2 (table
versions 8 and 9) keeps `.hoodie/timeline/<time>_<completed>.<action>`, Avro throughout, and moves
old instants to Parquet files in `history/`, which `history.py` reads.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from hudilab.errors import InspectError
from hudilab.inspect.files.entries import Entry
from hudilab.inspect.files.store import Store, typed
from hudilab.inspect.model import Commit, Event, Stat

__all__ = ["WRITES", "events_of", "moment", "parse_commit", "parse_content", "read_commits"]

# Actions whose completed file lists what was written.
WRITES = ("commit", "deltacommit", "replacecommit")
ACTIONS = (
    *WRITES,
    "clean",
    "rollback",
    "restore",
    "savepoint",
    "compaction",
    "logcompaction",
    "clustering",
    "indexing",
)
STATES = ("REQUESTED", "INFLIGHT", "COMPLETED")
# Seconds or milliseconds; an instant of a metadata table can have three more digits.
_TIME = r"\d{14}(?:\d{3}){0,2}"
_NAME = re.compile(
    rf"(?P<time>{_TIME})(?:_(?P<completed>{_TIME}))?"
    r"(?=\.)(?:\.(?P<action>[a-z]+))??(?:\.(?P<step>requested|inflight))?"
)
FRESH = 2.0  # seconds for which a new file may still be incomplete
_AVRO = b"Obj\x01"


def moment(time: str, utc: bool) -> datetime | None:
    """Return the time in an instant's name, or None if the name is not a time.

    Args:
        utc: The timeline is in UTC; otherwise in the writer's time zone, which is assumed to be
            this machine's, as Hudi does.
    """
    try:
        found = datetime.strptime(time[:14], "%Y%m%d%H%M%S")
        found += timedelta(milliseconds=int(time[14:17] or 0))
        return found.replace(tzinfo=UTC) if utc else found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


def events_of(entries: Iterable[Entry], folder: str, utc: bool) -> list[Event]:
    """Return the instants whose files are in a folder, oldest first.

    Args:
        folder: `.hoodie/timeline` for layout 2, `.hoodie` for layout 1, whose names lack the
            completion time: the last file's modification time replaces it, as in Hudi.
    """
    found: dict[tuple[str, str], list[tuple[int, str, str | None, Entry]]] = {}
    for entry in entries:
        parent, _, name = entry.path.rpartition("/")
        match = _NAME.fullmatch(name)
        if parent != folder or match is None:
            continue
        # The second file of a COPY_ON_WRITE commit has no action in its name.
        action = match["action"] or "commit"
        if action not in ACTIONS:
            continue
        step = {"requested": 0, "inflight": 1}.get(match["step"] or "", 2)
        # A savepoint has the time of the commit it keeps.
        key = match["time"], "savepoint" if action == "savepoint" else ""
        found.setdefault(key, []).append((step, action, match["completed"], entry))
    return [_event(time, files, utc) for (time, _), files in sorted(found.items())]


def _event(time: str, files: list[tuple[int, str, str | None, Entry]], utc: bool) -> Event:
    files.sort(key=lambda file: file[0])
    step, action, completed, last = files[-1]
    done = step == 2
    at = None
    if done:
        at = moment(completed, utc) if completed else datetime.fromtimestamp(last.modified, UTC)
    return Event(
        time=time,
        action=action,
        state=STATES[step],
        completed=completed if done else None,
        requested_at=moment(time, utc),
        completed_at=at,
        files={STATES[number]: entry.path for number, _, _, entry in files},
        touched=max(entry.modified for *_, entry in files),
    )


def parse_content(data: bytes, uri: str) -> dict[str, Any]:
    """Return the content of the timeline file at a URI: Avro, or JSON as table version 6 writes it.

    Raises:
        InspectError: It is empty, truncated, or neither Avro nor JSON.
    """
    with suppress(Exception):  # whatever a damaged file makes a parser raise
        if data.startswith(_AVRO):
            import fastavro

            found = next(iter(fastavro.reader(io.BytesIO(data))))
        else:
            found = json.loads(data)
        if isinstance(found, dict):
            return found
    what = "is empty" if not data else "is damaged"
    raise InspectError(
        f"the timeline file {uri} {what}, as after a power failure, so what the instant wrote is "
        "unknown; restore the file from a backup, or delete it, and the next write rolls the "
        "instant back: "
        f"{typed(uri, 'rm')}"
    )


def parse_commit(content: Mapping[str, Any]) -> Commit:
    """Parse the content of a completed commit, an Avro record or a JSON object."""
    stats = tuple(
        Stat(
            partition=partition,
            group=stat.get("fileId") or "",
            path=stat.get("path") or "",
            writes=stat.get("numWrites") or 0,
            updates=stat.get("numUpdateWrites") or 0,
            deletes=stat.get("numDeletes") or 0,
            bytes=stat.get("totalWriteBytes") or 0,
        )
        for partition, found in (content.get("partitionToWriteStats") or {}).items()
        for stat in found
    )
    replaced = tuple(
        (partition, group)
        for partition, groups in (content.get("partitionToReplaceFileIds") or {}).items()
        for group in groups
    )
    extra = {key: value for key, value in (content.get("extraMetadata") or {}).items() if value}
    return Commit(content.get("operationType") or "UNKNOWN", stats, replaced, extra)


def read_commits(store: Store, events: Collection[Event]) -> dict[str, Commit]:
    """Return the content of all completed writes of the active timeline, by time.

    Raises:
        InspectError: A commit's file is empty or damaged.
    """
    done = [event for event in events if event.is_done and event.action in WRITES]
    paths = [event.files["COMPLETED"] for event in done]
    found = {}
    for event, path, data in zip(done, paths, store.each(store.read, paths), strict=True):
        found[event.time] = parse_commit(_parse_settled(store, path, data, event.touched))
    return found


def _parse_settled(store: Store, path: str, data: bytes, modified: float) -> dict[str, Any]:
    """Parse a file; if that fails and the file is new, wait, read it again and parse that."""
    uri = f"{store.uri}/{path}"
    try:
        return parse_content(data, uri)
    except InspectError:
        # On a disk a file exists before its content: it may be written right now.
        if time.time() - modified > FRESH:
            raise
        time.sleep(FRESH / 5)
        return parse_content(store.read(path), uri)
