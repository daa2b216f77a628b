"""The settings' group of a Hive metastore, and the validation of a list of servers."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from hudilab.groups import Group, Name, Text


def servers(value: str) -> str:
    """Return a list of servers; raise PydanticCustomError for an invalid list."""
    for server in value.split(","):
        host, colon, port = server.rpartition(":")
        named = re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9a-fA-F:.]+\]", host)
        if not (colon and named and port.isdecimal() and 0 < int(port) < 65536):
            raise PydanticCustomError("servers", "is not host:port[,host:port...]")
    return value


def _thrift(value: str) -> str:
    host = value.removeprefix("thrift://")
    try:
        if host == value or "," in host:
            raise ValueError
        servers(host)
    except (PydanticCustomError, ValueError):
        raise PydanticCustomError("thrift", "is not thrift://host:port") from None
    return value


class Hive(Group):
    """Group metastore: a Hive metastore that registers the tables for other programs."""

    uri: Annotated[Text, AfterValidator(_thrift)]
    database_name: Name = "default"
