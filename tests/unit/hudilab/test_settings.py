"""Settings: what follows from the files and the environment, and what every refusal names.

A case of settings.json changes the groups of `good`: `change` names keys of groups ("(none)" leaves
one out), `add` more entries, `file` a whole file, `env` and `runtime` what stands above the file.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from cases import read_cases
from others import bound_by_modes
from refusals import assert_refusal
from unit.hudilab.settings_files import (
    CONSUMER,
    GROUPS,
    PRODUCER,
    RUN,
    group,
    kafka_entries,
    load,
    refusal,
    write,
)

from hudilab import settings as config
from hudilab.errors import ConfigError
from hudilab.settings import Runtime, Settings
from hudilab_jobs.groups import Consumer, Producer, RunOptions
from hudilab_jobs.kafka.connection import kafka_groups
from hudilab_jobs.settings import load_settings, topics

CASES = read_cases(__file__)
REFUSED = [kind for kind in CASES if kind.startswith("refused")]
TABLE: dict[str, Any] = {"HudiTable0": {}}
# --- what is read


def test_the_projects_own_file_is_good() -> None:
    root = Path(__file__).resolve().parents[3]
    servers = {"bootstrap.servers": "127.0.0.1:9092"}
    assert load_settings(env={}) == Settings(
        runtime="LOCAL",
        is_local=True,
        warehouse_path="warehouse",
        database_name="lab",
        table_name="sensor_readings",
        aws_region="us-east-1",
        home=root / ".lab",
        conf_dir=root / "conf",
        project=root,
        source=root / "conf" / "application_properties.json",
        groups={
            "consumer.config.0": Consumer.model_validate({**CONSUMER, **servers}),
            "producer.config.0": Producer.model_validate({**PRODUCER, **servers}),
            "spark.run.options": RunOptions.model_validate(RUN),
        },
    )


@pytest.mark.parametrize("runtime", get_args(Runtime))
def test_the_spark_settings_say_whether_a_cluster_does_the_work(runtime: str) -> None:
    assert load_settings(runtime, {}).on_cluster == (runtime == "DOCKER")


def test_a_runtime_without_spark_settings_is_no_cluster(tmp_path: Path) -> None:
    write(tmp_path, [group()])
    assert not replace(load(tmp_path, "DOCKER"), project=tmp_path).on_cluster


# --- BOOTSTRAP_SERVERS


def test_the_environments_servers_stand_above_the_files(tmp_path: Path) -> None:
    write(tmp_path, kafka_entries(tmp_path))
    assert topics(load(tmp_path))[0].bootstrap_servers == "a:9092"
    consumer, producer = topics(load(tmp_path, BOOTSTRAP_SERVERS=" b:1,[::1]:2 "))
    assert consumer.bootstrap_servers == "b:1,[::1]:2"
    assert producer.bootstrap_servers == "b:1,[::1]:2"
    assert producer.dead_letter_topic_name == "stocks-dead"


def test_the_groups_need_not_be_there(tmp_path: Path) -> None:
    write(tmp_path, [group()])
    settings = load(tmp_path, BOOTSTRAP_SERVERS="b:1")
    assert kafka_groups(settings) == (None, None)


# --- settings.json: settings files and environments, and what is read or refused


def change(folder: Path, case: dict[str, Any]) -> None:
    """Write good groups with the changes of a case, or a case's own file."""
    groups = [changed(name, keys) for name, keys in {**TABLE, **case.get("change", {})}.items()]
    write(folder, case.get("file", [*groups, *case.get("add", [])]))


def changed(name: str, keys: dict[str, Any]) -> dict[str, Any]:
    """A group with some keys changed, or without those that are "(none)"."""
    merged = {**GROUPS[name], **keys}
    return group(name, {key: value for key, value in merged.items() if value != "(none)"})


@pytest.mark.parametrize("case", CASES["accepted"], ids=json.dumps)
def test_settings_that_are_good(tmp_path: Path, case: dict[str, Any]) -> None:
    change(tmp_path, case)
    settings = load(tmp_path, case.get("runtime", ""), **case.get("env", {}))
    assert {name: getattr(settings, name) for name in case["has"]} == case["has"]


@pytest.mark.parametrize("case", [case for kind in REFUSED for case in CASES[kind]], ids=json.dumps)
def test_settings_that_are_refused(tmp_path: Path, case: dict[str, Any]) -> None:
    change(tmp_path, case)
    text = refusal(tmp_path, case.get("runtime", ""), **case.get("env", {}))
    says = [part.replace("{conf}", str(tmp_path)) for part in case["says"]]
    assert_refusal(text, *says, remedy=case.get("remedy", "; fix the file"))


def test_a_home_that_may_not_be_looked_at_is_left_to_the_check_of_the_warehouse(
    tmp_path: Path,
) -> None:
    (tmp_path / "locked").mkdir(0o000)
    home = tmp_path / "locked" / "x"
    with bound_by_modes():
        assert load_settings(env={"HUDILAB_HOME": str(home)}).home == home


# --- the project


def test_outside_a_checkout_conf_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "__file__", str(tmp_path / "lib/hudilab/settings.py"))
    with pytest.raises(ConfigError) as caught:
        load_settings(env={})
    assert str(caught.value) == (
        "hudilab is installed without its checkout, which contains conf/ and jars/jars.lock; "
        "clone the repository, and run: export HUDILAB_CONF=/path/to/checkout/conf"
    )
    write(tmp_path / "here" / "conf", [group()])
    settings = load(tmp_path / "here" / "conf")
    assert (settings.project, settings.home) == (tmp_path / "here", tmp_path / "here" / ".lab")


def test_a_file_of_the_project_is_named_relative_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "__file__", str(tmp_path / "lib/hudilab/settings.py"))
    (tmp_path / "pyproject.toml").touch()
    with pytest.raises(ConfigError) as caught:
        load_settings(env={})
    assert str(caught.value) == (
        "conf/application_properties.json does not exist; create it with group 'HudiTable0', or "
        "name another folder in HUDILAB_CONF"
    )
