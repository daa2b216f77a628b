"""Read a table's files on disk or S3, without a JVM; this module cannot write."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from hudilab.errors import InspectError

__all__ = ["PROPERTIES", "Entry", "Store", "Vanished", "open_store", "reading_parquet", "typed"]

PROPERTIES = ".hoodie/hoodie.properties"
# Not needed, and large: among them the metadata table and the markers of running writes.
SKIPPED = (".hoodie/metadata", ".hoodie/.temp", ".hoodie/.aux", ".hoodie/.schema")
DEPTH = 3  # levels of folders below the given one that are searched for tables
THREADS = 16
_MASK = re.compile(r"AWS Error ([A-Z_]+)")


class Entry(NamedTuple):
    """A file: path relative to the table, size in bytes, last change in seconds since 1970."""

    path: str
    size: int
    modified: float


class Vanished(Exception):
    """A listed file no longer exists: the table changed during the read."""


def typed(uri: str, verb: str, *targets: str) -> str:
    """Return the shell command for a file: `rm '/a/b'`, or `aws s3 rm 's3://a/b'`."""
    if uri.startswith("file://"):
        names = [shlex.quote(one.removeprefix("file://")) for one in (uri, *targets)]
        return " ".join([verb, *names])
    names = [shlex.quote("s3://" + one.partition("://")[2]) for one in (uri, *targets)]
    return " ".join(["aws s3", verb, *names])


@contextmanager
def reading_parquet(path: str, damaged: str) -> Iterator[None]:
    """Turn what pyarrow raises for a file into Vanished, or into InspectError with `damaged`."""
    import pyarrow as pa

    try:
        yield
    except FileNotFoundError:
        raise Vanished(path) from None
    except (pa.ArrowInvalid, OSError):
        raise InspectError(damaged) from None


class Store(Protocol):
    """Access to a table's files."""

    uri: str

    def files(self) -> list[Entry]:
        """Return all files of the table; the timeline is listed before the data."""

    def read(self, path: str) -> bytes:
        """Return a file's content; raise Vanished if the file does not exist."""

    def read_all(self, paths: Iterable[str]) -> list[bytes]:
        """Return the contents of files, in the same order."""

    def open(self, path: str) -> Any:
        """Return what pyarrow opens as a Parquet file."""

    def has(self, folder: str) -> bool:
        """Return whether a folder exists."""

    def tables_below(self) -> list[str]:
        """Return the tables in the folders below; for a folder that is not a table itself."""


def open_store(table: str) -> Store:
    """Return the store of a path, or of a `file://`, `s3://` or `s3a://` URI.

    Raises:
        InspectError: The scheme is not supported, or the path is not a folder.
    """
    scheme, mark, rest = table.partition("://")
    if not mark:
        return _Disk(Path(table))
    if scheme == "file":
        # Hudi's URIs are not percent-encoded; other programs' are.
        path = Path("/" + rest.partition("/")[2])
        return _Disk(path if path.exists() else Path(unquote(str(path))))
    if scheme in ("s3", "s3a", "s3n"):
        return _S3(table, rest)
    raise InspectError(
        f"cannot read {scheme}:// URIs; "
        "give a path, or a file://, s3:// or s3a:// URI: hudilab inspect TABLE"
    )


class _Disk:
    def __init__(self, path: Path) -> None:
        self._root = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100  keeps symbolic links
        self.uri = f"file://{self._root}"
        if not self._root.is_dir():
            what = "is a file" if self._root.exists() else "does not exist"
            raise InspectError(
                f"{self._root} {what}; give the table's folder: hudilab inspect TABLE"
            )

    def files(self) -> list[Entry]:
        found: list[Entry] = []
        self._walk(".hoodie", found)
        self._walk("", found)
        return found

    def _walk(self, folder: str, found: list[Entry]) -> None:
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_dir():
                        if path not in SKIPPED and path != ".hoodie":
                            self._walk(path, found)
                    elif not path.endswith(".crc"):
                        stat = entry.stat()
                        found.append(Entry(path, stat.st_size, stat.st_mtime))
        except FileNotFoundError:
            pass  # removed since its folder was listed
        except PermissionError as error:
            raise _denied(str(error.filename)) from None

    def read(self, path: str) -> bytes:
        try:
            return (self._root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Vanished(path) from None
        except PermissionError as error:
            raise _denied(str(error.filename)) from None

    def read_all(self, paths: Iterable[str]) -> list[bytes]:
        return [self.read(path) for path in paths]

    def open(self, path: str) -> Any:
        return str(self._root / path)

    def has(self, folder: str) -> bool:
        return (self._root / folder).is_dir()

    def tables_below(self) -> list[str]:
        found, level = [], [self._root]
        for _ in range(DEPTH):
            level = [child for folder in level for child in _folders(folder)]
            found += [folder for folder in level if (folder / PROPERTIES).is_file()]
        return sorted(map(str, found))


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [folder / one.name for one in entries if one.is_dir() and one.name != ".hoodie"]
    except OSError:
        return []


def _denied(path: str) -> InspectError:
    return InspectError(
        f"cannot read {path}: permission denied; ask its owner for read access, or run as a user "
        "who has it: hudilab inspect TABLE"
    )


class _S3:
    def __init__(self, uri: str, rest: str) -> None:
        self.uri, self._root = uri.rstrip("/"), rest.strip("/")
        if not self._root:
            raise InspectError(f"{uri} has no bucket name; write it as s3://BUCKET/PATH/TO/TABLE")
        from pyarrow import fs

        from hudilab.runtime.s3 import endpoint

        self._fs, url = fs, endpoint()
        options: dict[str, Any] = {"connect_timeout": 5, "request_timeout": 20}
        if url:
            scheme, _, host = url.partition("://")
            options |= {"endpoint_override": host, "scheme": scheme}
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        try:
            if not region and not url:
                region = fs.resolve_s3_region(self._root.partition("/")[0])
            options["retry_strategy"] = fs.AwsStandardS3RetryStrategy(max_attempts=2)
            self._s3 = fs.S3FileSystem(region=region or "us-east-1", **options)
        except OSError as error:
            raise self._failed(error) from None

    def files(self) -> list[Entry]:
        cut = len(self._root) + 1
        found = []
        for one in self._list(self._root, recursive=True):
            path = one.path[cut:]
            if one.type == self._fs.FileType.File and not path.startswith(SKIPPED):
                found.append(Entry(path, one.size, one.mtime_ns / 1e9))
        return found

    def _list(self, folder: str, recursive: bool) -> list[Any]:
        selector = self._fs.FileSelector(folder, recursive=recursive, allow_not_found=True)
        try:
            return list(self._s3.get_file_info(selector))
        except OSError as error:
            raise self._failed(error) from None

    def read(self, path: str) -> bytes:
        try:
            with self._s3.open_input_file(f"{self._root}/{path}") as file:
                return bytes(file.read())
        except FileNotFoundError:
            raise Vanished(path) from None
        except OSError as error:
            raise self._failed(error) from None

    def read_all(self, paths: Iterable[str]) -> list[bytes]:
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(self.read, paths))

    def open(self, path: str) -> Any:
        return self._s3.open_input_file(f"{self._root}/{path}")

    def has(self, folder: str) -> bool:
        try:
            found = self._s3.get_file_info(f"{self._root}/{folder}")
        except OSError as error:
            raise self._failed(error) from None
        return bool(found.type == self._fs.FileType.Directory)

    def tables_below(self) -> list[str]:
        scheme, bucket = self.uri.partition("://")[0], self._root.partition("/")[0]
        if self._s3.get_file_info(bucket).type == self._fs.FileType.NotFound:
            raise InspectError(
                f"cannot read bucket {bucket!r}: it does not exist; fix the URI, then try again: "
                "hudilab inspect TABLE"
            )
        found, level = [], [self._root]
        for _ in range(DEPTH):
            entries = [one for folder in level for one in self._list(folder, recursive=False)]
            level = [one.path for one in entries if one.type == self._fs.FileType.Directory]
            level = [path for path in level if not path.endswith("/.hoodie")]
            files = self._s3.get_file_info([f"{path}/{PROPERTIES}" for path in level])
            found += [p for p, one in zip(level, files, strict=True) if one.is_file]
        return sorted(f"{scheme}://{path}" for path in found)

    def _failed(self, error: OSError) -> InspectError:
        """Return the error in the lab's own words: the SDK's text may contain keys."""
        from hudilab.runtime.s3 import CHAIN

        text = str(error)
        match = _MASK.search(text)
        code = match[1] if match else ""
        bucket = self._root.partition("/")[0]
        if code in ("NO_SUCH_BUCKET", "RESOURCE_NOT_FOUND") or "not found" in text.lower():
            why = "it does not exist; fix the URI"
        elif code == "ACCESS_DENIED" or "HTTP status 403" in text:
            why = f"access denied; grant s3:ListBucket and s3:GetObject, or fix {CHAIN}"
        elif code in (
            "INVALID_ACCESS_KEY_ID",
            "SIGNATURE_DOES_NOT_MATCH",
            "INVALID_CLIENT_TOKEN_ID",
        ):
            why = f"the server rejected the access key or its secret ({code}); fix {CHAIN}"
        elif code == "NETWORK_CONNECTION" or "CURL" in text or "curlCode" in text:
            why = (
                "the server does not answer; start it (on this machine: hudilab services start "
                "s3), or fix AWS_ENDPOINT_URL_S3"
            )
        else:
            why = (
                f"the request failed ({code or 'no error code'}); "
                f"check AWS_ENDPOINT_URL_S3 and {CHAIN}"
            )
        return InspectError(
            f"cannot read bucket {bucket!r}: {why}, then try again: hudilab inspect TABLE"
        )
