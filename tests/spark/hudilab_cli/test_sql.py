"""`hudilab sql`: tables have names, for a statement and at the prompt, and values are exact."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from refusals import refused
from running import HUDILAB
from unit.hudilab.settings_files import group, load, write

from hudilab.errors import ParameterError
from hudilab_cli.row_text import csv_lines, json_lines
from hudilab_cli.sql_command import run, statements

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id"}


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A warehouse with a table in each of two databases, one without a commit, and one in a run."""
    home = tmp_path_factory.mktemp("sql's home")
    write(home / "conf", [group()])
    for number, place in enumerate(("lab/orders", "shop/customers", "run-a/lab/orders"), 1):
        rows = spark.sql(f"SELECT explode(sequence(1, {number})) AS id, 'a,b' AS text, null AS x")
        name = place.rpartition("/")[2]
        writer = rows.withColumn("x", rows.x.cast("string")).write.format("hudi")
        writer = writer.options(**OPTIONS, **{"hoodie.table.name": name})
        writer.save(f"file://{home}/warehouse/{place}")
    empty = home / "warehouse" / "lab" / "empty" / ".hoodie"
    empty.mkdir(parents=True)
    shutil.copy(empty.parents[1] / "orders" / ".hoodie" / "hoodie.properties", empty)
    yield home
    forget_names(spark)


def forget_names(spark: SparkSession) -> None:
    """Other tests share the session."""
    spark.sql("USE default")
    for database in ("lab", "shop"):
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")


def hudilab_sql(home: Path, folder: Path, *words: str, typed: str = "") -> str:
    """What the command prints in a process of its own, which leaves nothing in its folder."""
    folder.mkdir()
    env = {"HUDILAB_HOME": str(home), "HUDILAB_CONF": str(home / "conf")}
    done = subprocess.run(
        [HUDILAB, "sql", *words],
        env=os.environ | env,
        cwd=folder,
        input=typed,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list(folder.iterdir()) == []
    return done.stdout


def test_the_prompt(home: Path, tmp_path: Path) -> None:
    typed = "SELECT 'newest', max(id)\nFROM shop.customers;\nSELECT 'a;b', count(*) FROM orders;\n"
    lines = hudilab_sql(home, tmp_path / "here", typed=typed).splitlines()
    assert {"newest\t2", "a;b\t1"} <= set(lines)


def test_tables_have_their_names(
    spark: SparkSession, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load(home / "conf", HUDILAB_HOME=str(home))
    forget_names(spark)
    shown = run(spark, statements(settings), "SHOW TABLES").collect()
    assert {row.tableName for row in shown if not row.isTemporary} == {"orders"}
    (line,) = capsys.readouterr().err.splitlines()  # the others have their names
    assert line.startswith("hudilab: CREATE TABLE IF NOT EXISTS `lab`.`empty` USING hudi")
    forget_names(spark)
    assert run(spark, statements(settings, "a"), "SELECT * FROM orders").count() == 3


def test_values_are_exact_in_json_and_csv(spark: SparkSession) -> None:
    wide = "12345678901234567890.123456789012345678"
    rows = spark.sql(
        "SELECT TIMESTAMP'0001-01-01 00:00:00.000001' AS t, CAST('nan' AS DOUBLE) AS x, "
        f"CAST('{wide}' AS DECIMAL(38,18)) AS d, X'00FF' AS b, '' AS empty, "
        "CAST(NULL AS STRING) AS n, 'a\\n\u2028' AS s, array(1, NULL) AS a, "
        "TIMESTAMP_NTZ'2026-01-01 00:00:00.1' AS ntz, DATE'9999-12-31' AS day, "
        "CAST('-0.0' AS DOUBLE) AS zero"
    )
    assert list(json_lines(rows)) == [
        '{"t":"0001-01-01T00:00:00.000001Z","x":"NaN","d":' + wide + ',"b":"AP8=","empty":"",'
        '"n":null,"s":"a\\n\\u2028","a":[1,null],"ntz":"2026-01-01T00:00:00.100000","day":"9999-12-31",'
        '"zero":-0.0}'
    ]
    assert list(csv_lines(rows)) == [
        "t,x,d,b,empty,n,s,a,ntz,day,zero",
        f'0001-01-01T00:00:00.000001Z,NaN,{wide},AP8=,"",,"a\n\u2028","[1,null]",'
        "2026-01-01T00:00:00.100000,9999-12-31,-0.0",
    ]


def test_what_json_cannot_write_is_refused(spark: SparkSession) -> None:
    rows = spark.sql("SELECT 1 AS a, 2 AS a")
    with refused(ParameterError, "two columns a", remedy="rename one of them: a AS a_2"):
        list(json_lines(rows))
    for value in ("map(DATE'2026-01-01', 1)", "array(map(X'00', 1))", "map(array(1), 1)"):
        rows = spark.sql(f"SELECT named_struct('x', {value}) AS m")
        for lines in (json_lines, csv_lines):
            with refused(ParameterError, "column x has a map", remedy="map_entries(...)"):
                list(lines(rows))
