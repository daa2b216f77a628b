"""What a lesson begins with: parameters refused early, three effects printed, new tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib import rc_context, rcParams
from pyspark.sql import SparkSession

from hudilab import sensor_readings
from hudilab.errors import ParameterError
from hudilab.settings import load_settings
from hudilab_lessons import Exercise, start
from hudilab_lessons.lesson import Lab
from hudilab_lessons.plots import SERIES
from hudilab_lessons.probes import sql_with

SIZES = {"rows": 20, "batches": 2, "sensors": 2, "seed": 7}


@pytest.fixture
def lab(spark: SparkSession, tmp_path: Path) -> Lab:
    settings = replace(load_settings("LOCAL"), warehouse_path=f"file://{tmp_path}/warehouse")
    return Lab(spark, settings, "twice", SIZES)


def write(lab: Lab, rows: int) -> str:
    spec, location = lab.new_table("begun")
    options = spec.write_options()
    lab.readings(rows).write.format("hudi").options(**options).mode("append").save(location.table)
    return location.table


def test_wrong_sizes_are_refused_before_anything_else() -> None:
    with pytest.raises(ParameterError, match=r"^sensors=0 is less than 1; .* with -p NAME VALUE$"):
        start("refused", "NO_SUCH_RUNTIME", sensors=0)


def test_start_prints_its_three_effects(
    spark: SparkSession, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    with rc_context():
        again = start("said", run_id="twice", settings=lab.settings, rows=20, sensors=2)
        assert rcParams["axes.prop_cycle"].by_key()["color"] == list(SERIES)
    checked, *session, tables = capsys.readouterr().out.splitlines()
    assert checked == "checked rows=20, sensors=2, seed=0"
    assert session[0] == f"Spark {spark.version} on {spark.sparkContext.master}"
    folder = again.location("begun").table.rpartition("/")[0]
    assert folder.endswith("/warehouse/run-twice/lessons")
    assert tables == f"tables  {folder}; each is deleted before the lesson writes it"


def test_a_dataframe_at_the_end_of_a_cell_is_a_table(
    lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    page = lab.readings(21)._repr_html_() or ""
    assert page.count("<tr>") == 21  # the names of the columns, and 20 rows
    assert "only showing top 20 rows" in page
    Exercise(lambda answer: answer.isStreaming, "a stream").check(lab.stream(5))
    assert capsys.readouterr().out.startswith("✓ right")
    long = lab.spark.createDataFrame([("x" * 61,)], ["text"])
    assert f"<td>{'x' * 57}...</td>" in (long._repr_html_() or "")


def test_zero_is_a_run_id(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    with rc_context():
        assert start("said", run_id=0, settings=lab.settings).run_id == "0"
    assert "/warehouse/run-0/lessons; " in capsys.readouterr().out


@pytest.mark.parametrize("run_id", [True, 2.0, None])
def test_what_is_no_text_is_no_run_id(run_id: Any) -> None:
    with pytest.raises(ParameterError, match=rf"^run_id={run_id} is not text; .* papermill -r run"):
        start("refused", run_id=run_id)


def test_a_table_is_made_afresh_without_a_word(
    spark: SparkSession, lab: Lab, capsys: pytest.CaptureFixture[str]
) -> None:
    table = write(lab, 20)
    spark.sql(f"CREATE TABLE begun USING hudi LOCATION '{table}'")
    assert lab.location("begun", afresh=False).table == table
    assert spark.read.format("hudi").load(table).count() == 20
    assert write(lab, 5) == table
    assert spark.read.format("hudi").load(table).count() == 5
    assert not spark.catalog.tableExists("begun")
    assert capsys.readouterr().out == ""
    assert not Path(lab.location("begun").table.removeprefix("file://")).exists()


def test_rows_come_with_the_lessons_seed_and_sensors(spark: SparkSession, lab: Lab) -> None:
    rows = lab.readings(20, first=3)
    assert rows.collect() == sensor_readings(spark, 20, first=3, sensors=2, seed=7).collect()
    assert lab.readings(20, sensors=1).select("sensor_id").distinct().count() == 1
    assert lab.stream(5, rows=20).columns == rows.columns


def test_files_are_listed_and_removed(lab: Lab) -> None:
    table = write(lab, 20)
    file = ".hoodie/hoodie.properties"
    assert file in lab.files(table)
    for _ in range(2):  # the second time there is nothing to remove
        lab.remove(f"{table}/{file}")
        assert file not in lab.files(table)
    lab.remove(table)
    assert lab.files(table) == []


def test_settings_end_with_their_statement(spark: SparkSession) -> None:
    name = "hoodie.schema.on.read.enable"
    shown = sql_with(spark, {name: "true"}, f"SET {name}")
    assert shown["value"].tolist() == ["true"]
    assert spark.conf.get(name, "none") == "none"
