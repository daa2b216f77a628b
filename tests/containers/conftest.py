"""Containers for deep tests: the image, and the whole compose file up."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator

import pytest
from containers.engine import Compose, Engine, missing

PORTS = (4040, 8080, 8081, 8082, 8888, 9000, 9092, 18080)


@pytest.fixture(scope="session")
def engine() -> Engine:
    if why := missing():
        pytest.skip(why)
    engine = Engine()
    engine.build()
    return engine


@pytest.fixture(scope="session")
def token() -> str:
    return secrets.token_hex(8)


@pytest.fixture(scope="session")
def compose(
    engine: Engine, token: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Compose]:
    """The whole compose file, up and healthy."""
    free = {}
    for port in PORTS:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            free[port] = int(probe.getsockname()[1])
    lab = Compose(engine, tmp_path_factory.mktemp("compose"), token, free)
    lab.down(volumes=True)  # what an interrupted run has left
    try:
        lab.up()
        yield lab
    finally:
        lab.down(volumes=True)
