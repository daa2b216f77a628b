"""Files conf/pipelines/NAME.json, and a pipeline by the path of its file: one pipeline each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cases import read_cases
from refusals import refused
from unit.hudilab.settings_files import group, load, refusal, write
from unit.hudilab_jobs.test_pipelines import GROUP

from hudilab.errors import ConfigError
from hudilab_jobs.settings import (
    find_group,
    find_table,
    load_pipeline,
    load_settings,
    path_of,
    pipelines,
)


def own(conf: Path, name: str = "orders", content: Any = None) -> Path:
    """Write a pipeline's file into conf/, beside a file with the tables' group."""
    if not (conf / "application_properties.json").exists():
        write(conf, [group()])
    file = conf / "pipelines" / f"{name}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content or GROUP))
    return file


def test_a_file_is_a_pipeline(tmp_path: Path) -> None:
    file = own(tmp_path)
    (file.parent / "sample.json.txt").write_text("not a pipeline")
    write(tmp_path, [group(), group("pipeline.flights", GROUP)])
    settings = load(tmp_path)
    assert sorted(pipelines(settings)) == ["flights", "orders"]
    assert settings.origin("pipeline.orders", "source.path") == file
    assert settings.origin("pipeline.orders", "source.schema") == file  # a key that is missing
    groups = tmp_path / "application_properties.json"
    assert settings.origin("pipeline.flights", "source.schema") == groups


def test_a_runtime_overrides_a_key_of_a_file(tmp_path: Path) -> None:
    own(tmp_path)
    file = own(tmp_path / "docker", content={"source.path": "s3://bucket/orders"})
    (tmp_path / "docker" / "application_properties.json").unlink()
    settings = load(tmp_path, "DOCKER")
    assert pipelines(settings)["orders"].source == "csv files in s3a://bucket/orders"
    assert settings.origin("pipeline.orders", "source.path") == file
    assert pipelines(load(tmp_path))["orders"].source == "csv files in file:///data/flights"


@pytest.mark.parametrize(("content", "text"), read_cases(__file__)["wrong"])
def test_what_is_wrong_with_a_file(tmp_path: Path, content: Any, text: str) -> None:
    file = own(tmp_path, content=content)
    text = text if text.startswith(":") else f" {text}"
    assert refusal(tmp_path).startswith(f"{file}{text}")


def test_a_pipeline_is_a_group_or_a_file(tmp_path: Path) -> None:
    file = own(tmp_path)
    groups = write(tmp_path, [group(), group("pipeline.orders", GROUP)])
    assert refusal(tmp_path) == (
        f"{groups}: group 'pipeline.orders' is also the file {file}; keep one of them"
    )


def test_a_pipeline_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HUDILAB_CONF", str(tmp_path / "conf"))
    kept = own(tmp_path / "conf", "kept")
    file = tmp_path / "orders.json"
    file.write_text(json.dumps(GROUP))
    monkeypatch.chdir(tmp_path)
    for name in ("./orders.json", "orders.json", str(file)):
        settings, stem = load_pipeline(name)
        assert (stem, sorted(pipelines(settings))) == ("orders", ["kept", "orders"])
        assert settings.origin("pipeline.orders", "ordering") == file
    assert load_pipeline(str(kept))[1] == load_pipeline("kept")[1] == "kept"
    for missing in ("none.json", "kept.json"):
        with refused(ConfigError, f"{tmp_path}/{missing}", remedy="the keys of a pipeline"):
            load_pipeline(missing)
    (tmp_path / "kept.json").write_text(json.dumps(GROUP))
    remedy = "; rename it, or run that one: kept"
    with refused(ConfigError, f"{tmp_path}/kept.json", str(kept), remedy=remedy):
        load_pipeline("kept.json")


def test_a_pipeline_that_is_not_there(tmp_path: Path) -> None:
    file = own(tmp_path)
    meant = "(pipelines: orders) (did you mean 'orders'?)"
    named = ("'pipeline.order'", str(file.with_name("order.json")), meant)
    remedy = "; create that file with the keys source.format, source.path, table.name, record.key "
    with refused(ConfigError, *named, remedy=f"{remedy}and ordering"):
        find_group(load(tmp_path), "order")


def test_a_table_by_the_name_of_its_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own(tmp_path / "conf")
    monkeypatch.chdir(tmp_path)
    env = {"HUDILAB_CONF": str(tmp_path / "conf"), "HUDILAB_HOME": str(tmp_path)}
    settings = load_settings(env=env)
    root = f"file://{tmp_path}/warehouse"
    assert path_of(settings, "orders", "tidy") == f"{root}/lab/flights"
    assert path_of(settings, "orders", "tidy", "a") == f"{root}/run-a/lab/flights"
    for path in ("/data/orders", "s3://bucket/orders", "./orders"):
        assert path_of(settings, path, "tidy") == path
    known = "(pipelines: orders)"
    remedy = "; name a pipeline or a table's folder: hudilab tidy TABLE"
    with refused(ConfigError, "'order'", f"{tmp_path}/order", known, remedy=remedy):
        path_of(settings, "order", "tidy")
    with refused(ConfigError, "'/data/orders'", "--run-id", known, remedy=remedy):
        path_of(settings, "/data/orders", "tidy", "a")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "more.json").write_text(json.dumps(GROUP | {"table.name": "more"}))
    for file in ("more.json", "./more.json", str(tmp_path / "more.json")):
        assert find_table(file, "tidy")[1] == f"{root}/lab/more"
        assert find_table(file, "tidy", "a")[1] == f"{root}/run-a/lab/more"
    assert find_table("orders", "tidy")[1] == f"{root}/lab/flights"
    for path in ("/data/orders", "s3://bucket/orders.json"):
        assert find_table(path, "tidy")[1] == path
    with refused(ConfigError, f"{tmp_path}/none.json", remedy="the keys of a pipeline"):
        find_table("none.json", "tidy")
    (tmp_path / "orders" / ".hoodie").mkdir(parents=True)
    remedy = "; name the folder as ./orders, or run this in another folder: hudilab tidy orders"
    with refused(ConfigError, "'orders'", str(tmp_path), remedy=remedy):
        path_of(settings, "orders", "tidy")
