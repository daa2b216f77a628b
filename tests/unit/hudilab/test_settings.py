"""Settings: what follows from the files and the environment, and the text of every refusal."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from unit.hudilab.settings_files import (
    CONSUMER,
    GOOD,
    KEYS,
    PRODUCER,
    RUN,
    SECRET,
    group,
    kafka_entries,
    load,
    refusal,
    write,
)

from hudilab import settings as config
from hudilab.errors import ConfigError
from hudilab.settings import Runtime, Settings, project_root
from hudilab_jobs.groups import Consumer, Producer, RunOptions
from hudilab_jobs.kafka.connection import kafka_groups
from hudilab_jobs.settings import load_settings, topics

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


def test_settings_are_frozen_and_follow_home_and_conf(tmp_path: Path) -> None:
    file = write(tmp_path / "conf", [group()])
    settings = load(tmp_path / "conf", HUDILAB_HOME=str(tmp_path / "not yet there"))
    assert (settings.home, settings.source) == (tmp_path / "not yet there", file)
    with pytest.raises(AttributeError):
        settings.table_name = "other"  # type: ignore[misc]


def test_the_environment_is_read_when_none_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, [group()])
    monkeypatch.setenv("HUDILAB_CONF", str(tmp_path))
    monkeypatch.setenv("RUNTIME_ENV", "AWS")
    monkeypatch.delenv("IS_LOCAL", raising=False)
    monkeypatch.delenv("HUDILAB_HOME", raising=False)
    settings = load_settings()
    assert (settings.runtime, settings.conf_dir) == ("AWS", tmp_path)


@pytest.mark.parametrize("runtime", ["docker", "aws"])
def test_a_runtime_s_own_file_repeats_nothing_of_the_base_file(runtime: str) -> None:
    conf = Path(__file__).resolve().parents[3] / "conf"
    base, overlay = (
        {
            (entry["PropertyGroupId"], key): value
            for entry in json.loads((folder / "application_properties.json").read_text())
            for key, value in entry["PropertyMap"].items()
        }
        for folder in (conf, conf / runtime)
    )
    assert overlay
    assert [key for key, value in overlay.items() if base.get(key) == value] == []
    assert overlay.keys() <= base.keys()


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


# --- HUDILAB_WAREHOUSE


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"HUDILAB_WAREHOUSE": "s3://mine/w"}, ("s3://mine/w", False)),
        ({"HUDILAB_WAREHOUSE": " s3a://mine/w ", "IS_LOCAL": "false"}, ("s3a://mine/w", False)),
        ({"HUDILAB_WAREHOUSE": "s3://mine/w", "RUNTIME_ENV": "LOCAL"}, ("s3://mine/w", False)),
        ({"HUDILAB_WAREHOUSE": "s3://mine/w", "RUNTIME_ENV": "AWS"}, ("s3://mine/w", False)),
        ({"HUDILAB_WAREHOUSE": "/data/w"}, ("/data/w", True)),
        ({"HUDILAB_WAREHOUSE": " "}, ("warehouse", True)),
    ],
)
def test_one_variable_names_the_warehouse(
    tmp_path: Path, env: dict[str, str], expected: tuple[str, bool]
) -> None:
    write(tmp_path, [group()])
    settings = load(tmp_path, **env)
    assert (settings.warehouse_path, settings.is_local) == expected


@pytest.mark.parametrize(
    ("env", "text"),
    [
        (
            {"HUDILAB_WAREHOUSE": "mine/w"},
            "HUDILAB_WAREHOUSE='mine/w' is not a warehouse; "
            "set it to s3://<bucket>/<prefix> or an absolute path, or unset it",
        ),
        (
            {"HUDILAB_WAREHOUSE": "s3://mine/w", "IS_LOCAL": "true"},
            "IS_LOCAL contradicts HUDILAB_WAREHOUSE='s3://mine/w'; "
            "unset IS_LOCAL, or set it to false",
        ),
        (
            {"HUDILAB_WAREHOUSE": f"s3://me:{SECRET}@mine/w"},
            "HUDILAB_WAREHOUSE contains credentials, which belong in the AWS credential chain; "
            "remove them from it",
        ),
    ],
)
def test_a_warehouse_in_the_environment_that_is_none(
    tmp_path: Path, env: dict[str, str], text: str
) -> None:
    write(tmp_path, [group()])
    assert refusal(tmp_path, **env) == text


# --- runtime and IS_LOCAL


@pytest.mark.parametrize(
    ("argument", "variable", "is_local", "expected"),
    [
        ("", None, None, ("LOCAL", True)),
        ("", "", "", ("LOCAL", True)),
        ("", "LOCAL", "true", ("LOCAL", True)),
        ("", "DOCKER", None, ("DOCKER", False)),
        ("", "AWS", "false", ("AWS", False)),
        ("aws", None, None, ("AWS", False)),
        ("LOCAL", "AWS", None, ("LOCAL", True)),
        ("LOCAL", "nonsense", None, ("LOCAL", True)),
        (" ", "DOCKER", "No", ("DOCKER", False)),
        ("", None, "FALSE", ("LOCAL", False)),
        ("", None, "0", ("LOCAL", False)),
        ("", None, " Yes ", ("LOCAL", True)),
        ("", None, "1", ("LOCAL", True)),
    ],
)
def test_runtime_and_is_local(
    tmp_path: Path,
    argument: str,
    variable: str | None,
    is_local: str | None,
    expected: tuple[str, bool],
) -> None:
    write(tmp_path, [group()])
    variables = {"RUNTIME_ENV": variable, "IS_LOCAL": is_local}
    env = {key: value for key, value in variables.items() if value is not None}
    settings = load(tmp_path, argument, **env)
    assert (settings.runtime, settings.is_local) == expected


@pytest.mark.parametrize(
    ("argument", "env", "text"),
    [
        (
            "",
            {"IS_LOCAL": "flase"},
            "IS_LOCAL='flase' is not a boolean; set it to true or false, or unset it",
        ),
        (
            "",
            {"IS_LOCAL": " "},
            "IS_LOCAL=' ' is not a boolean; set it to true or false, or unset it",
        ),
        (
            "",
            {"RUNTIME_ENV": "KDA"},
            "RUNTIME_ENV='KDA' is not a runtime; "
            "set it to one of LOCAL, DOCKER, AWS, or leave it empty",
        ),
        (
            "cloud",
            {"RUNTIME_ENV": "AWS"},
            "parameter runtime='cloud' is not a runtime; "
            "set it to one of LOCAL, DOCKER, AWS, or leave it empty",
        ),
        (
            "",
            {"RUNTIME_ENV": "LOCAL", "IS_LOCAL": "false"},
            "IS_LOCAL='false' contradicts RUNTIME_ENV='LOCAL'; unset IS_LOCAL, or set it to true",
        ),
        (
            "",
            {"RUNTIME_ENV": "DOCKER", "IS_LOCAL": "1"},
            "IS_LOCAL='1' contradicts RUNTIME_ENV='DOCKER'; unset IS_LOCAL, or set it to false",
        ),
        (
            "AWS",
            {"RUNTIME_ENV": "LOCAL", "IS_LOCAL": "true"},
            "IS_LOCAL='true' contradicts parameter runtime='AWS'; "
            "unset IS_LOCAL, or set it to false",
        ),
        (
            "",
            {"HUDILAB_HOME": "lab"},
            "HUDILAB_HOME='lab' is a relative path; use an absolute path",
        ),
        (
            "",
            {"HUDILAB_HOME": "/dev/null"},
            "HUDILAB_HOME='/dev/null' is not a directory; set it to a directory, or unset it",
        ),
        (
            "",
            {"HUDILAB_CONF": "conf"},
            "HUDILAB_CONF='conf' is a relative path; use an absolute path",
        ),
        (
            "",
            {"HUDILAB_CONF": "/dev/null"},
            "HUDILAB_CONF='/dev/null' is not a directory; set it to a directory, or unset it",
        ),
        (
            "",
            {"HUDILAB_CONF": "/nowhere/conf"},
            "HUDILAB_CONF='/nowhere/conf' is not a directory; set it to a directory, or unset it",
        ),
    ],
)
def test_a_bad_environment_is_refused(
    tmp_path: Path, argument: str, env: dict[str, str], text: str
) -> None:
    write(tmp_path, [group()])
    with pytest.raises(ConfigError) as caught:
        load_settings(argument, {"HUDILAB_CONF": str(tmp_path), **env})
    assert str(caught.value) == text


def test_environment_and_file_are_reported_in_one_error(tmp_path: Path) -> None:
    file = write(tmp_path, [group(properties={**GOOD, "table.name": ""})])
    assert refusal(tmp_path, IS_LOCAL="flase", RUNTIME_ENV="KDA", HUDILAB_HOME="x") == (
        "RUNTIME_ENV='KDA' is not a runtime; "
        "set it to one of LOCAL, DOCKER, AWS, or leave it empty; "
        "IS_LOCAL='flase' is not a boolean; set it to true or false, or unset it; "
        "HUDILAB_HOME='x' is a relative path; use an absolute path; "
        f"{file}: group 'HudiTable0': key 'table.name' is empty; fix the file"
    )


def test_a_home_that_may_not_be_looked_at_is_left_to_the_check_of_the_warehouse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Permission bits stop everybody but root: act as another user, in a checkout of its own.
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as name:
        project, locked = Path(name), Path(name) / "locked"
        monkeypatch.setattr(config, "__file__", str(project / "lib/hudilab/settings.py"))
        write(project / "conf", [group()])
        (project / "pyproject.toml").touch()
        project.chmod(0o755)
        locked.mkdir(0o000)
        try:
            os.seteuid(user or 65534)
            settings = load_settings(env={"HUDILAB_HOME": str(locked / "x")})
        finally:
            os.seteuid(user)
        assert settings.home == locked / "x"


# --- the project


def test_the_project_is_this_checkout() -> None:
    assert project_root({}) == Path(__file__).resolve().parents[3]


def test_outside_a_checkout_conf_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "__file__", str(tmp_path / "lib/hudilab/settings.py"))
    with pytest.raises(ConfigError) as caught:
        load_settings(env={})
    assert str(caught.value) == (
        "hudilab is not installed from a checkout, so it has no conf directory; set HUDILAB_CONF "
        "to the directory that contains application_properties.json"
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
    write(tmp_path / "conf", [group("spark.other", {}), group("a\nb", {})])
    with pytest.raises(ConfigError) as caught:
        load_settings(env={})
    assert str(caught.value) == (
        "no group 'HudiTable0' in conf/application_properties.json; "
        f"groups found: spark.other, 'a\\nb'; add it with the keys {KEYS}"
    )
