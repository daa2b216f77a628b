"""A folder's files are read once, by their columns, or refused by name before the table changes."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kills import read_batches
from pyspark.sql import SparkSession
from refusals import assert_refusal
from running import folder
from unit.hudilab.settings_files import group, load, write

from hudilab.errors import LabError
from hudilab_jobs.pipelines.runner import Running, checked, preview, table_of
from hudilab_jobs.settings import find_group

TIME = "2026-01-01T00:00:00Z"
SCHEMA = "id BIGINT, seen TIMESTAMP, name STRING"
FIRST = "name STRING, id BIGINT, seen TIMESTAMP"


class Inbox:
    """A folder of files, and a group that describes it; other keys by keyword."""

    name = "in"

    def __init__(self, spark: SparkSession, home: Path, **changes: str | None) -> None:
        self.spark, self.home, self.folder = spark, home, home / self.name
        self.folder.mkdir(exist_ok=True)
        self.properties: dict[str, str | None] = {
            "source.format": "csv",
            "source.path": str(self.folder),
            "source.schema": SCHEMA,
            "table.name": "own",
            "record.key": "id",
            "ordering": "seen",
        }
        self.describe(**changes)

    def describe(self, **changes: str | None) -> None:
        """Write the group with keys that differ from those before."""
        self.properties |= {name.replace("_", "."): value for name, value in changes.items()}
        given = {key: value for key, value in self.properties.items() if value}
        self.file = write(self.home / "conf", [group(), group("pipeline.own", given)])

    def put(self, name: str, content: str | bytes) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())

    def pipeline(self) -> Running:
        settings = load(self.home / "conf", HUDILAB_HOME=str(self.home))
        table = table_of(settings, find_group(settings, "own"))
        return checked(self.spark, settings, "own", *table)

    def write(self) -> list[dict[str, Any]]:
        lines = self.pipeline().write(None, as_json=True)
        return [json.loads(line) for line in lines][:-1]

    def stored(self, *columns: str) -> list[tuple[Any, ...]]:
        batches = read_batches(folder(self.pipeline().location.table))
        rows = pa.Table.from_batches(batches).select(columns).to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=repr)


@contextmanager
def refused(inbox: Inbox, *named: str) -> Iterator[None]:
    """Both --check and the stream must refuse in one line, before anything is committed."""
    yield
    for run in (lambda: list(preview(inbox.pipeline())), inbox.write):
        with pytest.raises(LabError) as caught:
            run()
        assert_refusal(str(caught.value), *named, remedy="")
        assert "Exception" not in str(caught.value)
        assert not [*inbox.home.glob("warehouse/lab/own/.hoodie/timeline/*_*.commit")]


def test_each_file_is_read_once_whatever_its_name(spark: SparkSession, tmp_path: Path) -> None:
    inbox = Inbox(spark, tmp_path, source_schema=f"{SCHEMA}, shop STRING", record_key="id, shop")
    names = ["a1", "a[12]", "a*", "a?", "{a,b}", "\\a", "ü %20+", "_hidden", "deep/er/x", ".dot"]
    for number, name in enumerate(names):
        for shop in ("1", "01", "a%3Ab+c"):
            inbox.put(f"shop={shop}/{name}.csv", f"id,seen,name\n{number},{TIME},n\n")
    (report,) = inbox.write()
    expected = [
        (number, shop)
        for number, name in enumerate(names)
        for shop in ("1", "01", "a:b+c")
        if not name.startswith(("_", "."))
    ]
    assert (report["rows"], report["files_behind"]) == (len(expected), 0)
    assert inbox.stored("id", "shop") == sorted(expected, key=repr)
    source = f"source: {len(expected)} files"
    assert any(line.startswith(source) for line in preview(inbox.pipeline()))
    inbox.put("loose.csv", f"id,seen,name\n99,{TIME},n\n")
    with pytest.raises(LabError, match=r"loose\.csv is in no folder with = in its name, and other"):
        inbox.write()
    assert len(inbox.stored("id")) == len(expected)


def numbered(*numbers: int) -> str:
    return "id,seen,name\n" + "".join(f"{number},{TIME},n\n" for number in numbers)


def test_a_file_is_read_whatever_its_time_and_each_that_stays_unread_is_named_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox = Inbox(spark, tmp_path, source_options="pathGlobFilter=*.csv*", files_per_batch="1")
    inbox.put("ahead.csv", numbered(0))
    os.utime(inbox.folder / "ahead.csv", (2**32, 2**32))
    assert [report["rows"] for report in inbox.write()] == [1]
    inbox.put("today.csv", numbered(1))
    inbox.put("old.csv", numbered(2))
    os.utime(inbox.folder / "old.csv", (1, 1))
    assert [report["files_behind"] for report in inbox.write()] == [1, 0]
    assert inbox.stored("id") == [(0,), (1,), (2,)]
    assert "left unread" not in capsys.readouterr().err
    hidden = ["_new/a.csv", "b._COPYING_/a.csv", ".c.csv", "_metadata.csv", "d.csv._COPYING_"]
    for name in [*hidden, "text.txt", "_metadata_3/is_read.csv"]:
        inbox.put(name, numbered(3))
    for empty in ("_SUCCESS", "empty.txt"):
        inbox.put(empty, "")
    for name in ("old.csv", "today.csv"):
        inbox.put(name, numbered(1, 4))
    os.utime(inbox.folder / "old.csv", (2, 2))  # as a copy that keeps its time
    line = (
        f"8 files in file://{inbox.folder} left unread: 5 hidden by a name that starts with _ or "
        "., or ends in ._COPYING_ (.c.csv, _metadata.csv, _new/a.csv and 2 more); 1 not matched by "
        "pathGlobFilter=*.csv* (text.txt); 2 modified after being read, so write new rows to a new "
        "file (old.csv, today.csv)"
    )
    assert line in list(preview(inbox.pipeline()))
    assert capsys.readouterr().err == ""
    assert sum(report["rows"] for report in inbox.write()) == 1
    assert [text for text in capsys.readouterr().err.splitlines() if "unread" in text] == [
        f"hudilab: {line}"
    ]
    assert inbox.stored("id") == [(0,), (1,), (2,), (3,)]


@pytest.mark.deep
def test_files_that_a_stream_of_spark_has_not_committed(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inbox = Inbox(spark, tmp_path, source_format="parquet")
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 3).load()
    rows = rows.selectExpr("value AS id", "timestamp AS seen", "'ü' AS name")
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    for _ in range(2):  # a batch each; a stopped stream's tasks would still write files
        writer.trigger(availableNow=True).start(str(inbox.folder)).awaitTermination(60)
    inbox.put("part-0.parquet", next(inbox.folder.glob("part-*")).read_bytes())
    shown = "\n".join(preview(inbox.pipeline()))
    listed, unread = re.findall(r"^(?:source: )?(\d+) files?\b", shown, re.MULTILINE)
    assert int(listed) + int(unread) == len([*inbox.folder.glob("part-*")])
    (report,) = inbox.write()
    assert report["files_behind"] == 0
    assert len(inbox.stored("id")) == report["rows"] == 3 * (report["rows"] // 3)
    line = f"in file://{inbox.folder} left unread: {unread} not in _spark_metadata, which lists "
    assert line in capsys.readouterr().err


MISNAMED = {
    "colon": ("10:00.csv", "b.csv", "10:00.csv has a colon, .*; rename the file; "),
    "folder": ("shop=1/b.csv", "b.csv", "shop=1/b.csv is in a folder shop=.*; move the file into "),
    "value": (
        "n=x/b.csv",
        "n=2/b.csv",
        "the folder n=... is not INT; .* or rename the folder, or ",
    ),
}


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("colon", False),
        ("folder", False),
        pytest.param("value", False, marks=pytest.mark.deep),
        pytest.param("colon", True, marks=pytest.mark.deep),
        pytest.param("folder", True, marks=pytest.mark.deep),
    ],
)
def test_a_file_that_is_renamed_after_its_batch_was_refused_is_read(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    first: bool,
) -> None:
    name, later, problem = MISNAMED[kind]
    schema = f"{SCHEMA}, n INT" if kind == "value" else SCHEMA
    inbox = Inbox(spark, tmp_path, source_schema=schema)
    flat = "n=1/" if kind == "value" else ""
    inbox.put(f"{flat}a.csv", numbered(1))
    if not first:
        inbox.write()
    inbox.put(name, numbered(2))
    inbox.put(f"{flat}c.csv", numbered(3))
    for _ in range(2):
        with pytest.raises(LabError, match=problem):
            inbox.write()
    (inbox.folder / later).parent.mkdir(exist_ok=True)
    (inbox.folder / name).rename(inbox.folder / later)
    kept = inbox.folder / f"{flat}c.csv"
    kept.rename(tmp_path / "c.csv")
    with pytest.raises(LabError, match=r"reads .*/c\.csv, but the file no longer exists"):
        inbox.write()
    (tmp_path / "c.csv").rename(kept)
    (inbox.folder / later).rename(tmp_path / "b.csv")
    with pytest.raises(LabError, match=r"reads .*/(10:00|b)\.csv, but the file no longer exists"):
        inbox.write()
    (tmp_path / "b.csv").rename(inbox.folder / later)
    capsys.readouterr()
    assert [report["batch"] for report in inbox.write()] == [0 if first else 1]
    line = f"planned again, because file://{inbox.folder}/{name}, which Spark could not read, was"
    assert line in capsys.readouterr().err
    assert inbox.stored("id") == [(1,), (2,), (3,)]
    assert inbox.write() == []
    assert "planned again" not in capsys.readouterr().err


def test_a_check_reads_all_small_files_and_the_first_rows_of_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path)
    for name, numbers in {"a": range(3), "b": range(3), "c": range(2)}.items():
        inbox.put(f"{name}.csv", numbered(*numbers))
    assert "sample: 8 rows of 3 files, stored as" in list(preview(inbox.pipeline()))
    for number in range(220):
        inbox.put(f"{number}.csv", numbered(number))
    for number in range(3):
        inbox.put(f"large {number}.csv", numbered(*range(2000)))
        os.utime(inbox.folder / f"large {number}.csv", (2**32, 2**32))
    lines = list(preview(inbox.pipeline()))
    assert "sample: 1,196 rows of 200 of 226 files, stored as" in lines
    inbox.put("large 3.csv", numbered(*range(2000)).replace(f"\n9,{TIME}", "\nnine,now"))
    os.utime(inbox.folder / "large 3.csv", (2**31, 2**31))
    with pytest.raises(
        LabError, match=r"'source.format': large 3\.csv cannot be read .* has nine,"
    ):
        list(preview(inbox.pipeline()))


GOOD = f"id,seen,name\n1,{TIME},x\n"
HEADERS = {
    "id,seen,name,id": "its header has a column twice: id, seen, name, id, not id",
    "id,seen,name,more": "its header also has more",
    "id,seen": "its header lacks name",
    f"1,{TIME},x": "its first line is not the header id, seen, name",
    "id;seen;name": "its first line is not the header",
}
ROWS: dict[str | bytes, str] = {
    f"1,{TIME}": "does not have the 3 fields",
    f"1,{TIME},x,y": "does not have the 3 fields",
    f"one,{TIME},x": "column id has one, which is not BIGINT",
    "1,12:30,x": "column seen has 12:30, which is not TIMESTAMP",
    b"1,2026-01-01,M\xfcller": "a byte that is not UTF-8",
}


@pytest.mark.parametrize("header", HEADERS)
def test_another_header_is_refused(spark: SparkSession, tmp_path: Path, header: str) -> None:
    inbox = Inbox(spark, tmp_path, select="SELECT id, seen FROM source WHERE id > 5")
    inbox.put("good.csv", f"id,seen,name\n1,{TIME},x\n")
    inbox.put("bad.csv", f"{header}\n")
    with refused(inbox, "bad.csv", HEADERS[header]):
        pass


LOSSES = {
    "CAST(name AS INT) AS n": ("abc", "CAST(name AS INT): The value 'abc' of the type \"STRING\""),
    "CAST(id AS INT) AS n": ("x", 'The value 1767225600123L of the type "BIGINT" cannot be cast'),
    "CAST(CAST(name AS DECIMAL(20,4)) AS DECIMAL(10,2)) AS n": (
        "1234567890123456.7891",
        "1234567890123456.7891 cannot be represented as Decimal(10, 2)",
    ),
    "make_date(2020, 13, 1) AS n": ("x", "Invalid value for MonthOfYear (valid values 1 - 12): 13"),
    "id / int(name) AS n": ("0", "id / int(name): Division by zero"),
}


@pytest.mark.parametrize(
    ("expression", "quarantine"),
    [
        ("CAST(name AS INT) AS n", "false"),
        ("CAST(name AS INT) AS n", "true"),
        ("make_date(2020, 13, 1) AS n", "false"),
        *(pytest.param(text, "true", marks=pytest.mark.deep) for text in [*LOSSES][1:]),
        *(pytest.param(text, "false", marks=pytest.mark.deep) for text in [*LOSSES][1:3]),
    ],
)
def test_a_value_that_the_query_cannot_compute_is_refused(
    spark: SparkSession, tmp_path: Path, expression: str, quarantine: str
) -> None:
    """Instead of becoming NULL or another value."""
    value, problem = LOSSES[expression]
    select = f"SELECT id, seen, {expression} FROM source"
    inbox = Inbox(spark, tmp_path, select=select, quarantine=quarantine)
    inbox.put("a.csv", f"id,seen,name\n1767225600123,{TIME},{value}\n")
    with refused(inbox, "key 'select': ", problem, "; correct the expression, or use try_cast"):
        assert spark.conf.get("spark.sql.ansi.enabled") == "false"


def test_a_type_that_csv_has_not_is_parsed_as_the_error_advises(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path, source_schema="id BIGINT, seen TIMESTAMP, name STRUCT<Ab:INT>")
    with pytest.raises(LabError, match="and parse it in select: ") as caught:
        inbox.pipeline()
    parsed = caught.value.remedy.partition("in select: ")[2]
    inbox = Inbox(spark, tmp_path, select=f"SELECT id, seen, {parsed} FROM source")
    inbox.put("a.csv", f'id,seen,name\n1,{TIME},"{{""Ab"": 7}}"\n')
    inbox.write()
    assert inbox.stored("name") == [({"Ab": 7},)]
    inbox.put("b.csv", f"id,seen,name\n1,{TIME},7\n")
    with pytest.raises(LabError, match=r"key 'select': Malformed records are .*; correct the expr"):
        inbox.write()


NAMES = [f"x{number * 7919 % 10007}" for number in range(5000)]
MANY = "".join(f"{number},{TIME},{name}\n" for number, name in enumerate(NAMES))
OBJECTS = [{"id": number, "seen": TIME, "name": name} for number, name in enumerate(NAMES)]
LINES_OF = {"csv": f"id,seen,name\n{MANY}", "json": "\n".join(map(json.dumps, OBJECTS))}


@pytest.mark.deep
@pytest.mark.parametrize("kind", LINES_OF)
def test_a_file_that_is_cut_off_is_named(
    spark: SparkSession, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    """Also if the session's settings would ignore it."""
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    request.addfinalizer(lambda: spark.conf.unset("spark.sql.files.ignoreCorruptFiles"))
    inbox = Inbox(spark, tmp_path, source_format=kind)
    inbox.put("a.gz", gzip.compress(LINES_OF[kind].encode())[:-200])
    with pytest.raises(LabError, match=r"a\.gz: it cannot be decompressed") as caught:
        inbox.write()
    assert "Exception" not in str(caught.value)


def line(names: str, row: dict[str, str], end: str) -> str:
    return ",".join(row[name.lower()] for name in names.split(",")) + end


@pytest.mark.parametrize(
    ("options", "end", "text"),
    [
        ("", "\n", "x, y"),
        pytest.param("", "\r\n", "x", marks=pytest.mark.deep),
        pytest.param("multiLine=true", "\r\n", "x\r\ny\nz", marks=pytest.mark.deep),
        pytest.param("multiLine=true", "\n", "x\r\ny\rz\n", marks=pytest.mark.deep),
        pytest.param("multiLine=true", "\r", "x\r\ny\rz", marks=pytest.mark.deep),
        pytest.param("multiLine=true encoding=UTF-16", "\r\n", "x\r\n", marks=pytest.mark.deep),
    ],
)
def test_each_header_names_its_columns(
    spark: SparkSession, tmp_path: Path, options: str, end: str, text: str
) -> None:
    """In any order, in one batch, with the texts of the file as they are."""
    schema = f"{SCHEMA}, city STRING"
    keys = {"source_schema": schema, "source_options": options} if options else {}
    keys |= {"select": "SELECT *, current_timestamp() AS written FROM source"}
    inbox = Inbox(spark, tmp_path, **{"source_schema": schema, "quarantine": "true"} | keys)
    encoding = "utf-16" if "UTF-16" in options else "utf-8"
    expected = []
    headers = ("id,seen,name,city", "city,NAME,seen,id", "name,city,id,seen", "city,name,seen,id")

    def put(number: int, header: str) -> None:
        row = {"id": str(number), "seen": TIME, "name": f'"{text}"', "city": f"Rom {number}"}
        lines = [header + end, line(header, row, end), line(header, row | {"id": ""}, end)]
        inbox.put(f"{number}.csv", "".join(lines).encode(encoding))
        expected.append((number, text, f"Rom {number}"))

    for number, header in enumerate(headers):
        put(number, header)
    lines = inbox.pipeline().write(None, as_json=True, initial_load=end == "\r\n")
    report = json.loads(next(lines))
    list(lines)
    assert (report["rows"], report["quarantined"]) == (8, 4)
    assert inbox.stored("id", "name", "city") == expected
    assert len({written for (written,) in inbox.stored("written")}) == 1
    (shown,) = (text for text in preview(inbox.pipeline()) if "Rom 3" in text)
    assert "|   3|" in shown
    put(4, headers[2])
    inbox.write()
    assert inbox.stored("id", "name", "city") == expected


# What a file holds: lines of rows 1 and 2, and wrong lines, each with a part of the reason.
LINES: dict[str, tuple[list[str], dict[str | bytes, str]]] = {
    "csv": (
        [f"1,{TIME},x", f'2,{TIME},"y; z"'],
        ROWS | {f"7; 8,{TIME}, z": "column id has 7; 8, which is not BIGINT"},
    ),
    "json": (
        [f'{{"id":1,"seen":"{TIME}","name":"x"}}', f'{{"id":2,"seen":"{TIME}","name":"y; z"}}'],
        {
            f'{{"id":5,"seen":"{TIME}"}}{{"id":6,"seen":"{TIME}"}}': "not one JSON object",
            '{"id":5,"seen"': "not one JSON object",
            "cut": "not one JSON object",
            f'{{"id":"5","seen":"{TIME}"}}': 'column id has "5", which is not BIGINT',
            f'{{"id":[5],"seen":"{TIME}"}}': "column id has [5], which is not BIGINT",
            f'{{"ID":5,"seen":"{TIME}"}}': "spells it with other capitals",
            '{"id":5,"seen":"12:30"}': "column seen has 12:30, which is not TIMESTAMP",
            b'{"id":5,"name":"M\xfcller"}': "a byte that is not UTF-8",
        },
    ),
}


@pytest.mark.parametrize(
    ("kind", "initial_load", "select"),
    [
        ("csv", False, ""),
        pytest.param("csv", True, "SELECT * FROM source WHERE id <> 2", marks=pytest.mark.deep),
        pytest.param("json", True, "", marks=pytest.mark.deep),
        pytest.param(
            "json", False, "SELECT id, seen FROM source WHERE id <> 2", marks=pytest.mark.deep
        ),
    ],
)
def test_wrong_lines_are_quarantined(
    spark: SparkSession, tmp_path: Path, kind: str, initial_load: bool, select: str
) -> None:
    """With their file and text, each once; all others are rows, in each order of columns."""
    right, wrong = LINES[kind]
    keys = {"source_format": kind, "quarantine": "true"} | ({"select": select} if select else {})
    inbox = Inbox(spark, tmp_path, **keys)
    head = ["id,seen,name"] if kind == "csv" else []
    lines = [line if isinstance(line, bytes) else line.encode() for line in wrong]
    one, two = (text.encode() for text in right)
    inbox.put("a.dat", b"\n".join([*(name.encode() for name in head), one, *lines, two, b""]))
    shown = list(preview(inbox.pipeline()))
    for reason in wrong.values():
        assert any("would be quarantined" in line and reason in line for line in shown), reason
    loading = inbox.pipeline().write(None, as_json=True, initial_load=initial_load)
    report = json.loads(next(loading))
    list(loading)
    stored = [(1,)] if select else [(1,), (2,)]
    assert (report["rows"], report["quarantined"]) == (len(stored) + len(lines), len(lines))
    assert inbox.stored("id") == stored
    if kind == "csv":  # the batch is read by another plan
        inbox.put("b.dat", f"name,id,seen\nz,3,{TIME}\nz,3\n")
    else:
        objects = f'{{"id":3,"seen":"{TIME}"}}, {{"id": 4, "seen":"x"}}'
        inbox.put("b.dat", f'[{objects}]\n[{objects}, {{"id":7,"id":8}}]')
    (report,) = inbox.write()
    expected = 1 if kind == "csv" else 2
    assert (report["rows"], report["quarantined"]) == (1 + expected, expected)
    assert inbox.stored("id") == [*stored, (3,)]
    quarantine = spark.read.format("hudi").load(inbox.pipeline().location.quarantine)
    rows = [(row.batch, row.reason, json.loads(row.row)) for row in quarantine.collect()]
    first = {row["line"]: (reason, row["file"]) for batch, reason, row in rows if not batch}
    for line, (text, reason) in zip(lines, wrong.items(), strict=True):
        kept = text if isinstance(text, str) else line.hex().upper()
        assert reason in first[kept][0]
        assert first[kept][1] == f"file://{inbox.folder}/a.dat"
    assert len(first) == len(lines)
    later = sorted(row["line"] for batch, _, row in rows if batch)
    assert later == (
        ["z,3"] if kind == "csv" else [f'[{objects}, {{"id":7,"id":8}}]', '{"id":4,"seen":"x"}']
    )


def test_a_row_over_several_lines_is_not_quarantined(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor is a part of it stored as a row; when the line is corrected, the stream goes on."""
    inbox = Inbox(spark, tmp_path, quarantine="true", source_schema="id INT, seen INT, name STRING")
    phantom = 'id,seen,name\n2,1,real\nx,1,bad\n7,5,"mail:\n2,9,phantom\nbye"\n'
    inbox.put("b.csv", phantom)
    with refused(inbox, "b.csv: a quoted field does not end", '7,5,"mail:', "multiLine=true"):
        pass
    inbox.put("b.csv", phantom.replace("mail:\n2,9,phantom\n", ""))
    (report,) = inbox.write()
    assert (report["rows"], report["quarantined"]) == (3, 1)
    assert inbox.stored("id", "name") == [(2, "real"), (7, "bye")]
    assert inbox.write() == []
    assert "unread" not in capsys.readouterr().err  # the corrected file is not a modified one
    inbox.put("c.csv", 'id,seen,"name\n2,9,phantom\n"\n')
    with pytest.raises(LabError, match=r"c\.csv: a quoted field does not end .*id,seen"):
        inbox.write()


@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED", "PERMISSIVE"])
def test_an_object_inside_of_a_pretty_printed_one_is_no_row(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    keys = {"quarantine": "true"} if mode == "FAILFAST" else {"source_options": f"mode={mode}"}
    keys |= {"source_format": "json", "source_schema": "id INT, seen INT, name STRING"}
    inbox = Inbox(spark, tmp_path, **keys)
    inbox.put("a.json", '{"id":1,"seen":1}\n{"id":2,"seen":1,"name":"[,"}\n')
    inner, last = '{"id":7,"seen":7}', '{"id":4,"seen":1,"name":"{:["}\n'
    inbox.put("b.json", f'{{"id":3,"seen":1,\n "inner":\n  {inner}\n}}\n{last}')
    with refused(inbox, "b.json: an object or array does not end", '{"id":3,', "multiLine=true"):
        pass
    inbox.put("b.json", f'{{"id":3,"seen":1,"inner":{inner}}}\n{last}')
    (report,) = inbox.write()
    assert report["rows"] == 4
    assert inbox.stored("id", "name") == [(1, None), (2, "[,"), (3, None), (4, "{:[")]


def test_no_character_of_a_line_of_csv_changes_it_or_the_next(
    spark: SparkSession, tmp_path: Path
) -> None:
    inbox = Inbox(spark, tmp_path, quarantine="true", source_schema=FIRST)
    names = ("a\0", "\0", "\0\0", "\0b", "c\0d", " \0 ", "\x01", "e\\", "\ufeff", "f")
    lines = [f"{name},{n},{TIME}" for n, name in enumerate(names)]
    ends = [f"g,{n},no time\0" for n in range(3)]
    marks = [f"{'x' * n}\uffff,{n},{TIME}" for n in range(8)]
    bad, good = [*ends, *marks], [*lines, f"h,99,{TIME}"]
    mixed = [line for pair in zip(bad, good, strict=True) for line in pair]
    inbox.put("a.csv", "\n".join(["name,id,seen", *mixed]))
    (report,) = inbox.write()
    assert (report["rows"], report["quarantined"]) == (len(mixed), len(bad))
    assert inbox.stored("id", "name") == [*enumerate(names), (99, "h")]
    rows = spark.read.format("hudi").load(inbox.pipeline().location.quarantine).collect()
    assert sorted(json.loads(row.row)["line"] for row in rows) == sorted(bad)
    assert sum("U+FFFF" in row.reason for row in rows) == len(marks)


WHOLE = {
    "csv, cut": ("multiLine=true", f"{GOOD}1,{TIME}\n", "does not have the 3 fields"),
    "csv, long": ("multiLine=true", f"{GOOD}1,{TIME},x,y\n", "does not have the 3 fields"),
    "csv, two ends": ("multiLine=true", f"{GOOD}1,{TIME},x\r\n", "ends with a carriage return"),
    "csv, value": ("encoding=UTF-16", f"{GOOD}1,12:30,x\n", "column seen has 12:30"),
    "json": ("multiLine=true", '{"id":\n"5"}', 'column id has "5"'),
}


@pytest.mark.deep
@pytest.mark.parametrize("kind", WHOLE)
def test_wrong_records_of_whole_files_are_refused(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    options, text, problem = WHOLE[kind]
    keys = {"source_format": kind.partition(",")[0], "source_options": options}
    inbox = Inbox(spark, tmp_path, quarantine="true", **keys)
    inbox.put("bad.dat", text.encode("utf-16" if "UTF-16" in options else "utf-8"))
    with refused(inbox, "bad.dat", problem, "the quarantine stores lines"):
        pass


@pytest.mark.parametrize(
    ("kind", "content", "problem"),
    [
        ("csv", f"id,seen,name\n1,{TIME},x,y\n", "does not have the 3 fields"),
        ("json", f'{{"id":1,"seen":"{TIME}"}}{{"id":2,"seen":"{TIME}"}}\n', "not one JSON object"),
    ],
)
def test_a_wrong_line_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, kind: str, content: str, problem: str
) -> None:
    """Also if the query neither selects the value nor keeps the row."""
    select = "SELECT id, seen FROM source WHERE seen > '2030-01-01'"
    inbox = Inbox(spark, tmp_path, source_format=kind, select=select)
    inbox.put("bad.dat", content)
    with refused(inbox, "bad.dat", problem):
        pass


@pytest.mark.deep
def test_whole_numbers_count_the_unit(spark: SparkSession, tmp_path: Path) -> None:
    keys = {"source_format": "json", "timestamp_unit": "ms", "source_options": "multiLine=true"}
    inbox = Inbox(spark, tmp_path, **keys)
    inbox.put("a.json", '[{"id":1,"seen":1767225600000},\n{"id":2,"seen":"2026-01-01"}]')
    inbox.write()
    moment = pd.Timestamp("2026-01-01", tz="UTC").to_pydatetime()
    assert inbox.stored("id", "seen") == [(1, moment), (2, moment)]


TWICE = "key 'source.schema': names a column twice"


@pytest.mark.parametrize(
    ("source", "changes", "problem", "remedy"),
    [
        ("csv", {"source_path": "in/a.csv"}, "is a file", "name its folder"),
        ("csv", {"source_path": "in [1]"}, "contains [ ], which Spark reads as a", "rename the"),
        ("json", {"source_schema": "x MAP<INT, INT>"}, "key 'source.schema'", "STRING"),
        ("json", {"source_schema": "x VARCHAR(2)"}, "key 'source.schema'", "STRING"),
        ("csv", {"source_schema": "Name STRING"}, f"{TWICE}: name and Name", "rename or remove"),
        ("json", {"source_schema": "s STRUCT<a: INT, A: INT>"}, f"{TWICE}: s.a and s.A", "rename"),
    ],
)
def test_a_folder_or_schema_that_no_stream_can_have(
    spark: SparkSession,
    tmp_path: Path,
    source: str,
    changes: dict[str, str],
    problem: str,
    remedy: str,
) -> None:
    starts = {"source_path": f"{tmp_path}/", "source_schema": f"{SCHEMA}, "}
    keys = {name: starts[name] + text for name, text in changes.items()}
    inbox = Inbox(spark, tmp_path, source_format=source, **keys)
    inbox.put("a.csv", f"id,seen,name\n1,{TIME},x\n")
    (tmp_path / "in [1]").mkdir()
    with pytest.raises(LabError) as caught:
        inbox.pipeline()
    assert problem in caught.value.problem
    assert remedy in caught.value.remedy


def test_a_folder_column_without_a_type(spark: SparkSession, tmp_path: Path) -> None:
    inbox = Inbox(spark, tmp_path)
    inbox.put("shop=01/a.csv", f"id,seen,name\n1,{TIME},x\n")
    with pytest.raises(LabError, match="the schema lacks shop; add it with its type"):
        inbox.pipeline()


def parquet(**columns: Any) -> pa.Table:
    moment = pa.array([datetime(2026, 1, 1)], pa.timestamp("us", "UTC"))
    return pa.table({"id": pa.array([1]), "seen": moment, "name": ["x"]} | columns)


PARQUET = {
    "missing": (parquet().drop(["name"]), "it has no column name"),
    "narrow": (
        parquet(id=pa.array([1], pa.int32())),
        "its column id is INT, and source.schema has BIGINT; write id INT into source.schema, and "
        "in select CAST(id AS BIGINT) AS id",
    ),
    "unsigned": (parquet(id=pa.array([1], pa.uint64())), "its column id is DECIMAL(20,0)"),
    "nanoseconds": (
        parquet(seen=pa.array([datetime(2026, 1, 1)], pa.timestamp("ns", "UTC"))),
        "cannot be read as parquet",
    ),
    "half": (parquet(id=pa.array([np.float16(1)])), "cannot be read as parquet"),
    "text": (
        parquet(id=["1"]),
        "write id STRING into source.schema; a cast to BIGINT in select would change or refuse",
    ),
    "number": (
        parquet(seen=pa.array([1])),
        "timestamp_millis(seen) or timestamp_micros(seen), or timestamp_micros(seen div 1000) of",
    ),
}


@pytest.mark.parametrize("kind", PARQUET)
def test_other_columns_of_parquet_are_refused(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    inbox = Inbox(spark, tmp_path, source_format="parquet")
    table, problem = PARQUET[kind]
    pq.write_table(parquet(), inbox.folder / "good.parquet")
    pq.write_table(table, inbox.folder / "bad.parquet", version="2.6")
    with refused(inbox, "bad.parquet", problem):
        pass


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_a_missing_column_may_be_null(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    inbox = Inbox(spark, tmp_path, source_format=kind, source_options="mergeSchema=true")
    columns = "BIGINT(id) AS id, TIMESTAMP '2026-01-01' AS seen"
    spark.sql(f"SELECT {columns} FROM range(1)").write.format(kind).mode("append").save(
        str(inbox.folder)
    )
    spark.sql("SELECT 7L AS id, TIMESTAMP '2026-01-01' AS seen, 'x' AS name").write.format(
        kind
    ).mode("append").save(str(inbox.folder))
    inbox.write()
    assert inbox.stored("id", "name") == [(0, None), (7, "x")]


PRICES = [
    (1, 'Größe, 6"', Decimal("1.50")),
    (2, 'say "hi"', None),
    (3, "a\\b", Decimal("1234.50")),
]
FRAME = pd.DataFrame(PRICES, columns=["id", "name", "price"])
FRAME.insert(1, "seen", TIME)
FLOATS = FRAME.astype({"price": float})  # pandas cannot write decimals as JSON
# Files of written_by/, and of libraries that write them here; and their sources' keys.
WRITTEN = {
    "postgresql.csv": {},
    "go.csv": {},
    "commons.csv": {},
    "opencsv.csv": {},
    "libreoffice.csv": {},
    "r.csv": {"source_options": "nullValue=NA"},
    "excel_german.csv": {"source_options": "sep=; locale=de-DE"},
    "mysql.tsv": {"source_options": r"sep=\t quote= nullValue=\N header=false"},
    "jq.json": {"source_format": "json", "source_options": "multiLine=true"},
    "pandas.csv": {},
    "pandas.csv.gz": {},
    "pandas lines.json": {"source_format": "json"},
    "pandas.json": {"source_format": "json"},
    "duckdb.csv": {},
    "spark.csv": {"source_options": "'escape=\\'"},
}


def write_file(file: Path, spark: SparkSession) -> None:
    match file.name.removesuffix(".gz"):
        case "pandas.csv":
            FRAME.to_csv(file, index=False)
        case "pandas lines.json":
            FLOATS.to_json(file, orient="records", lines=True)
        case "pandas.json":
            FLOATS.to_json(file, orient="records")
        case "duckdb.csv":
            duckdb.from_df(FRAME).write_csv(str(file))
        case "spark.csv":
            columns = "id INT, name STRING, price DECIMAL(10,2)"
            rows = spark.createDataFrame(PRICES, columns).selectExpr(
                "id", f"'{TIME}' AS seen", "name", "price"
            )
            rows.coalesce(1).write.csv(f"{file}/", header=True)
        case name:
            shutil.copy(Path(__file__).with_name("written_by") / name, file)


@pytest.mark.deep
@pytest.mark.parametrize("name", WRITTEN)
def test_files_of_other_programs(spark: SparkSession, tmp_path: Path, name: str) -> None:
    schema = f"{SCHEMA}, price DECIMAL(10,2)"
    inbox = Inbox(spark, tmp_path, source_schema=schema, **WRITTEN[name])
    write_file(inbox.folder / name, spark)
    assert list(preview(inbox.pipeline()))[-1].endswith("nothing was written")
    inbox.write()
    assert inbox.stored("id", "name", "price") == PRICES
