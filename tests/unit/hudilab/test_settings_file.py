"""Settings files: how they are merged, and what is said about those that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import assert_refusal, refused
from unit.hudilab.settings_files import (
    GOOD,
    KEYS,
    REMEDY,
    group,
    kafka_entries,
    load,
    refusal,
    write,
)

from hudilab.errors import ConfigError
from hudilab.settings_file import read_options
from hudilab_jobs.kafka.connection import kafka_groups

# --- a base file, and a runtime's file over it


def both(folder: Path, base: Any, overlay: Any) -> tuple[Path, Path]:
    return write(folder, base), write(folder / "aws", overlay)


def test_a_runtime_s_file_is_merged_over_the_base_file(tmp_path: Path) -> None:
    changes = [group(properties={"table.name": "in_the_cloud"}), group("mine", {"a": "b"})]
    changes += [group("producer.config.0", {"security.protocol": "SSL"})]
    base, overlay = both(tmp_path, kafka_entries(tmp_path), changes)
    assert (load(tmp_path).source, load(tmp_path).table_name) == (base, "sensor_readings")
    settings = load(tmp_path, "AWS")
    assert (settings.source, settings.table_name) == (overlay, "in_the_cloud")
    assert (settings.database_name, kafka_groups(settings)[0]) == (
        "lab",
        kafka_groups(load(tmp_path))[0],
    )
    producer = kafka_groups(settings)[1]
    assert producer is not None
    assert (producer.security_protocol, producer.topic_name) == ("SSL", "stocks-out")
    assert settings.origin("HudiTable0", "table.name") == overlay
    assert settings.origin("HudiTable0", "database.name") == base
    assert settings.origin("HudiTable0", "not.there") == overlay
    overlay.write_text("[]")
    assert load(tmp_path, "AWS").table_name == "sensor_readings"


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
    base, overlay = both(tmp_path, [group("a\nb", {})], [group("b", {}), group("a\nb", {})])
    assert refusal(tmp_path, "AWS") == (
        f"no group 'HudiTable0' in {base} or {overlay}; groups found: 'a\\nb', b; "
        f"add it with the keys {KEYS}"
    )
    base.unlink()
    assert refusal(tmp_path, "AWS").startswith(f"no group 'HudiTable0' in {overlay}; ")


def test_other_groups_and_a_byte_order_mark_are_allowed(tmp_path: Path) -> None:
    groups = [group("kinesis.config", {"topic.name": ""}), group("spark.other", {})]
    write(tmp_path, "\ufeff" + json.dumps([*groups, group()]))
    assert load(tmp_path).database_name == "lab"


# --- Spark's and Hudi's files


def test_options_that_continue_and_hold_escapes(tmp_path: Path) -> None:
    file = tmp_path / "spark-defaults.conf"
    file.write_text("spark.driver.extraJavaOptions -Da=1 \\\n  -Db=C:\\\\x\nspark.a\t\\u00e9 \n")
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


def test_a_file_that_is_no_text_or_no_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "application_properties.json"
    file.write_bytes(b'["\xff"]')
    assert refusal(tmp_path) == f"{file} is not valid UTF-8 (byte 2); save it as UTF-8"
    file.unlink()
    file.mkdir()
    assert refusal(tmp_path) == (f"{file} cannot be read (Is a directory); make it a readable file")


@pytest.mark.parametrize("content", ["[" * 100_000, "9" * 5_000], ids=["deep", "long"])
def test_a_file_that_no_parser_holds_is_refused(tmp_path: Path, content: str) -> None:
    remedy = "; write a plain list of groups"
    file = write(tmp_path, content)
    assert_refusal(refusal(tmp_path), f"{file} is nested too deeply", remedy=remedy)
