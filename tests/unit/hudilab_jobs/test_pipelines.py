"""Groups pipeline.NAME: a folder, a query and a table, each value checked when settings load."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import read_cases
from refusals import refused
from unit.hudilab.settings_files import file_refusal, group, load, write

from hudilab.errors import ConfigError
from hudilab.table import TableSpec
from hudilab_jobs.groups import ChangePipeline, FilePipeline, TablePipeline, TopicPipeline
from hudilab_jobs.settings import checkpoint_of, find_groups, pipelines

GROUP = {
    "source.format": "csv",
    "source.path": "/data/flights",
    "source.options": 'header=true sep=";" nullValue=NA',
    "table.name": "flights",
    "record.key": "carrier, flight",
    "ordering": "time_hour",
}


CASES = read_cases(__file__)
KEYS = (
    "create that file with the keys source.format, source.path, table.name, record.key and ordering"
)


def test_a_group_is_a_source_and_a_table(tmp_path: Path) -> None:
    write(tmp_path, [group(), group("pipeline.flights", GROUP | {"buckets": "4"})])
    settings = load(tmp_path)
    assert list(pipelines(settings)) == ["flights"]
    flights = pipelines(settings)["flights"]
    assert isinstance(flights, FilePipeline)
    assert flights.options() == {"header": "true", "sep": ";", "nullValue": "NA"}
    assert TableSpec(name=flights.table_name, **flights.table()) == TableSpec(
        "flights", ("carrier", "flight"), (), "time_hour", operation="upsert", buckets=4
    )


def test_a_shared_table(tmp_path: Path) -> None:
    lock = {"lock.options": "hoodie.write.lock.provider=a.B hoodie.c=1"}
    for changes, options in (
        ({}, None),
        (lock, {"hoodie.write.lock.provider": "a.B", "hoodie.c": "1"}),
    ):
        groups = [group(), group("pipeline.flights", GROUP | {"shared": "true"} | changes)]
        write(tmp_path, groups)
        flights = pipelines(load(tmp_path))["flights"]
        assert (flights.shared, flights.lock()) == (True, options)


@pytest.mark.parametrize(("text", "options"), CASES["options"])
def test_a_backslash_before_a_letter_stays(
    tmp_path: Path, text: str, options: dict[str, str]
) -> None:
    write(tmp_path, [group(), group("pipeline.flights", GROUP | {"source.options": text})])
    assert pipelines(load(tmp_path))["flights"].options() == options


def test_a_runtime_overrides_a_key(tmp_path: Path) -> None:
    write(tmp_path, [group(), group("pipeline.flights", GROUP)])
    on_s3 = {"source.path": "s3://bucket/flights"}
    write(tmp_path / "docker", [group("pipeline.flights", on_s3)])
    flights = pipelines(load(tmp_path, "DOCKER"))["flights"]
    assert isinstance(flights, FilePipeline)
    assert (flights.source_path, flights.source_format) == ("s3://bucket/flights", "csv")


REST = {"table.name": "visits", "record.key": "id", "ordering": "kafka_offset"}
TOPIC = REST | {
    "source.format": "kafka",
    "topic.name": "visits",
    "bootstrap.servers": "a:9092",
    "value.format": "avro",
}


def test_the_keys_depend_on_the_format(tmp_path: Path) -> None:
    """And BOOTSTRAP_SERVERS is for the lessons' topics, not for one's own."""
    table = REST | {"source.format": "hudi", "source.path": "/data/visits"}
    write(tmp_path, [group(), group("pipeline.a", TOPIC), group("pipeline.b", table)])
    settings = load(tmp_path, HUDILAB_HOME=str(tmp_path), BOOTSTRAP_SERVERS="b:9092")
    topic, table_ = pipelines(settings)["a"], pipelines(settings)["b"]
    assert isinstance(topic, TopicPipeline)
    assert (topic.bootstrap_servers, topic.is_avro) == ("a:9092", True)
    assert isinstance(table_, TablePipeline)
    assert (table_.source_path, table_.is_avro) == ("/data/visits", False)


@pytest.mark.parametrize(
    ("good", "changes", "text"),
    [
        *((TOPIC, *case) for case in CASES["bad topics"]),
        *((GROUP, *case) for case in CASES["bad files"]),
    ],
)
def test_what_is_wrong_with_a_group(
    tmp_path: Path, good: dict[str, str], changes: dict[str, str], text: str
) -> None:
    message = file_refusal(tmp_path, [group(), group("pipeline.a", good | changes)])
    assert message.startswith((f"group 'pipeline.a': {text}", f"group 'pipeline.a' {text}"))


def test_the_table_of_changes_is_named_by_the_topic(tmp_path: Path) -> None:
    changes = TOPIC | {"value.format": "debezium", "topic.name": "lab.public.visits"}
    del changes["ordering"]
    groups = [group("pipeline.a", changes)]
    groups += [group("pipeline.b", changes | {"source.table": "shop.visits"})]
    write(tmp_path, [group(), *groups])
    named, other = pipelines(load(tmp_path)).values()
    assert isinstance(named, ChangePipeline)
    assert isinstance(other, ChangePipeline)
    assert (named.database_table, named.ordering) == ("public.visits", "kafka_offset")
    assert other.database_table == "shop.visits"


TABLES = {
    "a": TOPIC,
    "b": TOPIC | {"table.name": "customers"},
    "c": TOPIC | {"topic.name": "more"},
    "files": GROUP,
}


@pytest.mark.parametrize(
    ("tables", "failed", "remedy"),
    [
        ("a, b", (), ""),
        ("a, other", ("no group 'pipeline.other'",), "and ordering"),
        (
            "a, files",
            ("'pipeline.all'", "'tables'", "files reads csv files"),
            "remove it, and run it separately: hudilab stream files",
        ),
        (
            "a, b, c",
            ("'pipeline.all'", "'tables'", "a and c both write table visits"),
            "give each pipeline its own table.name",
        ),
    ],
)
def test_pipelines_of_one_query(
    tmp_path: Path, tables: str, failed: tuple[str, ...], remedy: str
) -> None:
    groups = [group(f"pipeline.{name}", keys) for name, keys in TABLES.items()]
    write(tmp_path, [group(), group("pipeline.all", {"tables": tables}), *groups])
    settings = load(tmp_path, HUDILAB_HOME=str(tmp_path))
    assert "all" not in pipelines(settings)
    if failed:
        with refused(ConfigError, *failed, remedy=remedy):
            find_groups(settings, "all")
        return
    assert list(find_groups(settings, "all")) == ["a", "b"]
    assert checkpoint_of(settings, "all").endswith("/_checkpoints/lab/all-tables")
    assert list(find_groups(settings, "a")) == ["a"]


def test_a_group_without_a_format(tmp_path: Path) -> None:
    message = file_refusal(tmp_path, [group(), group("pipeline.a", REST | {"topic.name": "a"})])
    assert message == "group 'pipeline.a' has no key 'source.format'"


def test_a_name_that_is_nearly_that_of_a_pipeline(tmp_path: Path) -> None:
    write(tmp_path, [group(), group("pipeline.flights", GROUP), group("pipeline.b", GROUP)])
    meant = "(pipelines: flights, b) (did you mean 'flights'?)"
    with refused(ConfigError, "'pipeline.flihgts'", meant, remedy=KEYS):
        find_groups(load(tmp_path), "flihgts")
    with refused(ConfigError, "'pipeline.weather'", remedy=f"b); {KEYS}"):
        find_groups(load(tmp_path), "weather")
