"""The address of a Hive metastore, and a check that it answers a Thrift call."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

SCHEME = "thrift://"
ANSWER_TIMEOUT = 3.0  # seconds
# A call in Thrift's binary protocol: version 1, type call, name, sequence number, no arguments.
_NAME = b"getStatus"
_CALL = struct.pack(">Ii", 0x80010001, len(_NAME)) + _NAME + struct.pack(">iB", 0, 0)
_REPLY = struct.pack(">Ii", 0x80010002, len(_NAME)) + _NAME


class Metastore(NamedTuple):
    """A Hive metastore's URI, thrift://host:port, and the database for the tables."""

    uri: str
    database: str


def trouble(uri: str) -> str:
    """Request a metastore's status; return the problem, or an empty string."""
    host, _, port = uri.removeprefix(SCHEME).rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_TIMEOUT) as connection:
            connection.settimeout(ANSWER_TIMEOUT)
            connection.sendall(_CALL)
            reply = b""
            while len(reply) < len(_REPLY) and (more := connection.recv(64)):
                reply += more
    except TimeoutError:
        return f"it did not answer within {ANSWER_TIMEOUT:g} s"
    except OSError as error:
        return f"it cannot be reached ({error.strerror or error})"
    return "" if reply.startswith(_REPLY) else "the server there is not a Hive metastore"
