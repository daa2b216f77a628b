"""A metastore is asked with one call of Thrift; what does not answer is named in words."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from hudi_sink import metastore
from hudi_sink.metastore import trouble

# As Hive's own client and server write it: version and type, name, sequence number; then a struct.
CALL = b"\x80\x01\x00\x01\x00\x00\x00\x09getStatus\x00\x00\x00\x00\x00"
ALIVE = b"\x08\x00\x00\x00\x00\x00\x02\x00"
REPLY = CALL[:3] + b"\x02" + CALL[4:-1] + ALIVE


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], str]]:
    """A server that answers a call of `getStatus` with these bytes, each by itself."""
    servers = []

    def start(reply: bytes) -> str:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def serve() -> None:
            connection, _ = server.accept()
            with connection, suppress(ConnectionError):  # it may have read enough
                assert connection.recv(64) == CALL
                for byte in reply:
                    connection.sendall(struct.pack("B", byte))

        threading.Thread(target=serve, daemon=True).start()
        return f"thrift://127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.close()


def test_one_that_answers(answering: Callable[[bytes], str]) -> None:
    assert trouble(answering(REPLY)) == ""


@pytest.mark.parametrize("reply", [b"", REPLY[:9], b"HTTP/1.1 400 Bad Request\r\n\r\n" * 3])
def test_another_program(answering: Callable[[bytes], str], reply: bytes) -> None:
    assert trouble(answering(reply)) == "the server there is not a Hive metastore"


def test_one_that_hangs_and_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metastore, "ANSWER_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        uri = f"thrift://127.0.0.1:{server.getsockname()[1]}"
        assert trouble(uri) == "it did not answer within 0.2 s"
    assert trouble(uri) == "it cannot be reached (Connection refused)"
