"""Locks of tables with several writers, and the errors of a lock that isn't released."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from shlex import quote

from hudi_sink.metadata import SHARED
from hudilab.errors import StreamError, TableError
from hudilab.paths import local_path

_PROVIDER = "hoodie.write.lock.provider"
_EXPIRE = "hoodie.write.lock.filesystem.expire"
_HUDI_LOCKS = "org.apache.hudi.client.transaction.lock."
_FILE_LOCK = f"{_HUDI_LOCKS}FileSystemBasedLockProvider"
# Hudi's messages when a writer loses a conflict. In 1.2, a heartbeat that ends while Hudi reads it
# is an error (`HoodieHeartbeatUtils`). The last two occur when both writers create the table.
_CONFLICTS = (
    "ConcurrentModificationException",
    "HoodieWriteConflictException",
    "Failed to check heartbeat for instant",
    "Could not load Hoodie properties",
    "TableNotFoundException",
)
_PROCESS_LOCK = f"{_HUDI_LOCKS}InProcessLockProvider"
IN_PROCESS = {_PROVIDER: _PROCESS_LOCK}  # for several writers in one process


def sharing_options(table: str, lock: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return write options for a table with several concurrent writers.

    Source: Hudi 1.2 `hoodie.write.concurrency.mode`.

    Args:
        lock: Options of a Hudi lock provider; the default on a local disk is the table's own lock
            file, which another writer may take over a minute after its owner died.

    Raises:
        TableError: `lock` names no provider, or the table is on an object store, where no lock file
            is safe, and `lock` is missing or is that file.
    """
    remote = not table.startswith("file:")
    if lock is not None and not lock.get(_PROVIDER):
        raise TableError(
            "lock= names no lock provider, so Hudi would use ZooKeeper",
            f"add {_PROVIDER!r}, for example {_PROCESS_LOCK!r} for streams of one driver"
            + ("" if remote else ", or omit lock= to use the table's own lock file"),
        )
    if remote and (lock is None or lock[_PROVIDER] == _FILE_LOCK):
        raise TableError(
            f"{table} is on an object store, where Hudi's lock file is not safe",
            "pass the options of a lock provider as lock=, or in a pipeline as lock.options, "
            "for example {'hoodie.write.lock.provider': "
            "'org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider', ...}, or, for "
            f"streams of one driver, {{'hoodie.write.lock.provider': {_PROCESS_LOCK!r}}}",
        )
    file = {_PROVIDER: _FILE_LOCK, _EXPIRE: "1"}  # minutes
    chosen = dict(file if lock is None else lock)
    return {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        # Another writer's in-flight commit has not failed until its heartbeat stops.
        "hoodie.clean.failed.writes.policy": "LAZY",
        # If two writers find the same failed write, only one rolls it back.
        "hoodie.rollback.avoid.duplicate.plan": "true",
        "hoodie.client.heartbeat.interval_in_ms": "10000",
        "hoodie.client.heartbeat.tolerable.misses": "3",
        # Retry until a dead writer's lock has expired.
        "hoodie.write.lock.client.num_retries": "180",
        "hoodie.write.lock.client.wait_time_ms_between_retry": "500",
        # Commits store the lock's name, so that other programs can compare theirs with it.
        SHARED: lock_name(chosen[_PROVIDER]),
    } | chosen


def lock_name(provider: str) -> str:
    """Return the provider's class, with the process for a lock in a process's memory."""
    name = provider.rpartition(".")[2]
    return name + (f":{os.getpid()}@{socket.gethostname()}" if provider == _PROCESS_LOCK else "")


def lock_held(table: str, options: Mapping[str, str]) -> StreamError:
    """Return the error for a lock that is not released; `options` are the `sharing_options`."""
    path, expires = local_path(f"{table}/.hoodie/lock"), options.get(_EXPIRE)
    modified = _modified(path) if path else None
    if modified is None:
        return StreamError(
            f"the lock {options[SHARED]} of {table} could not be taken: another writer holds it, "
            "or its service does not answer",
            "stop that writer, or wait for longer (hoodie.write.lock.client.num_retries), and "
            "start again",
        )
    age = (time.time() - modified) / 60
    until = f"expires {expires} min after its creation" if expires else "never expires"
    return StreamError(
        f"the lock file {path} is {age:.0f} min old and {until}: its owner is writing, or has died",
        f"if no writer is running, delete it, then start again: rm {quote(str(path))}",
    )


def _modified(file: Path) -> float | None:
    """Return a file's modification time; None if its owner has released it meanwhile."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return None


def is_conflict(error: str) -> bool:
    """Return whether a writer lost a conflict with another writer and may try again."""
    return any(name in error for name in _CONFLICTS)


def services_failed(batch: int, cause: str) -> str:
    """Return the log message about table services that collided with another writer's."""
    return (
        f"batch {batch} is committed, but its table services failed, probably because another "
        "writer runs them at the same time; the next batch runs them again: "
        f"{cause}"
    )
