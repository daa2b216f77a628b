"""`hudilab sql`: tables have their names, results their form, and nothing is written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from refusals import refused
from unit.hudilab.settings_files import group, load, write

from hudilab.errors import ParameterError
from hudilab_cli import sql_command
from hudilab_cli.sql_command import Tables

OPTIONS = {"hoodie.datasource.write.recordkey.field": "id"}


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A warehouse with a table in each of two databases, and one in a run."""
    home = tmp_path_factory.mktemp("sql's home")
    write(home / "conf", [group()])
    for number, place in enumerate(("lab/orders", "shop/customers", "run-a/lab/orders"), 1):
        rows = spark.sql(f"SELECT explode(sequence(1, {number})) AS id, 'a,b' AS text, null AS x")
        name = place.rpartition("/")[2]
        writer = rows.withColumn("x", rows.x.cast("string")).write.format("hudi")
        writer = writer.options(**OPTIONS, **{"hoodie.table.name": name})
        writer.save(f"file://{home}/warehouse/{place}")
    yield home
    forget_names(spark)


def forget_names(spark: SparkSession) -> None:
    """Other tests share the session."""
    spark.sql("USE default")
    for database in ("lab", "shop"):
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")


def tables(spark: SparkSession, home: Path, run_id: str = "") -> Tables:
    forget_names(spark)
    return Tables(spark, load(home / "conf", HUDILAB_HOME=str(home)), run_id)


def test_tables_have_their_names(spark: SparkSession, home: Path) -> None:
    named = tables(spark, home)
    assert list(named.places) == ["lab.orders", "shop.customers"]
    both = "SELECT o.id FROM orders AS o JOIN shop.customers AS c ON o.id = c.id"
    assert [row.id for row in named.rows(both).collect()] == [1]
    assert "customers" in {row.tableName for row in named.rows("SHOW TABLES IN shop").collect()}
    commits = named.rows("CALL show_commits(table => 'orders')").collect()
    assert [row.total_records_written for row in commits] == [1]
    spark.sql("SELECT 5 AS id, 'later' AS text, '' AS x").write.format("hudi").options(
        **OPTIONS, **{"hoodie.table.name": "orders"}
    ).mode("append").save(named.places["lab.orders"])
    assert named.rows("SELECT * FROM lab.orders").count() == 2  # another program's commit
    named = tables(spark, home, "a")
    assert named.rows("WITH o AS (TABLE orders) SELECT * FROM o").count() == 3


def test_results(spark: SparkSession, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tables(spark, home).rows("SELECT id, text, x FROM shop.customers ORDER BY id")
    sql_command._show_csv(rows)
    assert capsys.readouterr().out == 'id,text,x\n1,"a,b",\n2,"a,b",\n'
    sql_command._show_json(rows)
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"id": number, "text": "a,b", "x": None} for number in (1, 2)
    ]
    sql_command._show_table(rows.select("id"))
    table = "+---+\n|id |\n+---+\n|1  |\n|2  |\n+---+\n"
    assert capsys.readouterr().out == table


def test_values_are_exact_in_json_and_csv(
    spark: SparkSession, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = "12345678901234567890.123456789012345678"
    rows = tables(spark, home).rows(
        "SELECT TIMESTAMP'0001-01-01 00:00:00.000001' AS t, CAST('nan' AS DOUBLE) AS x, "
        f"CAST('{wide}' AS DECIMAL(38,18)) AS d, X'00FF' AS b, '' AS empty, "
        "CAST(NULL AS STRING) AS n, 'a\\n\u2028' AS s, array(1, NULL) AS a, "
        "TIMESTAMP_NTZ'2026-01-01 00:00:00.1' AS ntz"
    )
    line = (
        '{"t":"0001-01-01T00:00:00.000001Z","x":"NaN","d":' + wide + ',"b":"AP8=","empty":"",'
        '"n":null,"s":"a\\n\\u2028","a":[1,null],"ntz":"2026-01-01T00:00:00.100000"}\n'
    )
    sql_command._show_json(rows)
    assert capsys.readouterr().out == line
    sql_command._show_csv(rows)
    assert capsys.readouterr().out == (
        "t,x,d,b,empty,n,s,a,ntz\n"
        f'0001-01-01T00:00:00.000001Z,NaN,{wide},AP8=,"",,"a\n\u2028","[1,null]",'
        "2026-01-01T00:00:00.100000\n"
    )


def test_what_json_cannot_write_is_refused(spark: SparkSession, home: Path) -> None:
    named = tables(spark, home)
    rows = named.rows("SELECT 1 AS a, 2 AS a")
    with refused(ParameterError, "two columns a", remedy="name one of them: a AS a_2"):
        sql_command._show_json(rows)
    for value in ("map(DATE'2026-01-01', 1)", "array(map(X'00', 1))", "map(array(1), 1)"):
        rows = named.rows(f"SELECT named_struct('x', {value}) AS m")
        for show in (sql_command._show_json, sql_command._show_csv):
            with refused(ParameterError, "column x has a map", remedy="map_entries(...)"):
                show(rows)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM orders",
        "insert into orders SELECT * FROM orders",
        "WITH o AS (SELECT * FROM orders) INSERT INTO orders SELECT * FROM o",
        "FROM orders INSERT INTO orders SELECT *",
        "WITH o AS (SELECT 1) DELETE FROM orders",
        "DROP TABLE orders",
        "CREATE TABLE other (id INT)",
        "CALL run_clean(table => 'orders')",
    ],
)
def test_what_may_write_is_refused(spark: SparkSession, home: Path, statement: str) -> None:
    remedy = "with: hudilab tidy, hudilab rewind or hudilab savepoint"
    with refused(ParameterError, repr(statement[:60]), "is not a query", remedy=remedy):
        tables(spark, home).rows(statement)


def test_what_is_wrong_is_one_line(spark: SparkSession, home: Path) -> None:
    named = tables(spark, home)
    with refused(ParameterError, "`order`", remedy="; use one of: lab.orders, shop.customers"):
        named.rows("SELECT * FROM `order`")
    for statement, words in (("selec 1", "PARSE_SYNTAX_ERROR"), ("SELECT b FROM orders", "`b`")):
        with refused(ParameterError, words, remedy="; fix the statement"):
            named.rows(statement)
