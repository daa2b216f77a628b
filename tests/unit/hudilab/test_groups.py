"""The groups of the settings: their keys, and the exact text of every refused value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from unit.hudilab.settings_files import (
    CONSUMER,
    GOOD,
    PRODUCER,
    RUN,
    SECRET,
    file_refusal,
    group,
    kafka_entries,
    load,
    refusal,
    write,
)

from hudilab.errors import ConfigError
from hudilab_jobs.groups import RUN_GROUP, RunOptions
from hudilab_jobs.kafka.connection import kafka_groups
from hudilab_jobs.settings import run_options
from hudilab_spark.hive_group import METASTORE_GROUP, Hive

# --- how the bundle is run


def test_run_options(tmp_path: Path) -> None:
    properties = {key: value for key, value in RUN.items() if key != "arguments"}
    write(tmp_path, [group(), group("spark.run.options", properties)])
    assert load(tmp_path).group(RUN_GROUP, RunOptions) == RunOptions(**properties, arguments="")
    file = write(tmp_path, [group()])
    assert load(tmp_path).group(RUN_GROUP, RunOptions) is None
    with pytest.raises(ConfigError) as caught:
        run_options(load(tmp_path), ", or name a job")
    assert str(caught.value) == (
        f"group 'spark.run.options' is missing from {file}; "
        "add it with the keys python, jarfile and job, or name a job"
    )


def run_refusal(folder: Path, **changes: Any) -> str:
    properties = {key: value for key, value in {**RUN, **changes}.items() if value != "(none)"}
    return file_refusal(folder, [group(), group("spark.run.options", properties)])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"python": "(none)"}, " has no key 'python'"),
        ({"jarfile": ""}, ": key 'jarfile' is empty"),
        (
            {"job": "a b"},
            ": key 'job' is not a valid name (letters, digits and _, not starting with a digit)",
        ),
        ({"job": 5}, ": key 'job' is a number, not a string"),
        ({"python": "/main.py"}, ": key 'python' is not a path inside the bundle"),
        ({"python": "../main.py"}, ": key 'python' is not a path inside the bundle"),
        ({"jarfile": "s3://b/x.jar"}, ": key 'jarfile' is not a path inside the bundle"),
        (
            {"arguments": "--run-id 'a"},
            ": key 'arguments' is not a valid command line (no closing quotation)",
        ),
        ({"jar.file": "x"}, " has an unknown key 'jar.file' (did you mean 'jarfile'?)"),
    ],
)
def test_run_options_that_are_wrong(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    assert run_refusal(tmp_path, **changes) == f"group 'spark.run.options'{text}"


# --- a metastore


def test_a_metastore(tmp_path: Path) -> None:
    write(tmp_path, [group(), group("metastore", {"uri": "thrift://hive.example:9083"})])
    hive = load(tmp_path).group(METASTORE_GROUP, Hive)
    assert hive is not None
    assert (hive.uri, hive.database_name) == ("thrift://hive.example:9083", "default")
    own = {"uri": "thrift://[::1]:9083", "database.name": "lab"}
    write(tmp_path, [group(), group("metastore", own)])
    again = load(tmp_path, BOOTSTRAP_SERVERS="a:1").group(METASTORE_GROUP, Hive)
    assert again is not None
    assert (again.uri, again.database_name) == ("thrift://[::1]:9083", "lab")
    write(tmp_path, [group()])
    assert load(tmp_path).group(METASTORE_GROUP, Hive) is None


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({}, " has no key 'uri'"),
        ({"uri": "127.0.0.1:9083"}, ": key 'uri' is not thrift://host:port"),
        ({"uri": "thrift://a"}, ": key 'uri' is not thrift://host:port"),
        ({"uri": "thrift://a:1,thrift://b:1"}, ": key 'uri' is not thrift://host:port"),
        (
            {"uri": "thrift://a:1", "database.name": "a b"},
            ": key 'database.name' is not a valid name (letters, digits and _, not starting with a "
            "digit)",
        ),
        ({"uris": "thrift://a:1"}, " has an unknown key 'uris' (did you mean 'uri'?)"),
    ],
)
def test_a_metastore_that_is_wrong(tmp_path: Path, properties: dict[str, Any], text: str) -> None:
    message = file_refusal(tmp_path, [group(), group("metastore", properties)])
    assert f"group 'metastore'{text}" in message


# --- Kafka's groups


@pytest.mark.parametrize("word", ["b", "b:", ":1", "b:0", "b:65536", "b:x", "b:1,", "a b:1"])
def test_servers_that_are_none(tmp_path: Path, word: str) -> None:
    write(tmp_path, kafka_entries(tmp_path))
    assert refusal(tmp_path, BOOTSTRAP_SERVERS=word) == (
        f"BOOTSTRAP_SERVERS={word!r} is not host:port[,host:port...]; "
        "fix it, or unset it to use the servers in the settings file"
    )
    groups = kafka_entries(tmp_path, {**CONSUMER, "bootstrap.servers": word})
    assert file_refusal(tmp_path, groups) == (
        "group 'consumer.config.0': key 'bootstrap.servers' is not host:port[,host:port...]"
    )


def test_all_that_is_wrong_with_the_groups_is_in_one_text(tmp_path: Path) -> None:
    consumer = {
        **CONSUMER,
        "topic.name": "a b",
        "startup.mode": "earliest",
        "security.protocol": "TLS",
        "sasl.password": SECRET,
    }
    producer = {k: v for k, v in PRODUCER.items() if k != "topic.name"} | {"topic.nam": "x"}
    assert file_refusal(tmp_path, kafka_entries(tmp_path, consumer, producer)) == (
        "group 'consumer.config.0': key 'topic.name' is not a valid topic name (letters, digits, "
        "'.', '_', '-'); group 'consumer.config.0': key 'security.protocol' must be 'PLAINTEXT', "
        "'SSL' or 'SASL_SSL'; group 'consumer.config.0': key 'startup.mode' must be "
        "'earliest-offset' or 'latest-offset'; group 'consumer.config.0' has an unknown key "
        "'sasl.password'; group 'producer.config.0' has no key 'topic.name'; group "
        "'producer.config.0' has an unknown key 'topic.nam' (did you mean 'topic.name'?)"
    )


def test_the_view_of_a_topic_has_a_name_when_none_is_given(tmp_path: Path) -> None:
    unnamed = {key: value for key, value in CONSUMER.items() if key != "table.name"}
    for given, name in ((unnamed, "stocks_in"), ({**CONSUMER, "table.name": "x"}, "x")):
        write(tmp_path, kafka_entries(tmp_path, given))
        consumer = kafka_groups(load(tmp_path))[0]
        assert consumer is not None
        assert consumer.table_name == name
    unnamed = {key: value for key, value in PRODUCER.items() if key != "table.name"}
    groups = kafka_entries(tmp_path, producer=unnamed)
    assert file_refusal(tmp_path, groups) == "group 'producer.config.0' has no key 'table.name'"


# --- the keys of HudiTable0


def table_refusal(folder: Path, **changes: Any) -> str:
    properties = {key: value for key, value in {**GOOD, **changes}.items() if value != "(none)"}
    return file_refusal(folder, [group(properties=properties)])


@pytest.mark.parametrize("key", GOOD)
def test_every_key_is_mandatory_and_not_empty(tmp_path: Path, key: str) -> None:
    assert table_refusal(tmp_path, **{key: "(none)"}) == f"group 'HudiTable0' has no key '{key}'"
    assert table_refusal(tmp_path, **{key: ""}) == f"group 'HudiTable0': key '{key}' is empty"


@pytest.mark.parametrize("key", GOOD)
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (12345678, "a number"),
        (0.5, "a number"),
        (False, "a boolean"),
        (None, "null"),
        ([SECRET], "a list"),
        ({"secret": SECRET}, "an object"),
    ],
)
def test_every_key_is_text(tmp_path: Path, key: str, value: Any, kind: str) -> None:
    text = table_refusal(tmp_path, **{key: value})
    assert text == f"group 'HudiTable0': key '{key}' is {kind}, not a string"


@pytest.mark.parametrize("key", ["database.name", "table.name"])
@pytest.mark.parametrize(
    "value", ["7up", "a.b", "a-b", "a/b", "../x", "a b", " a", "a\n", "ä", "`a`", "x;drop", SECRET]
)
def test_names_are_plain(tmp_path: Path, key: str, value: str) -> None:
    assert table_refusal(tmp_path, **{key: value}) == (
        f"group 'HudiTable0': key '{key}' is not a valid name (letters, digits and _, not starting "
        "with a digit)"
    )


@pytest.mark.parametrize("value", [" ", " x", "x\n", f"{SECRET} "])
def test_a_padded_text_is_refused(tmp_path: Path, value: str) -> None:
    text = table_refusal(tmp_path, **{"warehouse.path": value})
    assert text == "group 'HudiTable0': key 'warehouse.path' has leading or trailing whitespace"


@pytest.mark.parametrize(
    "value",
    [
        f"s3://AKIA:{SECRET}@bucket/lab",
        f"s3a://{SECRET.replace('/', '')}@bucket/lab",
        f"file://me:{SECRET}@host/lab",
        f"ftp://me:{SECRET}@host/lab",
        f"me:{SECRET.replace('/', '')}@host/lab",
    ],
)
def test_credentials_in_the_warehouse_are_refused(tmp_path: Path, value: str) -> None:
    assert table_refusal(tmp_path, **{"warehouse.path": value}) == (
        "group 'HudiTable0': key 'warehouse.path' contains credentials, which belong in the AWS "
        "credential chain"
    )
    assert SECRET.replace("/", "") not in refusal(tmp_path)


@pytest.mark.parametrize(
    "value",
    [
        "s3://bucket/a@b",
        "/data/a:b@c",
        "file:///data/me@work/x",
        "file:me@work",
        "me@work/x",
        "ftp://x",
    ],
)
def test_a_warehouse_without_credentials_passes_as_it_is(tmp_path: Path, value: str) -> None:
    write(tmp_path, [group(properties={**GOOD, "warehouse.path": value})])
    assert load(tmp_path).warehouse_path == value


def test_unknown_keys_are_named_with_the_nearest_known_one(tmp_path: Path) -> None:
    changes = {"tabel.name": SECRET, "Aws_Region": SECRET, "colour": SECRET, "a\nb": SECRET}
    assert table_refusal(tmp_path, **changes) == (
        "group 'HudiTable0' has an unknown key 'tabel.name' (did you mean 'table.name'?); "
        "group 'HudiTable0' has an unknown key 'Aws_Region' (did you mean 'aws.region'?); "
        "group 'HudiTable0' has an unknown key 'colour'; "
        "group 'HudiTable0' has an unknown key 'a\\nb'"
    )
