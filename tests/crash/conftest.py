"""A server of S3 and a proxy before it, of each test's own: all that was written goes with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from crash.proxy import Proxy, running_proxy
from running import running_server

from hudilab.settings import load_settings
from hudilab_cli.servers import s3 as s3_server
from hudilab_cli.servers.process import free_port
from hudilab_cli.servers.s3 import S3Server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    settings = replace(load_settings(env={}), home=tmp_path)
    with running_server(s3_server.SERVICE, settings, port=free_port()) as running:
        yield running


@pytest.fixture
def proxy(server: S3Server) -> Iterator[Proxy]:
    with running_proxy(server.endpoint) as running:
        yield running
