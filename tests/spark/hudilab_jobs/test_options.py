"""Each option of a source has the effect that Spark documents; all others are refused by name."""

from __future__ import annotations

import re
from datetime import date, datetime
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from refusals import assert_refusal
from unit.hudilab.settings_files import group, load, write

from hudilab.errors import ConfigError
from hudilab_jobs.groups import FilePipeline
from hudilab_jobs.pipelines.options import OPTIONS, option_problem
from hudilab_jobs.pipelines.sources import Folder
from hudilab_jobs.settings import find_group

DAY, MOMENT = date(2026, 5, 7), datetime(2026, 5, 7, 10, 30)
SCHEMA = "id INT, a STRING"
CSV = "header=false"
Row = tuple[Any, ...]
# Option -> the other options, the columns, a file, and its rows with and without the option; None:
# refused.
CASES: dict[str, tuple[str, str, str | bytes, list[Row] | None, list[Row] | None]] = {
    "csv header=false": ("", SCHEMA, "1,x\n", [(1, "x")], None),
    "csv sep=;": (CSV, SCHEMA, "1;x,y\n", [(1, "x,y")], None),
    r"csv delimiter=\t": (CSV, SCHEMA, "1\tx,y\n", [(1, "x,y")], None),
    'csv quote="\'"': (CSV, SCHEMA, "1,'x,y'\n", [(1, "x,y")], None),
    "csv 'escape=\\'": (CSV, SCHEMA, '1,"\\"x\\""\n', [(1, '"x"')], None),
    "csv comment=#": (CSV, SCHEMA, "#2,y\n1,x\n", [(1, "x")], None),
    "csv nullValue=NA": (CSV, SCHEMA, "NA,NA\n", [(None, None)], None),
    "csv encoding=ISO-8859-1": (CSV, SCHEMA, b"1,\xe9\n", [(1, "é")], None),
    "csv charset=windows-1252": (CSV, SCHEMA, b"1,\x80\n", [(1, "€")], None),
    "csv locale=de-DE": (CSV, "id DECIMAL(6,2)", "1.234\n", [(Decimal(1234),)], None),
    "csv dateFormat=dd.MM.yyyy": (CSV, "id DATE", "07.05.2026\n", [(DAY,)], None),
    "csv 'timestampFormat=dd.MM.yyyy HH:mm'": (
        *(CSV, "id TIMESTAMP", "07.05.2026 10:30\n", [(MOMENT,)], None),
    ),
    "csv timestampNTZFormat=dd.MM.yy-HH:mm": (
        *(CSV, "id TIMESTAMP_NTZ", "07.05.26-10:30\n", [(MOMENT,)], None),
    ),
    "csv multiLine=true": (CSV, SCHEMA, '1,"x\ny"\n', [(1, "x\ny")], None),
    "csv lineSep=;": ("", SCHEMA, "id,a;1,x\ny;", [(1, "x\ny")], None),
    "csv mode=PERMISSIVE": (CSV, SCHEMA, "x,y\n", [(None, "y")], None),
    "csv mode=DROPMALFORMED": (CSV, SCHEMA, "x,y\n1,x\n", [(1, "x")], None),
    "csv columnNameOfCorruptRecord=bad": (
        *(f"{CSV} mode=PERMISSIVE", "id INT, bad STRING", "x\n1\n"),
        *([(None, "x"), (1, None)], [(None, None), (1, None)]),
    ),
    "csv ignoreLeadingWhiteSpace=true": (CSV, SCHEMA, "1, x \n", [(1, "x ")], [(1, " x ")]),
    "csv ignoreTrailingWhiteSpace=true": (CSV, SCHEMA, "1, x \n", [(1, " x")], [(1, " x ")]),
    "csv nanValue=none": (CSV, "id DOUBLE", "none\n", [("nan",)], None),
    "csv positiveInf=oo": (CSV, "id DOUBLE", "oo\n", [(inf,)], None),
    "csv negativeInf=-oo": (CSV, "id FLOAT", "-oo\n", [(-inf,)], None),
    "csv pathGlobFilter=b*": (CSV, SCHEMA, "1,x\n", [], [(1, "x")]),
    "json encoding=ISO-8859-1": ("", "a STRING", b'{"a":"\xe9"}\n', [("é",)], None),
    "json charset=UTF-16": (
        "multiLine=true",
        "a STRING",
        '{"a":"é"}'.encode("utf-16"),
        [("é",)],
        None,
    ),
    "json dateFormat=yyyyMMdd": ("", "a DATE", '{"a":20260507}', [(DAY,)], None),
    "json timestampFormat=yyyyMMdd": (
        "",
        "a TIMESTAMP",
        '{"a":"20260507"}',
        [(datetime(2026, 5, 7),)],
        None,
    ),
    "json timestampNTZFormat=yyyyMMdd": (
        "",
        "a TIMESTAMP_NTZ",
        '{"a":"20260507"}',
        [(datetime(2026, 5, 7),)],
        None,
    ),
    "json multiLine=true": ("", "a INT", '{"a":\n1}', [(1,)], None),
    "json lineSep=;": ("", "a INT", '{"a":1};{"a":\n2}', [(1,), (2,)], None),
    "json mode=PERMISSIVE": ("", "a INT, b INT", '{"a":"x","b":1}', [(None, 1)], None),
    "json mode=DROPMALFORMED": ("", "a INT", '{"a":"x"}\n{"a":1}', [(1,)], None),
    "json columnNameOfCorruptRecord=bad": (
        *("mode=PERMISSIVE", "a INT, bad STRING", '{"a":"x"}'),
        *([(None, '{"a":"x"}')], [(None, None)]),
    ),
    "json pathGlobFilter=b*": ("", "a INT", '{"a":1}', [], [(1,)]),
}


def folder(spark: SparkSession, home: Path, source: str, options: str, schema: str) -> Folder:
    properties = {
        "source.format": source,
        "source.path": str(home / "in"),
        "source.schema": schema,
        "source.options": options,
        "table.name": "own",
        "record.key": "id",
        "ordering": "seen",
    }
    write(home / "conf", [group(), group("pipeline.own", properties)])
    settings = load(home / "conf", HUDILAB_HOME=str(home))
    own = find_group(settings, "own")
    assert isinstance(own, FilePipeline)
    return Folder(spark, settings, "own", own)


def read(own: Folder) -> list[Row] | None:
    """Return the rows that a stream would store; None if it would refuse one."""
    own.check()
    try:
        sample = own.sample()
        rows = sample.rows.collect() if sample else []
    except ConfigError:
        return None
    return [tuple("nan" if value != value else value for value in row) for row in rows]


@pytest.mark.parametrize("option", CASES)
def test_an_option_has_an_effect(spark: SparkSession, tmp_path: Path, option: str) -> None:
    others, schema, content, with_option, without = CASES[option]
    source, _, given = option.partition(" ")
    (tmp_path / "in").mkdir()
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "in/a.dat").write_bytes(data)
    options = f"{given} {others}".strip()
    assert read(folder(spark, tmp_path, source, options, schema)) == with_option
    assert read(folder(spark, tmp_path, source, others, schema)) == without


def test_each_option_has_a_test() -> None:
    tested = {re.sub(r"^(\w+) '?(\w+)=.*", r"\1 \2", option) for option in CASES}
    assert tested == {
        f"{source} {option}" for source in ("csv", "json") for option in OPTIONS[source]
    }


REFUSED = {
    "csv timeZone=UTC": ("has timeZone, which is not an option of csv", "to_utc_timestamp(seen"),
    "csv inferschema=true": ("has inferschema", "source.schema has the names and types"),
    "csv maxFilesPerTrigger=1": ("has maxFilesPerTrigger", 'write "files.per.batch"'),
    "csv maxColumns=1": ("has maxColumns", "remove it; csv has: header, sep,"),
    "csv sep=; delimiter=;": ("has sep and delimiter", "remove one of them"),
    "csv columnNameOfCorruptRecord=a": ("which needs mode=PERMISSIVE", "add mode=PERMISSIVE"),
    "csv columnNameOfCorruptRecord=b mode=permissive": ("is no column", "add b STRING to source"),
    "csv header=yes": ("has header=yes, which is not true or false", "correct or remove it"),
    "csv quote=**": ("has quote=**, which is not a single character", "correct or remove it"),
    "csv mode=STRICT": ("has mode=STRICT, which is not FAILFAST", "correct or remove it"),
    "csv encoding=latin": ("has encoding=latin, which is not an enc", "encoding=ISO-8859-1"),
    "csv locale=xx-YY": ("has locale=xx-YY, which is not a language", "such as locale=de-DE"),
    "csv locale=de-DE dateFormat=dd-MMM-yyyy": ("has locale and dateformat", "column as STRING"),
    "csv dateFormat=%Y-%m-%d": ("which is not a pattern of Spark 3", "yyyy, MM, dd"),
    "csv dateFormat=YYYY-MM-dd": ("which is not a pattern of Spark 3", "yyyy, MM, dd"),
    "json dateFormat=d.M.y": ("has a year of neither two nor four digits", "write yyyy or yy"),
    "json timestampFormat=yyyy-MM-ddThh:mm": ("an hour of 1 to 12 without AM", "write HH"),
    "json timestampFormat=ss.SSSSSSSSS": ("more digits of a second", "write at most SSSSSS"),
    "json timestampNTZFormat=yyyy-MM-ddXXX": ("has a time zone", "declare the column TIMESTAMP"),
    "csv 'timestampFormat=yyyy-MM-dd HH:mm z'": ("has the name of a zone", "an offset (XXX)"),
    "json 'timestampFormat=yyyy-MM-dd HH:mm VV'": ("has the name of a zone", "an offset (XXX)"),
    "csv dateFormat=dd.MM.": ("has no year, so Spark would assume 1970", "add yyyy"),
    "json allowComments=true": ("has allowComments", "write the files as JSON of RFC 8259"),
    "json locale=de-DE": ("has locale", "declare the column STRING"),
    "parquet header=true": ("has header", "remove it; parquet has: mergeSchema, pathGlobFilter"),
    "orc mergeSchema=yes": ("has mergeSchema=yes", "correct or remove it"),
    "avro avroSchema={}": ("has avroSchema", "source.schema has the names and types"),
}


@pytest.mark.parametrize("option", REFUSED)
def test_other_options_are_refused(spark: SparkSession, tmp_path: Path, option: str) -> None:
    source, _, options = option.partition(" ")
    problem, remedy = REFUSED[option]
    (tmp_path / "in").mkdir()
    with pytest.raises(ConfigError) as caught:
        folder(spark, tmp_path, source, options, SCHEMA).check()
    where = "application_properties.json: group 'pipeline.own', key 'source.options': "
    assert_refusal(str(caught.value), where, problem, remedy="")
    assert remedy in caught.value.remedy


def test_options_of_other_sources_are_refused(spark: SparkSession) -> None:
    for source, name, remedy in (
        ("hudi", "hoodie.datasource.query.type", "remove it; hudi has: none"),
        ("kafka", "startingOffsets", '"startup.mode"'),
        ("kafka", "maxOffsetsPerTrigger", 'write "messages.per.batch"'),
        ("kafka", "kafka.bootstrap.servers", 'write "bootstrap.servers"'),
        ("kafka", "dateFormat", "remove it; kafka has: failOnDataLoss"),
    ):
        problem = option_problem(spark, {name: "x"}, source)
        assert problem is not None
        assert (name in problem[0], remedy in problem[1]) == (True, True)
    for name, value in (("failOnDataLoss", "false"), ("MinPartitions", "4")):
        assert option_problem(spark, {name: value}, "kafka") is None
    assert option_problem(spark, {"dateFormat": "yyyy"}, "kafka", values=True) is None
