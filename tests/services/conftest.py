"""Real servers, one of each kind for all tests here, in a home of their own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession
from running import end_jvm, running_server
from services.own_topic import Make, Own
from services.programs import SECRET, USER, Programs

from hudilab.settings import Settings
from hudilab_cli.servers import cluster as cluster_server
from hudilab_cli.servers import kafka as kafka_server
from hudilab_cli.servers import s3 as s3_server
from hudilab_cli.servers.cluster import Cluster, stop_cluster
from hudilab_cli.servers.history import stop_history
from hudilab_cli.servers.kafka import Broker, stop_broker
from hudilab_cli.servers.s3 import S3Server, stop_s3
from hudilab_jobs.kafka.connection import Access
from hudilab_jobs.settings import load_settings
from hudilab_spark.cluster import Master, find_master
from hudilab_spark.session import open_session


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return replace(load_settings(env={}), home=tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def broker(settings: Settings) -> Iterator[Broker]:
    with running_server(kafka_server.SERVICE, settings) as running:
        yield running


@pytest.fixture(scope="session")
def kafka(broker: Broker) -> Access:
    return broker.access()


@pytest.fixture(scope="module")
def spark(settings: Settings) -> Iterator[SparkSession]:
    """A session with the jars of Kafka and Avro, and a JVM of its own for each module."""
    session = open_session(settings, app="services", groups=("core", "kafka", "avro"))
    yield session
    end_jvm(session)


@pytest.fixture
def make(spark: SparkSession, tmp_path: Path, settings: Settings, kafka: Access) -> Make:
    return partial(Own, spark, tmp_path, settings.home, kafka)


@pytest.fixture(scope="session")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that asks for TLS and a user, in a home of its own."""
    home = replace(load_settings(env={}), home=tmp_path_factory.mktemp("secure"))
    with running_server(kafka_server.SERVICE, home, users={USER: SECRET}) as running:
        yield running


@pytest.fixture(scope="session")
def s3(settings: Settings) -> Iterator[S3Server]:
    with running_server(s3_server.SERVICE, settings) as running:
        yield running


@pytest.fixture
def used(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server of all tests, as the environment's."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in s3.env().items():
        monkeypatch.setenv(name, value)
    return s3


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Settings]:
    """Settings with a home of their own; what was started there is stopped."""
    settings = replace(load_settings(env={}), home=tmp_path / "a home")
    yield settings
    for stop in (stop_broker, stop_s3, stop_cluster, stop_history):
        stop(settings)


@pytest.fixture
def programs(settings: Settings, broker: Broker) -> Programs:
    return Programs(settings, broker.address)


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    """A copy of the project's settings, to change."""
    folder = tmp_path / "conf"
    shutil.copytree(load_settings(env={}).conf_dir, folder)
    return folder


@pytest.fixture(scope="module")
def cluster(settings: Settings) -> Iterator[Cluster]:
    with running_server(cluster_server.SERVICE, settings) as running:
        yield running


@pytest.fixture(scope="module")
def master(cluster: Cluster, settings: Settings) -> Master:
    return find_master(cluster.master, settings.home)


@pytest.fixture(scope="module")
def env(settings: Settings, cluster: Cluster, s3: S3Server) -> dict[str, str]:
    """All that is said to move the lab's work to the cluster and to S3."""
    return {
        "HUDILAB_HOME": str(settings.home),
        "RUNTIME_ENV": "DOCKER",
        "SPARK_MASTER_URL": cluster.master,
        **s3.env(),
    }


@pytest.fixture
def drivers() -> Iterator[list[psutil.Process]]:
    """What a test submits: ended after it, with its Python, where it has not ended by itself."""
    started: list[psutil.Process] = []
    yield started
    for driver in started:
        with suppress(psutil.NoSuchProcess):
            for process in (*driver.children(recursive=True), driver):
                process.kill()
