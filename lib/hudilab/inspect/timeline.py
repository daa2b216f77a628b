"""Read a timeline: instants from file names, and the content of their files.

Layout 1 (table version 6) keeps `.hoodie/<time>.<action>`, JSON for commits; layout 2 (table
versions 8 and 9) keeps `.hoodie/timeline/<time>_<completed>.<action>`, Avro throughout, and moves
old instants to Parquet files in `history/`. `oldarchive.py` reads the archive of layout 1.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from hudilab.errors import InspectError
from hudilab.inspect.model import Commit, Event, Stat
from hudilab.inspect.store import Entry, Store, reading_parquet, typed

__all__ = [
    "WRITES",
    "History",
    "events_of",
    "moment",
    "parse_commit",
    "parse_content",
    "parse_settled",
    "read_commits",
]

T = TypeVar("T")
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
_NAME = re.compile(
    r"(?P<time>\d{14,20})(?:_(?P<completed>\d{14,20}))?"
    r"(?:\.(?P<action>[a-z]+))??(?:\.(?P<step>requested|inflight))?"
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
        files={STATES[one]: entry.path for one, _, _, entry in files},
        touched=max(entry.modified for *_, entry in files),
    )


def parse_content(data: bytes, path: str) -> dict[str, Any]:
    """Return the content of a timeline file: Avro, or JSON as table version 6 writes it.

    Args:
        path: The file's URI.

    Raises:
        InspectError: It is empty, truncated, or neither Avro nor JSON.
    """
    try:
        if data.startswith(_AVRO):
            import fastavro

            found = next(iter(fastavro.reader(io.BytesIO(data))))
        else:
            found = json.loads(data)
        if isinstance(found, dict):
            return found
    except Exception:  # whatever a damaged file makes a parser raise
        pass
    what = "is empty" if not data else "is damaged"
    raise InspectError(
        f"the timeline file {path} {what}, as after a power failure, so what the instant wrote is "
        "unknown; restore the file from a backup, or delete it, and the next write rolls the "
        "instant back: "
        f"{typed(path, 'rm')}"
    )


def parse_commit(content: Mapping[str, Any]) -> Commit:
    """Parse the content of a completed commit, an Avro record or a JSON object."""
    stats = tuple(
        Stat(
            partition=partition,
            group=one.get("fileId") or "",
            path=one.get("path") or "",
            writes=one.get("numWrites") or 0,
            updates=one.get("numUpdateWrites") or 0,
            deletes=one.get("numDeletes") or 0,
            inserts=one.get("numInserts") or 0,
            bytes=one.get("totalWriteBytes") or 0,
        )
        for partition, found in (content.get("partitionToWriteStats") or {}).items()
        for one in found
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
    done = [one for one in events if one.is_done and one.action in WRITES]
    paths = [one.files["COMPLETED"] for one in done]
    found = {}
    for one, path, data in zip(done, paths, store.read_all(paths), strict=True):
        content = parse_settled(store, path, data, one.touched, parse_content)
        found[one.time] = parse_commit(content)
    return found


def parse_settled(
    store: Store, path: str, data: bytes, modified: float, parse: Callable[[bytes, str], T]
) -> T:
    """Parse a file; if that fails and the file is new, wait, read it again and parse that.

    Args:
        parse: Takes the content and the file's URI; raises InspectError.
    """
    uri = f"{store.uri}/{path}"
    try:
        return parse(data, uri)
    except InspectError:
        # On a disk a file exists before its content: it may be written right now.
        if time.time() - modified > FRESH:
            raise
        time.sleep(FRESH / 5)
        return parse(store.read(path), uri)


class History:
    """The archived timeline of layout 2, read on demand; empty if the table has none."""

    def __init__(self, store: Store, folder: str, utc: bool) -> None:
        self._store, self._folder, self._utc = store, folder, utc
        self._events: list[Event] | None = None

    @property
    def exists(self) -> bool:
        """Return whether the table has an archived timeline."""
        return bool(self._folder)

    def events(self) -> list[Event]:
        """Return the archived instants, oldest first."""
        if self._events is None:
            rows = self._rows(["instantTime", "completionTime", "action"])
            found = {(row["instantTime"], row["action"]): self._event(row) for row in rows}
            self._events = [event for _, event in sorted(found.items())]
        return self._events

    def contents(self, times: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return the content of the archived instants of these times, as `parse_content` does."""
        if not times:
            return {}
        where = f"{self._store.uri}/{self._folder}"
        return {
            row["instantTime"]: parse_content(row["metadata"], where)
            for row in self._rows(["instantTime", "metadata"], times)
            if row["metadata"]
        }

    def _event(self, row: dict[str, Any]) -> Event:
        return Event(
            time=row["instantTime"],
            action=row["action"],
            state="COMPLETED",
            completed=row["completionTime"],
            requested_at=moment(row["instantTime"], self._utc),
            completed_at=moment(row["completionTime"] or "", self._utc),
            archived=True,
        )

    def _files(self) -> list[str]:
        """Return the Parquet files of the newest snapshot."""
        try:
            version = self._store.read(f"{self._folder}/_version_").decode().strip()
            manifest = json.loads(self._store.read(f"{self._folder}/manifest_{version}"))
            return [f"{self._folder}/{one['fileName']}" for one in manifest["files"]]
        except (ValueError, KeyError, TypeError):
            raise InspectError(
                f"the archived timeline {self._store.uri}/{self._folder} is damaged: its manifest "
                "cannot be read; restore the folder from a backup, then try again: "
                "hudilab inspect TABLE"
            ) from None

    def _rows(
        self, columns: Sequence[str], times: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return columns of the archived instants, all or those of some times."""
        if not self._folder:
            return []
        from pyarrow import parquet

        chosen = None if times is None else [("instantTime", "in", sorted(times))]
        rows: list[dict[str, Any]] = []
        for file in self._files():
            damaged = (
                f"the archived timeline's file {self._store.uri}/{file} is damaged; "
                "restore it from a backup, then try again: hudilab inspect TABLE"
            )
            with reading_parquet(file, damaged):
                found = parquet.read_table(
                    self._store.open(file), columns=list(columns), filters=chosen, partitioning=None
                )
            rows += found.to_pylist()
        return rows
