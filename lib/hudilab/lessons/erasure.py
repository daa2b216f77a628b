"""Look for what should be gone, in every file of a table, without Spark."""

from __future__ import annotations

import io

import pyarrow.compute as pc
import pyarrow.parquet as pq

from hudilab.inspect.files.store import Store, open_store

__all__ = ["files_holding"]


def files_holding(table: str, key: str) -> list[str]:
    """Return the files of a table that hold record keys which begin with `key`.

    Base files are decoded; logs and the timeline are searched byte by byte. Disk or S3.
    """
    store = open_store(table)
    return [file.path for file in store.files() if _holds(store, file.path, key)]


def _holds(store: Store, path: str, key: str) -> bool:
    if path.startswith(".hoodie/") or not path.endswith(".parquet"):
        return key.encode() in store.read(path)
    content = io.BytesIO(store.read(path))
    keys = pq.ParquetFile(content).read(columns=["_hoodie_record_key"]).column(0)
    return bool(pc.any(pc.starts_with(keys, key)).as_py())
