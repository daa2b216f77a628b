"""What the commands write is what the tables hold: Python's own parsers read each value again."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import random
import re
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from spark.hudilab_jobs.test_files import SCHEMA, TIME, Inbox
from spark.hudilab_jobs.test_oracle import columns, json_files
from values import LEAVES, NESTED, equal

ROWS = 1_200
# Hudi has no integers below INT.
KINDS = columns(tuple(kind for kind in LEAVES + NESTED if kind not in ("TINYINT", "SMALLINT")))
TEXTS = (
    *("", " ", "NULL", "null", '"', '""', ",", "\n", "\r\n", "\r", "a\nb", "\0", "a\0b", "\\"),
    *("\\N", "\\n", "\\u0041", "\\\\", "\U0001f680", "e\u0301", "\u2028", "\x85", "\x1b[31m"),
    *("\ufeff", "\uffff", "{}", "[1,", "NaN", "true", "1e400", "'", "`", ";", "\t", "x" * 5_000),
)


def parsed(kind: T.DataType, value: Any) -> Any:
    """A value of a column as Python has it, from JSON or from a cell of CSV."""
    if value is None:
        return None
    if isinstance(kind, T.StructType):
        assert list(value) == kind.names
        return {field.name: parsed(field.dataType, value[field.name]) for field in kind}
    if isinstance(kind, T.ArrayType):
        return [parsed(kind.elementType, item) for item in value]
    if isinstance(kind, T.MapType):
        return {key: parsed(kind.valueType, item) for key, item in value.items()}
    if isinstance(kind, T.FloatType):
        return struct.unpack("f", struct.pack("f", float(value)))[0]
    convert: dict[type, Callable[[Any], Any]] = {
        T.DecimalType: Decimal,
        T.DoubleType: float,
        T.LongType: int,
        T.IntegerType: int,
        T.DateType: date.fromisoformat,
        T.TimestampType: datetime.fromisoformat,
        T.TimestampNTZType: lambda text: datetime.fromisoformat(f"{text}+00:00"),
        T.BinaryType: lambda text: base64.b64decode(text, validate=True),
        T.BooleanType: lambda value: value if isinstance(value, bool) else value == "true",
        T.StringType: str,
    }
    return convert[type(kind)](value)


def hudilab(home: Path, *words: str) -> str:
    """What a command prints in a process of its own, where the clock has another time zone."""
    done = subprocess.run(
        [Path(sys.executable).with_name("hudilab"), *words],
        env=os.environ
        | {
            "HUDILAB_HOME": str(home),
            "HUDILAB_CONF": str(home / "conf"),
            "TZ": "America/New_York",
            "PYTHONIOENCODING": "latin-1",
        },
        stdout=subprocess.PIPE,
        check=True,
        timeout=240,
    )
    return done.stdout.decode("utf-8")


@pytest.mark.deep
@pytest.mark.parametrize("seed", [1, 2])
def test_each_value_is_read_again_as_it_was(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Odd rows are quarantined, because they have no key."""
    names = ", ".join(KINDS)
    changes = {
        "source_format": "json",
        "source_schema": ", ".join(("id BIGINT", *(f"{n} {kind}" for n, kind in KINDS.items()))),
        "select": f"SELECT if(id % 2 = 0, id, NULL) AS id, id AS seq, {names} FROM source",
        "ordering": "seq",
        "quarantine": "true",
    }
    inbox = Inbox(spark, tmp_path, **changes)
    rows = json_files(random.Random(seed), inbox.folder, KINDS)
    inbox.write()
    table = spark.read.format("hudi").load(inbox.pipeline().location.table)
    kinds = table.select("seq", *KINDS).schema

    def check(found: list[dict[str, Any]], rest: int) -> None:
        """Each row is of the files, once, and has its values."""
        numbers = {row["seq"] for row in found}
        assert len(numbers) == len(found) > 3_000
        assert {number % 2 for number in numbers} == {rest}
        for row in found:
            for name in KINDS:
                text, value = rows[row["seq"]].get(name, ("", None))
                assert equal(row[name], value), (KINDS[name], text, row[name])

    query = f"SELECT seq, {names} FROM own"
    lines = hudilab(tmp_path, "sql", query, "--json").splitlines()
    check([parsed(kinds, json.loads(line, parse_float=Decimal)) for line in lines], 0)

    text = hudilab(tmp_path, "sql", query, "--csv")
    head, *cells = csv.reader(io.StringIO(text, newline=""))
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(kinds.names, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    read = pa.csv.read_csv(
        io.BytesIO(text.encode()),
        read_options=pa.csv.ReadOptions(block_size=1 << 28),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=options,
    ).to_pylist()
    assert head == list(read[0]) == kinds.names
    # Python 3.11 does not tell an empty cell from "", and Arrow does.
    assert cells == [["" if value is None else value for value in row.values()] for row in read]
    nested = [
        field.name
        for field in kinds
        if isinstance(field.dataType, T.StructType | T.ArrayType | T.MapType)
    ]
    for row in read:
        row |= {n: row[n] and json.loads(row[n], parse_float=Decimal) for n in nested}
    check([parsed(kinds, row) for row in read], 0)

    lines = hudilab(tmp_path, "quarantine", "own", "--json").splitlines()
    found = [json.loads(line, parse_float=Decimal) for line in lines]
    found = [row["row"] for row in found if row["reason"] == "the record key (id) is null"]
    check([parsed(kinds, {n: row[n] for n in kinds.names}) for row in found], 1)


def bad_lines(kind: str, pick: random.Random) -> list[bytes]:
    """Lines of which each is wrong: most are noise, and some have bytes that are no text."""
    lines = []
    for _ in range(ROWS):
        noise = "".join(pick.choice(TEXTS[:-1]) for _ in range(pick.randint(1, 5)))
        noise = noise.translate(dict.fromkeys(map(ord, "\r\n"))) or "x"
        number = "".join(pick.choice("0123456789") for _ in range(pick.randint(20, 40)))
        if kind == "csv":
            noise = re.sub(',"+', ",", noise)  # a quote that begins a field stops the stream
            text = pick.choice(("", " ", "\t")) + pick.choice(
                (f"x{noise}", f"x{noise},{TIME},a", f"1,z{noise}", f"9{number},,")
            )
        else:
            value = json.dumps(noise, ensure_ascii=pick.random() < 0.5)
            text = pick.choice(("", " ", "\t", "\ufeff")) + pick.choice(
                (
                    f"x{noise}",
                    f'{{"id": {value}, "seen" : "{TIME}"}}',
                    f'{{"id":{number},  "seen":"{TIME}", "name":{value}}}',
                    f'{{"id":1, "id":{number}.50, "name":{value}}}',
                    f'{{"id": 7, "seen": {value}, "name": "{noise}"',
                )
            )
        data = text.encode()
        if pick.random() < 0.1:
            data += pick.choice((b"\xff", b"\x80abc", "ü".encode("latin-1")))
        lines.append(data)
    return lines


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["csv", "json"])
def test_each_bad_line_is_quarantined_as_it_is(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    lines = bad_lines(kind, random.Random(7))
    changes = {"source_format": kind, "source_schema": SCHEMA, "quarantine": "true"}
    inbox = Inbox(spark, tmp_path, **changes)
    head, good = {
        "csv": (b"id,seen,name\n", f"1,{TIME},good\n"),
        "json": (b"", f'{{"id":1,"seen":"{TIME}","name":"good"}}\n'),
    }[kind]
    for number, end in enumerate((b"\n", b"\r\n")):
        part = lines[number::2]
        body = b"".join(line + end for line in part)
        first = head.replace(b"\n", end) + good.encode()  # Spark drops a file's own BOM
        inbox.put(f"{number}.dat", first + body)
    assert sum(report["quarantined"] for report in inbox.write()) == len(lines)
    shown = hudilab(tmp_path, "quarantine", "own", "--json").splitlines()
    rows = [json.loads(line)["row"] for line in shown]
    assert [row for row in rows if "line" not in row] == []
    stored = Counter(row["line"] for row in rows)
    assert stored == Counter(map(as_text, lines))


NUMBERS = ("1", "-0.0", "1.50", "1e2", "0.1234567890123456", f"1.{'12' * 15}", "9" * 40, "1e400")


@pytest.mark.deep
def test_an_object_of_an_array_is_quarantined_with_its_values(
    spark: SparkSession, tmp_path: Path
) -> None:
    schema = "id BIGINT, seen TIMESTAMP, name STRING, x DECIMAL(38,30)"
    changes = {"source_format": "json", "source_schema": schema, "quarantine": "true"}
    inbox = Inbox(spark, tmp_path, **changes)
    lines = []
    for n, number in enumerate(NUMBERS):
        good = f'{{ "id" : {n}, "seen": "{TIME}", "name": "\\u00e9\\/", "x": 1.5}}'
        bad = f'{{"id": 1,  "seen": "x", "name": "\\u00e9\\/,\\"", "other": [{number}, {{}}]}}'
        lines.append(f" [{good},{bad} , {bad}]")
    inbox.put("a.dat", "\n".join(lines))
    (report,) = inbox.write()
    assert (report["rows"], report["quarantined"]) == (3 * len(lines), 2 * len(lines))
    shown = hudilab(tmp_path, "quarantine", "own", "--json").splitlines()
    stored = [json.loads(line)["row"]["line"] for line in shown]
    for line in lines:
        objects = json.loads(line, parse_float=Decimal)
        for bad in objects[1:]:
            own = [text for text in stored if json.loads(text, parse_float=Decimal) == bad]
            assert len(own) == 2, line
    assert len(stored) == 2 * len(lines)


def as_text(line: bytes) -> str:
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        return line.hex().upper()
