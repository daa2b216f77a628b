"""Read the archived timeline of layout 2: the Parquet files that a manifest lists."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

from hudi_inspect.errors import InspectError
from hudi_inspect.parquet import Damaged, read_rows
from hudi_inspect.store import Store
from hudi_inspect.timeline import Instant, moment, parse_content


class Archive:
    """The archived timeline of layout 2, read on demand; empty if the table has none."""

    def __init__(self, store: Store, folder: str, utc: bool) -> None:
        self._store, self.folder, self._utc = store, folder, utc
        self._instants: list[Instant] | None = None

    def instants(self) -> list[Instant]:
        """Return the archived instants, oldest first."""
        if self._instants is None:
            rows = self._rows(["instantTime", "completionTime", "action"])
            unique = {(row["instantTime"], row["action"]): row for row in rows}
            self._instants = [self._instant(row) for _, row in sorted(unique.items())]
        return self._instants

    def contents(self, times: Collection[str]) -> dict[str, dict[str, Any]]:
        """Return the content of the archived instants of these times, as `parse_content` does."""
        if not times:
            return {}
        where = f"{self._store.uri}/{self.folder}"
        return {
            row["instantTime"]: parse_content(row["metadata"], where)
            for row in self._rows(["instantTime", "metadata"], times)
            if row["metadata"]
        }

    def _instant(self, row: dict[str, Any]) -> Instant:
        return Instant(
            time=row["instantTime"],
            action=row["action"],
            state="COMPLETED",
            completion_time=row["completionTime"],
            requested=moment(row["instantTime"], self._utc),
            completed=moment(row["completionTime"] or "", self._utc),
            archived=True,
        )

    def _files(self) -> list[str]:
        """Return the Parquet files of the newest snapshot."""
        try:
            version = self._store.read(f"{self.folder}/_version_").decode().strip()
            manifest = json.loads(self._store.read(f"{self.folder}/manifest_{version}"))
            return [f"{self.folder}/{file['fileName']}" for file in manifest["files"]]
        except (ValueError, KeyError, TypeError):
            raise InspectError(
                f"the archived timeline {self._store.uri}/{self.folder} is damaged: its manifest "
                "cannot be read",
                "restore the folder from a backup, then try again: hudilab inspect TABLE",
            ) from None

    def _rows(
        self, columns: Sequence[str], times: Collection[str] | None = None
    ) -> list[dict[str, Any]]:
        """Return columns of the archived instants, all or those of some times."""
        if not self.folder:
            return []
        read = partial(self._rows_of, columns=columns, times=None if times is None else set(times))
        return [row for rows in self._store.each(read, self._files()) for row in rows]

    def _rows_of(
        self, file: str, *, columns: Sequence[str], times: Collection[str] | None
    ) -> list[dict[str, Any]]:
        data = self._store.read(file)
        try:
            return list(read_rows(data, columns, "instantTime", times))
        except Damaged as error:
            what = f"cannot be read ({error})" if str(error) else "is damaged"
            raise InspectError(
                f"the archived timeline's file {self._store.uri}/{file} {what}; do not delete it",
                "restore it from a backup if it is damaged, then try again: hudilab inspect TABLE",
            ) from None
