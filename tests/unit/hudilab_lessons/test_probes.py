"""Files that hold a key while a writer or a cleaner is at work; costs of a slice; Spark's UI."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from hudi_inspect.errors import InspectError
from hudi_inspect.store import DiskStore, Vanished
from hudilab_lessons.probes import files_holding, slice_costs


def test_a_file_that_is_deleted_meanwhile_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        parquet.write_table(pa.table({"_hoodie_record_key": [name]}), tmp_path / f"{name}.parquet")
    read = DiskStore.read

    def while_cleaning(store: DiskStore, path: str, last: int | None = None) -> bytes:
        (tmp_path / "a.parquet").unlink(missing_ok=True)
        return read(store, path, last)

    monkeypatch.setattr(DiskStore, "read", while_cleaning)
    assert files_holding(str(tmp_path), "b") == ["b.parquet"]
    with pytest.raises(Vanished):
        DiskStore(tmp_path).read("a.parquet")


def test_a_file_that_is_being_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InspectError) as error:
        files_holding(str(tmp_path), "a")
    assert str(error.value) == (
        f"file://{tmp_path}/a.parquet is not a complete Parquet file, so the keys in it are "
        "unknown; stop the table's writers, and try again"
    )


BASE, LOG, LATER, MERGED = (
    ("base", "1", 4096),
    ("log", "2", 1024),
    ("log", "3", 2048),
    ("base", "4", 5120),
)


@pytest.mark.parametrize(
    ("files", "costs"),
    [
        ([BASE], (0, 4, 4)),
        ([BASE, ("base", "2", 2048)], (0, 2, 2)),  # copy on write
        ([BASE, LOG, LATER], (2, 2, 7)),
        ([BASE, LOG, LATER, MERGED], (0, 7, 5)),  # the batch has compacted
        ([BASE, LOG, MERGED, ("log", "5", 512)], (1, 0.5, 5.5)),
    ],
)
def test_a_batch_costs_its_files_and_a_query_those_of_the_newest_slice(
    files: list[tuple[str, str, int]], costs: tuple[float, ...]
) -> None:
    frame = pd.DataFrame(files, columns=["kind", "instant", "size"])
    assert tuple(slice_costs(frame).values()) == costs
