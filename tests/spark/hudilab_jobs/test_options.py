"""Each option of a source has the effect that Spark documents; all others are refused by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cases import data, plain, read_cases
from pyspark.sql import SparkSession
from refusals import assert_refusal
from unit.hudilab.settings_files import group, load, write

from hudilab.errors import ConfigError
from hudilab_jobs.groups import FilePipeline
from hudilab_jobs.pipelines.options import OPTIONS, option_problem
from hudilab_jobs.pipelines.sources import Folder
from hudilab_jobs.settings import find_group

CASES = read_cases(__file__)


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


def read(own: Folder) -> list[Any] | None:
    """Return the rows that a stream would store; None if it would refuse one."""
    own.check()
    try:
        sample = own.sample()
        rows = sample.rows.collect() if sample else []
    except ConfigError:
        return None
    return [plain(row) for row in rows]


@pytest.mark.parametrize("case", CASES["effects"], ids=[case[0] for case in CASES["effects"]])
def test_an_option_has_an_effect(spark: SparkSession, tmp_path: Path, case: list[Any]) -> None:
    """The rows of a file with the option, and without it; None if the file is refused."""
    option, others, schema, text, with_option, without = case
    source, _, given = option.partition(" ")
    (tmp_path / "in").mkdir()
    content = text.encode("utf-16") if "UTF-16" in option else data(text)
    (tmp_path / "in/a.dat").write_bytes(content)
    options = f"{given} {others}".strip()
    assert read(folder(spark, tmp_path, source, options, schema)) == with_option
    assert read(folder(spark, tmp_path, source, others, schema)) == without


def test_each_option_has_a_test() -> None:
    tested = {re.sub(r"^(\w+) '?(\w+)=.*", r"\1 \2", option) for option, *_ in CASES["effects"]}
    assert tested == {
        f"{source} {option}" for source in ("csv", "json") for option in OPTIONS[source]
    }


@pytest.mark.parametrize(("option", "problem", "remedy"), CASES["refused"])
def test_other_options_are_refused(
    spark: SparkSession, tmp_path: Path, option: str, problem: str, remedy: str
) -> None:
    source, _, options = option.partition(" ")
    (tmp_path / "in").mkdir()
    with pytest.raises(ConfigError) as caught:
        folder(spark, tmp_path, source, options, "id INT, a STRING").check()
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
