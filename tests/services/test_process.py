"""What all servers have in common."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from hudilab.config import Settings
from hudilab.errors import ServiceError
from hudilab.services import process
from hudilab.services.cluster import start_cluster
from hudilab.services.history import start_history
from hudilab.services.kafka import start_broker
from hudilab.services.s3 import start_s3


@pytest.mark.parametrize("start", [start_broker, start_s3, start_cluster, start_history])
def test_a_port_in_use_is_named(alone: Settings, start: Callable[..., Any]) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ServiceError) as caught:
            start(alone, port=port)
    assert str(caught.value) == (
        f"port {port} is in use; choose another with --port, or none for a free one"
    )
    folders = list((alone.home / "services").glob("*"))
    assert [process.find(folder) for folder in folders] == [None] * len(folders)
