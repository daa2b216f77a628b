"""What the other tests here rely on: copies that stay as they are, and requests that are held."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, HTTPClientError
from crash.harness import Trap, kind_of
from crash.proxy import Change, Proxy

from hudilab_cli.servers.s3 import BUCKET, S3Server

FILE = {"Bucket": BUCKET, "Key": "w/lab/t/a b%20ü.parquet"}


@pytest.fixture
def client(server: S3Server, proxy: Proxy) -> Any:
    parser = ConfigParser()
    parser.read(server.credentials)
    keys = parser["hudilab"]
    return boto3.Session().client(
        "s3",
        endpoint_url=proxy.endpoint,
        region_name="us-east-1",
        aws_access_key_id=keys["aws_access_key_id"],
        aws_secret_access_key=keys["aws_secret_access_key"],
        config=Config(retries={"total_max_attempts": 1}),
    )


def stored(home: Path) -> Path:
    return home / "services" / "s3" / "data" / FILE["Bucket"] / FILE["Key"]


def test_a_hard_link_keeps_what_was_there(tmp_path: Path, client: Any) -> None:
    other = FILE | {"Key": "other"}
    changes: list[Callable[[], Any]] = [
        lambda: client.put_object(**FILE, Body=b"new"),
        lambda: client.copy_object(**FILE, CopySource=other),
        lambda: client.delete_object(**FILE),
        lambda: client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": FILE["Key"]}]}),
    ]
    client.put_object(**other, Body=b"new")
    for number, change in enumerate(changes):
        client.put_object(**FILE, Body=b"old")
        link = tmp_path / f"link{number}"
        os.link(stored(tmp_path), link)
        change()
        assert not stored(tmp_path).exists() or stored(tmp_path).read_bytes() == b"new"
        assert link.read_bytes() == b"old"


def test_each_change_is_seen_before_it_is_made(tmp_path: Path, proxy: Proxy, client: Any) -> None:
    seen: list[tuple[str, bool]] = []

    def look(change: Change) -> None:
        assert change.keys == (FILE["Key"],)
        seen.append((kind_of(change), stored(tmp_path).exists()))

    proxy.before = proxy.after = look
    client.put_object(**FILE, Body=b"x")
    assert client.get_object(**FILE)["Body"].read() == b"x"
    client.copy_object(**FILE, CopySource=FILE, MetadataDirective="REPLACE")
    client.delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": FILE["Key"]}]})
    assert seen == [
        ("put base file", False),
        ("put base file", True),
        ("copy base file", True),
        ("copy base file", True),
        ("delete base file", True),
        ("delete base file", False),
    ]


@pytest.mark.parametrize("late", [False, True])
def test_a_held_change_is_made_only_when_it_is_late(
    tmp_path: Path, proxy: Proxy, client: Any, late: bool
) -> None:
    other = FILE | {"Key": "w/lab/t/hoodie.properties"}
    with ThreadPoolExecutor(2) as pool:
        trap = Trap(proxy, "put base file", 1, late=late)
        held = pool.submit(client.put_object, **FILE, Body=b"x")
        assert trap.sprung.wait(30)
        behind: Future[Any] = pool.submit(client.put_object, **other, Body=b"x")
        while proxy.changes < 2:
            assert not behind.done()
            time.sleep(0.01)
        trap.remove()
        for request in (held, behind):
            with pytest.raises(HTTPClientError):
                request.result(30)
    assert stored(tmp_path).exists() == late
    with pytest.raises(ClientError, match="404"):  # it stood behind the held one
        client.head_object(**other)
    client.put_object(**other, Body=b"y")  # who comes later is served
