"""Parquet files as others write them, whole and damaged."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from hudi_inspect.parquet import Damaged, count_rows, footer_size, read_rows

SAMPLES = Path(__file__).parents[1] / "samples" / "hudi"  # as Hudi 1.2 wrote them
(SAMPLE,) = (SAMPLES / "history").glob("*.parquet")


def written(columns: dict[str, Any], **options: Any) -> bytes:
    out = BytesIO()
    parquet.write_table(pa.table(columns), out, **options)
    return out.getvalue()


@pytest.mark.parametrize("rows", [0, 1, 63, 64, 100_000])
@pytest.mark.parametrize("groups", [1, 7])
def test_the_number_of_rows(rows: int, groups: int) -> None:
    nested = pa.array(
        [{"a": [True], "b": None}] * rows, pa.struct({"a": pa.list_(pa.bool_()), "b": pa.string()})
    )
    size = max(1, rows // groups)
    data = written({"n": range(rows), "nested": nested}, row_group_size=size)
    assert count_rows(data) == rows
    assert count_rows(data[-footer_size(data) :]) == rows


def test_hudis_own_file() -> None:
    data = SAMPLE.read_bytes()
    assert count_rows(data) == 10
    rows = list(read_rows(data, ["action", "instantTime"], "instantTime"))
    assert [row["action"] for row in rows] == ["commit"] * 10
    chosen = {rows[3]["instantTime"], rows[7]["instantTime"]}
    assert list(read_rows(data, ["action", "instantTime"], "instantTime", chosen)) == [
        rows[3],
        rows[7],
    ]
    assert list(read_rows(data, ["action"], "instantTime", ())) == []


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_each_compression_and_dictionaries(compression: str, version: str) -> None:
    columns = {
        "time": [str(number) for number in range(3000)],
        "action": ["commit", "clean", None] * 1000,
        "content": [b"\x00\xff", b"", None] * 1000,
    }
    data = written(columns, compression=compression, data_page_version=version)
    rows = list(read_rows(data, list(columns), "time"))
    assert {name: [row[name] for row in rows] for name in columns} == columns


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"x" * 100,
        bytes(100),
        b"\xff\xff\xff\x7fPAR1",
        b"\x00\x00\x00\x00PAR1",
        b"\xff" * 50 + b"\x32\x00\x00\x00PAR1",
        # A list of so many numbers of eight bytes that skipping them would never end.
        b"\x19\xf7" + b"\xff" * 9 + b"\x0f\x0b\x00\x00\x00PAR1",
        SAMPLE.read_bytes()[:-1],
        SAMPLE.read_bytes()[:2000],
    ],
)
def test_a_damaged_file(data: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Damaged):
        count_rows(data)
    with pytest.raises(Damaged):
        list(read_rows(data, ["action"], "instantTime"))
    assert capfd.readouterr().err == ""


def test_a_panic_of_arro3_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    data = written({"a_name": [1]}, store_schema=False).replace(b"a_name", b"a_\xffame")
    with pytest.raises(Damaged):
        list(read_rows(data, ["action"], "instantTime"))
    print("seen", file=sys.stderr)
    assert capfd.readouterr() == ("", "seen\n")


def test_damage_before_a_whole_footer() -> None:
    data = SAMPLE.read_bytes()
    data = data[:2000] + bytes(100) + data[2100:]
    assert count_rows(data) == 10
    with pytest.raises(Damaged):
        list(read_rows(data, ["metadata"], "instantTime"))


def test_columns_that_are_missing() -> None:
    with pytest.raises(Damaged):
        list(read_rows(written({"a": [1]}), ["action"], "instantTime"))


def test_a_deep_struct_ends_as_damage() -> None:
    footer = b"\x1c" * 100_000
    data = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(Damaged):
        count_rows(data)


@pytest.mark.parametrize(
    "footer",
    [
        b"\x15" + b"\xff" * 3_000_000,
        b"\x19\xf1\x80\x80\xc0\x01" + b"\x01" * 3_145_728,
        b"\x19\xfc\x80\x80\xc0\x01" + b"\0" * 3_145_728,
    ],
)
def test_a_footer_of_three_megabytes_is_not_read_to_its_end(footer: bytes) -> None:
    data = footer + len(footer).to_bytes(4, "little") + b"PAR1"
    steps = [100_000]
    with pytest.raises(Damaged, match=r"too many parts|more than 64 bits"):
        count_rows(data, steps)


@pytest.mark.parametrize(
    "rows", [{"n": range(100_001)}, {"n": range(2000), "a": [b"a" * 300_000] * 2000}]
)
def test_an_archive_that_unpacks_to_much_is_refused(rows: dict[str, Any]) -> None:
    data = written(rows, compression="zstd")
    assert len(data) < 1_000_000
    with pytest.raises(Damaged, match="more than"):
        list(read_rows(data, ["n"], "n", is_bounded=True))
