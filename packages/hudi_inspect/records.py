"""Convert the content of timeline files to checked types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from hudi_inspect.errors import Unreadable

T = TypeVar("T")
_LONG = 2**63
_KINDS = {int: "a whole number", str: "text", list: "a list", dict: "a record", bytes: "binary"}


class FileStat(NamedTuple):
    """A file of a commit, with its numbers of rows; `path` is relative to the table."""

    partition: str
    group: str
    path: str
    writes: int
    updates: int
    deletes: int
    bytes: int


class CommitFile(NamedTuple):
    """A completed write: its files, replaced file groups, and extra metadata without the schema."""

    operation: str
    stats: tuple[FileStat, ...]
    replaced: tuple[tuple[str, str], ...]
    extra: dict[str, str]


class Clean(NamedTuple):
    """A completed clean: the earliest retained commit, and the deleted files (partition, name)."""

    retained: str
    deleted: tuple[tuple[str, str], ...]


def value(record: Any, name: str, kind: type[T]) -> T:
    """Return a value of a record, or for null its type's empty value, such as 0.

    Raises:
        Unreadable: `record` is no record, or the value has another type.
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
    """Return a value as truncated JSON, or the type of a nested value."""
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
    """Return the file groups (partition, file group) in a compaction's plan."""
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
    """Return the JSON object in an entry of a commit's extra metadata, or an empty dict."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
