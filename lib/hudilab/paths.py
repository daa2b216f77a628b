"""Locate the warehouse, tables and checkpoints: one URI spelling for Spark, Hudi and S3A."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from errno import ELOOP
from pathlib import Path

from hudilab.errors import PathError

QUARANTINE = "_quarantine"  # the end of such a table's name
_S3 = ("s3", "s3n", "s3a")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RUN_ID = re.compile(r"(?![._])(?!.*\.\.)[A-Za-z0-9_.-]{1,64}")
_CHECKPOINTS = "_checkpoints"  # Spark and Hudi ignore directories whose names start with '_'
# Spark and Hadoop read the paths with these as patterns, and no quoting helps at every place.
_PATTERN = frozenset("[{*?\\")
# No database name contains '-', so no table of one run lies inside another run's table.
_RUN = "run-"


@dataclass(frozen=True)
class TableLocation:
    """A table's locations, as URIs in Hadoop's style: unescaped, with literal spaces and %.

    Readers outside the JVM unescape URIs: give them `local_path(uri)`.
    """

    warehouse: str
    table: str
    checkpoint: str
    database: str
    name: str
    notices: tuple[str, ...] = ()

    @property
    def quarantine(self) -> str:
        """The quarantine table, for rows that the table cannot store."""
        return f"{self.table}{QUARANTINE}"

    def checkpoint_of(self, stream: str) -> str:
        """Return the checkpoint of a second stream; it cannot clash with any table's own.

        Raises:
            PathError: `stream` is not a plain name.
        """
        if not _NAME.fullmatch(stream):
            raise PathError(
                f"stream={stream!r} is not a valid checkpoint name",
                "use letters, digits and _, not starting with a digit",
            )
        return f"{self.checkpoint}-{stream}"


def locate(
    warehouse: str,
    database: str,
    table: str,
    *,
    is_local: bool,
    home: Path,
    run_id: str = "",
) -> TableLocation:
    """Return `<warehouse>[/run-<run_id>]/<database>/<table>` and a checkpoint outside of them.

    Touches no storage. A relative local warehouse is resolved against `home`; with `is_local`, an
    S3 warehouse becomes `<home>/warehouse`.

    Raises:
        PathError: the warehouse, a name or the run_id cannot be used.
    """
    notices: list[str] = []
    # A bucket that is not used need not have a valid name.
    unused = is_local and _split(warehouse)[0] in _S3
    uri = _file_uri(str(home / "warehouse")) if unused else rewrite_scheme(warehouse, home)
    if unused:
        notices.append(
            f"IS_LOCAL is true or unset: warehouse.path is ignored, the warehouse is {uri}"
        )
    elif not is_local and local_path(uri) is not None:
        raise PathError(
            "warehouse.path is a local path but IS_LOCAL is false",
            "set warehouse.path to s3://<bucket>/<prefix>, or IS_LOCAL to true",
        )
    elif not is_local and (scheme := _split(warehouse)[0]) != "s3a":
        notices.append(f"{scheme}:// rewritten to s3a://: {uri}")
    if marks := sorted(_PATTERN & set(uri)):
        raise PathError(
            f"the warehouse {uri} contains {' '.join(marks)}, which makes a path a pattern for "
            "Spark: it would read other folders, or none",
            f"set HUDILAB_HOME or warehouse.path to a path without {' '.join(sorted(_PATTERN))}",
        )
    _check_names(database, table, run_id)
    root = f"{uri}/{_RUN}{run_id}" if run_id else uri
    path = f"{root}/{database}/{table}"
    return TableLocation(uri, path, checkpoint_of_table(path), database, table, tuple(notices))


def checkpoint_of_table(table: str) -> str:
    """Return the checkpoint that `locate` gives to a table, from the table's URI."""
    root, database, name = table.rsplit("/", 2)
    return f"{root}/{_CHECKPOINTS}/{database}/{name}"


def rewrite_scheme(uri: str, home: Path | None = None) -> str:
    """Rewrite `s3:` and `s3n:` to `s3a:`, and a path or `file:` to `file:///...`.

    A relative path is resolved against `home`.

    Raises:
        PathError: the URI cannot be used; never quotes it, since it may hold credentials.
    """
    scheme, host, path = _split(uri)
    if not uri.strip() or not uri.isprintable():
        raise PathError(
            "warehouse.path is empty or contains control characters",
            "set it to s3://<bucket>/<prefix> or a local path",
        )
    if scheme not in (*_S3, "file", ""):
        raise PathError(
            f"warehouse.path has an unknown scheme, {scheme!r}",
            "use s3://, s3n://, s3a://, file:// or a local path",
        )
    if scheme in _S3:
        if not _BUCKET.fullmatch(host):
            raise PathError(
                "warehouse.path has no valid bucket name (3 to 63 of a-z, 0-9, '.' and '-')",
                "write it as s3://<bucket>/<prefix>",
            )
        return f"s3a://{host}{path.rstrip('/')}"
    if host not in ("", "localhost"):
        raise PathError("warehouse.path has a host in its file URI", "write it as file:///<path>")
    local = Path(path).expanduser() if path.startswith("~/") else Path(path)
    if not local.is_absolute() and home is None:
        raise PathError("warehouse.path is a relative path", "use an absolute path")
    return _file_uri(str(home / local if home else local))


def leads_back(link: Path) -> bool:
    """Return whether a symbolic link leads to itself, or to a folder on its own path.

    Such a link adds no files, and a walk that follows it never ends.
    """
    try:
        target = link.resolve(strict=True)
    except RuntimeError:  # of a link to itself, before Python 3.13
        return True
    except OSError as error:
        return error.errno == ELOOP
    return any(above.resolve() == target for above in link.parents)


def local_path(uri: str) -> Path | None:
    """Return the local path of a URI, without unescaping; None if it is not a local file."""
    return Path(uri.removeprefix("file://")) if uri.startswith("file:///") else None


def _split(uri: str) -> tuple[str, str, str]:
    """Return lower-case scheme, host and path, nothing unescaped; urllib cuts at '?' and '#'."""
    scheme, colon, rest = uri.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
        return "", "", uri
    if not rest.startswith("//"):
        return scheme.lower(), "", rest
    host, slash, path = rest[2:].partition("/")
    return scheme.lower(), host, slash + path


def _file_uri(path: str) -> str:
    # normpath keeps two leading slashes, which would read as a host; Path has no equivalent.
    path = "/" + os.path.normpath(path).lstrip("/")
    if path == "/":
        raise PathError("warehouse.path is the root directory", "set it to a directory below")
    return f"file://{path}"


def _check_names(database: str, table: str, run_id: str) -> None:
    for key, name in (("database.name", database), ("table.name", table)):
        if not _NAME.fullmatch(name) or name == _CHECKPOINTS:
            raise PathError(
                f"{key}={name!r} is not a valid name",
                f"use letters, digits and _, not starting with a digit, and not {_CHECKPOINTS}",
            )
    check_run_id(run_id)


def check_run_id(run_id: str) -> None:
    """Raise PathError for a run_id that cannot name a folder; an empty run_id is valid."""
    if run_id and not _RUN_ID.fullmatch(run_id):
        raise PathError(
            f"parameter run_id={run_id!r} is not a valid directory name",
            "use 1 to 64 letters, digits, '_', '-' and '.', not starting with '.' or '_', and "
            "without '..'",
        )
