"""Read the files of an active timeline; `archive.py` reads an archived timeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from hudi_inspect.content import MAX_CONTENT, parse_content
from hudi_inspect.errors import InspectError, TooLarge, Unreadable
from hudi_inspect.names import Instant
from hudi_inspect.records import parse_commit
from hudi_inspect.store import Store, typed

T = TypeVar("T")

FRESH = 2.0  # seconds for which a new file may still be incomplete


def unreadable(instant: Instant, file: str, error: Unreadable) -> InspectError:
    """Return the error for an instant with an unreadable file."""
    archived = "archived " if instant.archived else ""
    return InspectError(
        f"the {archived}{instant.action} {instant.time} can't be read: {file} {error}",
        f"look at it ({typed(file, 'ls')}), and restore it from a backup instead of deleting it, "
        "then try again: hudi-inspect TABLE",
    )


def read_file(
    store: Store, instant: Instant, parse: Callable[[dict[str, Any]], T], state: str = "COMPLETED"
) -> T | InspectError:
    """Return the content of an instant's file for a state, or the error if it cannot be read.

    On a disk, a new file may still be incomplete, so it is read again.
    """
    path = instant.files[state]
    while True:
        try:
            return parse(parse_content(store.read(path, most=MAX_CONTENT)))
        except Unreadable as error:
            is_new = 0 <= time.time() - instant.touched <= FRESH
            if not is_new or isinstance(error, TooLarge):
                return unreadable(instant, f"{store.uri}/{path}", error)
        time.sleep(FRESH / 5)


def read_commits(store: Store, instants: Collection[Instant], problems: list[InspectError]) -> None:
    """Read the contents of the active timeline's completed writes, and set `Instant.commit`."""
    writes = [instant for instant in instants if instant.is_write]
    commits = store.each(lambda write: read_file(store, write, parse_commit), writes)
    for write, commit in zip(writes, commits, strict=True):
        if isinstance(commit, InspectError):
            problems.append(commit)
        else:
            write.commit = commit
