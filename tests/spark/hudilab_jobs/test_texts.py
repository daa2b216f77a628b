"""What CSV and JSON hold as text becomes exactly its value, or a problem; never another value."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hudi_sink.rows import refused_row
from hudilab_jobs.pipelines import csv_text, json_text
from hudilab_jobs.pipelines.csv_text import Dialect
from hudilab_jobs.pipelines.json_text import with_json
from hudilab_jobs.pipelines.text_values import Numbers, Texts

NEW_YEAR = datetime(2026, 1, 1)
GERMAN = Texts({}, numbers=Numbers(".", ","))
DAY, NIGHT = date(2026, 1, 1), "2026-01-01 23:59:59"
MIDNIGHT = "2026-01-01T00:00:00"
OFFSETS = ("Z", "+05", "-05", "+0530", "+05:30", "-05:30:15", "+053015", "-00:30", "+18:00")


def at_midnight(zone: str) -> datetime:
    """Return a midnight as Python reads it, in UTC."""
    return datetime.fromisoformat(MIDNIGHT + zone).astimezone(UTC).replace(tzinfo=None)


VALUES: list[tuple[str, dict[str, Any], Texts]] = [
    (
        "INT",
        {"5": 5, "-5": -5, " 7 ": 7, "1.5": None, "2147483648": None, "1,000": None},
        Texts({}),
    ),
    ("BIGINT", {"9223372036854775807": 2**63 - 1, "1e3": None, "5L": None}, Texts({})),
    ("DOUBLE", {"1.5": 1.5, "1e+05": 1e5, "-inf": -inf, "1d": None, "1e400": None}, Texts({})),
    ("DOUBLE", {"1,5": None, "1.234,5": None, "": None, "12f": None, "-": None}, Texts({})),
    ("FLOAT", {"1.5": 1.5, "1e39": None}, Texts({})),
    ("DOUBLE", {"oo": inf, "-oo": -inf}, Texts({"positiveinf": "oo", "negativeinf": "-oo"})),
    ("DECIMAL(10,2)", {"1.5": Decimal("1.50"), "1.500": Decimal("1.50"), "1,50": None}, Texts({})),
    ("DECIMAL(10,2)", {"1.239": None, "1,234.50": None, "123456789": None}, Texts({})),
    ("DECIMAL(10,2)", {"1e+05": Decimal(100000), "1e-3": None, ".5": Decimal("0.5")}, Texts({})),
    ("DECIMAL(38,18)", {"0.1234567890123456789": None, "1": Decimal(1)}, Texts({})),
    ("DECIMAL(10,2)", {"150e-2": Decimal("1.5"), "1505e-3": None, "0e-10": Decimal(0)}, Texts({})),
    ("DECIMAL(10,2)", {f"1.23{'0' * 40}1": None, f"1.23{'0' * 40}1e0": None}, Texts({})),
    ("DECIMAL(10,2)", {"1e-999999999": None, "1e99999999999": None}, Texts({})),
    ("DECIMAL(10,2)", {"1.234,50": Decimal("1234.50"), "1,5": Decimal("1.5")}, GERMAN),
    ("DECIMAL(10,2)", {"1.50": None, "1.2345": None, "1,239": None}, GERMAN),
    ("INT", {"1.234": 1234, "12": 12, "1,5": None}, GERMAN),
    ("BOOLEAN", {"true": True, "F": False, "1": True, "0": False, "ja": None}, Texts({})),
    ("DATE", {"2026-01-01": DAY, "2026-1-1": DAY, "2026-01-01 00:00:00": DAY}, Texts({})),
    ("DATE", {"2026-01-01Z": DAY, "2026-01-01+01:00": None, "2026-1-1Z": None}, Texts({})),
    ("DATE", {NIGHT: None, "2026": None, "20260101": None, "2026-02-30": None}, Texts({})),
    ("DATE", {"2026-1-1 9": None, "2026-1-1Tx": None, "2026-1-1 ": DAY}, Texts({})),
    ("DATE", {"01.01.2026": DAY, "2026-01-01": None}, Texts({"dateformat": "dd.MM.yyyy"})),
    # The parser of Spark 2 accepts these, also those with the two characters.
    (
        "DATE",
        {"01/01/2026": DAY, "1/1/2026": None, "[]1/1/2026": None, "01/01/2026x": None},
        Texts({"dateformat": "MM/dd/yyyy"}),
    ),
    (
        "DATE",
        {"2026-01-01 00:00": DAY, "2026-01-01 00:01": None, "+999999-01-01 00:00": None},
        Texts({"dateformat": "yyyy-MM-dd HH:mm"}),
    ),
    (
        "TIMESTAMP",
        {"2026-1-1 9:00": None, "2026-01-01 00:00": NEW_YEAR, "[2026-01-01 00:00": None},
        Texts({"timestampformat": "yyyy-MM-dd HH:mm"}),
    ),
    (
        "TIMESTAMP_NTZ",
        {"01.01.26": NEW_YEAR, "1.1.26": None, "+300000-01-01": None},
        Texts({"timestampntzformat": "dd.MM.yy"}),
    ),
    ("TIMESTAMP", {str(-(2**63)): None, "253402300800": None}, Texts({}, unit="s")),
    ("TIMESTAMP", {"2026-01-01": NEW_YEAR, "2026-01-01T01:00:00+01": NEW_YEAR}, Texts({})),
    ("TIMESTAMP", {"12:30": None, "202601": None, "2026-01": None, "1767225600": None}, Texts({})),
    (
        "TIMESTAMP",
        {"2026-01-01T00:00:00.000000000Z": NEW_YEAR, f"{NIGHT}.123456789Z": None},
        Texts({}),
    ),
    (
        "TIMESTAMP_NTZ",
        {"2026-01-01 00:00:00.000000": NEW_YEAR, "2026-1-1 0:0:0.0000001": None},
        Texts({}),
    ),
    ("TIMESTAMP", {"01/02/2026": None, "1767225600000": None, "T10:00": None}, Texts({})),
    ("TIMESTAMP", {"1767225600": NEW_YEAR, "1767225600000": None}, Texts({}, unit="s")),
    ("TIMESTAMP", {"1767225600000": NEW_YEAR, "2026-01-01": NEW_YEAR}, Texts({}, unit="ms")),
    ("TIMESTAMP_NTZ", {"1767225600000000": NEW_YEAR, "x": None}, Texts({}, unit="us")),
    ("TIMESTAMP_NTZ", {"2026-01-01 00:00": NEW_YEAR, "2026-01-01T00:00Z": None}, Texts({})),
    (
        "TIMESTAMP_NTZ",
        {"2026-01-01T00:00:00Z": None, "2026-01-01 00:00:00+02:00": None, "2026-01-01": NEW_YEAR},
        Texts({}),
    ),
    (
        "TIMESTAMP_NTZ",
        {"2026-01-01T00:00:00.000Z": NEW_YEAR, "2026-01-01T00:00:00+02:00": None},
        Texts({}, debezium=True),
    ),
    # Spark accepts all of these: zones of other places, of times that are not or twice there, and
    # numbers that were cut.
    (
        "TIMESTAMP",
        dict.fromkeys(
            (
                *(f"{MIDNIGHT} {zone}" for zone in ("BST", "PST", "CST", "ECT", "IST", "GMT")),
                *(MIDNIGHT + zone for zone in ("+05:3", "+5", "+5:30", "UTC+1", "BST", "+19:00")),
                *("2026-03-29T02:30:00 Europe/Berlin", "2026-10-25T02:30:00 Europe/Berlin"),
                *("2026-01-01T10:5", "2026-01-01T10:05:3", "2026-01-01T10:05:33.", "2026-1-1T"),
                *("+2026-01-01", "-2026-01-01", "12026-01-01", "2026-01-01x", "2026-01-01Z"),
                *(f"{MIDNIGHT}\u2028", f"{MIDNIGHT}+05:3015", f"{MIDNIGHT}  Z", "now", "epoch"),
            )
        ),
        Texts({}),
    ),
    (
        "TIMESTAMP",
        {
            **{f"{MIDNIGHT}{zone}": at_midnight(zone) for zone in OFFSETS},
            **{f"{MIDNIGHT} {zone}": at_midnight(zone) for zone in OFFSETS},
            **{"2026-01-01 00:00:00 UTC": NEW_YEAR, "2026-1-1 0:00": NEW_YEAR},
            **{" 2026-01-01T00 ": NEW_YEAR, "2026-01-01T00:00:00.000": NEW_YEAR},
        },
        Texts({}),
    ),
    (
        "TIMESTAMP_NTZ",
        dict.fromkeys(("2026-01-01T1:5", "2026-01-01 00:00:00.", f"{MIDNIGHT} BST", "-2026-01-01")),
        Texts({}),
    ),
    (
        "DATE",
        dict.fromkeys(
            (
                *("2026-01-011", "2026-01-01-", "2026-01-01T00:00:00x0", "2026-01-01\u2028", "now"),
                *("2026-01-01 BST", "2026-01-01T", "-2026-01-01", "+2026-01-01", "2026-01"),
            )
        ),
        Texts({}),
    ),
    (
        "TIMESTAMP",
        {"2026-01-01+05:30": at_midnight("+05:30"), "2026-01-01+05:3": None},
        Texts({"timestampformat": "yyyy-MM-ddXXX"}),
    ),
    ("INT", {"1\0": None, "\x1f1": None}, Texts({})),
    ("DOUBLE", {"0x1p3": None, "\x7f1.5": None}, Texts({})),
    ("DATE", {"1767225600000": DAY, "1767225600001": None}, Texts({}, unit="ms")),
]


@pytest.mark.parametrize(("kind", "values", "texts"), VALUES)
def test_a_text_is_exactly_its_value_or_none(
    spark: SparkSession, kind: str, values: dict[str, Any], texts: Texts
) -> None:
    rows = spark.createDataFrame([*enumerate(values)], "number INT, text STRING")
    parsed = T._parse_datatype_string(kind)
    value = F.expr(texts.value("text", parsed)).alias("value")
    assert rows.select(value).schema["value"].dataType == parsed
    rows_read = [row.value for row in rows.orderBy("number").select(value).collect()]
    assert dict(zip(values, rows_read, strict=True)) == values


JSON_SCHEMA = (
    "id BIGINT, d DECIMAL(10,2), t TIMESTAMP, x DOUBLE, s STRUCT<a:INT,u:TIMESTAMP>, arr "
    "ARRAY<DATE>, m MAP<STRING,STRUCT<q:INT>>, k STRING, n TIMESTAMP_NTZ, day DATE, "
    "l ARRAY<STRUCT<w:INT>>, yes BOOLEAN, no ARRAY<BOOLEAN>, w DECIMAL(38,1), u DECIMAL(38,0), "
    "ws ARRAY<DECIMAL(38,1)>, um MAP<STRING,DECIMAL(38,0)>, us STRUCT<u:DECIMAL(29,2)>, b TINYINT"
)
JSON_RIGHT: dict[str, list[dict[str, Any]]] = {
    '{"id": 1, "d": 1.23, "t": "2026-01-01T00:00:00Z"}': [
        {"id": 1, "d": Decimal("1.23"), "t": NEW_YEAR}
    ],
    '[{"id":8},{"id":9}]': [{"id": 8}, {"id": 9}],
    '{"x":-Infinity}': [{"x": -inf}],
    '{"x":NaN}': [{"x": "nan"}],
    '{"x":"INF"}': [{"x": inf}],
    '{"d":12345678.9}': [{"d": Decimal("12345678.90")}],
    '{"k":"\\ud83d\\ude00"}': [{"k": "\U0001f600"}],
    '{"k":"a\\\\ud800"}': [{"k": "a\\ud800"}],
    '{"s":{"a":1,"u":"2026-01-01"}}': [{"s": (1, NEW_YEAR)}],
    '{"arr":["2026-01-01",null]}': [{"arr": [DAY, None]}],
    '{"m":{"p":{"q":1}}}': [{"m": {"p": (1,)}}],
    '{"other":1,"other":2,"id":3}': [{"id": 3}],
    '{"n":"2026-01-01T00:00:00","day":"2026-01-01"}': [{"n": NEW_YEAR, "day": DAY}],
    '{"l":[{"w":1},{"w":2}]}': [{"l": [(1,), (2,)]}],
    '{"id":null}': [{}],
    '{"yes":true,"no":[false, null ,true],"k":true}': [
        {"yes": True, "no": [False, None, True], "k": "true"}
    ],
    '{"k":{"a":[true,"true",false]},"yes" : false }': [
        {"k": '{"a":[true,"true",false]}', "yes": False}
    ],
    '{"k":1.5}': [{"k": "1.5"}],
    '{"k":"1.10"}': [{"k": "1.10"}],
    '{"k":12345678901234567890123}': [{"k": "12345678901234567890123"}],
    '{"k":1.10,"d":"1.1"}': [{"k": "1.10", "d": Decimal("1.10")}],
    '{"k":{"a":[1.10, 1e2, "-1"],"b":NaN}}': [{"k": '{"a":[1.10,1e2,"-1"],"b":NaN}'}],
    '{"k":"2026","x":"NaN"}': [{"k": "2026", "x": "nan"}],
    f'{{"k":-0.{"123" * 500}}}': [{"k": f"-0.{'123' * 500}"}],
    '{"w":0.5,"ws":[1e36, -9.9E+35, 0.10]}': [
        {"w": Decimal("0.5"), "ws": [Decimal(10) ** 36, Decimal("-9.9e35"), Decimal("0.1")]}
    ],
    '{"u":12345678901234567890123456789012345678}': [
        {"u": Decimal("12345678901234567890123456789012345678")}
    ],
    '{"u":1.50E1}': [{"u": Decimal(15)}],
    '{"u":"1.500e+01","w":-0E-10}': [{"u": Decimal(15), "w": Decimal(0)}],
    '{"um":{"a":2.0,"b":0},"b":-128}': [{"um": {"a": Decimal(2), "b": Decimal(0)}, "b": -128}],
}
JSON_WRONG = {
    "not one JSON object": (
        *('{"id":1}{"id":2}', '{"id":1} junk', '{"id":1},', '{"id":1},{"id":2}', '{"id":1}]'),
        *('{"id":1}}', '{"id":1', "null", "5", "[null]", "[5]", '[{"id":1}] x', '[[{"id":1}]]'),
        "[" * 1200 + "]" * 1200,
        '{"id":007}',
        '{"id":1 "k":2}',
        '{"id":.5}',
        '{"d":+1}',
        '{"d":1,5:2}',
        "{k:1}",
        *('{"yes":truex}', '{"yes":True}', '{"yes":tru', '{"k":nulltrue}', "{true:1}"),
    ),
    "value does not fit": ('{"l":5}', '{"s":[]}', '{"arr":"2026-01-01"}'),
    "column id has": ('{"id":"5"}', '{"id":1.5}', f'{{"id":{2**70}}}', '{"id":{}}', '{"id":""}'),
    "column b has": ('{"b":200}', '{"b":-129}'),
    "column d has": (
        *('{"d":1.239}', '{"d":0.30000000000000004}', '{"d":"1,50"}', '{"d":"1\u2019500"}'),
        *(f'{{"d":1.23{"0" * 40}1}}', f'{{"d":"1.23{"0" * 40}1e0"}}', '{"d":""}', '{"d":1e-3}'),
        *('{"d":1e999999999}', '{"d":1e-999999999}', '{"d":0e-999999999}', '{"d":NaN}'),
    ),
    "column w has": ('{"w":1.25}', '{"w":"1.25"}', '{"w":125e-2}', f'{{"w":{10**37}}}'),
    "column u has": ('{"u":2.5}', '{"u":25e-1}', f'{{"u":{10**38}}}', '{"u":"0.1"}'),
    "column ws has": ('{"ws":[1, 1.25]}',),
    "column um has": ('{"um":{"a":2.5}}',),
    "column us.u has": ('{"us":{"u":1.239}}',),
    "the character U+FDD0": ('{"k":"\ufdd01"}', '{"k":"\\uFDD01"}', '{"k":{"\ufdd0":1}}'),
    "column t has": ('{"t":1767225600000}', '{"t":1767225600}', '{"t":"12:30"}', '{"t":1.5}'),
    "column day has": ('{"day":20260101}', '{"day":"20260101"}', '{"day":"2026-01-01T10:00"}'),
    "column x has": ('{"x":1e400}', '{"x":1e400,"k":"info"}', '{"x":"1.5"}'),
    "half a surrogate pair": ('{"k":"\\ud800"}', '{"k":"\\ude00\\ud83d"}', '{"k":"\\\\\\ud800"}'),
    "it repeats a key": (
        *('{"id":1,"id":2}', '{"ID":5}', '{"id":1,"Id":2}', '{"s":{"a":1,"a":2}}', '{"s":{"A":1}}'),
        *('{"m":{"p":{"q":1},"p":{"q":2}}}', '{"m":{"p":{"Q":1}}}', '{"l":[{"w":1,"w":2}]}'),
        *('[{"id":8},{"id":9,"id":1}]', '{"x":NaN,"x":1}'),
    ),
    'column yes has "true", which is not BOOLEAN': ('{"yes":"true"}',),
    "column yes has 1, which is": ('{"yes":1}',),
    'column no has [true,"true"], which is': ('{"no":[true, "true"]}',),
    "column id has true, which": ('{"id":true}',),
    "column day has an empty text, which is not DATE": ('{"day":""}',),
    "column t has nothing but blanks, which is": ('{"t":"  "}',),
    'column arr has [""], which': ('{"arr":[""]}',),
    "column s.u has": ('{"s":{"u":1767225600000}}',),
    "column arr has": ('{"arr":["x"]}',),
    "a byte that is not UTF-8": (b'{"k":"M\xfcller"}', b'{"k":"\xed\xa0\x80"}'),
}


def test_json_is_read_exactly_or_refused(spark: SparkSession) -> None:
    schema = spark.createDataFrame([], JSON_SCHEMA).schema
    wrong = [text for texts in JSON_WRONG.values() for text in texts]
    texts = [*JSON_RIGHT, *wrong]
    data = [(n, t if isinstance(t, bytes) else t.encode()) for n, t in enumerate(texts)]
    rows = spark.createDataFrame(data, "n INT, value BINARY")
    rows_read = with_json(rows, "value", schema, Texts({}), arrays=True).collect()
    for number, text in enumerate(texts):
        rows_of_number = [row for row in rows_read if row.n == number]
        problems = {row[json_text.PROBLEM] for row in rows_of_number}
        if text in JSON_RIGHT:
            values = [row[json_text.ROW].asDict() for row in rows_of_number]
            values = [
                {k: "nan" if v != v else v for k, v in fields.items() if v is not None}
                for fields in values
            ]
            assert (problems, values) == ({None}, JSON_RIGHT[str(text)]), text
        else:
            what = next(what for what, these in JSON_WRONG.items() if text in these)
            assert any(what in str(problem) for problem in problems), (text, problems)
    array = spark.createDataFrame([("[{}]",)], "value STRING")
    problem = with_json(array, "value", schema, Texts({}), arrays=False).collect()[0].json_problem
    assert "not one JSON object" in problem.problem
    assert problem.remedy.startswith("write one object a line")


KEYS_ONCE = {
    '{"id":1,"k":"x"}': (1, "x", None),
    '{"k":"\\"id\\":","id":1,"b":null}': (1, '"id":', None),
    '{"id" :1, "k" : "x"}': (1, "x", None),
    "{'id':1,'k':'x'}": (1, "x", None),
    '{"\\u0069d":1,"k":"12:30"}': (1, "12:30", None),
    '{"id":1,"other":1,"other":2,"k":{"id":2,"id":3}}': (1, '{"id":2,"id":3}', None),
    "{}": (None, None, None),
}
KEYS_TWICE = (
    *('{"id":1,"id":2}', '{"id":1,"id" :2}', "{\"id\":1,'id':2}", '{"id":1,"\\u0069d":2}'),
    *('{"id":null,"id":null}', '{"id":1,"id":null}', '{"id":null,"id":1}', '{"id":null,"ID":1}'),
    *('{"id":1,"Id":2,"k":"x"}', '{"other":{"k":1},"K":2}', '{"id":1,"ID":null}', '{"K":null}'),
    *('{"id":1,"id"\t:2}', '{"other":{"id":1},"k":"x","K":"y"}', '{"k":"\\"b\\":","K":1}'),
    '{"\\u0069d":1,"Id":2}',
)


@pytest.mark.parametrize("nested", ["", ", s STRUCT<b INT, k STRING>"])
def test_a_key_is_there_once(spark: SparkSession, nested: str) -> None:
    """However it is written; most texts are seen to be right without a list of their keys."""
    schema = spark.createDataFrame([], f"id BIGINT, k STRING, b INT{nested}").schema
    right: list[tuple[str, tuple[Any, ...]]] = list(KEYS_ONCE.items())
    twice = list(KEYS_TWICE)
    if nested:
        right = [(text, (*row, None)) for text, row in right]
        right += [('{"b":1,"s":{"b":2}}', (None, None, 1, (2, None)))]
        twice += ['{"s":{"k":"x"},"K":"y"}', '{"s":{"b":1,"B":2}}', '{"s":{"b":1},"S":{"b":1}}']
    texts = [*(text for text, _ in right), *twice]
    rows = spark.createDataFrame([*enumerate(texts)], "n INT, value STRING").coalesce(1)
    found = with_json(rows, "value", schema, Texts({}), arrays=False).orderBy("n").collect()
    for (text, row), (_, _, values, problem) in zip(right, found, strict=False):
        assert (tuple(values), problem) == (row, None), text
    for text, row in zip(twice, found[len(right) :], strict=True):
        assert "it repeats a key" in str(row[json_text.PROBLEM]), text


LINES: dict[bytes, tuple[Any, ...] | str] = {
    b"1,plain,x": (1, "plain", "x"),
    b'2,"6"" pipe",x': (2, '6" pipe', "x"),
    b'3,"""quoted""",""': (3, '"quoted"', ""),
    b"4,C:\\dir,a \\ b": (4, "C:\\dir", "a \\ b"),
    b'"5","C:\\","a,b"': (5, "C:\\", "a,b"),
    b"6,,": (6, None, None),
    b'"","",': (None, "", None),
    b'7,6" pipe,x': (7, '6" pipe', "x"),
    b" 8 , x , y ": (8, " x ", " y "),
    "9,Müller,\U0001f600".encode(): (9, "Müller", "\U0001f600"),
    "10,\ufffd,x".encode(): (10, "\ufffd", "x"),
    b"11,M\xfcller,x": "a byte that is not UTF-8",
    b"12,x": "does not have the 3 fields",
    b"12,x,y,z": "does not have the 3 fields",
    b" ,x,y": "column id has nothing but blanks, which is not INT",
    b"x,y,z": "column id has x, which is not INT, in the line x,y,z",
    b"2147483648,y,z": "which is not INT",
    b"," * 1_000_100: "does not have the 3 fields",
    b"14,\0\0,a\0b": (14, "\0\0", "a\0b"),
    b'15,\0,"\0,\0"': (15, "\0", "\0,\0"),
    "16,\ufdd0,x".encode(): "the character U+FDD0",
    b"\x0017,x,y": "which is not INT",
    "18,\uffff9,y".encode(): "the character U+FFFF",
    b"2147483647,x,y": (2147483647, "x", "y"),
}


def test_lines_of_csv_are_read_exactly_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\n".join([b"\xef\xbb\xbfid,a,b", *LINES, b""]))
    schema = spark.createDataFrame([], "id INT, a STRING, b STRING").schema
    rows = Dialect(Texts({})).rows(spark.read, f"file://{tmp_path}", schema)
    rows_read = rows.select(csv_text.ROW, csv_text.PROBLEM).collect()
    for (line, expected), (row, problem) in zip(LINES.items(), rows_read, strict=True):
        if isinstance(expected, str):
            assert expected in str(problem), line
        else:
            assert (tuple(row), problem) == (expected, None), line


OPEN: dict[bytes, dict[str, str]] = {
    b'13,x,"cut': {},
    b'13,"a"b,c': {},
    b'13,"say \\"hi\\"",c': {},
    b'13,"say ""hi""': {},
    b'13,"\xfc",",': {},
    b"13,x,'cut": {"quote": "'"},
    b'13,"say \\"hi""': {"escape": "\\"},
    b'13,x,"y"\xe2\x80\xa8': {},
    b'13\tx\t "cut': {"sep": r"\t", "ignoreleadingwhitespace": "true"},
    b'13,x,"y': {"header": "false"},
    # The parser stores these with their quotes, and all lines to the end of the file.
    b'13,x,"cut\n14,y,z': {"multiline": "true"},
    b'13,x,"cut\n14,y,"z"': {"multiline": "true"},
    b'13,"a"b,d': {"multiline": "true"},
}


@pytest.mark.parametrize("line", OPEN)
def test_no_line_after_an_open_quote_is_a_row(
    spark: SparkSession, tmp_path: Path, line: bytes
) -> None:
    """In each mode, because the next lines may belong to the field."""
    dialect = Dialect(Texts(OPEN[line]))
    head = b"id\n" if dialect.has_header else b"1,x,y\n"
    (tmp_path / "a.csv").write_bytes(head + line + b"\n2,9,phantom\n")
    schema = spark.createDataFrame([], "id INT, a STRING, b STRING").schema
    rows = dialect.rows(spark.read, f"file://{tmp_path}", schema, file="'a.csv'")
    with pytest.raises(Py4JError) as caught:
        rows.select(csv_text.ROW).where(f"{csv_text.ROW}.id = 2").collect()
    refused = refused_row("", str(caught.value))
    assert refused is not None
    assert refused.problem.startswith("a.csv: a quoted field does not end ")
    assert "quote=" in refused.remedy


FORMS: dict[str, tuple[dict[str, str], bytes, list[tuple[Any, ...]]]] = {
    "tab": ({"sep": r"\t"}, b"id\ta\n1\tx,y\n", [(1, "x,y")]),
    "semicolon, Windows": (
        {"delimiter": ";", "encoding": "windows-1252"},
        'id;a\r\n1;"Größe €"\r\n'.encode("cp1252"),
        [(1, "Größe €")],
    ),
    "line breaks": (
        {"multiline": "true"},
        b'\xef\xbb\xbfid,a\r\n1,"x\ny\r\nz\rq"\r\n2,"a ""b"""\r\n',
        [(1, "x\ny\r\nz\rq"), (2, 'a "b"')],
    ),
    "UTF-16": ({"encoding": "UTF-16"}, "id,a\n1,Größe\n".encode("utf-16"), [(1, "Größe")]),
    "backslashes": ({"escape": "\\"}, b'id,a\n1,"say \\"hi\\""\n', [(1, 'say "hi"')]),
    "no header": ({"header": "false", "nullvalue": "\\N"}, b"1,\\N\n2,x\n", [(1, None), (2, "x")]),
    "tabs and blanks": (
        {"sep": r"\t", "ignoreleadingwhitespace": "true", "ignoretrailingwhitespace": "true"},
        b'id\ta\n1\t "x" \n"2" \t"y\t"\n',
        [(1, "x"), (2, "y\t")],
    ),
    "two marks": ({"sep": "||"}, b'id||a\n1||"b||c"\n', [(1, "b||c")]),
    "a comment": ({"comment": "#"}, b"# made by hand\nid,a\n1,x\n", [(1, "x")]),
}


@pytest.mark.parametrize("form", FORMS)
def test_options_describe_other_forms(spark: SparkSession, tmp_path: Path, form: str) -> None:
    options, content, expected = FORMS[form]
    (tmp_path / "a.csv").write_bytes(content)
    schema = spark.createDataFrame([], "id INT, a STRING").schema
    dialect = Dialect(Texts(options))
    assert dialect.header_problem(content, schema.names) is None
    reader = spark.read.options(**options)
    line_end = dialect.form(content, schema.names).line_end
    rows = dialect.rows(reader, f"file://{tmp_path}", schema, line_end=line_end).collect()
    assert [(tuple(row.csv_row), row.csv_problem) for row in rows] == [(r, None) for r in expected]


def test_the_times_of_values_are_those_of_utc(spark: SparkSession) -> None:
    value = Texts({}).value("'2026-01-01T00:00:00Z'", T.TimestampType())
    (row,) = spark.sql(f"SELECT unix_timestamp({value}) AS seconds").collect()
    assert datetime.fromtimestamp(row.seconds, UTC) == NEW_YEAR.replace(tzinfo=UTC)
