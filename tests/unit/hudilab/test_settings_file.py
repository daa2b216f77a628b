"""Settings files: how they are merged, and what is said about those that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import refused
from unit.hudilab.settings_files import (
    CONSUMER,
    GOOD,
    KEYS,
    REMEDY,
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
from hudilab.settings_file import read_options
from hudilab_jobs.groups import RUN_GROUP, RunOptions
from hudilab_jobs.kafka.connection import kafka_groups

# --- a base file, and a runtime's file over it


def both(folder: Path, base: Any, overlay: Any) -> tuple[Path, Path]:
    return write(folder, base), write(folder / "aws", overlay)


def test_a_runtime_s_file_is_merged_over_the_base_file(tmp_path: Path) -> None:
    changes = [group(properties={"table.name": "in_the_cloud"}), group("mine", {"a": "b"})]
    base, overlay = both(tmp_path, kafka_entries(tmp_path), changes)
    assert (load(tmp_path).source, load(tmp_path).table_name) == (base, "sensor_readings")
    settings = load(tmp_path, "AWS")
    assert (settings.source, settings.table_name) == (overlay, "in_the_cloud")
    assert (settings.database_name, kafka_groups(settings)[0]) == (
        "lab",
        kafka_groups(load(tmp_path))[0],
    )
    assert settings.origin("HudiTable0", "table.name") == overlay
    assert settings.origin("HudiTable0", "database.name") == base
    assert settings.origin("HudiTable0", "not.there") == overlay
    overlay.write_text("[]")
    assert load(tmp_path, "AWS").table_name == "sensor_readings"


def test_a_runtime_s_file_adds_a_group_and_an_optional_key(tmp_path: Path) -> None:
    both(
        tmp_path,
        [group(), group("consumer.config.0", CONSUMER)],
        [
            group("consumer.config.0", {"security.protocol": "SSL"}),
            group("spark.run.options", RUN),
        ],
    )
    assert (
        load(tmp_path).group(RUN_GROUP, RunOptions),
        load(tmp_path, "AWS").group(RUN_GROUP, RunOptions),
    ) == (None, RunOptions(**RUN))
    consumer = kafka_groups(load(tmp_path, "AWS"))[0]
    assert consumer is not None
    assert (consumer.security_protocol, consumer.topic_name) == ("SSL", "stocks-in")


def test_each_problem_names_the_file_that_it_comes_from(tmp_path: Path) -> None:
    lacking = {key: value for key, value in GOOD.items() if key != "aws.region"}
    base, overlay = both(
        tmp_path,
        [group(properties={**lacking, "database.name": "a b", "table.name": 5})],
        [
            group(properties={"table.name": "good", "warehouse.path": "", "tabel.name": "x"}),
            group("spark.run.options", {"job": "x"}),
            group(properties={}),
        ],
    )
    assert refusal(tmp_path, "AWS") == (
        f"{base}: group 'HudiTable0': key 'database.name' is not a valid name (letters, digits and "
        f"_, not starting with a digit); group 'HudiTable0' has no key 'aws.region'{REMEDY}; "
        f"{overlay}: group 'HudiTable0': key 'warehouse.path' is empty; group 'HudiTable0' has an "
        "unknown key 'tabel.name' (did you mean 'table.name'?); group 'spark.run.options' has no "
        "key 'python'; group 'spark.run.options' has no key 'jarfile'; "
        f"group 'HudiTable0' appears 2 times{REMEDY}"
    )
    overlay.write_text("{")
    assert f"; {overlay} is not valid JSON (" in refusal(tmp_path, "AWS")


def test_a_group_that_neither_file_has(tmp_path: Path) -> None:
    base, overlay = both(tmp_path, [group("a", {})], [group("b", {}), group("a", {})])
    assert refusal(tmp_path, "AWS") == (
        f"no group 'HudiTable0' in {base} or {overlay}; groups found: a, b; "
        f"add it with the keys {KEYS}"
    )
    base.unlink()
    assert refusal(tmp_path, "AWS").startswith(f"no group 'HudiTable0' in {overlay}; ")


def test_other_groups_and_a_byte_order_mark_are_allowed(tmp_path: Path) -> None:
    groups = [group("kinesis.config", {"topic.name": ""}), group("spark.other", {})]
    write(tmp_path, "\ufeff" + json.dumps([*groups, group()]))
    assert load(tmp_path).database_name == "lab"


# --- Spark's and Hudi's files


def test_options_in_every_form_that_spark_reads(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    lines = [
        "# a comment",
        "! one more",
        "",
        "a.b\t x y ",
        "c=1",
        "d : 2",
        "e = k=v",
        "f",
        "g:h://i",
    ]
    file.write_text("\n".join(lines))
    assert read_options(file) == {
        **{"a.b": "x y", "c": "1", "d": "2", "e": "k=v", "f": "", "g": "h://i"},
    }


def test_options_that_continue_and_hold_escapes(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text("spark.driver.extraJavaOptions -Da=1 \\\n  -Db=C:\\\\x\nspark.a \\u00e9\n")
    assert read_options(file) == {
        "spark.driver.extraJavaOptions": "-Da=1 -Db=C:\\x",
        "spark.a": "é",
    }


def test_options_that_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    with refused(ConfigError, f"{file} (No such file", remedy="; restore it, or make it readable"):
        read_options(file)
    file.write_bytes(b"a \xff")
    with refused(ConfigError, f"{file} is not valid UTF-8 (byte 2)", remedy="; save it as UTF-8"):
        read_options(file)


# --- the file as a whole


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "is not valid JSON (Expecting value, line 1 column 1); fix the syntax"),
        (
            f'[\n  {{"key": "{SECRET}" 1}}\n]',
            "is not valid JSON (Expecting ',' delimiter, line 2 column 35); fix the syntax",
        ),
        (
            "[" * 100_000,
            "is nested too deeply or contains too long a number; write a plain list of groups",
        ),
        (
            "9" * 5_000,
            "is nested too deeply or contains too long a number; write a plain list of groups",
        ),
        (
            '{"HudiTable0": {}}',
            "contains an object, not a list of groups; "
            'write [{"PropertyGroupId": "HudiTable0", "PropertyMap": {...}}]',
        ),
        (
            f'"{SECRET}"',
            "contains a string, not a list of groups; "
            'write [{"PropertyGroupId": "HudiTable0", "PropertyMap": {...}}]',
        ),
        (
            "null",
            "contains null, not a list of groups; "
            'write [{"PropertyGroupId": "HudiTable0", "PropertyMap": {...}}]',
        ),
    ],
)
def test_an_unusable_file_is_refused(tmp_path: Path, content: str, text: str) -> None:
    file = write(tmp_path, content)
    assert refusal(tmp_path) == f"{file} {text}"


def test_a_file_that_is_no_text_or_no_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "application_properties.json"
    file.write_bytes(b'["\xff"]')
    assert refusal(tmp_path) == f"{file} is not valid UTF-8 (byte 2); save it as UTF-8"
    file.unlink()
    file.mkdir()
    assert refusal(tmp_path) == (f"{file} cannot be read (Is a directory); make it a readable file")


def test_without_any_group_none_is_listed(tmp_path: Path) -> None:
    file = write(tmp_path, [])
    assert refusal(tmp_path) == (
        f"no group 'HudiTable0' in {file}; groups found: none; add it with the keys {KEYS}"
    )


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (7, "entry 2 is a number, not an object"),
        (True, "entry 2 is a boolean, not an object"),
        ([], "entry 2 is a list, not an object"),
        ({}, "entry 2 has no key 'PropertyGroupId'; entry 2 has no key 'PropertyMap'"),
        (group(""), "entry 2: key 'PropertyGroupId' is empty"),
        (group(None), "entry 2: key 'PropertyGroupId' is null, not a string"),
        (group(["x"]), "entry 2: key 'PropertyGroupId' is a list, not a string"),
        (
            {"PropertyGroupId": "a", "propertymaps": {}},
            "group 'a' has no key 'PropertyMap'; "
            "group 'a' has an unknown key 'propertymaps' (did you mean 'PropertyMap'?)",
        ),
        (group("a", [1]), "group 'a': key 'PropertyMap' is a list, not an object"),
        (group("a", {"b": 1.5}), "group 'a': key 'b' is a number, not a string"),
        (
            group("a", {"b": {"c": SECRET}, "d": None}),
            "group 'a': key 'b' is an object, not a string; group 'a': key 'd' is null, not a "
            "string",
        ),
        (group(), "group 'HudiTable0' appears 2 times"),
    ],
)
def test_an_entry_of_the_wrong_shape_is_refused(tmp_path: Path, entry: Any, text: str) -> None:
    assert file_refusal(tmp_path, [group(), entry]) == text


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    good = json.dumps(GOOD)
    twice = good.replace('"table.name"', f'"table.name": "{SECRET}", "table.name"')
    content = (
        f'[{{"PropertyGroupId": "HudiTable0", "PropertyMap": {good}, "PropertyMap": {twice}}}]'
    )
    assert file_refusal(tmp_path, content) == (
        "group 'HudiTable0' has key 'PropertyMap' twice; "
        "group 'HudiTable0' has key 'table.name' twice"
    )


def test_a_broken_entry_and_a_missing_group_are_reported_together(tmp_path: Path) -> None:
    file = write(tmp_path, [3, group("a", {"b": 1})])
    assert refusal(tmp_path) == (
        f"{file}: entry 1 is a number, not an object; group 'a': key 'b' is a number, not a "
        f"string; fix the file; no group 'HudiTable0' in {file}; groups found: a; add it with the "
        f"keys {KEYS}"
    )


def test_all_problems_of_a_file_are_in_one_error(tmp_path: Path) -> None:
    properties = {
        "catalog.name": "",
        "warehouse.path": f"s3://a:{SECRET}@b",
        "database.name": 5,
        "tablename": "x",
    }
    content = [group(properties=properties), "x", group("a", {"b": True}), group("a", {})]
    assert file_refusal(tmp_path, content) == (
        "group 'HudiTable0': key 'catalog.name' is empty; group 'HudiTable0': key "
        "'warehouse.path' contains credentials, which belong in the AWS credential chain; group "
        "'HudiTable0': key 'database.name' is a number, not a string; group 'HudiTable0' has no "
        "key 'table.name'; group 'HudiTable0' has no key 'aws.region'; group 'HudiTable0' has an "
        "unknown key 'tablename' (did you mean 'table.name'?); entry 2 is a string, not an "
        "object; group 'a': key 'b' is a boolean, not a string; group 'a' appears 2 times"
    )
