"""Read a table's files on disk or S3 without a JVM; never write."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ELOOP, ENAMETOOLONG
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Protocol, TypeVar
from urllib.parse import unquote

from hudi_inspect.errors import InspectError, TooLarge, Unreadable, missing_package
from hudi_inspect.names import Entry
from hudi_inspect.units import quoted, size

A = TypeVar("A")
T = TypeVar("T")
PROPERTIES = ".hoodie/hoodie.properties"  # of a table
# Large folders that are not needed, such as the metadata table and the markers of running writes.
SKIPPED = (".hoodie/metadata", ".hoodie/.temp", ".hoodie/.aux", ".hoodie/.schema")
SEARCH_LEVELS = 3  # levels of subfolders to search for tables
FOLDER_LEVELS = 64  # levels of folders in a table
# Don't wait for the writer of a pipe, and don't follow a link.
_CAREFULLY = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0)


class Vanished(Exception):
    """A listed file no longer exists, because the table changed during the read."""


@dataclass(frozen=True)
class S3Access:
    """The access to S3; empty fields and the keys come from AWS's own variables and files.

    Attributes:
        endpoint: http(s)://host[:port] of a server other than Amazon's.
        region: The bucket's region.
    """

    endpoint: str = ""
    region: str = ""


def typed(uri: str, verb: str, *targets: str) -> str:
    """Return the shell command for a file: `ls -l '/a/b'`, or `aws s3 ls 's3://a/b'`."""
    if uri.startswith("file://"):
        verb = "ls -l" if verb == "ls" else verb
        names = [quoted(name.removeprefix("file://")) for name in (uri, *targets)]
        return " ".join([verb, *names])
    names = [quoted("s3://" + name.partition("://")[2]) for name in (uri, *targets)]
    return " ".join(["aws s3", verb, *names])


class Store(Protocol):
    """Access to a table's files.

    Attributes:
        uri: The table's location.
        skipped: Paths that `files` skipped, because they are not regular files inside the table.
    """

    uri: str
    skipped: list[str]

    def files(self) -> list[Entry]:
        """Return all files of the table; the timeline is listed before the data."""

    def read(self, path: str, last: int | None = None, most: int | None = None) -> bytes:
        """Return a file's content; with `last`, at most that many bytes from its end.

        Raises:
            Vanished: The file does not exist.
            Unreadable: It isn't a regular file inside the table.
            TooLarge: It has more than `most` bytes.
        """

    def each(self, read: Callable[[A], T], items: Iterable[A]) -> list[T]:
        """Call `read` for each item, in parallel; return the results in the same order."""

    def has(self, folder: str) -> bool:
        """Return whether a folder exists."""

    def tables_below(self, depth: int = SEARCH_LEVELS) -> list[str]:
        """Return the tables in `depth` levels of subfolders of a folder that isn't a table."""

    def storage_options(self) -> dict[str, str]:
        """Return the options of hudi-rs for the table, which can include secret keys."""


@contextmanager
def reading(uri: str) -> Iterator[None]:
    """Raise InspectError for errors that don't concern a single file of a URI."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise missing_package(f"reading {uri}", error) from None
    except MemoryError:
        raise InspectError(
            f"there is not enough memory to read {uri}",
            "end other programs, then try again: hudi-inspect TABLE",
        ) from None
    except Unreadable as error:
        raise InspectError(
            f"cannot read {uri}: {error}", "fix it, then try again: hudi-inspect TABLE"
        ) from None
    except Vanished as error:
        raise InspectError(
            f"{uri}/{error} was deleted during the read: the table has changed",
            "try again: hudi-inspect TABLE",
        ) from None


def check_size(count: int, most: int | None) -> None:
    """Raise TooLarge for a file of more than `most` bytes."""
    if most is not None and count > most:
        raise TooLarge(f"has {size(count)}, more than the limit of {size(most)}")


def open_store(table: str, access: S3Access | None = None) -> Store:
    """Return the store of a path, or of a `file://`, `s3://` or `s3a://` URI.

    Raises:
        InspectError: The scheme is not supported, or the path is not a folder.
    """
    scheme, mark, rest = table.partition("://")
    if not mark:
        return DiskStore(Path(table))
    if scheme == "file":
        # Unlike other programs' URIs, Hudi's are not percent-encoded.
        path = Path("/" + rest.partition("/")[2])
        return DiskStore(path if path.exists() else Path(unquote(str(path))))
    if scheme in ("s3", "s3a", "s3n"):
        from hudi_inspect.s3 import S3Store

        return S3Store(table, access or S3Access())
    raise InspectError(
        f"cannot read {scheme}:// URIs",
        "give a path, or a file://, s3:// or s3a:// URI: hudi-inspect TABLE",
    )


class DiskStore:
    """A table in a folder of this machine."""

    def __init__(self, path: Path) -> None:
        self._root = Path(os.path.abspath(path.expanduser()))  # noqa: PTH100  keeps symbolic links
        self.uri, self.skipped = f"file://{self._root}", list[str]()
        self._inside = os.path.realpath(self._root).rstrip("/") + "/"
        self._folders: dict[str, str] = {}  # their real paths
        if not self._root.is_dir():
            what = "is a file" if self._root.exists() else "does not exist"
            raise InspectError(
                f"{self._root} {what}", "give the table's folder: hudi-inspect TABLE"
            )

    def files(self) -> list[Entry]:
        """Return all files of the table; the timeline is listed before the data."""
        self.skipped = []
        return [*self._walk(".hoodie"), *self._walk("")]

    def _walk(self, top: str) -> Iterator[Entry]:
        folders, linked = [top], set[str]()
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(f"{self._root}/{folder}") as entries:
                    for entry in entries:
                        path = f"{folder}/{entry.name}" if folder else entry.name
                        if entry.is_symlink() and not self._follows(path, linked):
                            continue
                        if not entry.is_dir():
                            if not path.endswith(".crc") and (file := self._entry(path, entry)):
                                yield file
                        elif path.count("/") >= FOLDER_LEVELS:
                            self.skipped.append(path)
                        elif path not in SKIPPED and path != ".hoodie":
                            folders.append(path)
            except FileNotFoundError:
                pass  # the folder has been deleted
            except OSError as error:
                if error.errno != ENAMETOOLONG:
                    raise _refused(error) from None
                self.skipped.append(folder)

    def _entry(self, path: str, entry: os.DirEntry[str]) -> Entry | None:
        try:
            stat = entry.stat()
        except FileNotFoundError:  # deleted since the listing
            return None
        if S_ISREG(stat.st_mode):
            return Entry(path, stat.st_size, stat.st_mtime)
        self.skipped.append(path)
        return None

    def _follows(self, path: str, linked: set[str]) -> bool:
        """Return whether a symbolic link points to another path in the table.

        A link to itself or a parent folder adds no files. A second link to a folder isn't followed,
        because links to folders of links would multiply the paths.
        """
        try:
            folder, _, _ = f"{self._root}/{path}".rpartition("/")
            target = os.path.realpath(f"{self._root}/{path}", strict=True)
            holder = os.path.realpath(folder, strict=True)
        except OSError:
            return False
        is_folder = os.path.isdir(target)  # noqa: PTH112
        if not f"{target}/".startswith(self._inside) or (is_folder and target in linked):
            self.skipped.append(path)
            return False
        if f"{holder}/".startswith(f"{target}/"):
            return False
        linked.add(target)
        return True

    def read(self, path: str, last: int | None = None, most: int | None = None) -> bytes:
        """Return a file's content; with `last`, at most that many bytes from its end."""
        try:
            try:
                file = os.open(self._real(path), os.O_RDONLY | _CAREFULLY)
            except OSError as error:
                if error.errno != ELOOP:
                    raise
                file = os.open(self._real(path, follow=True), os.O_RDONLY | _CAREFULLY)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise Vanished(path) from None
        except OSError as error:
            raise _refused(error) from None
        except ValueError:
            raise Unreadable("has an invalid name") from None
        with open(file, "rb", buffering=0) as stream:  # noqa: PTH123  of a descriptor
            stat = os.fstat(file)
            if S_ISDIR(stat.st_mode):
                raise Vanished(path)
            if not S_ISREG(stat.st_mode):
                raise Unreadable("is not a regular file")
            begin = 0 if last is None else max(0, stat.st_size - last)
            check_size(stat.st_size - begin, most)
            stream.seek(begin)
            return stream.read()

    def _real(self, path: str, *, follow: bool = False) -> str:
        """Return the real path of a file in the table; with `follow`, the target of a link."""
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = os.path.realpath(f"{self._root}/{folder}") + "/"
        real = self._folders[folder] + name
        if follow:
            real = os.path.realpath(real)
        if not real.startswith(self._inside) or name in ("", ".", ".."):
            raise Unreadable("is outside the table")
        return real

    def each(self, read: Callable[[A], T], items: Iterable[A]) -> list[T]:
        """Call `read` for each item, in parallel; return the results in the same order."""
        return [read(item) for item in items]

    def has(self, folder: str) -> bool:
        """Return whether a folder exists."""
        return (self._root / folder).is_dir()

    def tables_below(self, depth: int = SEARCH_LEVELS) -> list[str]:
        """Return the tables in subfolders."""
        tables, level = [], [self._root]
        for _ in range(depth):
            level = [child for folder in level for child in _folders(folder)]
            tables += [str(path) for path in level if os.path.isfile(path / PROPERTIES)]  # noqa: PTH113
        return sorted(tables)

    def storage_options(self) -> dict[str, str]:
        """Return no options, because a disk needs none."""
        return {}


def _folders(folder: Path) -> list[Path]:
    try:
        with os.scandir(folder) as entries:
            return [
                folder / entry.name
                for entry in entries
                if entry.name != ".hoodie" and entry.is_dir(follow_symlinks=False)
            ]
    except OSError:
        return []


def _refused(error: OSError) -> InspectError:
    """Return the error for a refusal of the operating system."""
    if isinstance(error, PermissionError):
        return InspectError(
            f"cannot read {error.filename}: permission denied",
            "ask its owner for read access, or run as a user with read access: hudi-inspect TABLE",
        )
    return InspectError(
        f"cannot read {error.filename} ({error.strerror})",
        "make it readable, then try again: hudi-inspect TABLE",
    )
