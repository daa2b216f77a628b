"""What HUDILAB_CONF lacks is the project's, file by file."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused
from unit.hudilab.settings_files import ROOT, group, load, write

from hudilab.errors import PathError
from hudilab.settings import Settings, load_settings
from hudilab_spark.conf import conf_files, conf_folder, overlay, session_settings

CONF = ROOT / "conf"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of a folder with the tables' and servers' file alone."""
    write(tmp_path / "mine", [group()])
    return load(tmp_path / "mine", HUDILAB_HOME=str(tmp_path / "home"))


def links(folder: Path) -> dict[str, Path]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.resolve() for path in files}


def test_a_folder_that_lacks_nothing_is_used_as_it_is(tmp_path: Path) -> None:
    assert conf_folder(load_settings(env={})) == CONF
    copy = shutil.copytree(CONF, tmp_path / "copy")
    settings = load(copy, HUDILAB_HOME=str(tmp_path / "home"))
    assert conf_folder(settings) == copy
    assert not (tmp_path / "home").exists()


def test_one_file_is_enough(settings: Settings) -> None:
    conf = settings.conf_dir
    (conf / "pipelines").mkdir()
    (conf / "pipelines" / "own.json").write_text("{}")
    assert overlay(settings) == overlay(load_settings(env={}))
    assert settings.conf_file("hudi-defaults.conf") == CONF / "hudi-defaults.conf"
    folder = conf_folder(settings)
    templates = [CONF / "deploy", CONF / "services", CONF / "pipelines"]
    files = [file for file in CONF.rglob("*") if file.is_file() and file.parent not in templates]
    expected = {str(file.relative_to(CONF)): file for file in files}
    for runtime in ("docker", "aws"):  # they name the project's servers and buckets
        del expected[f"{runtime}/application_properties.json"]
    for name in ("application_properties.json", "pipelines/own.json"):
        expected[name] = conf / name
    assert links(folder) == expected == conf_files(settings)
    assert folder.is_relative_to(settings.home)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(each.name for each in conf.iterdir()) == [
        "application_properties.json",
        "pipelines",
    ]


def test_a_runtime_s_settings_are_not_mixed_with_the_project_s(tmp_path: Path) -> None:
    write(tmp_path, [group()])
    for runtime in ("AWS", "DOCKER"):
        assert load(tmp_path, runtime).warehouse_path == "warehouse"
    assert load(tmp_path, "DOCKER").on_cluster


def test_a_file_of_one_s_own_stands_above_the_project_s(settings: Settings) -> None:
    conf, folder = settings.conf_dir, conf_folder(settings)
    (conf / "local").mkdir()
    own = [conf / "hive-site.xml", conf / "log4j2.properties", conf / "local/spark-defaults.conf"]
    for file in own:
        file.write_text("spark.master local[1]\n")
    assert conf_folder(settings) == folder
    assert set(own) < set(links(folder).values())
    assert overlay(settings) == {"spark.master": "local[1]"}
    for file in own:
        file.unlink()
    conf_folder(settings)
    assert not (folder / "hive-site.xml").is_symlink()
    assert (folder / "log4j2.properties").resolve() == CONF / "log4j2.properties"


def test_executors_get_the_folder_that_has_hudi_s_settings(settings: Settings) -> None:
    cluster = replace(settings, runtime="DOCKER")
    folder_of_executors = session_settings(cluster, ())["spark.executorEnv.HUDI_CONF_DIR"]
    assert folder_of_executors == str(CONF)
    (settings.conf_dir / "hudi-defaults.conf").touch()
    folder_of_executors = session_settings(cluster, ())["spark.executorEnv.HUDI_CONF_DIR"]
    assert folder_of_executors == str(settings.conf_dir)


def test_a_home_that_cannot_hold_it(settings: Settings) -> None:
    settings.home.touch()
    with refused(
        PathError,
        f"cannot write to {settings.home}/conf/",
        remedy="; make it writable, or set HUDILAB_HOME to a writable folder",
    ):
        conf_folder(settings)
