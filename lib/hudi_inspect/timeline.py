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
from datetime import UTC, datetime, timedelta
from typing import Any

from hudi_inspect.errors import InspectError
from hudi_inspect.model import Commit, Event, Stat
from hudi_inspect.store import Entry, Store, typed

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


def parse_content(data: bytes, uri: str, *, can_redo: bool = False) -> dict[str, Any]:
    """Return the content of the timeline file at a URI: Avro, or JSON as table version 6 writes it.

    Args:
        can_redo: Hudi rolls the instant back if this file is missing; only then may it be deleted.

    Raises:
        InspectError: It is empty, truncated, neither Avro nor JSON, or cannot be read here.
    """
    is_avro = data.startswith(_AVRO)
    if is_avro:
        import fastavro  # outside of the try: a package that is missing says nothing of the file

    why = "it holds no record"
    try:
        found, *_ = fastavro.reader(io.BytesIO(data)) if is_avro else [json.loads(data)]
        if isinstance(found, dict):
            return found
    except MemoryError:
        raise
    # A parser may raise anything; that proves nothing, only `_lost` judges the file.
    except Exception as error:  # noqa: BLE001
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    lost, look = _lost(data), f"look at it first ({typed(uri, 'ls')})"
    if lost and can_redo:
        raise InspectError(
            f"the timeline file {uri} {lost}, as after a power failure, so what the instant wrote "
            "is unknown",
            f"{look}, then stop all writers and restore the file from a backup, or "
            f"delete it, and the next write rolls the instant back: {typed(uri, 'rm')}",
        )
    raise InspectError(
        f"the timeline file {uri} {lost or f'cannot be read ({why})'}; {look}, and do not delete "
        "it",
        "restore it from a backup if it is damaged, then try again: hudilab inspect TABLE",
    )


def _lost(data: bytes) -> str:
    """Return how a file has provably lost its content; empty if it need not be damaged."""
    if not data.strip(b"\0"):
        return "holds only zero bytes" if data else "is empty"
    if data.startswith(b"{"):
        return "is truncated" if _is_cut_json(data) else ""
    return "is truncated" if _AVRO.startswith(data) or _is_cut_avro(data) else ""


def _is_cut_json(data: bytes) -> bool:
    try:
        text = data.decode().rstrip()
        json.loads(text)
    except json.JSONDecodeError as error:
        if error.pos >= len(text):
            return True
        # A word that is cut, such as "nul", or a string: the error is where it begins.
        begun = len(text) - error.pos < 5 or error.msg.startswith("Unterminated string")
        return begun and not text.endswith("}")
    except (ValueError, RecursionError):
        pass
    return False


def _is_cut_avro(data: bytes) -> bool:
    """Return whether a container file is shorter than its own lengths say.

    Source: Avro 1.11 specification, "Object Container Files".
    """
    stream = io.BytesIO(data)

    def take(count: int) -> bytes:
        if len(found := stream.read(max(0, count))) < count:
            raise EOFError
        return found

    def number() -> int:
        value = shift = 0
        while True:
            byte = take(1)[0]
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return (value >> 1) ^ -(value & 1)

    if not data.startswith(_AVRO):
        return False
    take(len(_AVRO))
    try:
        while pairs := number():
            if pairs < 0:  # the size of these pairs follows
                number()
            for _ in range(2 * abs(pairs)):
                take(number())
        mark = take(16)
        number()  # how many records
        take(number())
        take(len(mark))
    except EOFError:
        return True
    return False


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
    newest = max((event.time for event in done), default="")
    found = {}
    for event, path, data in zip(done, paths, store.each(store.read, paths), strict=True):
        can_redo = event.time == newest and _is_rolled_back(event)
        content = _parse_settled(store, path, data, event.touched, can_redo)
        found[event.time] = parse_commit(content)
    return found


def _is_rolled_back(event: Event) -> bool:
    """Return whether Hudi rolls a newest write back once its completed file is missing.

    It does the work of a table service again instead. For an older write it refuses every later
    one: "Found commits after time, please rollback greater commits first".
    """
    service = any(".compaction." in path for path in event.files.values())
    return event.action in ("commit", "deltacommit") and not service


def _parse_settled(
    store: Store, path: str, data: bytes, modified: float, can_redo: bool
) -> dict[str, Any]:
    """Parse a file; if that fails and the file is new, wait, read it again and parse that."""
    uri = f"{store.uri}/{path}"
    try:
        return parse_content(data, uri, can_redo=can_redo)
    except InspectError:
        # On a disk a file exists before its content: it may be written right now.
        if time.time() - modified > FRESH:
            raise
        time.sleep(FRESH / 5)
        return parse_content(store.read(path), uri, can_redo=can_redo)
