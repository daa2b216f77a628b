"""What tests have killed with SIGKILL: a line for each stream, and the sum, at the end of a run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa


class Killed(NamedTuple):
    """A stream that was killed again and again, and what was wrong with its table at the end.

    `read`: how often the second engine read the table between the kills.
    """

    victim: str
    writing: str
    where: str
    kills: int
    read: int
    lost: int
    twice: int


KILLED: list[Killed] = []


def record(killed: Killed) -> None:
    """Keep a line for the table; a row that is lost or there twice fails the test."""
    KILLED.append(killed)
    assert (killed.lost, killed.twice) == (0, 0), killed


def lines() -> list[str]:
    """The table, its sum in the last line; nothing if nothing was killed."""
    if not KILLED:
        return []
    numbers = ("kills", "read", "lost", "twice")
    sums = {name: sum(getattr(kills, name) for kills in KILLED) for name in numbers}
    rows = [Killed._fields, *KILLED, Killed("all", "", "", **sums)]
    texts = [[str(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if number > 2 else text.ljust(width)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in texts
    ]


def rows_of(table: Path, key: str = "_hoodie_record_key") -> tuple[int, int]:
    """Rows and different keys of a table as an engine reads it that knows nothing of Spark."""
    keys = [value for batch in read_batches(table) for value in batch[key].to_pylist()]
    return len(keys), len(set(keys))


def rows_once(table: Path) -> int:
    """How many rows hudi-rs reads; it may read no key twice, even while a writer is dying."""
    rows, keys = rows_of(table)
    assert rows == keys, "the second engine reads a key twice"
    return rows


def read_batches(table: Path) -> list[pa.RecordBatch]:
    """What hudi-rs reads, which shares no code with Spark; nothing where there is no table yet."""
    from hudi import HudiTableBuilder

    properties = table / ".hoodie" / "hoodie.properties"
    if not (properties.exists() and properties.stat().st_size):  # a kill may leave it empty
        return []
    return HudiTableBuilder.from_base_uri(str(table)).build().read()
