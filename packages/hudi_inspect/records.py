"""Check the content of a timeline file once: every other module relies on these types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from hudi_inspect.errors import Unreadable

T = TypeVar("T")
_LONG = 2**63
_KINDS = {int: "a whole number", str: "text", list: "a list", dict: "a record", bytes: "binary"}


class FileStat(NamedTuple):
    """What one commit wrote into one file; `path` is relative to the table."""

    partition: str
    group: str
    path: str
    writes: int
    updates: int
    deletes: int
    bytes: int


class CommitFile(NamedTuple):
    """The content of a completed write: what it wrote and replaced, and its extra metadata.

    `extra` lacks the schema, which is large.
    """

    operation: str
    stats: tuple[FileStat, ...]
    replaced: tuple[tuple[str, str], ...]
    extra: dict[str, str]


class Clean(NamedTuple):
    """The content of a clean: the earliest commit it retained, the files (partition, name)."""

    retained: str
    deleted: tuple[tuple[str, str], ...]


def value(record: Any, name: str, kind: type[T]) -> T:
    """Return a value of a record; if it is null, the empty value of its type, such as 0.

    Raises:
        Unreadable: It isn't a record, or the value has another type.
    """
    if type(record) is not dict:
        raise Unreadable(f"contains {_short(record)} instead of a record with {name}")
    stored = record.get(name)
    if stored is None:
        return kind()
    if type(stored) is not kind or (isinstance(stored, int) and not -_LONG <= stored < _LONG):
        raise Unreadable(f"contains {name}={_short(stored)}, which is not {_KINDS[kind]}")
    return stored


def _texts(record: Any, name: str) -> list[str]:
    texts = value(record, name, list)
    for text in texts:
        if type(text) is not str:
            raise Unreadable(f"contains {_short(text)} in {name}, which is not text")
    return texts


def _short(stored: Any) -> str:
    """Return a value as JSON, truncated if it is long; only its type if it is nested."""
    if isinstance(stored, dict | list | bytes):
        return f"a {type(stored).__name__}"
    text = json.dumps(stored) if isinstance(stored, str | bool | None) else str(stored)
    return text if len(text) <= 50 else f"{text[:50]}…"


def parse_commit(content: dict[str, Any]) -> CommitFile:
    """Return a completed commit, an Avro record or a JSON object."""
    extra = value(content, "extraMetadata", dict)
    return CommitFile(
        value(content, "operationType", str) or "UNKNOWN",
        tuple(_stats(content)),
        tuple(
            (partition, group)
            for partitions in [value(content, "partitionToReplaceFileIds", dict)]
            for partition in partitions
            for group in _texts(partitions, partition)
        ),
        {key: text for key in extra if key != "schema" and (text := value(extra, key, str))},
    )


def _stats(content: dict[str, Any]) -> Iterator[FileStat]:
    partitions = value(content, "partitionToWriteStats", dict)
    for partition in partitions:
        for stat in value(partitions, partition, list):
            yield FileStat(
                partition,
                value(stat, "fileId", str),
                value(stat, "path", str),
                value(stat, "numWrites", int),
                value(stat, "numUpdateWrites", int),
                value(stat, "numDeletes", int),
                value(stat, "totalWriteBytes", int),
            )


def parse_compaction(content: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the file groups, as (partition, file group), that a compaction's plan lists."""
    return [
        (value(operation, "partitionPath", str), value(operation, "fileId", str))
        for operation in value(content, "operations", list)
    ]


def parse_clean(content: dict[str, Any]) -> Clean:
    """Return a completed clean."""
    partitions = value(content, "partitionMetadata", dict)
    return Clean(
        value(content, "earliestCommitToRetain", str),
        tuple(
            (partition, path.rpartition("/")[2])
            for partition in partitions
            for path in _texts(value(partitions, partition, dict), "deletePathPatterns")
        ),
    )


def parse_map(text: str) -> dict[str, Any]:
    """Return the JSON object in an entry of a commit's extra metadata; empty without an object."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
