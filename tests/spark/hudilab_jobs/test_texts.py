"""What CSV and JSON hold as text becomes exactly its value, or a problem; never another value.

In texts.json a value of null is one that is refused.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cases import data, plain, read_cases
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hudi_sink.rows import refused_row
from hudilab_jobs.pipelines import csv_text, json_text
from hudilab_jobs.pipelines.csv_text import Dialect
from hudilab_jobs.pipelines.json_text import has_just, with_json
from hudilab_jobs.pipelines.text_values import Numbers, Texts

CASES = read_cases(__file__)


def texts_of(how: dict[str, Any]) -> Texts:
    numbers = Numbers(*how["numbers"]) if "numbers" in how else None
    return Texts(how.get("options", {}), how.get("unit"), numbers, how.get("debezium", False))


@pytest.mark.parametrize(("kind", "how", "values"), CASES["values"])
def test_a_text_is_exactly_its_value_or_none(
    spark: SparkSession, kind: str, how: dict[str, Any], values: dict[str, Any]
) -> None:
    """Spark itself accepts most of what is refused here.

    Among it are zones of other places, times that do not exist or exist twice there, numbers that
    were cut, and what the parser of Spark 2 makes of other formats.
    """
    rows = spark.createDataFrame([*enumerate(values)], "number INT, text STRING")
    parsed = T._parse_datatype_string(kind)
    value = F.expr(texts_of(how).value("text", parsed)).alias("value")
    assert rows.select(value).schema["value"].dataType == parsed
    rows_read = [plain(row.value) for row in rows.orderBy("number").select(value).collect()]
    assert dict(zip(values, rows_read, strict=True)) == values


def test_json_is_read_exactly_or_refused(spark: SparkSession) -> None:
    schema = spark.createDataFrame([], ", ".join(CASES["json schema"])).schema
    digits = f"-0.{'123' * 500}"
    right = CASES["json"] | {f'{{"k":{digits}}}': [{"k": digits}]}
    wrong = {text: what for what, texts in CASES["wrong json"].items() for text in texts}
    wrong["[" * 1200 + "]" * 1200] = "not one JSON object"
    texts = [*right, *wrong]
    rows = spark.createDataFrame([*enumerate(map(data, texts))], "n INT, value BINARY")
    rows_read = with_json(rows, "value", schema, Texts({}), arrays=True).collect()
    for number, text in enumerate(texts):
        rows_of_number = [row for row in rows_read if row.n == number]
        problems = {row[json_text.PROBLEM] for row in rows_of_number}
        if text in wrong:
            assert any(wrong[text] in str(problem) for problem in problems), (text, problems)
            continue
        values = [row[json_text.ROW].asDict() for row in rows_of_number]
        values = [
            {name: plain(value) for name, value in fields.items() if value is not None}
            for fields in values
        ]
        assert (problems, values) == ({None}, right[text]), text
    array = spark.createDataFrame([("[{}]",)], "value STRING")
    problem = with_json(array, "value", schema, Texts({}), arrays=False).collect()[0].json_problem
    assert "not one JSON object" in problem.problem
    assert problem.remedy.startswith("write one object a line")


@pytest.mark.parametrize("nested", ["", ", s STRUCT<b INT, k STRING>"])
def test_a_key_is_there_once(spark: SparkSession, nested: str) -> None:
    """However it is written; most texts are seen to be right without a list of their keys."""
    schema = spark.createDataFrame([], f"id BIGINT, k STRING, b INT{nested}").schema
    right, twice = CASES["keys once"], CASES["keys twice"]
    if nested:
        right = {text: [*row, None] for text, row in right.items()}
        right['{"b":1,"s":{"b":2}}'] = [None, None, 1, [2, None]]
        twice = [*twice, *CASES["keys twice in a struct"]]
    texts = [*right, *twice]
    rows = spark.createDataFrame([*enumerate(texts)], "n INT, value STRING").coalesce(1)
    found = with_json(rows, "value", schema, Texts({}), arrays=False).orderBy("n").collect()
    for text, (_, _, values, problem) in zip(texts, found, strict=True):
        if text in right:
            assert (plain(values), problem) == (right[text], None), text
        else:
            assert "it repeats a key" in str(problem), text


def test_lines_of_csv_are_read_exactly_or_refused(spark: SparkSession, tmp_path: Path) -> None:
    lines = CASES["csv"] | {"," * 1_000_100: "does not have the 3 fields"}
    (tmp_path / "a.csv").write_bytes(data("\n".join(["\ufeffid,a,b", *lines, ""])))
    schema = spark.createDataFrame([], "id INT, a STRING, b STRING").schema
    rows = Dialect(Texts({})).rows(spark.read, f"file://{tmp_path}", schema)
    rows_read = rows.select(csv_text.ROW, csv_text.PROBLEM).collect()
    for (line, expected), (row, problem) in zip(lines.items(), rows_read, strict=True):
        if isinstance(expected, str):
            assert expected in str(problem), line
        else:
            assert (plain(row), problem) == (expected, None), line


@pytest.mark.parametrize(("line", "options"), CASES["open quotes"])
def test_no_line_after_an_open_quote_is_a_row(
    spark: SparkSession, tmp_path: Path, line: str, options: dict[str, str]
) -> None:
    """In each mode, because the next lines may belong to the field."""
    dialect = Dialect(Texts(options))
    head = b"id\n" if dialect.has_header else b"1,x,y\n"
    (tmp_path / "a.csv").write_bytes(head + data(line) + b"\n2,9,phantom\n")
    schema = spark.createDataFrame([], "id INT, a STRING, b STRING").schema
    rows = dialect.rows(spark.read, f"file://{tmp_path}", schema, file="'a.csv'")
    with pytest.raises(Py4JError) as caught:
        rows.select(csv_text.ROW).where(f"{csv_text.ROW}.id = 2").collect()
    refused = refused_row("", str(caught.value))
    assert refused is not None
    assert refused.problem.startswith("a.csv: a quoted field does not end ")
    assert "quote=" in refused.remedy


@pytest.mark.parametrize(("options", "text", "expected"), CASES["forms"])
def test_options_describe_other_forms(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], text: str, expected: list[Any]
) -> None:
    content = text.encode(options.get("encoding", "utf-8"))
    (tmp_path / "a.csv").write_bytes(content)
    schema = spark.createDataFrame([], "id INT, a STRING").schema
    dialect = Dialect(Texts(options))
    assert dialect.header_problem(content, schema.names) is None
    reader = spark.read.options(**options)
    line_end = dialect.form(content, schema.names).line_end
    rows = dialect.rows(reader, f"file://{tmp_path}", schema, line_end=line_end).collect()
    assert [(plain(row.csv_row), row.csv_problem) for row in rows] == [
        (row, None) for row in expected
    ]


def test_the_times_of_values_are_those_of_utc(spark: SparkSession) -> None:
    value = Texts({}).value("'2026-01-01T00:00:00Z'", T.TimestampType())
    (row,) = spark.sql(f"SELECT unix_timestamp({value}) AS seconds").collect()
    assert datetime.fromtimestamp(row.seconds, UTC) == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "is_sure"),
    [
        (r'{"id":1,"a b":"x"}', True),
        (r'{"a b": null, "id": [1, 2]}', True),
        (r'{"id":1,"a b":"{\"id\":2}"}', False),
        (r'{"id":1}', False),
        (r'{"id":1,"a b":2,"id":3}', False),
        (r'{"id":1,"id":2}', False),
        (r'{"ID":1,"a b":2}', False),
        (r'{"id":1,"x\"a b":2}', False),
        (r'{"id":1,"x\"a b":2,"c":3}', False),
        (r'{"id":{"a b":1}}', False),
        (r'{"id":1,"a b":2,"\u0069d":3}', False),
        (r'{"id":1,"a b":2,"c" :3}', False),
        (r"{'id':1,'a b':2}", False),
    ],
)
def test_the_keys_of_an_object_are_seen_quickly(
    spark: SparkSession, text: str, is_sure: bool
) -> None:
    rows = spark.createDataFrame([(text,)], "text STRING")
    assert rows.select(F.expr(has_just("text", ("id", "a b")))).collect()[0][0] is is_sure
