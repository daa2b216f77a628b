"""Settings: what is read, and the exact text of every refusal."""

from __future__ import annotations

import json
import os
import tempfile
import traceback
from pathlib import Path
from typing import Any, get_args

import pytest

from hudilab.errors import ConfigError
from hudilab.runtime import settings as config
from hudilab.runtime.settings import (
    Consumer,
    Producer,
    RunOptions,
    Runtime,
    Settings,
    load_settings,
    project_root,
)

SECRET = "wJalrXUtnFEMI/K7MDENG"
GOOD = {
    "catalog.name": "spark_catalog",
    "warehouse.path": "warehouse",
    "database.name": "lab",
    "table.name": "sensor_readings",
    "aws.region": "us-east-1",
}
CONSUMER = {
    "table.name": "stocks_in",
    "topic.name": "stocks-in",
    "bootstrap.servers": "a:9092",
    "startup.mode": "earliest-offset",
}
PRODUCER = {
    "table.name": "stock_prices",
    "topic.name": "stocks-out",
    "bootstrap.servers": "a:9092",
    "dead.letter.topic.name": "stocks-dead",
}
RUN = {
    "python": "main.py",
    "jarfile": "lib/hudilab-dependencies.jar",
    "job": "sensor_readings",
    "arguments": "--rows 5000 --batches 5",
}
KEYS = "catalog.name, warehouse.path, database.name, table.name, aws.region"
REMEDY = "; fix the file"


def group(name: Any = "HudiTable0", properties: Any = None) -> dict[str, Any]:
    return {"PropertyGroupId": name, "PropertyMap": GOOD if properties is None else properties}


def write(folder: Path, content: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "application_properties.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return file


def load(folder: Path, runtime: str = "", **env: str) -> Settings:
    return load_settings(runtime, {"HUDILAB_CONF": str(folder), **env})


def refusal(folder: Path, runtime: str = "", **env: str) -> str:
    """The one-line text; neither it nor the trace behind it may hold the secret."""
    with pytest.raises(ConfigError) as caught:
        load(folder, runtime, **env)
    text = str(caught.value)
    assert "\n" not in text
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    return text


def file_refusal(folder: Path, content: Any) -> str:
    """What is said about a file after its name, with the remedy taken off."""
    file = write(folder, content)
    text = refusal(folder)
    assert text.startswith(f"{file}: ")
    assert text.endswith(REMEDY)
    return text.removeprefix(f"{file}: ").removesuffix(REMEDY)


def table_refusal(folder: Path, **changes: Any) -> str:
    properties = {key: value for key, value in {**GOOD, **changes}.items() if value != "(none)"}
    return file_refusal(folder, [group(properties=properties)])


# --- what is read


def test_the_projects_own_file_is_good() -> None:
    root = Path(__file__).resolve().parents[3]
    servers = {"bootstrap.servers": "127.0.0.1:9092"}
    assert load_settings(env={}) == Settings(
        runtime="LOCAL",
        is_local=True,
        catalog_name="spark_catalog",
        warehouse_path="warehouse",
        database_name="lab",
        table_name="sensor_readings",
        aws_region="us-east-1",
        home=root / ".lab",
        conf_dir=root / "conf",
        project=root,
        source=root / "conf" / "application_properties.json",
        consumer=Consumer.model_validate({**CONSUMER, **servers}),
        producer=Producer.model_validate({**PRODUCER, **servers}),
        run=RunOptions.model_validate(RUN),
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


def both(folder: Path, base: Any, overlay: Any) -> tuple[Path, Path]:
    return write(folder, base), write(folder / "aws", overlay)


def test_a_runtime_s_file_is_merged_over_the_base_file(tmp_path: Path) -> None:
    changes = [group(properties={"table.name": "in_the_cloud"}), group("mine", {"a": "b"})]
    base, overlay = both(tmp_path, kafka_groups(tmp_path), changes)
    assert (load(tmp_path).source, load(tmp_path).table_name) == (base, "sensor_readings")
    settings = load(tmp_path, "AWS")
    assert (settings.source, settings.table_name) == (overlay, "in_the_cloud")
    assert (settings.database_name, settings.consumer) == ("lab", load(tmp_path).consumer)
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
    assert (load(tmp_path).run, load(tmp_path, "AWS").run) == (None, RunOptions(**RUN))
    consumer = load(tmp_path, "AWS").consumer
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


@pytest.mark.parametrize("runtime", ["docker", "aws"])
def test_a_runtime_s_own_file_repeats_nothing_of_the_base_file(runtime: str) -> None:
    conf = Path(__file__).resolve().parents[3] / "conf"
    base, overlay = (
        {
            (one["PropertyGroupId"], key): value
            for one in json.loads((folder / "application_properties.json").read_text())
            for key, value in one["PropertyMap"].items()
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
    assert not load(tmp_path, "DOCKER").on_cluster


def test_other_groups_and_a_byte_order_mark_are_allowed(tmp_path: Path) -> None:
    groups = [group("kinesis.config", {"topic.name": ""}), group("spark.other", {})]
    write(tmp_path, "\ufeff" + json.dumps([*groups, group()]))
    assert load(tmp_path).database_name == "lab"


# --- how the bundle is run


def run_refusal(folder: Path, **changes: Any) -> str:
    properties = {key: value for key, value in {**RUN, **changes}.items() if value != "(none)"}
    return file_refusal(folder, [group(), group("spark.run.options", properties)])


def test_run_options(tmp_path: Path) -> None:
    properties = {key: value for key, value in RUN.items() if key != "arguments"}
    write(tmp_path, [group(), group("spark.run.options", properties)])
    assert load(tmp_path).run == RunOptions(**properties, arguments="")
    file = write(tmp_path, [group()])
    assert load(tmp_path).run is None
    with pytest.raises(ConfigError) as caught:
        config.run_options(load(tmp_path), ", or name a job")
    assert str(caught.value) == (
        f"group 'spark.run.options' is missing from {file}; "
        "add it with the keys python, jarfile and job, or name a job"
    )


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


# --- Kafka's groups


def kafka_groups(tmp_path: Path, consumer: Any = CONSUMER, producer: Any = PRODUCER) -> list[Any]:
    return [
        group(),
        group("consumer.config.0", consumer),
        group("producer.config.0", producer),
    ]


def test_the_environments_servers_stand_above_the_files(tmp_path: Path) -> None:
    write(tmp_path, kafka_groups(tmp_path))
    settings = load(tmp_path)
    assert settings.consumer is not None
    assert settings.producer is not None
    assert settings.consumer.bootstrap_servers == "a:9092"
    settings = load(tmp_path, BOOTSTRAP_SERVERS=" b:1,[::1]:2 ")
    assert settings.consumer is not None
    assert settings.producer is not None
    assert settings.consumer.bootstrap_servers == "b:1,[::1]:2"
    assert settings.producer.bootstrap_servers == "b:1,[::1]:2"
    assert settings.producer.dead_letter_topic_name == "stocks-dead"


def test_the_groups_need_not_be_there(tmp_path: Path) -> None:
    write(tmp_path, [group()])
    settings = load(tmp_path, BOOTSTRAP_SERVERS="b:1")
    assert (settings.consumer, settings.producer) == (None, None)


@pytest.mark.parametrize("word", ["b", "b:", ":1", "b:0", "b:65536", "b:x", "b:1,", "a b:1"])
def test_servers_that_are_none(tmp_path: Path, word: str) -> None:
    write(tmp_path, kafka_groups(tmp_path))
    assert refusal(tmp_path, BOOTSTRAP_SERVERS=word) == (
        f"BOOTSTRAP_SERVERS={word!r} is not host:port[,host:port...]; "
        "fix it, or unset it to use the servers in the settings file"
    )
    groups = kafka_groups(tmp_path, {**CONSUMER, "bootstrap.servers": word})
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
    assert file_refusal(tmp_path, kafka_groups(tmp_path, consumer, producer)) == (
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
        write(tmp_path, kafka_groups(tmp_path, given))
        consumer = load(tmp_path).consumer
        assert consumer is not None
        assert consumer.table_name == name
    unnamed = {key: value for key, value in PRODUCER.items() if key != "table.name"}
    groups = kafka_groups(tmp_path, producer=unnamed)
    assert file_refusal(tmp_path, groups) == "group 'producer.config.0' has no key 'table.name'"


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
    asked = {"RUNTIME_ENV": variable, "IS_LOCAL": is_local}
    env = {key: value for key, value in asked.items() if value is not None}
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
        monkeypatch.setattr(config, "__file__", str(project / "lib/hudilab/runtime/settings.py"))
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
    monkeypatch.setattr(config, "__file__", str(tmp_path / "lib/hudilab/runtime/settings.py"))
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
    monkeypatch.setattr(config, "__file__", str(tmp_path / "lib/hudilab/runtime/settings.py"))
    (tmp_path / "pyproject.toml").touch()
    with pytest.raises(ConfigError) as caught:
        load_settings(env={})
    assert str(caught.value) == (
        "conf/application_properties.json does not exist; create it with group 'HudiTable0', or "
        "set HUDILAB_CONF"
    )
    write(tmp_path / "conf", [group("spark.other", {}), group("a\nb", {})])
    with pytest.raises(ConfigError) as caught:
        load_settings(env={})
    assert str(caught.value) == (
        "no group 'HudiTable0' in conf/application_properties.json; "
        f"groups found: spark.other, 'a\\nb'; add it with the keys {KEYS}"
    )


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
    assert config.read_options(file) == {
        **{"a.b": "x y", "c": "1", "d": "2", "e": "k=v", "f": "", "g": "h://i"},
    }


# --- the file as a whole


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "is not valid JSON (Expecting value, line 1 column 1); fix the syntax"),
        (
            f'[\n  {{"key": "{SECRET}",}}\n]',
            "is not valid JSON (Expecting property name enclosed in double quotes, line 2 column "
            "35); fix the syntax",
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


# --- the keys of HudiTable0


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


@pytest.mark.parametrize("key", ["catalog.name", "database.name", "table.name"])
@pytest.mark.parametrize(
    "value", ["7up", "a.b", "a-b", "a/b", "../x", "a b", " a", "a\n", "ä", "`a`", "x;drop", SECRET]
)
def test_names_are_plain(tmp_path: Path, key: str, value: str) -> None:
    assert table_refusal(tmp_path, **{key: value}) == (
        f"group 'HudiTable0': key '{key}' is not a valid name (letters, digits and _, not starting "
        "with a digit)"
    )


@pytest.mark.parametrize("value", ["lake", "SPARK_CATALOG", "default"])
def test_a_catalog_that_hudi_does_not_work_in(tmp_path: Path, value: str) -> None:
    assert table_refusal(tmp_path, **{"catalog.name": value}) == (
        "group 'HudiTable0': key 'catalog.name' is not 'spark_catalog', the only catalog that "
        "Hudi's SQL supports"
    )


@pytest.mark.parametrize("key", ["warehouse.path", "aws.region"])
@pytest.mark.parametrize("value", [" ", " x", "x\n", f"{SECRET} "])
def test_a_padded_text_is_refused(tmp_path: Path, key: str, value: str) -> None:
    text = table_refusal(tmp_path, **{key: value})
    assert text == f"group 'HudiTable0': key '{key}' has leading or trailing whitespace"


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
