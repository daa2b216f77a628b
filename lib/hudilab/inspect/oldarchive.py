"""Read the archived timeline of layout 1 (table version 6): log files of Avro records.

A log file is a sequence of blocks, with big-endian numbers. A block: magic, size, format version,
type, header, size of the content, content, footer, and the size again, now with the magic. The
header contains the schema; the content, its version, the number of records, and each record after
its size. A record is one state of an instant; the completed one says what the instant did.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from io import BytesIO
from typing import Any

from hudilab.errors import InspectError
from hudilab.inspect.model import Event
from hudilab.inspect.store import Entry, Store, typed
from hudilab.inspect.timeline import History, moment, parse_settled

__all__ = ["OldHistory"]

_NAME = re.compile(r"\.commits_\.archive\.\d+(?:_.*)?")
_MAGIC, _FORMAT, _AVRO_BLOCK, _SCHEMA = b"#HUDI#", 1, 3, 2
_IDENTITY = ("commitTime", "actionType", "actionState", "stateTransitionTime")
_Times = Collection[str] | None


class OldHistory(History):
    """The archived timeline of layout 1, in the log files among a folder's entries."""

    def __init__(self, store: Store, entries: Iterable[Entry], folder: str, utc: bool) -> None:
        split = ((one, *one.path.rpartition("/")) for one in entries)
        self._logs = [one for one, at, _, name in split if at == folder and _NAME.fullmatch(name)]
        super().__init__(store, folder if self._logs else "", utc)

    def contents(self, times: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return the content of the archived instants of these times."""
        rows = self._rows(["metadata"], times) if times else []
        return {row["instantTime"]: row["metadata"] for row in rows if row["metadata"]}

    def _event(self, row: dict[str, Any]) -> Event:
        # The time of the instant's file, in the zone of the writer whatever the timeline's is.
        end = moment(row["completionTime"] or "", utc=False)
        return replace(super()._event(row), completed_at=end)

    def _rows(self, columns: Sequence[str], times: _Times = None) -> list[dict[str, Any]]:
        """Return the archived instants; those of some times with their content."""
        parse = partial(_parse, times=times)
        found = self._store.read_all([one.path for one in self._logs])
        rows: list[dict[str, Any]] = []
        for one, data in zip(self._logs, found, strict=True):
            rows += parse_settled(self._store, one.path, data, one.modified, parse)
        return rows


def _parse(data: bytes, path: str, times: _Times) -> list[dict[str, Any]]:
    """Return the completed instants in a log file; those of some times with their content."""
    try:
        rows = [_row(schema, record, times) for schema, record in _records(BytesIO(data))]
        if data:
            return [row for row in rows if row]
    except Exception:  # whatever a damaged file makes a parser raise
        pass
    raise InspectError(
        f"the archived timeline's file {path} is {'damaged' if data else 'empty'}, as after a "
        "power failure, so what its instants did is unknown; restore it from a backup, or, if a "
        "writer died while archiving, delete it, because these instants are archived again: "
        f"{typed(path, 'rm')}"
    )


def _records(file: BytesIO) -> Iterator[tuple[str, bytes]]:
    """Yield each record of a log file, after its schema as JSON."""
    while start := file.read(22):
        magic, size, version, kind = struct.unpack(">6sqii", start)
        body = BytesIO(file.read(size - 16))
        (total,) = struct.unpack(">q", file.read(8))
        known = (_MAGIC, _FORMAT, _AVRO_BLOCK, size + len(_MAGIC))
        if (magic, version, kind, total) != known:
            raise ValueError
        header = {}
        for _ in range(_number(body)):
            key = _number(body)
            header[key] = body.read(_number(body)).decode()
        (length,) = struct.unpack(">q", body.read(8))
        content = BytesIO(body.read(length))
        _, count = _number(content), _number(content)
        for _ in range(count):
            yield header[_SCHEMA], content.read(_number(content))
        if content.read():
            raise ValueError


def _number(data: BytesIO) -> int:
    return int(struct.unpack(">i", data.read(4))[0])


@lru_cache(maxsize=8)
def _schemas(text: str) -> tuple[Any, Any]:
    """Return the schema of records, and the part of it that identifies the instant."""
    import fastavro

    whole = json.loads(text)
    fields = [one for one in whole["fields"] if one["name"] in _IDENTITY]
    return fastavro.parse_schema(whole), fastavro.parse_schema({**whole, "fields": fields})


def _row(schema: str, data: bytes, times: _Times) -> dict[str, Any] | None:
    import fastavro

    whole, part = _schemas(schema)
    its: Any = fastavro.schemaless_reader(BytesIO(data), whole, part)
    # Very old instants have neither a state nor a completion time.
    state, time = its.get("actionState") or "COMPLETED", its["commitTime"]
    if state != "COMPLETED" or (times is not None and time not in times):
        return None
    row = {"instantTime": str(time), "action": str(its["actionType"])}
    row["completionTime"] = its.get("stateTransitionTime")
    if times is not None:
        record: Any = fastavro.schemaless_reader(BytesIO(data), whole, None)
        # The only nested record; none if the commit's file was empty.
        return row | {"metadata": next((v for v in record.values() if isinstance(v, dict)), {})}
    return row
