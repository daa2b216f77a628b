"""Read the archived timeline of layout 2: the Parquet files that a manifest lists."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from hudi_inspect.content import parse_content
from hudi_inspect.errors import InspectError, Unreadable
from hudi_inspect.names import Instant, moment
from hudi_inspect.parquet import Damaged, read_rows
from hudi_inspect.records import value
from hudi_inspect.store import Store, Vanished
from hudi_inspect.timeline import unreadable

T = TypeVar("T")
MAX_FILE = 134217728  # bytes of a Parquet file
MAX_MANIFEST = 8388608  # bytes


class Archive:
    """The archived timeline of layout 2, read on demand; empty if the table has none.

    Args:
        problems: Gets the errors of unreadable files and instants.
        is_settled: Whether a missing file is damage; otherwise the table is changing, and
            `Vanished` is raised.
    """

    def __init__(
        self,
        store: Store,
        folder: str,
        utc: bool,
        problems: list[InspectError],
        *,
        is_settled: bool = False,
    ) -> None:
        self._store, self.folder, self._utc, self._problems = store, folder, utc, problems
        self._is_settled = is_settled
        self._instants: list[Instant] | None = None

    def instants(self) -> list[Instant]:
        """Return the archived instants, oldest first."""
        if self._instants is None:
            unique = {
                (instant.time, instant.action): instant
                for row in self._rows(["instantTime", "completionTime", "action"])
                for instant in [self._instant(row)]
            }
            self._instants = [unique[key] for key in sorted(unique)]
        return self._instants

    def contents(
        self, times: Collection[str], parse: Callable[[dict[str, Any]], T]
    ) -> dict[str, T]:
        """Return the parsed content of archived instants by time."""
        contents = {}
        columns = ["instantTime", "completionTime", "action", "metadata"]
        for row in self._rows(columns, set(times)) if times else ():
            instant = self._instant(row)
            try:
                if data := value(row, "metadata", bytes):
                    contents[instant.time] = parse(parse_content(data))
            except Unreadable as error:
                folder = f"{self._store.uri}/{self.folder}"
                self._problems.append(unreadable(instant, folder, error))
        return contents

    def _instant(self, row: dict[str, Any]) -> Instant:
        return Instant(
            time=row["instantTime"],
            action=row["action"],
            state="COMPLETED",
            completion_time=row["completionTime"] or None,
            requested=moment(row["instantTime"], self._utc),
            completed=moment(row["completionTime"], self._utc),
            archived=True,
        )

    def _files(self) -> list[str]:
        """Return the Parquet files of the newest snapshot."""
        try:
            version = self._read("_version_", 100).decode().strip()
            if not re.fullmatch("[0-9]{1,18}", version):
                raise Unreadable(f"_version_ contains {version!r}")
            manifest = json.loads(self._read(f"manifest_{version}", MAX_MANIFEST))
            names = [value(file, "fileName", str) for file in value(manifest, "files", list)]
            if wrong := [name for name in names if "/" in name or not name]:
                raise Unreadable(f"lists {wrong[0]!r}, which is not a file of the folder")
        except (ValueError, RecursionError, Unreadable) as error:
            why = f" ({error})" if isinstance(error, Unreadable) else ""
            self._problems.append(
                InspectError(
                    f"the archived timeline {self._store.uri}/{self.folder} is damaged: its "
                    f"manifest cannot be read{why}",
                    "restore the folder from a backup, then try again: hudi-inspect TABLE",
                )
            )
            return []
        return names

    def _read(self, name: str, most: int) -> bytes:
        try:
            return self._store.read(f"{self.folder}/{name}", most=most)
        except Vanished:
            if self._is_settled:
                raise Unreadable(f"{name} does not exist") from None
            raise

    def _rows(
        self, columns: Sequence[str], times: Collection[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Yield columns of all archived instants, or of those with some times."""

        def read(name: str) -> list[dict[str, Any]] | InspectError:
            try:
                data = self._read(name, MAX_FILE)
                rows = read_rows(data, columns, "instantTime", times, is_bounded=True)
                return [checked(row) for row in rows]
            except (Damaged, Unreadable) as error:
                what = f"cannot be read ({error})" if str(error) else "is damaged"
                return InspectError(
                    f"the archived timeline's file {self._store.uri}/{self.folder}/{name} {what}",
                    "if it is damaged, restore it from a backup instead of deleting it, then try "
                    "again: hudi-inspect TABLE",
                )

        def checked(row: dict[str, Any]) -> dict[str, Any]:
            texts = row.keys() - {"metadata"}
            return row | {name: value(row, name, str) for name in texts}

        for rows in self._store.each(read, self._files() if self.folder else ()):
            if isinstance(rows, InspectError):
                self._problems.append(rows)
            else:
                yield from rows
