"""A lesson uses the servers that run or that are named, and stops only what it started."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from hudilab.settings import Settings
from hudilab_cli.servers.kafka import find_broker
from hudilab_cli.servers.metastore import find_metastore, start_metastore, stop_metastore
from hudilab_cli.servers.s3 import find_s3, start_s3
from hudilab_lessons.servers import WAREHOUSE, Servers


@pytest.fixture(autouse=True)
def _environment(alone: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The home of `alone`, and no server that the environment names; all is restored afterwards."""
    monkeypatch.setenv("HUDILAB_HOME", str(alone.home))
    names = ("BOOTSTRAP_SERVERS", "AWS_ENDPOINT_URL_S3", "HUDILAB_WAREHOUSE", "SPARK_MASTER_URL")
    for name in (*names, "AWS_SHARED_CREDENTIALS_FILE", "AWS_PROFILE"):
        monkeypatch.setenv(name, "")


def test_only_the_started_server_is_stopped(
    alone: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    running, servers = start_s3(alone), Servers(alone)
    assert servers.get("s3") == running
    broker = servers.get("kafka")
    assert servers.get("kafka") == broker
    assert servers.started == ["kafka"]
    servers.stop()
    assert capsys.readouterr().out == f"kafka stopped, process {broker.pid}\n"
    assert find_broker(alone) is None
    assert find_s3(alone) == running


@pytest.mark.parametrize("ran", [True, False])
def test_a_restart_does_not_change_the_owner(alone: Settings, ran: bool) -> None:
    if ran:
        start_metastore(alone)
    servers = Servers(alone)
    try:
        servers.get("metastore").stop()
        assert find_metastore(alone) is None
        assert servers.get("metastore") == find_metastore(alone)
        assert servers.started == ([] if ran else ["metastore"])
    finally:
        stop_metastore(alone)


def test_a_warehouse_on_this_disk_moves_to_the_server(alone: Settings) -> None:
    servers = Servers(alone)
    servers.prepare("s3")
    assert os.environ["HUDILAB_WAREHOUSE"] == servers.settings.warehouse_path == WAREHOUSE
    assert not servers.settings.is_local
    server = find_s3(alone)
    assert server
    assert os.environ["AWS_ENDPOINT_URL_S3"] == server.endpoint
    assert servers.started == ["s3"]


def test_a_named_server_is_used(alone: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOOTSTRAP_SERVERS", "broker.example:9092")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://s3.example")
    monkeypatch.setenv("SPARK_MASTER_URL", "spark://master.example:7077")
    on_s3 = replace(alone, is_local=False, warehouse_path=WAREHOUSE)
    servers = Servers(on_s3)
    servers.prepare("s3")
    servers.prepare("cluster")
    assert servers.get("kafka").access().servers == "broker.example:9092"
    assert (servers.started, servers.settings) == ([], on_s3)
    assert (find_broker(alone), find_s3(alone)) == (None, None)
    assert os.environ["AWS_ENDPOINT_URL_S3"] == "http://s3.example"
