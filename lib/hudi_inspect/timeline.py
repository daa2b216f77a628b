"""Read a timeline: instants from file names, and the content of their files.

Layout 1 (table version 6) keeps `.hoodie/<time>.<action>`, JSON for commits; layout 2 (table
versions 8 and 9) keeps `.hoodie/timeline/<time>_<completed>.<action>`, Avro throughout, and moves
old instants to Parquet files in `history/`, which `archive.py` reads.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from hudi_inspect.errors import InspectError
from hudi_inspect.store import Entry, Store, typed
from hudi_inspect.units import iso

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


class FileStat(NamedTuple):
    """What one commit wrote into one file; `path` is relative to the table."""

    partition: str
    group: str
    path: str
    writes: int
    updates: int
    deletes: int
    bytes: int


class Commit(NamedTuple):
    """The content of a completed write: what it wrote and replaced, and its extra metadata."""

    operation: str
    stats: tuple[FileStat, ...]
    replaced: tuple[tuple[str, str], ...]
    extra: dict[str, str]


@dataclass(frozen=True)
class Instant:
    """An action on the timeline.

    Attributes:
        time: As in the file name, which is the form that Hudi's procedures take.
        completion_time: As in the file name; None if pending, and in layout 1.
        files: Maps a state (REQUESTED, INFLIGHT, COMPLETED) to its file, relative to the table.
        touched: When one of its files last changed, in seconds since 1970; 0 if archived.
        commit: What it wrote; None for an action that writes no rows.
    """

    time: str
    action: str
    state: str
    completion_time: str | None
    requested: datetime | None
    completed: datetime | None
    files: dict[str, str] = field(default_factory=dict)
    touched: float = 0.0
    archived: bool = False
    commit: Commit | None = None

    @property
    def is_done(self) -> bool:
        """Return whether it is completed."""
        return self.state == "COMPLETED"

    @property
    def is_write(self) -> bool:
        """Return whether it is a completed write of data."""
        return self.is_done and self.action in WRITES

    @property
    def end(self) -> tuple[str, str]:
        """Return its place in the order of completion; a pending instant counts as requested."""
        return iso(self.completed or self.requested) or self.time, self.time

    @property
    def operation(self) -> str | None:
        """Return the writer's operation, such as UPSERT; None if it writes no rows."""
        return self.commit.operation if self.commit else None

    @property
    def rows_written(self) -> int | None:
        """Return the rows of the files that it wrote; None if it writes no rows."""
        return sum(stat.writes for stat in self.commit.stats) if self.commit else None

    @property
    def rows_updated(self) -> int | None:
        """Return how many rows it updated; None if it writes no rows."""
        return sum(stat.updates for stat in self.commit.stats) if self.commit else None

    @property
    def rows_deleted(self) -> int | None:
        """Return how many rows it deleted; None if it writes no rows."""
        return sum(stat.deletes for stat in self.commit.stats) if self.commit else None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields of the JSON."""
        return {
            "requested": iso(self.requested),
            "completed": iso(self.completed),
            "action": self.action,
            "state": self.state,
            "operation": self.operation,
            "rows_written": self.rows_written,
            "rows_updated": self.rows_updated,
            "rows_deleted": self.rows_deleted,
            "archived": self.archived,
        }


def moment(time: str, utc: bool) -> datetime | None:
    """Return the time in an instant's name, or None if the name is not a time.

    Args:
        utc: The timeline is in UTC; otherwise in the writer's time zone, which is assumed to be
            this machine's, as Hudi does.
    """
    try:
        local = datetime.strptime(time[:14], "%Y%m%d%H%M%S")
        local += timedelta(milliseconds=int(time[14:17] or 0))
        return local.replace(tzinfo=UTC) if utc else local.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None


class _File(NamedTuple):
    """A file of an instant; `step` is the index of its state in STATES."""

    step: int
    action: str
    completion_time: str | None
    entry: Entry


def instants_of(entries: Iterable[Entry], folder: str, utc: bool) -> list[Instant]:
    """Return the instants whose files are in a folder, oldest first.

    Args:
        folder: `.hoodie/timeline` for layout 2, `.hoodie` for layout 1, whose names lack the
            completion time: the last file's modification time replaces it, as in Hudi.
    """
    files: dict[tuple[str, str], list[_File]] = {}
    for entry in entries:
        parent, _, name = entry.path.rpartition("/")
        match = _NAME.fullmatch(name)
        if parent != folder or match is None:
            continue
        # The second file of a COPY_ON_WRITE commit has no action in its name.
        action = match["action"] or "commit"
        if action not in ACTIONS:
            continue
        step = {"requested": 0, "inflight": 1}.get(match["step"], 2)
        # A savepoint has the time of the commit it keeps.
        key = match["time"], "savepoint" if action == "savepoint" else ""
        files.setdefault(key, []).append(_File(step, action, match["completed"], entry))
    return [_instant(time, files[time, kind], utc) for time, kind in sorted(files)]


def _instant(time: str, files: list[_File], utc: bool) -> Instant:
    files.sort(key=lambda file: file.step)
    last = files[-1]
    completed = None
    if STATES[last.step] == "COMPLETED":
        completed = (
            moment(last.completion_time, utc)
            if last.completion_time
            else datetime.fromtimestamp(last.entry.modified, UTC)
        )
    return Instant(
        time=time,
        action=last.action,
        state=STATES[last.step],
        completion_time=last.completion_time,
        requested=moment(time, utc),
        completed=completed,
        files={STATES[file.step]: file.entry.path for file in files},
        touched=max(file.entry.modified for file in files),
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
        content, *_ = fastavro.reader(io.BytesIO(data)) if is_avro else [json.loads(data)]
        if isinstance(content, dict):
            return content
    except MemoryError:
        raise
    # A parser may raise anything; that proves nothing, only `_lost` judges the file.
    except Exception as error:  # noqa: BLE001
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    lost, look = _lost(data), f"look at it first ({typed(uri, 'ls')})"
    if lost and can_redo:
        raise InspectError(
            f"the timeline file {uri} {lost}, as after a power failure, so what the instant "
            "wrote is unknown",
            f"{look}, then stop all writers and restore the file from a backup, or delete it, "
            f"and the next write rolls the instant back: {typed(uri, 'rm')}",
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
        if len(part := stream.read(max(0, count))) < count:
            raise EOFError
        return part

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
        FileStat(
            partition=partition,
            group=stat.get("fileId") or "",
            path=stat.get("path") or "",
            writes=stat.get("numWrites") or 0,
            updates=stat.get("numUpdateWrites") or 0,
            deletes=stat.get("numDeletes") or 0,
            bytes=stat.get("totalWriteBytes") or 0,
        )
        for partition, written in (content.get("partitionToWriteStats") or {}).items()
        for stat in written
    )
    replaced = tuple(
        (partition, group)
        for partition, groups in (content.get("partitionToReplaceFileIds") or {}).items()
        for group in groups
    )
    extra = {key: value for key, value in (content.get("extraMetadata") or {}).items() if value}
    return Commit(content.get("operationType") or "UNKNOWN", stats, replaced, extra)


def with_commits(store: Store, instants: Collection[Instant]) -> list[Instant]:
    """Read what the completed writes of the active timeline wrote.

    Raises:
        InspectError: A commit's file is empty or damaged.
    """
    writes = [instant for instant in instants if instant.is_write]
    newest = max((instant.time for instant in writes), default="")
    contents = store.each(store.read, [write.files["COMPLETED"] for write in writes])
    commits = {
        write.time: _commit(store, write, data, newest)
        for write, data in zip(writes, contents, strict=True)
    }
    return [
        replace(instant, commit=commits[instant.time]) if instant.is_write else instant
        for instant in instants
    ]


def _commit(store: Store, write: Instant, data: bytes, newest: str) -> Commit:
    """Parse a commit; if that fails and the file is new, wait, read it again and parse that."""
    path = write.files["COMPLETED"]
    uri = f"{store.uri}/{path}"
    can_redo = write.time == newest and _is_rolled_back(write)
    try:
        return parse_commit(parse_content(data, uri, can_redo=can_redo))
    except InspectError:
        # On a disk a file exists before its content: it may be written right now.
        if time.time() - write.touched > FRESH:
            raise
        time.sleep(FRESH / 5)
        return parse_commit(parse_content(store.read(path), uri, can_redo=can_redo))


def _is_rolled_back(write: Instant) -> bool:
    """Return whether Hudi rolls a newest write back once its completed file is missing.

    It does the work of a table service again instead. For an older write it refuses every later
    one: "Found commits after time, please rollback greater commits first".
    """
    service = any(".compaction." in path for path in write.files.values())
    return write.action in ("commit", "deltacommit") and not service
