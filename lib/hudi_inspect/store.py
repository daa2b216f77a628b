"""Read a table's files on disk or S3, without a JVM; this module cannot write."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import ELOOP
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar
from urllib.parse import unquote

from hudi_inspect.errors import InspectError, missing_package

T = TypeVar("T")
PROPERTIES = ".hoodie/hoodie.properties"  # of a table
# Not needed, and large: among them the metadata table and the markers of running writes.
SKIPPED = (".hoodie/metadata", ".hoodie/.temp", ".hoodie/.aux", ".hoodie/.schema")
DEPTH = 3  # levels of folders below the given one that are searched for tables


class Entry(NamedTuple):
    """A file: path relative to the table, size in bytes, last change in seconds since 1970."""

    path: str
    size: int
    modified: float


class Vanished(Exception):
    """A listed file no longer exists: the table changed during the read."""


@dataclass(frozen=True)
class S3Access:
    """How to reach S3. What is empty, and the keys, come from AWS's own variables and files.

    Attributes:
        endpoint: http(s)://host[:port] of a server other than Amazon's.
        region: Of the bucket.
    """

    endpoint: str = ""
    region: str = ""


def typed(uri: str, verb: str, *targets: str) -> str:
    """Return the shell command for a file: `ls -l '/a/b'`, or `aws s3 ls 's3://a/b'`."""
    if uri.startswith("file://"):
        verb = "ls -l" if verb == "ls" else verb
        names = [shlex.quote(name.removeprefix("file://")) for name in (uri, *targets)]
        return " ".join([verb, *names])
    names = [shlex.quote("s3://" + name.partition("://")[2]) for name in (uri, *targets)]
    return " ".join(["aws s3", verb, *names])


class Store(Protocol):
    """Access to a table's files. A method that reads a file raises Vanished if it is missing."""

    uri: str

    def files(self) -> list[Entry]:
        """Return all files of the table; the timeline is listed before the data."""

    def read(self, path: str, last: int | None = None) -> bytes:
        """Return a file's content; with `last`, at most so many bytes at its end."""

    def each(self, read: Callable[[str], T], paths: Iterable[str]) -> list[T]:
        """Return what a function returns for each path, in the same order."""

    def has(self, folder: str) -> bool:
        """Return whether a folder exists."""

    def tables_below(self) -> list[str]:
        """Return the tables in the folders below; for a folder that is not a table itself."""

    def storage_options(self) -> dict[str, str]:
        """Return the options with which hudi-rs reads the table; they can include secret keys."""


@contextmanager
def reading(uri: str) -> Iterator[None]:
    """Turn what says nothing of the files below a URI into an InspectError."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_package(f"reading {uri}", error) from None
    except MemoryError:
        raise InspectError(
            f"there is not enough memory to read {uri}",
            "end other programs, then try again: hudilab inspect TABLE",
        ) from None
    except Vanished as error:
        raise InspectError(
            f"{uri}/{error} was deleted during the read: the table has changed",
            "try again: hudilab inspect TABLE",
        ) from None


def open_store(table: str, access: S3Access | None = None) -> Store:
    """Return the store of a path, or of a `file://`, `s3://` or `s3a://` URI.

    Raises:
        InspectError: The scheme is not supported, or the path is not a folder.
    """
    scheme, mark, rest = table.partition("://")
    if not mark:
        return DiskStore(Path(table))
    if scheme == "file":
        # Hudi's URIs are not percent-encoded; other programs' are.
        path = Path("/" + rest.partition("/")[2])
        return DiskStore(path if path.exists() else Path(unquote(str(path))))
    if scheme in ("s3", "s3a", "s3n"):
        from hudi_inspect.s3 import S3Store

        return S3Store(table, access or S3Access())
    raise InspectError(
        f"cannot read {scheme}:// URIs",
        "give a path, or a file://, s3:// or s3a:// URI: hudilab inspect TABLE",
    )


class DiskStore:
    """A table in a folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._root = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100  keeps symbolic links
        self.uri = f"file://{self._root}"
        if not self._root.is_dir():
            what = "is a file" if self._root.exists() else "does not exist"
            raise InspectError(
                f"{self._root} {what}", "give the table's folder: hudilab inspect TABLE"
            )

    def files(self) -> list[Entry]:
        """Return all files of the table; the timeline is listed before the data."""
        return [*self._walk(".hoodie"), *self._walk("")]

    def _walk(self, folder: str) -> Iterator[Entry]:
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    path = f"{folder}/{entry.name}" if folder else entry.name
                    if entry.is_symlink() and _leads_back(Path(entry.path)):
                        continue
                    if entry.is_dir():
                        if path not in SKIPPED and path != ".hoodie":
                            yield from self._walk(path)
                    elif not path.endswith(".crc"):
                        with suppress(FileNotFoundError):  # removed since its folder was listed
                            stat = entry.stat()
                            yield Entry(path, stat.st_size, stat.st_mtime)
        except FileNotFoundError:
            pass  # the folder was removed since
        except OSError as error:
            raise _refused(error) from None

    def read(self, path: str, last: int | None = None) -> bytes:
        """Return a file's content; with `last`, at most so many bytes at its end."""
        try:
            with (self._root / path).open("rb") as file:
                if last is not None:
                    file.seek(max(0, os.fstat(file.fileno()).st_size - last))
                return file.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Vanished(path) from None
        except OSError as error:
            raise _refused(error) from None

    def each(self, read: Callable[[str], T], paths: Iterable[str]) -> list[T]:
        """Return what a function returns for each path, in the same order."""
        return [read(path) for path in paths]

    def has(self, folder: str) -> bool:
        """Return whether a folder exists."""
        return (self._root / folder).is_dir()

    def tables_below(self) -> list[str]:
        """Return the tables in the folders below."""
        tables, level = [], [self._root]
        for _ in range(DEPTH):
            level = [child for folder in level for child in _folders(folder)]
            tables += [str(folder) for folder in level if (folder / PROPERTIES).is_file()]
        return sorted(tables)

    def storage_options(self) -> dict[str, str]:
        """Return no options: a disk needs none."""
        return {}


def _leads_back(link: Path) -> bool:
    """Return whether a symbolic link leads to itself, or to a folder on its own path.

    Such a link holds no file that is not elsewhere, and a walk that follows it never ends.
    """
    try:
        target = link.resolve(strict=True)
    except RuntimeError:  # of a link to itself, before Python 3.13
        return True
    except OSError as error:
        return error.errno == ELOOP
    return any(above.resolve() == target for above in link.parents)


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            children = [folder / entry.name for entry in entries if entry.name != ".hoodie"]
            return [child for child in children if child.is_dir()]
    except OSError:
        return []


def _refused(error: OSError) -> InspectError:
    """Return what the system refused, in one line."""
    if isinstance(error, PermissionError):
        return InspectError(
            f"cannot read {error.filename}: permission denied",
            "ask its owner for read access, or run as a user who has it: hudilab inspect TABLE",
        )
    return InspectError(
        f"cannot read {error.filename} ({error.strerror})",
        "make it readable, then try again: hudilab inspect TABLE",
    )
