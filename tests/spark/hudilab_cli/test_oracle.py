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
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T
from spark.hudilab_jobs.test_files import SCHEMA, TIME, Inbox

ROWS = 1_200
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)
MICROSECOND = timedelta(microseconds=1)
TEXTS = (
    *("", " ", "NULL", "null", '"', '""', ",", "\n", "\r\n", "\r", "a\nb", "\0", "a\0b", "\\"),
    *("\\N", "\\n", "\\u0041", "\\\\", "\U0001f680", "e\u0301", "\u2028", "\x85", "\x1b[31m"),
    *("\ufeff", "\uffff", "{}", "[1,", "NaN", "true", "1e400", "'", "`", ";", "\t", "x" * 5_000),
)
# Values that Python's createDataFrame passes on as they are, and each column made from them.
RAW = (
    "n BIGINT, wide STRING, digits STRING, x DOUBLE, y FLOAT, day INT, micros BIGINT, "
    "bytes BINARY, text STRING, flag BOOLEAN, texts ARRAY<STRING>, numbers ARRAY<DOUBLE>, "
    "amounts MAP<STRING,STRING>, times ARRAY<BIGINT>, seq INT"
)
MADE = {
    "id": "if(seq % 2 = 0, n, NULL)",
    "seq": "seq",
    "wide": "CAST(wide AS DECIMAL(38,18))",
    "digits": "CAST(digits AS DECIMAL(38,0))",
    "x": "x",
    "y": "y",
    "day": "date_from_unix_date(day)",
    "moment": "timestamp_micros(micros)",
    "local": "CAST(timestamp_micros(micros) AS TIMESTAMP_NTZ)",
    "bytes": "bytes",
    "text": "text",
    "flag": "flag",
    "texts": "texts",
    "numbers": "numbers",
    "amounts": "transform_values(amounts, (k, v) -> CAST(v AS DECIMAL(38,18)))",
    "part": "if(flag, NULL, named_struct('when', timestamp_micros(micros), 'bytes', bytes, "
    "'day', date_from_unix_date(day), 'text', text))",
    "deep": "transform(times, t -> map(coalesce(text, ''), named_struct("
    "'local', CAST(timestamp_micros(t) AS TIMESTAMP_NTZ), 'x', x)))",
}


def made_rows(seed: int) -> list[dict[str, Any]]:
    """Rows of `RAW` in which each column has each kind of value, and NULL."""
    pick = random.Random(seed)

    def maybe(make: Callable[[], Any]) -> Any:
        return make() if pick.random() < 0.9 else None

    def decimal(scale: int) -> str:
        digits = pick.choice((1, 18, 37, 38))
        number = pick.choice(("-", "")) + "".join(pick.choice("0129") for _ in range(digits))
        return f"{Decimal(number).scaleb(-scale):f}" if scale == 0 else _scaled(number, scale)

    def double() -> float:
        bits: float = struct.unpack("d", pick.randbytes(8))[0]
        odd = (float("nan"), float("inf"), -float("inf"), -0.0, 0.1, 5e-324, 1e22, 2.0**63)
        return pick.choice((*odd, bits, bits, pick.uniform(-1, 1)))

    def single() -> float:
        bits: float = struct.unpack("f", pick.randbytes(4))[0]
        return pick.choice((float("nan"), float("inf"), -0.0, bits, bits))

    def micros() -> int:
        ends = ((FIRST - EPOCH) // MICROSECOND, (LAST - EPOCH) // MICROSECOND)
        return pick.choice((*ends, 0, -1, 1_500_000, pick.randint(*ends), pick.randint(*ends)))

    def text() -> str:
        return pick.choice(TEXTS) + pick.choice(("", pick.choice(TEXTS)))

    def several(make: Callable[[], Any]) -> list[Any]:
        return [maybe(make) for _ in range(pick.choice((0, 1, 3)))]

    return [
        {
            "n": n,
            "wide": maybe(lambda: decimal(18)),
            "digits": maybe(lambda: decimal(0)),
            "x": maybe(double),
            "y": maybe(single),
            "day": maybe(lambda: micros() // 86_400_000_000),
            "micros": maybe(micros),
            "bytes": maybe(lambda: bytearray(pick.randbytes(pick.choice((0, 1, 100))))),
            "text": maybe(text),
            "flag": maybe(lambda: pick.random() < 0.5),
            "texts": maybe(lambda: several(text)),
            "numbers": maybe(lambda: several(double)),
            "amounts": maybe(lambda: {text(): maybe(lambda: decimal(18)) for _ in range(2)}),
            "times": maybe(lambda: [micros() for _ in range(pick.choice((0, 1, 2)))]),
            "seq": n,
        }
        for n in range(ROWS)
    ]


def _scaled(number: str, scale: int) -> str:
    sign, digits = ("-", number[1:]) if number.startswith("-") else ("", number)
    digits = digits.zfill(scale + 1)
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}"


def day_of(days: int | None) -> date | None:
    return None if days is None else date(1970, 1, 1) + timedelta(days=days)


def moment_of(micros: int | None) -> datetime | None:
    return None if micros is None else EPOCH + micros * MICROSECOND


def local_of(micros: int | None) -> datetime | None:
    moment = moment_of(micros)
    return moment and moment.replace(tzinfo=None)


def amount(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def source_values(raw: dict[str, Any]) -> dict[str, Any]:
    """The columns of `MADE`, computed in Python."""
    data = None if raw["bytes"] is None else bytes(raw["bytes"])
    amounts, times = raw["amounts"], raw["times"]
    part = {
        "when": moment_of(raw["micros"]),
        "bytes": data,
        "day": day_of(raw["day"]),
        "text": raw["text"],
    }
    return {
        "id": None if raw["n"] % 2 else raw["n"],
        "seq": raw["n"],
        "wide": amount(raw["wide"]),
        "digits": amount(raw["digits"]),
        "x": raw["x"],
        "y": raw["y"],
        "day": day_of(raw["day"]),
        "moment": moment_of(raw["micros"]),
        "local": local_of(raw["micros"]),
        "bytes": data,
        "text": raw["text"],
        "flag": raw["flag"],
        "texts": raw["texts"],
        "numbers": raw["numbers"],
        "amounts": amounts and {key: amount(value) for key, value in amounts.items()},
        "part": None if raw["flag"] else part,
        "deep": times
        and [{raw["text"] or "": {"local": local_of(t), "x": raw["x"]}} for t in times],
    }


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
        T.TimestampNTZType: datetime.fromisoformat,
        T.BinaryType: lambda text: base64.b64decode(text, validate=True),
        T.BooleanType: lambda value: value if isinstance(value, bool) else value == "true",
        T.StringType: str,
    }
    return convert[type(kind)](value)


def exact(value: Any) -> Any:
    """A value in a form that compares to the bit: NaN equals NaN, and -0.0 is not 0.0."""
    if isinstance(value, dict):
        return {key: exact(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack("d", value)
    return (type(value), value, getattr(value, "tzinfo", None) and value.utcoffset())


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
    raw = made_rows(seed)
    rows = spark.createDataFrame([tuple(row.values()) for row in raw], RAW)
    rows = rows.selectExpr(*(f"{sql} AS {name}" for name, sql in MADE.items()))
    kinds = T.StructType([T.StructField(f.name, f.dataType) for f in rows.schema])
    ddl = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in kinds)
    changes = {"source_schema": ddl, "ordering": "seq", "quarantine": "true"}
    inbox = Inbox(spark, tmp_path, source_format="parquet", **changes)
    rebase = [f"spark.sql.parquet.{kind}RebaseModeInWrite" for kind in ("int96", "datetime")]
    for name in rebase:  # for the test's own file
        spark.conf.set(name, "CORRECTED")
    rows.coalesce(1).write.mode("append").parquet(str(inbox.folder))
    for name in rebase:
        spark.conf.unset(name)
    assert sum(report["quarantined"] for report in inbox.write()) == ROWS // 2
    source = {row["seq"]: exact(row) for row in map(source_values, raw)}
    good = {seq: row for seq, row in source.items() if seq % 2 == 0}
    bad = {seq: row for seq, row in source.items() if seq % 2}
    query = f"SELECT {', '.join(kinds.names)} FROM own"

    lines = hudilab(tmp_path, "sql", query, "--json").splitlines()
    read = [parsed(kinds, json.loads(line, parse_float=Decimal)) for line in lines]
    assert {row["seq"]: exact(row) for row in read} == good
    assert len(read) == len(good)

    text = hudilab(tmp_path, "sql", query, "--csv")
    head, *cells = csv.reader(io.StringIO(text, newline=""))
    options = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(kinds.names, pa.string()),
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    table = pa.csv.read_csv(
        io.BytesIO(text.encode()),
        read_options=pa.csv.ReadOptions(block_size=1 << 28),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=options,
    ).to_pylist()
    assert head == list(table[0]) == kinds.names
    assert len(cells) == len(table) == len(good)
    for row, other in zip(cells, table, strict=True):
        # Python 3.11 does not tell an empty cell from "", and Arrow does.
        assert row == ["" if value is None else value for value in other.values()]
        nested = {
            field.name: other[field.name] and json.loads(other[field.name], parse_float=Decimal)
            for field in kinds
            if isinstance(field.dataType, T.StructType | T.ArrayType | T.MapType)
        }
        values = parsed(kinds, other | nested)
        assert exact(values) == good[values["seq"]]

    lines = hudilab(tmp_path, "quarantine", "own", "--json").splitlines()
    found = [json.loads(line, parse_float=Decimal) for line in lines]
    assert {row["reason"] for row in found} == {"the record key (id) is null"}
    read = [parsed(kinds, row["row"]) for row in found]
    assert {row["seq"]: exact(row) for row in read} == bad
    assert len(read) == len(bad)


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
