"""The settings' group of a Hive metastore."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from hudilab.groups import Group, Name, Text, servers
from hudilab_spark.conf import METASTORE_GROUP

__all__ = ["METASTORE_GROUP", "Hive"]


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
    """Group metastore: a Hive metastore, in which other programs find the tables by name."""

    uri: Annotated[Text, AfterValidator(_thrift)]
    database_name: Name = "default"
