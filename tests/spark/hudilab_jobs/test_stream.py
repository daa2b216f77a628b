"""A folder of CSV files that another program wrote becomes a table, or is refused in words."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.request import ProxyHandler, build_opener

import pytest
from others import bound_by_modes
from pyspark.sql import SparkSession
from refusals import refused
from spark.hudilab_jobs.test_files import Inbox

from hudi_sink.files import exists
from hudi_sink.services import TableServices
from hudi_sink.sink import ExactlyOnceSink
from hudilab.errors import ConfigError, StreamError
from hudilab_jobs.pipelines.runner import preview

SCHEMA = "Station STRING, Day DATE, `Temp C` DOUBLE, seen TIMESTAMP"
SELECT = "SELECT Station AS station, Day AS day, `Temp C` AS celsius, seen FROM source"
ROWS = [
    ("EWR", "2013-01-01", "-3.5", "2013-01-01T06:00:00Z"),
    ("JFK, New York", "2013-01-01", "NA", "2013-01-01T06:00:00Z"),
    ("EWR", "2013-01-02", "0.25", "2013-01-02T06:00:00Z"),
]
LATER = [("EWR", "2013-01-01", "-4", "2013-01-03T00:00:00Z"), ("", "2013-01-04", "1", ROWS[0][3])]


class Own(Inbox):
    """A folder with a blank in its name, and a query that names the columns in another way."""

    name = "my data"

    def __init__(self, spark: SparkSession, home: Path, **changes: str | None) -> None:
        keys = {"source_schema": SCHEMA, "select": SELECT, "record_key": "station, day"}
        keys |= {"source_options": "header=true nullValue=NA", "table_name": "weather"}
        super().__init__(spark, home, **keys | changes)

    def add(self, name: str, rows: Sequence[Sequence[str]]) -> None:
        with (self.folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([("Station", "Day", "Temp C", "seen"), *rows])

    def check(self) -> list[str]:
        return [line for text in preview(self.pipeline()) for line in text.splitlines()]

    def run(self, **options: Any) -> list[dict[str, Any]]:
        """Write what is there; return what is said of each batch."""
        lines = self.pipeline().write(None, as_json=True, **options)
        *batches, last = [json.loads(line) for line in lines]
        assert last == {
            "table": last["table"],
            "rows": len(self.rows()),
            "commits": last["commits"],
        }
        return batches

    def rows(self) -> list[tuple[Any, ...]]:
        rows = self.spark.read.format("hudi").load(self.pipeline().location.table)
        return sorted(
            tuple(row) for row in rows.selectExpr("station", "string(day)", "celsius").collect()
        )


def test_files_become_a_table_and_later_ones_update_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = Own(spark, tmp_path, quarantine="true")
    own.add("a.csv", ROWS)
    shown = own.check()
    assert shown[1] == "sample: 3 rows of a.csv, stored as"
    assert any("JFK, New York" in line for line in shown)
    assert shown[-1].endswith("; nothing was written")
    assert not (tmp_path / "warehouse").exists()
    (report,) = own.run()
    assert report.pop("rows_per_second") > 0
    assert report == {"batch": 0, "rows": 3, "quarantined": 0, "files_behind": 0}
    first = [("EWR", "2013-01-01", -3.5), ("EWR", "2013-01-02", 0.25)]
    assert own.rows() == [*first, ("JFK, New York", "2013-01-01", None)]
    own.add("b.csv", LATER)
    (report,) = own.run()
    assert (report["batch"], report["rows"], report["quarantined"], report["files_behind"]) == (
        1,
        2,
        1,
        0,
    )
    assert ("EWR", "2013-01-01", -4.0) in own.rows()
    assert len(own.rows()) == 3  # of a key without a station there is no row
    assert "batch 1: 1 row quarantined in" in capsys.readouterr().err


def test_the_numbers_of_a_batch_are_on_the_page_for_prometheus(
    spark: SparkSession, tmp_path: Path
) -> None:
    address = str(spark.sparkContext.uiWebUrl)
    own = Own(spark, tmp_path, quarantine="true", metrics_port=address.rpartition(":")[2])
    for number, (file, rows) in enumerate({"a.csv": [*ROWS, LATER[1]], "b.csv": LATER}.items()):
        own.add(file, rows)
        lines = own.pipeline().write(None, as_json=True)
        report, page = json.loads(next(lines)), metrics(address)
        assert {name: page[f"hudilab_{name}"] for name in report} == report
        assert (report["batch"], report["quarantined"]) == (number, 1)
        assert len([*lines]) == 1
        assert "hudilab_batch" not in metrics(address)


def metrics(address: str) -> dict[str, float]:
    """The page's numbers by their names after the driver's."""
    with build_opener(ProxyHandler({})).open(f"{address}/metrics/prometheus/") as page:
        lines = page.read().decode().splitlines()
    values = (re.fullmatch(r'.*_driver_(.*)_Value{type="gauges"} (.*)', line) for line in lines)
    return {value[1]: float(value[2]) for value in values if value}


def test_a_port_that_is_in_use(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path, metrics_port="1024")
    own.add("a.csv", ROWS)
    where = (str(own.file), "key 'metrics.port'", "port 1024 is in use, or")
    with refused(ConfigError, *where, remedy="; free the port, or choose another"):
        own.run()
    assert not exists(spark, f"file://{tmp_path}/warehouse")


@pytest.mark.parametrize("quarantine", ["false", "true"])
def test_a_load_counts_each_row_once(spark: SparkSession, tmp_path: Path, quarantine: str) -> None:
    """It reads its source up to three times."""
    own = Own(spark, tmp_path, quarantine=quarantine)
    own.add("a.csv", [*ROWS, *LATER[1:]] if quarantine == "true" else ROWS)
    (report,) = own.run(initial_load=True)
    assert (report["rows"], report["quarantined"]) == ((4, 1) if quarantine == "true" else (3, 0))


def test_a_batch_counts_the_rows_of_the_query(spark: SparkSession, tmp_path: Path) -> None:
    twice = SELECT.replace("SELECT Station", "SELECT explode(array(Station, 'all'))")
    own = Own(spark, tmp_path, select=f"{twice} WHERE Station = 'EWR'")
    own.add("a.csv", ROWS)
    (report,) = own.run()
    assert report["rows"] == len(own.rows()) == 4


@pytest.mark.deep
def test_the_stream_continues_from_a_first_load(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path)
    own.add("a.csv", [*ROWS, ("EWR", *LATER[0][1:])])
    table = own.pipeline().location.table
    twice = (
        f"1 key of the initial load of {table} occurs more than once: station=EWR, day=2013-01-01"
    )
    with pytest.raises(StreamError, match=re.escape(f"{twice}; add columns to the record key, or")):
        own.run(initial_load=True)
    own.add("a.csv", ROWS)
    (report,) = own.run(initial_load=True)
    assert (report["batch"], report["files_behind"]) == (0, 0)
    own.add("b.csv", LATER[:1])
    (report,) = own.run()
    assert (report["batch"], report["files_behind"]) == (1, 0)
    first = [("EWR", "2013-01-01", -4.0), ("EWR", "2013-01-02", 0.25)]
    assert own.rows() == [*first, ("JFK, New York", "2013-01-01", None)]
    remedy = "; start the stream itself, which continues from there: hudilab stream own"
    text = "already contains a stream's batches up to 1, and an initial load writes batch 0"
    with refused(StreamError, table, text, remedy=remedy):
        own.run(initial_load=True)


@pytest.mark.deep
def test_the_changes_of_a_table(spark: SparkSession, tmp_path: Path) -> None:
    """A table that plain Spark writes, without the lab."""
    cities = tmp_path / "cities"
    visit = "city AS station, DATE '2013-01-01' AS day, degrees AS celsius, commit_time AS seen"
    csv_only = {"source_schema": None, "source_options": None}
    own = Own(
        spark,
        tmp_path,
        source_format="hudi",
        source_path=str(cities),
        select=f"SELECT {visit} FROM source",
        **csv_only,
    )
    remedy = "; choose another folder"
    refusal(own, f"file://{cities} is no Hudi table", remedy=remedy, key="source.path")
    options = {
        "hoodie.table.name": "cities",
        "hoodie.datasource.write.recordkey.field": "city",
        "hoodie.table.ordering.fields": "degrees",
    }

    def commit(*rows: tuple[str, float]) -> None:
        made = spark.createDataFrame(rows, "city STRING, degrees DOUBLE")
        made.write.format("hudi").options(**options).mode("append").save(str(cities))

    commit(("Bergen", 8.0), ("Oslo", -3.5))
    assert own.check()[0] == f"source: table of 1 commit, file://{cities}"
    (report,) = own.run()
    assert (report["rows"], report["commits_behind"]) == (2, 0)
    commit(("Oslo", 1.5))
    (report,) = own.run()
    assert (report["batch"], report["rows"], report["commits_behind"]) == (1, 1, 0)
    assert own.rows() == [("Bergen", "2013-01-01", 8.0), ("Oslo", "2013-01-01", 1.5)]


def test_a_key_that_must_not_change_between_two_starts(spark: SparkSession, tmp_path: Path) -> None:
    """A check shows the change, a start refuses it, and neither touches the table."""
    own = Own(spark, tmp_path)
    own.add("a.csv", ROWS)
    own.run()
    assert "changed: no key since the last start" in own.check()
    stored = own.rows()
    own.add("b.csv", LATER[:1])
    own.describe(operation="insert")
    lines, settings = preview(own.pipeline()), own.file
    line = next(line for line in lines if line.startswith("changed: "))
    assert re.match("changed: operation from upsert to insert: refused; ", line)
    named = (f"{settings}: group 'pipeline.own', key 'operation': has changed", "a new version of")
    for refuses in (lambda: list(lines), own.run):
        with refused(ConfigError, *named, remedy="the new table reads its source from the start"):
            refuses()
    assert own.rows() == stored
    own.describe(operation=None)
    assert [batch["rows"] for batch in own.run()] == [1]


@pytest.mark.deep
def test_changes_that_are_safe(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path)
    own.add("a.csv", ROWS)
    own.run()
    own.add("b.csv", LATER[:1])
    more = "seen, upper(Station) AS state, input_file_name() AS file FROM"
    only = SELECT.replace("seen FROM", more)
    own.describe(select=f"{only} WHERE Station != ''", files_per_batch="1", quarantine="true")
    lines = preview(own.pipeline(), accept_select=True)
    assert [*islice(lines, 3)] == [
        "changed: select: refused; the key, partition or ordering of a row may differ from the "
        "stored row's; set it back, or change table.name: the new table reads its source from the "
        "start; if it still computes these columns as before, accept it with --accept-select",
        "changed: quarantine from false to true: safe",
        "changed: files.per.batch from 100 to 1: safe",
    ]
    assert "nothing was written" in [*lines][-1]
    assert [batch["rows"] for batch in own.run(accept_select=True)] == [1]
    assert "changed: no key since the last start" in own.check()
    assert ("EWR", "2013-01-01", -4.0) in own.rows()
    own.describe(quarantine="false")
    own.add("c.csv", LATER[1:])
    assert [batch["rows"] for batch in own.run()] == [0]
    table = own.spark.read.format("hudi").load(own.pipeline().location.table)
    (row,) = table.where("file IS NOT NULL").select("file").collect()
    assert row.file.endswith("/my%20data/b.csv")


@pytest.mark.deep
def test_a_batch_that_was_planned_from_another_folder(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is committed, so the sink could not know: Spark would read the old folder's files."""
    own, other = Own(spark, tmp_path), tmp_path / "other"
    shutil.copytree(own.folder, other)
    own.add("a.csv", ROWS)

    def dies(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(ExactlyOnceSink, "write_batch", dies)
        with pytest.raises(StreamError, match="killed"):
            own.run()
    own.describe(source_path=str(other))
    with pytest.raises(ConfigError, match="offsets belong to the other source"):
        own.run()
    own.describe(source_path=str(own.folder))
    assert [batch["rows"] for batch in own.run()] == [3]


def test_a_start_without_a_planned_batch_ties_to_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    own, other = Own(spark, tmp_path), tmp_path / "other"
    other.mkdir()
    *_, last = own.pipeline().write(None, as_json=True)
    assert json.loads(last)["commits"] == 0
    own.describe(source_path=str(other), operation="insert")
    assert not any(line.startswith("changed") for line in own.check())


def refusal(own: Own, *failed: str, remedy: str, key: str) -> None:
    where = (str(own.file), "group 'pipeline.own'", f"key {key!r}")
    with refused(ConfigError, *where, *failed, remedy=remedy):
        own.check()
    assert not exists(own.spark, f"file://{own.home}/warehouse")


def test_a_folder_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path)
    own.folder.rmdir()
    remedy = "; create it, or choose another"
    refusal(own, f"the folder file://{own.folder} does not exist", remedy=remedy, key="source.path")


@pytest.mark.parametrize("closed", ["", "a.csv"])
def test_what_this_account_may_not_read_is_named(
    spark: SparkSession, tmp_path: Path, closed: str
) -> None:
    own = Own(spark, tmp_path)
    own.add("a.csv", ROWS)
    path = own.folder / closed
    path.chmod(0)
    remedy = "; grant it read access, or run as the account that owns it"
    with bound_by_modes():
        refusal(own, f"this account may not read {path}", remedy=remedy, key="source.path")
    path.chmod(0o700)


def test_a_schema_that_is_missing_is_read_and_shown(spark: SparkSession, tmp_path: Path) -> None:
    options = "header=true nullValue=NA"
    own = Own(spark, tmp_path, source_schema=None, source_options=options)
    refusal(own, "has no file", remedy='"source.schema": "id BIGINT, ..."', key="source.schema")
    own.add("a.csv", ROWS)
    # Its columns are in another order, so its values would make each column a STRING.
    (own.folder / "old.csv").write_text("Day,Station,seen,Temp C\n2013-01-01,EWR,,1\n")
    os.utime(own.folder / "old.csv", (1, 1))
    schema = "Station STRING,Day DATE,`Temp C` DOUBLE,seen TIMESTAMP"
    refusal(own, "(a.csv)", remedy=f'; add "source.schema": "{schema}"', key="source.schema")


def test_a_file_that_does_not_fit_is_named(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path)
    own.add("a.csv", ROWS)
    own.add("b.csv", [("EWR", "today", "warm", "now")])
    os.utime(own.folder / "a.csv", (1, 1))
    remedy = "; fix the key, source.schema, source.options or the file"
    refusal(own, "b.csv", "cannot be read as csv", remedy=remedy, key="source.format")
    with pytest.raises(StreamError, match="resumes from its checkpoint"):
        own.run()


def test_a_query_that_fails(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path, select="SELECT nothing FROM source")
    own.add("a.csv", ROWS)
    remedy = "; fix the query; it reads the view source"
    refusal(own, "nothing", remedy=remedy, key="select")


@pytest.mark.parametrize(
    ("expression", "named"),
    [
        ("uuid()", "uuid()"),
        ("concat(station, rand())", "rand()"),
        ("monotonically_increasing_id() + spark_partition_id()", "monotonically_increasing_id(), "),
        ("(SELECT rand(7))", "rand()"),
        ("java_method('java.lang.Math', 'random')", "java_method()"),
    ],
)
def test_a_query_that_is_not_repeatable(
    spark: SparkSession, tmp_path: Path, expression: str, named: str
) -> None:
    select = f"WITH own AS ({SELECT}) SELECT *, {expression} AS more FROM own"
    own = Own(spark, tmp_path, select=select)
    own.add("a.csv", ROWS)
    remedy = "current_timestamp() is the batch's own time"
    refusal(own, named, "returns other values", remedy=remedy, key="select")


def test_a_query_with_the_batch_s_time_and_the_row_s_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    more = "current_timestamp() AS read_at, now() AS n, input_file_name() AS file, user() AS who"
    own = Own(spark, tmp_path, select=SELECT.replace(" FROM", f", {more} FROM"))
    own.add("a.csv", ROWS)
    assert own.check()[1] == "sample: 3 rows of a.csv, stored as"


@pytest.mark.deep
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_row_with_a_mark_deletes_the_row_with_its_key(
    spark: SparkSession, tmp_path: Path, table_type: str
) -> None:
    """Unless the stored row has a greater ordering value."""
    select = SELECT.replace(" FROM", ", `Temp C` IS NULL AS _hoodie_is_deleted FROM")
    own = Own(spark, tmp_path, select=select, table_type=table_type)
    own.add("a.csv", [*ROWS[::2], ("JFK", *ROWS[0][1:])])
    own.run()
    newer, older = "2013-02-01T00:00:00Z", "2012-01-01T00:00:00Z"
    deletes = [("EWR", "2013-01-01", "NA", newer), ("JFK", "2013-01-01", "NA", older)]
    own.add("b.csv", deletes)
    (report,) = own.run()
    assert report["rows"] == 2
    assert own.rows() == [("EWR", "2013-01-02", 0.25), ("JFK", "2013-01-01", -3.5)]


def test_a_shared_table_is_tidied_beside_its_stream(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path, shared="true")
    own.add("a.csv", ROWS)
    own.run()
    table = own.pipeline().location.table
    TableServices(spark, table).check_safe("clean")
    assert not (tmp_path / "warehouse" / "lab" / "weather" / ".hoodie" / "lock").exists()


@pytest.mark.parametrize(
    ("key", "column"),
    [("record.key", "hour"), ("partition", "Station"), ("ordering", "moment")],
)
def test_a_column_that_the_rows_lack(
    spark: SparkSession, tmp_path: Path, key: str, column: str
) -> None:
    own = Own(spark, tmp_path, **{key.replace(".", "_"): column})
    own.add("a.csv", ROWS)
    problem = f"group 'pipeline.own', key '{key}': the rows have no column {column}, only station"
    remedy = "; name other columns, or add them in the key select"
    for start in (own.check, own.run):
        with refused(ConfigError, problem, remedy=remedy):
            start()
    assert not (tmp_path / "warehouse").exists()


def test_rows_that_the_table_refuses_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    own = Own(spark, tmp_path, record_key="station")
    own.add("a.csv", [*ROWS, ("NA", *ROWS[0][1:])])
    assert (
        "1 row of the sample would be refused: the record key (station) is null or empty"
        in "\n".join(own.check())
    )
    where = f"{own.file}: group 'pipeline.own', key 'record.key': file://{tmp_path}/warehouse"
    remedy = '(WHERE station <> \'\' in select); or quarantine such rows: "quarantine": "true"'
    with pytest.raises(StreamError, match=re.escape(where)) as caught:
        own.run()
    assert remedy in str(caught.value)
