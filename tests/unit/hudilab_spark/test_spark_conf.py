"""Which Spark settings follow from the lab's: jars, overlays, and what executors are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from refusals import refused

from hudilab.errors import SessionError
from hudilab.settings import Settings, load_settings
from hudilab_spark.conf import (
    SECRET,
    managed_tables,
    needed,
    overlay,
    session_settings,
)
from hudilab_spark.environment import JAVA_OPTIONS
from hudilab_spark.hive_group import Hive
from hudilab_spark.java import ARCHIVE, FAST_START, class_path, spark_home, with_archive
from hudilab_spark.metastore import catalog_settings
from hudilab_spark.preflight import temporary_folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Those of a cluster, in a home of their own."""
    return replace(load_settings("DOCKER", {}), home=tmp_path)


def test_a_local_session_has_its_jars_its_catalog_and_its_overlay() -> None:
    local = load_settings(env={})
    jars = [Path("/jars/core/hudi.jar")]
    assert needed(local, ["core", "kafka"]) == ["core", "kafka"]
    assert session_settings(local, jars) == overlay(local) | {
        "spark.driver.extraClassPath": class_path(jars),
        "spark.sql.defaultCatalog": "spark_catalog",
    }


@pytest.mark.parametrize(
    ("chosen", "cores", "master"),
    [
        ("local[*]", 2, "local[8]"),
        ("local[*]", 16, "local[*]"),
        ("local[2]", 2, "local[2]"),
    ],
)
def test_on_s3_more_tasks_wait_than_there_are_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chosen: str, cores: int, master: str
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    (tmp_path / "local").mkdir()
    (tmp_path / "local" / "spark-defaults.conf").write_text(f"spark.master {chosen}\n")
    local = replace(load_settings(env={}), conf_dir=tmp_path)
    on_s3 = replace(local, is_local=False, warehouse_path="s3a://bucket/warehouse")
    assert session_settings(local, ())["spark.master"] == chosen
    assert session_settings(on_s3, ())["spark.master"] == master


def test_a_runtime_without_spark_settings(tmp_path: Path) -> None:
    bare = replace(load_settings("AWS", {}), conf_dir=tmp_path, project=tmp_path)
    with pytest.raises(SessionError) as caught:
        session_settings(bare, ())
    assert str(caught.value) == (
        f"RUNTIME_ENV=AWS has no Spark settings: {tmp_path}/conf/aws/spark-defaults.conf does not "
        "exist; create it with spark.master and the other settings of this runtime, or use "
        "RUNTIME_ENV=LOCAL"
    )


def test_without_a_metastore_a_session_has_its_own_names(settings: Settings) -> None:
    assert catalog_settings(settings) == {}


def test_a_metastore_that_is_none(settings: Settings) -> None:
    group = Hive.model_validate({"uri": "thrift://127.0.0.1:1"})
    with refused(
        SessionError,
        "thrift://127.0.0.1:1",
        "group 'metastore'",
        str(settings.source),
        "it cannot be reached (Connection refused)",
        remedy="; start it (on this machine: hudilab services start metastore), or remove the "
        "group",
    ):
        catalog_settings(replace(settings, groups={"metastore": group}))


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("spark.authenticate.secret", True),
        ("spark.hadoop.fs.s3a.access.key", True),
        ("spark.hadoop.fs.s3a.endpoint", False),
    ],
)
def test_what_goes_on_no_command_line(name: str, secret: bool) -> None:
    assert bool(SECRET.search(name)) == secret


def test_the_event_log_is_in_the_home(settings: Settings) -> None:
    events = session_settings(settings, ())["spark.eventLog.dir"]
    assert events == str(settings.home / "spark-events")


def test_executors_are_told_where_credentials_are_and_never_one(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_MASTER_URL", "spark://127.0.0.1:7")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "KAFKA_PASSWORD"):
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("AWS_PROFILE", "lab")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/a/file")
    chosen = session_settings(settings, [Path("/a.jar"), Path("/b.jar")])
    assert chosen["spark.master"] == "spark://127.0.0.1:7"
    assert chosen["spark.executor.extraClassPath"] == f"{spark_home()}/jars/*:/a.jar:/b.jar"
    assert chosen["spark.executor.extraJavaOptions"].startswith("-Duser.timezone=UTC ")
    archive = with_archive("", settings.project / "jars" / ARCHIVE)  # none in an odd path
    temporary = f"-Djava.io.tmpdir={temporary_folder(settings.home)}"
    ends = f'{archive} "{temporary}"'
    assert chosen["spark.executor.extraJavaOptions"].endswith(ends)
    assert chosen["spark.executorEnv.TZ"] == "UTC"
    assert chosen["spark.executorEnv.PYTHONPATH"] == (
        f"{settings.project}/lib:{settings.project}/packages"
    )
    assert chosen["spark.executorEnv.AWS_PROFILE"] == "lab"
    assert chosen["spark.executorEnv.AWS_SHARED_CREDENTIALS_FILE"] == "/a/file"
    assert "canary" not in chosen.values()
    assert chosen["spark.driver.host"] == "127.0.0.1"
    monkeypatch.setenv("SPARK_MASTER_URL", "spark://spark-master:7077")
    # Executors elsewhere could not reach a driver on loopback.
    assert "spark.driver.host" not in session_settings(settings, ())


def test_executors_get_the_compiler_of_the_driver(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(JAVA_OPTIONS, f"{FAST_START} -Dmine=1 -XX:TieredStopAtLevel=4")
    options = session_settings(settings, ())["spark.executor.extraJavaOptions"]
    assert f" {FAST_START} -XX:TieredStopAtLevel=4" in options
    assert "-Dmine" not in options


def test_each_session_has_a_folder_for_its_managed_tables(tmp_path: Path) -> None:
    root = tmp_path / "spark-warehouse"
    for name in ("older_table", "session-1/db.db", "session-1/empty", "session-2/db.db/t/.hoodie"):
        (root / name).mkdir(parents=True)
    (root / "session-2/db.db/t/.hoodie/hoodie.properties").touch()
    first, second = managed_tables(tmp_path, named=False), managed_tables(tmp_path, named=False)
    assert first != second
    assert first.parent == second.parent == root
    assert sorted(path.name for path in root.rglob("*")) == sorted(
        ["older_table", "session-2", "db.db", "t", ".hoodie", "hoodie.properties"]
    )
    assert managed_tables(tmp_path, named=True) == root
